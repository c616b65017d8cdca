"""The buffer for a change of layout through shared memory, with few bank conflicts in either direction.

A buffer has five inputs: `vector` is the part that one lane accesses at once, `bank` the rest of 128 bytes, `segment`
the number of the 128 bytes, `block` the CTA, and `reps` the part that both layouts have in registers: those parts of
the tile go through the same memory one after the other. A direction has no conflicts if no two lanes that are served
together differ in the segment alone; so the bases of the segment are chosen among those that are lanes of neither
layout, and then among sums of a basis of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tilewright.ir.types import Shape
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encoding import Distributed
from tilewright.layouts.linear_layout import LinearLayout, log2
from tilewright.layouts.memory_access import BANK_BITS, BANKS, MAX_BITS, conflicts_between, lanes_together

Steps = list[int]


class MemoryInstruction(NamedTuple):
    """The coverage of 16 bytes by one instruction, and the lanes that it serves together; by bits of the lane.

    Attributes:
        inside: lanes that share 16 bytes, behind as many registers as are missing.
        rows: lanes that have other 16 bytes.
    """

    inside: tuple[int, ...]
    rows: tuple[int, ...]


PLAIN = MemoryInstruction((), (0, 1, 2))
MATRIX = MemoryInstruction((0, 1), (2, 3, 4))
MATRIX_TRANSPOSED = MemoryInstruction((2, 3, 4), (0, 1))


class SwizzledBuffer(NamedTuple):
    """A buffer for a conversion.

    Attributes:
        layout: from vector, bank, segment, block and reps to the tile.
        store: the instruction that writes it.
        load: the instruction that reads it.
        store_conflicts: further passes over the banks of each store.
        load_conflicts: the same of each load.
    """

    layout: LinearLayout
    store: MemoryInstruction
    load: MemoryInstruction
    store_conflicts: int
    load_conflicts: int


def instructions(bits: int, *, matrix: bool) -> tuple[MemoryInstruction, ...]:
    """The instructions that can move elements of this width; with `matrix` also `ldmatrix` or `stmatrix`."""
    found = [PLAIN]
    if matrix and bits <= BANK_BITS:
        found.append(MATRIX)
    if matrix and bits == 16:
        found.append(MATRIX_TRANSPOSED)
    return tuple(found)


@cache
def conversion_buffer(
    source: Distributed, result: Distributed, shape: Shape, bits: int, *, stores: bool = False, loads: bool = False
) -> SwizzledBuffer:
    """The buffer for a change of layout.

    Args:
        source, result: the layouts before and after.
        shape: extents of the tile.
        bits: of an element.
        stores: the machine has `stmatrix`.
        loads: the machine has `ldmatrix`.
    """
    before = in_one_dimension(to_linear_layout(source, shape).without_zeros("register"))
    after = in_one_dimension(to_linear_layout(result, shape).without_zeros("register"))
    crosses = not after.invert_and_compose(before).is_trivial_over(("block",))
    flat = best_buffer(
        before, after, bits, instructions(bits, matrix=stores), instructions(bits, matrix=loads and not crosses)
    )
    outs = to_linear_layout(source, shape).outs
    layout = LinearLayout(flat.layout.columns, tuple(reversed(outs))).transpose_outs([name for name, _ in outs])
    return flat._replace(layout=layout)


def scratch_elements(
    source: Distributed, result: Distributed, shape: Shape, bits: int, *, stores: bool = False, loads: bool = False
) -> int:
    """The number of elements in the buffer of one block; arguments as for `conversion_buffer`."""
    layout = conversion_buffer(source, result, shape, bits, stores=stores, loads=loads).layout
    return (1 << layout.out_bits) // (layout.in_size("reps") * parts_in_blocks(to_linear_layout(source, shape)))


def parts_in_blocks(layout: LinearLayout) -> int:
    """The number of parts that blocks have of a tile: of few elements, several blocks may have the same part."""
    return 1 << sum(map(bool, layout.columns["block"]))


def in_one_dimension(layout: LinearLayout) -> LinearLayout:
    """The same columns with one output, in which dimension 0 is the fastest."""
    transposed = layout.transpose_outs(layout.out_names[::-1])
    return LinearLayout(transposed.columns, (("element", 1 << transposed.out_bits),))


def best_buffer(
    before: LinearLayout,
    after: LinearLayout,
    bits: int,
    stores: Sequence[MemoryInstruction],
    loads: Sequence[MemoryInstruction],
) -> SwizzledBuffer:
    """The buffer with the fewest conflicts, of those whose instructions move 16 bytes for each lane.

    Args:
        before, after: the two layouts, with one output.
        bits: of an element.
        stores, loads: the instructions to choose from.
    """
    candidates = []
    for store in stores:
        for load in loads:
            found = _whole_rows(before, after, bits, store, load)
            if found is not None:
                candidates.append(found)
    if not candidates:
        return _plain_buffer(before, after, bits)
    return min(candidates, key=lambda c: (c.store_conflicts + c.load_conflicts, -c.layout.in_size("reps")))


def _whole_rows(
    before: LinearLayout, after: LinearLayout, bits: int, store: MemoryInstruction, load: MemoryInstruction
) -> SwizzledBuffer | None:
    """The buffer for two instructions that both move 16 bytes for each row; None if the layouts do not allow it."""
    vector = _common_row(before, after, log2(MAX_BITS // bits), store, load)
    if vector is None:
        return None
    tiles = _rows_of(before, store, vector), _rows_of(after, load, vector)
    if tiles[0] is None or tiles[1] is None:
        return None
    spare = min(len(instruction.inside) + len(instruction.rows) - 3 for instruction in (store, load))
    layout = _swizzled(before, after, bits, vector, tiles[0], tiles[1], spare)
    segment = layout.columns["segment"]
    return SwizzledBuffer(
        layout, store, load, conflicts_between(segment, tiles[0]), conflicts_between(segment, tiles[1])
    )


def _rows_of(layout: LinearLayout, instruction: MemoryInstruction, vector: Steps) -> Steps | None:
    """The steps between the 16-byte rows that one pass of the instruction moves."""
    missing = 3 - len(instruction.rows)
    registers = [column for column in layout.columns["register"] if column not in vector][:missing]
    if len(registers) < missing:
        return None
    return registers + [layout.columns["lane"][bit] for bit in instruction.rows]


def _common_row(
    before: LinearLayout, after: LinearLayout, total: int, store: MemoryInstruction, load: MemoryInstruction
) -> Steps | None:
    """The steps inside 16 bytes that both instructions can move."""
    first, second = (before, store), (after, load)
    if len(store.inside) > len(load.inside):
        first, second = second, first
    (many, wide), (few, narrow) = first, second
    registers = total - len(narrow.inside)
    common = intersection(many.columns["register"], few.columns["register"], many.out_bits)
    if registers < 0 or len(common) < registers:
        return None
    many_lanes = [many.columns["lane"][bit] for bit in wide.inside]
    few_lanes = [few.columns["lane"][bit] for bit in narrow.inside]
    if not all(many_lanes) or not all(few_lanes):
        return None
    moved = few.invert_and_compose(many).bases["lane"]
    places = few.invert_and_compose(many).out_names
    extra = len(narrow.inside) - len(wide.inside)
    for bit in narrow.inside[:extra]:
        if moved[bit][places.index("register")] == 0:
            return None
    for old, new in zip(wide.inside, narrow.inside[extra:], strict=True):
        if moved[new][places.index("lane")] != 1 << old:
            return None
    return common[:registers] + few_lanes


# Buffers that plain loads and stores can use


def _plain_buffer(before: LinearLayout, after: LinearLayout, bits: int) -> SwizzledBuffer:
    vector, fills = _vector_steps(before, after, bits)
    lanes = [list(lanes_together(layout.columns["lane"], 1 << len(vector), bits)) for layout in (before, after)]
    layout = _swizzled(before, after, bits, vector, lanes[0], lanes[1], 0)
    if (bits << len(vector)) // BANK_BITS < 4:
        layout = _with_wide_accesses(layout, before, after, fills)
    segment = layout.columns["segment"]
    return SwizzledBuffer(
        layout, PLAIN, PLAIN, conflicts_between(segment, lanes[0]), conflicts_between(segment, lanes[1])
    )


def _with_wide_accesses(
    layout: LinearLayout, before: LinearLayout, after: LinearLayout, fills: bool | None
) -> LinearLayout:
    """The banks in an order in which one of the two directions can move more at once."""
    banks = layout.columns["bank"]
    ours = [bank for bank in banks if bank in before.columns["register"]]
    theirs = [bank for bank in banks if bank in after.columns["register"]]
    first = (ours if fills else theirs) if fills is not None else (ours if len(ours) > len(theirs) else theirs)
    return layout.with_columns(bank=(*first, *(bank for bank in banks if bank not in first)))


def _vector_steps(before: LinearLayout, after: LinearLayout, bits: int) -> tuple[Steps, bool | None]:
    """The steps one lane moves at once, filled up to the 4 bytes of a bank; whether the store's registers filled it."""
    dim = before.out_bits
    ours, theirs = before.columns["register"], after.columns["register"]
    vector = intersection(ours, theirs, dim)[: log2(MAX_BITS // bits)]
    wanted = log2(max(BANK_BITS // bits, 1))
    if len(vector) >= wanted:
        return vector, None
    our_warps = [column for column in before.columns["warp"] if column]
    their_warps = [column for column in after.columns["warp"] if column]
    from_ours = intersection([column for column in ours if column not in vector], their_warps, dim)
    from_theirs = intersection([column for column in theirs if column not in vector], our_warps, dim)
    if from_ours and len(from_ours) == len(from_theirs):
        fills = min(from_ours) < min(from_theirs)
    else:
        fills = len(from_ours) > len(from_theirs)
    vector += from_ours if fills else from_theirs
    if len(vector) < wanted:
        vector += intersection(our_warps, their_warps, dim)
    for index in range(max(len(our_warps), len(their_warps))):
        if len(vector) < wanted and index < len(our_warps) and our_warps[index] not in vector:
            vector.append(our_warps[index])
        if len(vector) < wanted and index < len(their_warps):
            other = their_warps[index]
            if other not in vector and other not in before.columns["block"]:
                vector.append(other)
    return vector[:wanted], fills


# Any buffer


def _swizzled(
    before: LinearLayout, after: LinearLayout, bits: int, vector: Steps, ours: Steps, theirs: Steps, spare: int
) -> LinearLayout:
    """The buffer for accesses of `vector`, whose lanes that are served together make the steps `ours` and `theirs`."""
    dim = before.out_bits
    blocks = before.columns["block"]
    moving = [column for column in blocks if column]
    bank_bits = min(log2(BANKS * BANK_BITS // (bits << len(vector))), dim - len(vector) - len(moving))
    count = dim - bank_bits - len(vector) - len(moving)
    segment = _segment([*vector, *ours], [*vector, *theirs], moving, dim, count)
    banks = complement([*vector, *segment, *moving], dim)
    both = [
        column for column in segment if column in before.columns["register"] and column in after.columns["register"]
    ]
    reps = both[spare:]
    columns = {
        "vector": tuple(vector),
        "bank": tuple(banks),
        "segment": tuple(column for column in segment if column not in reps),
        "block": blocks,
        "reps": tuple(reps),
    }
    return LinearLayout(columns, before.outs)


def _segment(ours: Steps, theirs: Steps, blocks: Steps, dim: int, count: int) -> Steps:
    """Steps from one 128 bytes to the next: those that no lane makes, then those that lanes of both make together."""
    first, second = ({*steps, *blocks} - {0} for steps in (ours, theirs))
    free = [1 << bit for bit in range(dim) if 1 << bit not in first and 1 << bit not in second]
    if len(free) >= count:
        return free[:count]
    few, many = sorted((sorted(first - second), sorted(second - first)), key=len)
    conflicts = min(max(0, count - len(few) - len(free)), len(few))
    sums = [a ^ b for a, b in zip(few[conflicts:], many[conflicts:], strict=False)]
    return (free + sums + few[:conflicts] + many[:conflicts])[:count]


# Algebra of steps


def _reduced(vectors: Sequence[int]) -> dict[int, int]:
    """The reduced row echelon form, lowest bit first: from the lowest bit of a row to the row."""
    rows: dict[int, int] = {}
    for vector in vectors:
        for pivot, row in rows.items():
            if vector & pivot:
                vector ^= row
        if vector:
            pivot = vector & -vector
            for other in rows:
                if rows[other] & pivot:
                    rows[other] ^= vector
            rows[pivot] = vector
    return rows


def complement(vectors: Sequence[int], dim: int) -> Steps:
    """Single bits that, with `vectors`, span everything."""
    pivots = _reduced(vectors)
    return [1 << bit for bit in range(dim) if 1 << bit not in pivots]


def _nullspace(vectors: Sequence[int], dim: int) -> Steps:
    rows = _reduced(vectors)
    return [
        bit | sum(pivot for pivot, row in rows.items() if row & bit)
        for bit in (1 << index for index in range(dim))
        if bit not in rows
    ]


def intersection(first: Sequence[int], second: Sequence[int], dim: int) -> Steps:
    """Steps that span what both span; in the order of `first` where all are single bits."""
    if all(step.bit_count() == 1 for step in (*first, *second)):
        return [step for step in first if step in second]
    return _nullspace([*_nullspace(first, dim), *_nullspace(second, dim)], dim)
