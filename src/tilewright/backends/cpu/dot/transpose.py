"""Packing a transposed operand: [column][group] -> [group][column], words of 32 or 64 bits.

With 32-bit words and 16 lanes, a step takes 4 groups of 16 columns. Row r of the step holds 128-bit pieces, 4 words
each, of columns r, 4 + r, 8 + r and 12 + r; transposing the 4 × 4 words in each 128-bit lane then gives 4 packed rows
with their columns in order, from 16 loads and two shuffles per result.
"""

from __future__ import annotations

from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.cpu.dot.packing import Packed, add_columns, store_sums
from tilewright.backends.cpu.dot.spec import Offset, advance, carry, each, times
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.llvm.machine import Target
from tilewright.ir.core import Value
from tilewright.ir.types import IntType, Type, VectorType


def transpose_words(
    ops: LoopBuilder,
    by: Arithmetic,
    source: Value,
    into: Packed,
    *,
    target: Target,
    row_bytes: Offset,
    short: bool = False,
) -> None:
    """Pack rows of words, one row per column and `row_bytes` apart.

    Args:
        ops: where ops go.
        by: the arithmetic.
        source: the address of the first word.
        into: the packed operand.
        target: the machine.
        row_bytes: the distance of rows in bytes.
        short: little code counts for more than whole cache lines at a time.
    """
    quad = 16 // by.word_bytes
    by_quads = into.whole_groups % quad == 0 and into.lanes % quad == 0
    assert by_quads or into.sums_at is None, "column sums need whole quads"
    row_offsets = [times(ops, lane, row_bytes) for lane in range(into.lanes)]
    most = 1 if short else target.costs.transposed_pieces

    with each(ops, into.panels) as p:
        first = advance(ops, source, p, times(ops, into.columns, row_bytes))
        to = into.part(ops, p, into.panel_vectors, by.word_bytes)
        if not by_quads:
            _transpose_by_word(ops, by, first, to, row_bytes)
            return
        with each(ops, into.panel_vectors) as c:
            here = advance(ops, first, c, times(ops, into.lanes, row_bytes))
            _transpose_chunk(ops, by, here, to.part(ops, c, 1, by.word_bytes), row_offsets, most)


def _transpose_chunk(
    ops: LoopBuilder, by: Arithmetic, source: Value, into: Packed, row_offsets: list[Offset], most: int
) -> None:
    """Pack as many columns as a vector has lanes, from at most `most` pieces of 16 bytes of each row at a time."""
    quad = 16 // by.word_bytes
    piece, operand = VectorType((quad,), IntType(8 * by.word_bytes)), by.operand(into.lanes)
    packed_row = into.columns * by.word_bytes
    starts = [] if into.sums_at is None else [ops.constant(0, by.total(into.lanes))]
    span = min(into.whole_groups // quad, most)

    def step(_: Offset, carried: list[Value]) -> list[Value]:
        here, at, *sums = carried
        pieces = [
            [_gathered(ops, advance(ops, here, 16 * q), row_offsets[r::quad], piece) for q in range(span)]
            for r in range(quad)
        ]
        for q in range(span):
            rows = [row[q] for row in pieces]
            for r, value in enumerate(_transposed_in_lanes(ops, rows, into.lanes)):
                ops.store(value, at, (q * quad + r) * packed_row, align=by.element_bytes)
                if sums:
                    sums = [add_columns(ops, by, sums[0], ops.bitcast(value, operand))]
        return [advance(ops, here, 16 * span), advance(ops, at, span * quad * packed_row), *sums]

    _, _, *sums = carry(ops, into.whole_groups // (quad * span), step, [source, into.pointer, *starts])
    if sums:
        store_sums(ops, by, into, 0, sums[0])


def _gathered(ops: LoopBuilder, start: Value, offsets: list[Offset], piece: Type) -> Value:
    """One vector of 128-bit pieces from several rows."""
    return ops.concat([ops.load(piece, start, offset) for offset in offsets])


def _transposed_in_lanes(ops: LoopBuilder, rows: list[Value], lanes: int) -> list[Value]:
    """Transpose the square of words that equal 128-bit lanes of `rows` form."""
    quad = len(rows)
    pick = range(0, lanes, quad)
    if quad == 2:
        indices = ([i + lane for lane in pick for i in (half, lanes + half)] for half in (0, 1))
        return [ops.shuffle(rows[0], rows[1], index) for index in indices]
    low = [lane + i for lane in pick for i in (0, lanes, 1, lanes + 1)]
    high = [i + 2 for i in low]
    mixed = [ops.shuffle(rows[a], rows[a + 1], index) for index in (low, high) for a in (0, 2)]
    first = [lane + i for lane in pick for i in (0, 1, lanes, lanes + 1)]
    second = [i + 2 for i in first]
    return [ops.shuffle(mixed[a], mixed[a + 1], index) for a in (0, 2) for index in (first, second)]


def _transpose_by_word(ops: LoopBuilder, by: Arithmetic, source: Value, into: Packed, row_bytes: Offset) -> None:
    type = IntType(8 * by.word_bytes)

    with each(ops, into.columns) as c:
        first, at = advance(ops, source, c, row_bytes), advance(ops, into.pointer, c, by.word_bytes)
        with each(ops, into.whole_groups) as g:
            value = ops.load(type, first, times(ops, g, by.word_bytes))
            ops.store(value, at, times(ops, g, into.columns * by.word_bytes), align=by.element_bytes)
