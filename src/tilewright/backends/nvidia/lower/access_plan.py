"""Plans, as plain data, of the instructions that move a tile between registers and shared memory.

Eight registers of fp16 that follow one another in a row of the buffer are one access of 16 bytes:

    plan = plan_of(registers.invert_and_compose(memory), bits=16)
    plan.unit, plan.moves[0].registers         # Unit.VECTOR, (0, 1, 2, 3, 4, 5, 6, 7)
    plan.place.columns["lane"]                 # (64, 128, …): by how many bytes each bit of the lane moves the address

With `ldmatrix` and `stmatrix`, a lane gives the address of a row that other lanes hold; `place` is then that of the
address.

A `Place` is the part of a linear layout that maps the bits of a thread's position to coordinates:

    place = place_of(layout, axis=0)
    place.columns["lane"]          # what each bit of the lane adds (by XOR) to the coordinate
    place.constant(5)              # (0, 12): register 5 is 12 after register 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

from tilewright.layouts.linear_layout import Columns, LinearLayout, log2
from tilewright.layouts.memory_access import vector_at


class Place(NamedTuple):
    """One output of a layout, as a sum over the bits of its inputs."""

    columns: Mapping[str, Sequence[int]]

    @property
    def running(self) -> int:
        """The bits of the output that depend on the thread."""
        found = 0
        for name, columns in self.columns.items():
            if name != "register":
                for column in columns:
                    found |= column
        return found

    def constant(self, register: int) -> tuple[int, int]:
        """The changes by `register`: by XOR to bits that depend on the thread, and to bits that do not, a sum."""
        found = 0
        for bit, column in enumerate(self.columns.get("register", ())):
            if register >> bit & 1:
                found ^= column
        running = self.running
        return found & running, found & ~running


@cache
def place_of(layout: LinearLayout, axis: int) -> Place:
    """The coordinate along one axis."""
    shift, mask = layout.shifts[axis]
    return Place(
        {name: tuple(column >> shift & mask for column in columns) for name, columns in layout.columns.items()}
    )


@cache
def same_as(layout: LinearLayout) -> list[int]:
    """Per register the first one with the same element."""
    places = [layout.image({"register": number}) for number in range(layout.in_size("register"))]
    first = {place: number for number, place in reversed(list(enumerate(places)))}
    return [first[place] for place in places]


def diagonals(columns: Sequence[int]) -> list[tuple[int, int]]:
    """A matrix over F2 as masks and shifts: y = XOR of (x & mask) << shift over the pairs (shift, mask)."""
    found: dict[int, int] = {}
    for bit, column in enumerate(columns):
        for target in range(column.bit_length()):
            if column >> target & 1:
                found[target - bit] = found.get(target - bit, 0) | 1 << bit
    return sorted(found.items())


WORD = 32
"""Bits of a register of the machine."""
ROW = 16
"""Bytes of a row of what `ldmatrix` and `stmatrix` move."""
MAX_WORDS = 4
THREAD = ("lane", "warp", "block")


class Unit(Enum):
    """The unit that one instruction moves."""

    VECTOR = auto()
    """Up to 16 bytes of each thread."""
    MATRIX = auto()
    """8x8 matrices whose rows are 16 bytes; a word of a lane is a part of a row."""
    TRANSPOSED = auto()
    """8x8 matrices of 16-bit elements; a word of a lane is two neighbours of a column."""
    LOADED_BYTES = auto()
    """16x16 matrices of bytes; a word of a lane is four neighbours of a column, and a second one of another column."""
    STORED_BYTES = auto()
    """8 rows of 16 bytes; a word of a lane is two neighbours of a column, and two of another one."""


UNIT_BITS = {Unit.TRANSPOSED: 16, Unit.LOADED_BYTES: 8, Unit.STORED_BYTES: 8}


class Move(NamedTuple):
    """One instruction.

    Attributes:
        registers: what it moves, in the order of memory for a vector, by words for matrices.
        start: the register whose place (see `Plan.place`) is the address.
    """

    registers: tuple[int, ...]
    start: int


class Plan(NamedTuple):
    """The instructions that move a tile.

    Attributes:
        unit: the instruction.
        place: in bytes, where each thread's address is.
        moves: the instructions.
        same: per register the one that has its element and is moved.
        block: in which block of the cluster the address is; None: in each thread's own one.
    """

    unit: Unit
    place: Place
    moves: tuple[Move, ...]
    same: tuple[int, ...]
    block: Place | None = None


@cache
def plan_of(
    offsets: LinearLayout,
    bits: int,
    *,
    units: tuple[Unit, ...] = (Unit.VECTOR,),
    most: int | None = None,
    in_order: bool = False,
) -> Plan:
    """The first of `units` that can move the tile; vectors always can.

    Args:
        offsets: from register, lane, warp and block to the offset in the buffer, in elements, and perhaps its block.
        bits: bits of one element in memory.
        units: what may be used, the best first.
        most: elements of a vector.
        in_order: registers of a vector must be neighbours as they are.
    """
    moved = LinearLayout({name: offsets.columns.get(name, ()) for name in ("register", *THREAD)}, offsets.outs)
    steps = moved.sublayout(moved.ins, ("offset",))
    if "block" in moved.out_names and not moved.is_trivial_over(("block",)):  # elements of other blocks' memory
        block = place_of(moved, moved.out_names.index("block"))
        return _vectors(moved, bits, most, in_order)._replace(block=block)
    for unit in units:
        found = _vectors(steps, bits, most, in_order) if unit is Unit.VECTOR else _matrices(steps, bits, unit)
        if found is not None:
            return found
    return _vectors(steps, bits, most, in_order)


def _used_bits(steps: LinearLayout) -> list[int]:
    """The bits of the register that lead to other elements."""
    free = steps.free_masks()["register"]
    return [bit for bit in range(len(steps.columns["register"])) if not free >> bit & 1]


def _bytes(steps: LinearLayout, bits: int, **others: Sequence[int]) -> Place:
    steps = steps.sublayout(steps.ins, ("offset",))
    columns = {**steps.columns, **{name: tuple(own) for name, own in others.items()}}
    return Place({name: tuple(column * bits // 8 for column in own) for name, own in columns.items()})


def combinations(steps: Sequence[int]) -> list[int]:
    """All sums of some of `steps`, the first step changing fastest."""
    found = [0]
    for step in steps:
        found += [value ^ step for value in found]
    return found


def _vectors(steps: LinearLayout, bits: int, most: int | None, in_order: bool) -> Plan:
    vector = vector_at(steps, bits, most=most, in_order=in_order)
    count = log2(vector.width)
    inner = combinations([1 << bit for bit in vector.register_bits[:count]])
    used = [bit for bit in _used_bits(steps) if bit not in vector.register_bits[:count]]
    starts = combinations([1 << bit for bit in used])
    moves = tuple(Move(tuple(start ^ register for register in inner), start) for start in starts)
    return Plan(Unit.VECTOR, _bytes(steps, bits), moves, tuple(same_as(steps)))


def _matrices(steps: LinearLayout, bits: int, unit: Unit) -> Plan | None:
    """The plan with matrices; None if the layout does not allow it."""
    if bits > WORD or bits < 8 or bits != UNIT_BITS.get(unit, bits):
        return None
    tile = _FORMS[unit](steps, bits)
    if tile is None or any(column * bits // 8 % ROW for column in _outside(steps, unit, tile)):
        return None
    count = min(log2(MAX_WORDS) - len(tile.halves), len(tile.others))
    matrices, rest = tile.others[:count], tile.others[count:]
    lane = (*tile.rows, *(steps.columns["register"][bit] for bit in matrices))
    lane += (0,) * (len(steps.columns["lane"]) - len(lane))
    words = combinations([1 << bit for bit in (*tile.halves, *matrices)])
    word = combinations([1 << bit for bit in tile.inside])
    moves = tuple(
        Move(tuple(start ^ place ^ register for place in words for register in word), start)
        for start in combinations([1 << bit for bit in rest])
    )
    return Plan(unit, _bytes(steps, bits, lane=lane), moves, tuple(same_as(steps)))


class _Form(NamedTuple):
    """One matrix.

    Attributes:
        inside: the bits of the register inside a word.
        halves: bits of the register between words of one matrix.
        rows: by how much each bit of a row's number moves its address.
        others: the other bits of the register.
    """

    inside: list[int]
    halves: list[int]
    rows: Columns
    others: list[int]


def _rows(steps: LinearLayout, bits: int) -> _Form | None:
    columns, lanes = steps.columns["register"], steps.columns["lane"]
    wanted = [1 << bit for bit in range(log2(ROW * 8 // bits))]
    packed = log2(WORD // bits)
    if list(lanes[:2]) != wanted[packed:] or not all(step in columns for step in wanted[:packed]):
        return None
    inside = [columns.index(step) for step in wanted[:packed]]
    return _Form(inside, [], lanes[2:], [bit for bit in _used_bits(steps) if bit not in inside])


def _pairs(steps: LinearLayout, bits: int) -> _Form | None:
    lanes, used = steps.columns["lane"], _used_bits(steps)
    if lanes[2:] != (1, 2, 4) or not used:
        return None
    # A word holds two neighbours of a column. Any bit of the register may tell them apart, as each row has its address.
    return _Form(used[:1], [], (steps.columns["register"][used[0]], *lanes[:2]), used[1:])


def _loaded_bytes(steps: LinearLayout, bits: int) -> _Form | None:
    columns, lanes, used = steps.columns["register"], steps.columns["lane"], _used_bits(steps)
    if lanes[2:] != (1, 2, 4) or 8 not in columns or len(used) < 3:
        return None
    half = columns.index(8)
    first, second, *others = (bit for bit in used if bit != half)
    return _Form([first, second], [half], (columns[first], columns[second], *lanes[:2]), others)


def _stored_bytes(steps: LinearLayout, bits: int) -> _Form | None:
    columns, lanes, used = steps.columns["register"], steps.columns["lane"], _used_bits(steps)
    if lanes[2:] != (1, 2, 4) or 8 not in columns or len(used) < 2:
        return None
    half = columns.index(8)
    first, *others = (bit for bit in used if bit != half)
    return _Form([first, half], [], (columns[first], *lanes[:2]), others)


_FORMS = {
    Unit.MATRIX: _rows,
    Unit.TRANSPOSED: _pairs,
    Unit.LOADED_BYTES: _loaded_bytes,
    Unit.STORED_BYTES: _stored_bytes,
}


def _outside(steps: LinearLayout, unit: Unit, form: _Form) -> list[int]:
    """The steps that must lead to other rows."""
    lanes, columns = steps.columns["lane"], steps.columns["register"]
    if unit is Unit.MATRIX:
        others = [column for bit, column in enumerate(columns) if bit not in form.inside] + list(lanes[2:])
    else:
        # Where a row has 16 bytes, one bit of the register is the last one inside it.
        last = columns.index(8) if unit is not Unit.TRANSPOSED else None
        others = [column for bit, column in enumerate(columns) if bit != last] + list(lanes[:2])
    return others + list(steps.columns["warp"])
