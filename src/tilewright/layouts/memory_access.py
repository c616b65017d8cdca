"""Accesses of registers to shared memory: their width, whether ldmatrix fits, and their banks.

Shared memory has 32 banks of 4 bytes; up to 128 bytes of a warp's lanes are served together. Lanes that access
different words of one bank are served one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from tilewright.layouts.encoding import Shared
from tilewright.layouts.linear_layout import LinearLayout, Subspace, log2
from tilewright.layouts.shared import PaddedShared

BANKS, BANK_BITS = 32, 32
MAX_BITS = 128
"""Max width of one lane's access, in bits."""


class Vector(NamedTuple):
    """An access of several registers at once.

    Attributes:
        width: how many elements.
        register_bits: the bits of the register in the order in which accesses walk them; those of one access first.
    """

    width: int
    register_bits: tuple[int, ...]


def vector_of(registers: LinearLayout, memory: LinearLayout, bits: int, *, most: int | None = None) -> Vector:
    """The widest access between a tile in registers and its buffer, as of `vector_at`; with `most` it is in order."""
    return vector_at(registers.invert_and_compose(memory), bits, most=most, in_order=most is not None)


def vector_at(offsets: LinearLayout, bits: int, *, most: int | None = None, in_order: bool = False) -> Vector:
    """The widest access of a tile whose registers lie at `offsets` in its buffer.

    Args:
        offsets: from registers and threads to the offset, in elements.
        bits: of one element.
        most: elements that one access may have. None: as the machine has.
        in_order: registers of an access must be in order as they are.
    """
    columns = offsets.columns["register"]
    shift, _ = offsets.shifts[offsets.out_names.index("offset")]
    for count in range(log2(most or MAX_BITS // bits), 0, -1):
        wanted = [1 << (shift + bit) for bit in range(count)]
        if not all(column in columns for column in wanted):
            continue
        chosen = tuple(columns.index(column) for column in wanted)
        if in_order and chosen != tuple(range(count)):
            continue
        low = sum(wanted)
        others = [column for bit, column in enumerate(columns) if bit not in chosen]
        others += [column for name in offsets.ins if name != "register" for column in offsets.columns[name]]
        if not any(column & low for column in others):
            return Vector(1 << count, chosen + tuple(bit for bit in range(len(columns)) if bit not in chosen))
    return Vector(1, tuple(range(len(columns))))


class MatrixAccess(Enum):
    """The accesses of `ldmatrix` and `stmatrix`: rows of 16 bytes, or columns of such rows."""

    PLAIN = auto()
    TRANSPOSED = auto()


def matrix_access(registers: LinearLayout, memory: LinearLayout, bits: int) -> MatrixAccess | None:
    """The access by which `ldmatrix` (or `stmatrix`) moves the tile; None if it cannot.

    One instruction gives lanes 4i to 4i+3 row i of an 8x8 matrix of 16-bit elements (transposed: column i).
    """
    offsets = registers.invert_and_compose(memory)
    if not memory.is_injective or bits > BANK_BITS:
        return None
    shift, _ = offsets.shifts[offsets.out_names.index("offset")]
    steps = {name: [column >> shift for column in columns] for name, columns in offsets.columns.items()}
    row = MAX_BITS // bits
    inside = [1 << bit for bit in range(log2(row))]
    packed = log2(BANK_BITS // bits)
    plain = [("register", step) for step in inside[:packed]]
    if all(step in steps[name] for name, step in plain) and steps["lane"][:2] == inside[packed:]:
        others = [step for step in steps["register"] if step not in inside[:packed]] + steps["lane"][2:]
        if _are_rows(others + steps["warp"], row):
            return MatrixAccess.PLAIN
    if bits == 16 and steps["lane"][2:] == inside:
        others = steps["register"] + steps["lane"][:2]
        if _are_rows(others + steps["warp"], row):
            return MatrixAccess.TRANSPOSED
    return None


def _are_rows(steps: Sequence[int], row: int) -> bool:
    return not any(step % row for step in steps)


def bank_conflicts(registers: LinearLayout, memory: LinearLayout, bits: int) -> int:
    """The number of further passes over the banks that each access of a warp takes; 0 is the best."""
    registers = registers.without_zeros("register")
    vector = vector_of(registers, memory, bits).width
    size = 1 << len(memory.all_columns)
    banks = min(BANKS * BANK_BITS // (vector * bits), size)
    parts = memory.reshape_ins((("vector", vector), ("bank", banks), ("segment", max(size // (banks * vector), 1))))
    lanes = registers.columns["lane"]
    if registers.outs != memory.outs:
        registers = registers.transpose_outs(memory.out_names)
    return conflicts_between(parts.columns["segment"], lanes_together(lanes, vector, bits))


def lanes_together(lanes: Sequence[int], vector: int, bits: int) -> Sequence[int]:
    """The bits of the lane that are served together, when each lane moves `vector` elements."""
    words = log2(max(1, vector * bits // BANK_BITS))
    later = max(0, words + len(lanes) - log2(BANKS))
    return lanes[: len(lanes) - later]


def conflicts_between(segment: Sequence[int], lanes: Sequence[int]) -> int:
    """The number of passes beyond the first for lanes whose steps stay in one bank."""
    together = len(Subspace((*segment, *lanes)).pivots)
    shared = len(Subspace(segment).pivots) + len(Subspace(lanes).pivots) - together
    return (1 << shared) - 1


class Access(NamedTuple):
    """One access of a warp, as the banks see it.

    Attributes:
        passes: how often the banks are visited, for the lanes that are served together and wait longest.
        words: per bank, how many different words these lanes want.
    """

    passes: int
    words: tuple[int, ...]


def passes_of(starts: Sequence[int], size: int) -> Access:
    """The access in which lane i moves `size` bytes from byte `starts[i]` on, played through lane by lane."""
    together = max(1, min(len(starts), BANKS * BANK_BITS // 8 // max(size, BANK_BITS // 8)))
    worst = Access(0, ())
    for first in range(0, len(starts), together):
        banks: list[set[int]] = [set() for _ in range(BANKS)]
        for start in starts[first : first + together]:
            for word in range(start // 4, (start + size - 1) // 4 + 1):
                banks[word % BANKS].add(word)
        words = tuple(map(len, banks))
        worst = max(worst, Access(max(words), words))
    return worst


def simulated(
    registers: LinearLayout, memory: LinearLayout, bits: int, address: Callable[[int], int] = lambda offset: offset
) -> Access:
    """The first access of the first warp.

    Other than `bank_conflicts`, which counts as Triton does, this also sees lanes that want different halves of words.

    Args:
        registers: the layout in registers.
        memory: the layout of the buffer.
        bits: of one element.
        address: from the offset to the element in memory, for buffers with holes.
    """
    vector = vector_of(registers.without_zeros("register"), memory, bits).width
    offsets = registers.invert_and_compose(memory).sublayout(("lane",), ("offset",))
    starts = [address(offsets.image({"lane": lane})) * bits // 8 for lane in range(offsets.in_size("lane"))]
    return passes_of(starts, max(vector * bits // 8, 1))


def address_in(layout: Shared) -> Callable[[int], int]:
    """The map from the offset in a buffer to the element in memory: holes are counted."""
    if not isinstance(layout, PaddedShared):
        return lambda offset: offset
    pads = layout.pads
    return lambda offset: offset + sum(offset // interval * padding for interval, padding in pads)
