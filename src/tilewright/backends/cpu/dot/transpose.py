"""Packing an operand that lies transposed: [column][group] -> [group][column], words of 32 or 64 bits.

With 32-bit words and 16 lanes, a step takes 4 groups of 16 columns. Row r of the step holds 128-bit pieces, 4 words
each, of columns r, 4 + r, 8 + r and 12 + r; transposing the 4 × 4 words in each 128-bit lane then gives 4 packed rows
with their columns in order, from 16 loads and two shuffles per result.
"""

from __future__ import annotations

from tilewright.backends.cpu.dot.address import behind, repeat, times
from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.cpu.dot.packing import Packed, add_columns, store_sums
from tilewright.backends.cpu.dot.spec import Offset
from tilewright.backends.llvm.spelling import vector
from tilewright.backends.llvm.writer import LlvmWriter

SPAN = 4
"""Pieces of 16 bytes that are read from each row at a time: a cache line.

Rows 4096 bytes apart share one set of the L1 cache, so what is not read of a line now is fetched again. With 16
registers only half a line fits."""


def transpose_words(w: LlvmWriter, by: Arithmetic, source: str, into: Packed, *, row_bytes: Offset) -> None:
    """Pack rows of words, one row per column and `row_bytes` apart."""
    quad = 16 // by.word_bytes
    assert isinstance(into.groups, int), "the whole depth is transposed"
    by_quads = into.groups % quad == 0 and into.lanes % quad == 0
    assert by_quads or into.sums_at is None, "column sums need whole quads"
    row_offsets = [times(w, lane, row_bytes) for lane in range(into.lanes)]

    def panel(p: Offset, _: list[str]) -> list[str]:
        first = behind(w, source, p, times(w, into.columns, row_bytes))
        to = into.part(w, p, into.panel_vectors, by.word_bytes)

        def chunk(c: Offset, _: list[str]) -> list[str]:
            here = behind(w, first, c, times(w, into.lanes, row_bytes))
            _transpose_chunk(w, by, here, to.part(w, c, 1, by.word_bytes), row_offsets)
            return []

        if by_quads:
            repeat(w, into.panel_vectors, chunk)
        else:
            _transpose_by_word(w, by, first, to, row_bytes)
        return []

    repeat(w, into.panels, panel)


def _transpose_chunk(w: LlvmWriter, by: Arithmetic, source: str, into: Packed, row_offsets: list[Offset]) -> None:
    """Pack as many columns as a vector has lanes."""
    assert isinstance(into.groups, int), "the whole depth is transposed"
    quad, element = 16 // by.word_bytes, f"i{8 * by.word_bytes}"
    type, operand = vector(element, into.lanes), by.operand(into.lanes)
    packed_row = into.columns * by.word_bytes
    starts = [] if into.sums_at is None else [(vector(by.accumulator, into.lanes), by.zero(into.lanes))]

    span = min(into.groups // quad, SPAN if w.target.has_avx512f or w.target.neon else SPAN // 2)

    def step(_: Offset, carried: list[str]) -> list[str]:
        here, at, *sums = carried
        pieces = [
            [_gathered(w, behind(w, here, 16 * q), row_offsets[r::quad], element, quad) for q in range(span)]
            for r in range(quad)
        ]
        for q in range(span):
            rows = [row[q] for row in pieces]
            for r, value in enumerate(_transposed_in_lanes(w, rows, element, into.lanes)):
                w.store(type, value, behind(w, at, (q * quad + r) * packed_row), align=by.element_bytes)
                if sums:
                    words = w.convert("bitcast", value, type, operand)
                    sums = [add_columns(w, by, into.lanes, sums[0], words)]
        return [behind(w, here, 16 * span), behind(w, at, span * quad * packed_row), *sums]

    _, _, *sums = repeat(w, into.groups // (quad * span), step, [("ptr", source), ("ptr", into.pointer), *starts])
    if sums:
        store_sums(w, by, into, 0, sums[0])


def _gathered(w: LlvmWriter, start: str, offsets: list[Offset], element: str, quad: int) -> str:
    """One vector of 128-bit pieces from several rows."""
    pieces = [w.load(vector(element, quad), behind(w, start, offset), align=1) for offset in offsets]
    return w.concat(pieces, element, quad)


def _transposed_in_lanes(w: LlvmWriter, rows: list[str], element: str, lanes: int) -> list[str]:
    """Transpose the square of words that equal 128-bit lanes of `rows` form."""
    type, quad = vector(element, lanes), len(rows)
    pick = range(0, lanes, quad)
    if quad == 2:
        indices = ([i + lane for lane in pick for i in (half, lanes + half)] for half in (0, 1))
        return [w.shuffle(type, rows[0], rows[1], index) for index in indices]
    low = [lane + i for lane in pick for i in (0, lanes, 1, lanes + 1)]
    high = [i + 2 for i in low]
    mixed = [w.shuffle(type, rows[a], rows[a + 1], index) for index in (low, high) for a in (0, 2)]
    first = [lane + i for lane in pick for i in (0, 1, lanes, lanes + 1)]
    second = [i + 2 for i in first]
    return [w.shuffle(type, mixed[a], mixed[a + 1], index) for a in (0, 2) for index in (first, second)]


def _transpose_by_word(w: LlvmWriter, by: Arithmetic, source: str, into: Packed, row_bytes: Offset) -> None:
    type = f"i{8 * by.word_bytes}"

    def column(c: Offset, _: list[str]) -> list[str]:
        first, at = behind(w, source, c, row_bytes), behind(w, into.pointer, c, by.word_bytes)

        def group(g: Offset, _: list[str]) -> list[str]:
            value = w.load(type, behind(w, first, g, by.word_bytes), align=1)
            w.store(type, value, behind(w, at, g, into.columns * by.word_bytes), align=by.element_bytes)
            return []

        repeat(w, into.groups, group)
        return []

    repeat(w, into.columns, column)
