"""Which instructions move a tile between registers and shared memory, and what each of them moves; as plain data.

Eight registers of fp16 that follow one another in a row of the buffer are one access of 16 bytes:

    plan = plan_of(registers.invert_and_compose(memory), bits=16)
    plan.unit, plan.moves[0].registers         # Unit.VECTOR, (0, 1, 2, 3, 4, 5, 6, 7)
    plan.place.columns["lane"]                 # (64, 128, …): by how many bytes each bit of the lane moves the address

With `ldmatrix` and `stmatrix` lanes give the addresses of rows that other lanes hold: `place` is of the address.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

from tilewright.backends.nvidia.lower.address import Place
from tilewright.layouts.linear_layout import Columns, LinearLayout, log2
from tilewright.layouts.memory_access import vector_at

WORD = 32
"""Bits of a register of the machine."""
ROW = 16
"""Bytes of a row of what `ldmatrix` and `stmatrix` move."""
MOST_WORDS = 4
THREAD = ("lane", "warp", "block")


class Unit(Enum):
    """What moves at once."""

    VECTOR = auto()
    """Up to 16 bytes of each thread."""
    MATRIX = auto()
    """8x8 matrices whose rows are 16 bytes; a word of a lane is a part of a row."""
    TRANSPOSED = auto()
    """The same matrices; a word of a lane is a part of a column."""


class Move(NamedTuple):
    """One instruction.

    Attributes:
        registers: what it moves, in the order of memory for a vector, by words for matrices.
        start: the register whose place (see `Plan.place`) is the address.
    """

    registers: tuple[int, ...]
    start: int


class Plan(NamedTuple):
    """How a tile moves.

    Attributes:
        unit: the instruction.
        place: in bytes, where each thread's address is.
        moves: the instructions.
        same: per register the one that has its element and is moved.
    """

    unit: Unit
    place: Place
    moves: tuple[Move, ...]
    same: tuple[int, ...]


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
        offsets: from register, lane and warp to the offset in the buffer, in elements.
        bits: of one element in memory.
        units: what may be used, the best first.
        most: elements of a vector.
        in_order: registers of a vector must be neighbours as they are.
    """
    moved = LinearLayout({name: offsets.columns.get(name, ()) for name in ("register", *THREAD)}, offsets.outs)
    steps = moved.sublayout(moved.ins, ("offset",))
    for unit in units:
        found = _vectors(steps, bits, most, in_order) if unit is Unit.VECTOR else _matrices(steps, bits, unit)
        if found is not None:
            return found
    return _vectors(steps, bits, most, in_order)


def copies(steps: LinearLayout) -> tuple[int, ...]:
    """Per register the first one with the same element."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(steps.image({"register": r}), r) for r in range(steps.in_size("register")))


def _used_bits(steps: LinearLayout) -> list[int]:
    """The bits of the register that lead to other elements."""
    free = steps.free_masks()["register"]
    return [bit for bit in range(len(steps.columns["register"])) if not free >> bit & 1]


def _bytes(steps: LinearLayout, bits: int, **others: Sequence[int]) -> Place:
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
    return Plan(Unit.VECTOR, _bytes(steps, bits), moves, copies(steps))


def _matrices(steps: LinearLayout, bits: int, unit: Unit) -> Plan | None:
    """The plan with matrices; None if the layout does not allow it."""
    if bits > WORD or bits < 8 or (unit is Unit.TRANSPOSED and bits != WORD // 2):
        return None
    found = _rows(steps, bits) if unit is Unit.MATRIX else _columns(steps)
    if found is None:
        return None
    inside, row_lanes, used = found
    if any(column * bits // 8 % ROW for column in _outside(steps, unit, inside)):
        return None
    count = min(log2(MOST_WORDS), len(used))
    matrices, rest = used[:count], used[count:]
    lane = (*row_lanes, *(steps.columns["register"][bit] for bit in matrices))
    lane += (0,) * (len(steps.columns["lane"]) - len(lane))
    words = combinations([1 << bit for bit in matrices])
    word = combinations([1 << bit for bit in inside])
    moves = tuple(
        Move(tuple(start ^ matrix ^ register for matrix in words for register in word), start)
        for start in combinations([1 << bit for bit in rest])
    )
    return Plan(unit, _bytes(steps, bits, lane=lane), moves, copies(steps))


_Found = tuple[list[int], Columns, list[int]]
"""The bits of the register inside a word, what the lanes that give addresses of rows add, the other bits."""


def _rows(steps: LinearLayout, bits: int) -> _Found | None:
    columns, lanes = steps.columns["register"], steps.columns["lane"]
    wanted = [1 << bit for bit in range(log2(ROW * 8 // bits))]
    packed = log2(WORD // bits)
    if list(lanes[:2]) != wanted[packed:] or not all(step in columns for step in wanted[:packed]):
        return None
    inside = [columns.index(step) for step in wanted[:packed]]
    return inside, lanes[2:5], [bit for bit in _used_bits(steps) if bit not in inside]


def _columns(steps: LinearLayout) -> _Found | None:
    lanes, used = steps.columns["lane"], _used_bits(steps)
    if lanes[2:5] != (1, 2, 4) or not used:
        return None
    # A word holds two neighbours of a column. Any bit of the register may tell them apart, as each row has its address.
    pair = used[0]
    return [pair], (steps.columns["register"][pair], *lanes[:2]), used[1:]


def _outside(steps: LinearLayout, unit: Unit, inside: Sequence[int]) -> list[int]:
    """The steps that must lead to other rows."""
    lanes = steps.columns["lane"]
    others = list(steps.columns["warp"])
    if unit is Unit.MATRIX:
        others += [column for bit, column in enumerate(steps.columns["register"]) if bit not in inside]
        return others + list(lanes[2:])
    return others + list(steps.columns["register"]) + list(lanes[:2])
