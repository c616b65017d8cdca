"""Loads and stores of a tile of tensor memory by warps: the instruction, its offsets and its registers.

    plan = plan_access(tile_layout, memory_layout, bits=32)
    plan.instruction        # "32x32b"
    plan.messages           # [Message(offset=0, registers=((0,), (1,), …))]: a word of each lane for each register

Tensor memory has rows of 32-bit columns, at address row << 16 | column. Warp i of each four reaches rows 32i to 32i +
31. An instruction gives each lane some words of some row; further registers are further columns. The plan follows from
the algebra of layouts: the layout in registers, composed with the inverse of the layout in memory, gives rows and
columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tilewright.backends.nvidia.lower.access_plan import WORD
from tilewright.layouts.linear_layout import LinearLayout, from_bases, log2

ROW = 16
"""The lowest bit of the row in an address."""
WARPS = 2
"""Bits of the warp that choose rows by themselves."""
ROWS_OF_A_WARP = 32
MAX_WORDS = 32
"""Registers of a lane that one instruction moves, of 128 at most: ptxas needs as many in a row, and finds no more."""
Place = tuple[int, int]


@dataclass(frozen=True)
class Shape:
    """One form of the instructions.

    Attributes:
        name: as in PTX.
        register, lane: the row and the column that each bit is a step of.
        columns: that it covers.
        halves: lanes 16 to 31 have other columns, at a distance that is an operand.
    """

    name: str
    register: tuple[Place, ...]
    lane: tuple[Place, ...]
    columns: int
    halves: bool = False


_ROWS = tuple((1 << bit, 0) for bit in range(5))
_ROWS_OF_EIGHT = ((1, 0), (2, 0), (4, 0))
SHAPES = (
    Shape("32x32b", (), _ROWS, 1),
    Shape("16x32bx2", (), _ROWS[:4], 1, halves=True),
    Shape("16x256b", ((0, 1), (8, 0)), ((0, 2), (0, 4), *_ROWS_OF_EIGHT), 8),
    Shape("16x128b", ((8, 0),), ((0, 1), (0, 2), *_ROWS_OF_EIGHT), 4),
    Shape("16x64b", (), ((8, 0), (0, 1), *_ROWS_OF_EIGHT), 2),
)


@dataclass(frozen=True)
class Message:
    """One instruction.

    Attributes:
        offset: added to the address.
        registers: per word the registers of the tile that are in it, the lowest bits first.
    """

    offset: int
    registers: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Plan:
    """All instructions that move a tile.

    Attributes:
        shape: of the instructions.
        spread: halves of 16 bits lie in two columns and are moved in one register.
        distance: from the columns of lanes 0 to 15 to those of the others, if the instruction has halves.
        warps: what each bit of the warp adds to the address, besides what the hardware does.
        copies: bits of the warp that change nothing: their warps have what others have.
        messages: the instructions.
        first: per register the one with the same element that is moved.
    """

    shape: Shape
    spread: bool
    distance: int
    warps: tuple[int, ...]
    copies: int
    messages: tuple[Message, ...]
    first: tuple[int, ...]

    @property
    def repeats(self) -> int:
        """The number in the name of the instruction: how often it repeats its shape along the columns."""
        return len(self.messages[0].registers) >> len(self.shape.register)


@cache
def plan_access(tile: LinearLayout, memory: LinearLayout, bits: int) -> Plan | None:
    """The plan that moves a tile; None if no instruction does it.

    Args:
        tile: from register, lane, warp and block to the tile.
        memory: from row, col (in elements) and block to the tile.
        bits: bits of an element.
    """
    unique, first = _without_copies(tile)
    found = unique.invert_and_compose(memory)
    rows = _rows_reached(found)
    reached = from_bases(rows, found.outs).compose(memory)
    if reached.columns != unique.transpose_outs(reached.out_names).columns:
        return None
    steps = {name: [row[:2] for row in own] for name, own in (found.bases | {"lane": rows["lane"]}).items()}
    for shape in SHAPES:
        plan = _with_shape(shape, steps, bits, first)
        if plan is not None:
            return plan
    return None


def _without_copies(tile: LinearLayout) -> tuple[LinearLayout, tuple[int, ...]]:
    """The layout without registers that hold what others hold; per register which one holds it."""
    kept = [bit for bit, column in enumerate(tile.columns["register"]) if column]
    columns = tuple(tile.columns["register"][bit] for bit in kept)
    first = []
    for register in range(tile.in_size("register")):
        first.append(sum(1 << place for place, bit in enumerate(kept) if register >> bit & 1))
    return tile.with_columns(register=columns), tuple(first)


def _rows_reached(found: LinearLayout) -> dict[str, list[tuple[int, ...]]]:
    """The steps of `found`, where each warp, and each lane that has a copy, has the rows that it reaches."""
    rows = {name: list(steps) for name, steps in found.bases.items()}
    size = found.outs[0][1]
    for bit in range(min(WARPS, len(rows["warp"]))):
        own = rows["warp"][bit]
        rows["warp"][bit] = (ROWS_OF_A_WARP << bit, *own[1:]) if ROWS_OF_A_WARP << bit < size else own
    for bit, own in enumerate(rows["lane"]):
        rows["lane"][bit] = own if any(own) or 1 << bit >= size else (1 << bit, *own[1:])
    return rows


def _with_shape(
    shape: Shape, steps: Mapping[str, Sequence[tuple[int, ...]]], bits: int, first: tuple[int, ...]
) -> Plan | None:
    """The plan, if the instruction gives each lane what the layout gives it."""
    packed, spread, words = _packing(steps["register"], bits)
    unit = 2 if spread else 1
    lanes = _all_in_words(steps["lane"], bits)
    if lanes is None or words is None:
        return None
    if _in_units(lanes[: len(shape.lane)], unit) != list(shape.lane):
        return None
    distance = 0
    if shape.halves:
        row, distance = lanes[-1]
        if row or not distance:
            return None
    size = len(shape.register)
    if _in_units(words[:size], unit) != list(shape.register):
        return None
    for step in words[size:]:
        if step != (0, shape.columns * unit << size - len(shape.register)) or 1 << size >= MAX_WORDS:
            break
        size += 1
    warps = [_in_words(step, bits) for step in steps["warp"]]
    addresses = [0 if bit < WARPS or step is None else _address(step) for bit, step in enumerate(warps)]
    copies = sum(1 << bit for bit, address in enumerate(addresses) if bit >= WARPS and not address)
    messages = _messages(words, size, packed)
    return Plan(shape, spread, distance, tuple(addresses), copies, messages, first)


def _in_units(places: Sequence[Place], unit: int) -> list[Place] | None:
    """The places with columns counted in units of `unit`; None if a column is no multiple."""
    if any(column % unit for _, column in places):
        return None
    return [(row, column // unit) for row, column in places]


def _packing(registers: Sequence[tuple[int, ...]], bits: int) -> tuple[int, bool, list[Place] | None]:
    """The number of register bits that count elements in a word, whether they are spread, and the other bits' steps."""
    inside = log2(WORD // bits) if bits < WORD else 0
    in_a_row = next((bit for bit, step in enumerate(registers) if step[:2] != (0, 1 << bit)), len(registers))
    if in_a_row >= inside:
        return inside, False, _all_in_words(registers[inside:], bits)
    words = _all_in_words(registers[in_a_row:], bits)
    if in_a_row == inside - 1 and words and words[0] == (0, 1):
        return inside, True, words[1:]
    return in_a_row, False, words


def _all_in_words(steps: Sequence[tuple[int, ...]], bits: int) -> list[Place] | None:
    found = [_in_words(step, bits) for step in steps]
    return None if None in found else [place for place in found if place is not None]


def _in_words(step: tuple[int, ...], bits: int) -> Place | None:
    """Row and column of 32 bits; None for a step inside of a column."""
    row, column = step[0], step[1] * bits
    return None if column % WORD else (row, column // WORD)


def _address(place: Place) -> int:
    return place[0] << ROW | place[1]


def _messages(words: Sequence[Place], size: int, packed: int) -> tuple[Message, ...]:
    found = []
    for number in range(1 << len(words) - size):
        offset = 0
        for bit, step in enumerate(words[size:]):
            offset ^= _address(step) if number >> bit & 1 else 0
        starts = range(number << size + packed, (number + 1) << size + packed, 1 << packed)
        found.append(Message(offset, tuple(tuple(range(start, start + (1 << packed))) for start in starts)))
    return tuple(found)
