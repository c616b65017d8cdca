"""Bringing operands into the order in which the micro-kernel reads them.

`transpose_words`   [column][group] -> [group][column], words of 32 or 64 bits: B given transposed
`interleave_rows`   [k][column] -> [k / group][column][group]: two or four rows become one row of words
`bias_rows`         a copy with 128 added to every byte
`sum_columns`       -128 · the sum over k of every column

4 × 4 transposition of 32-bit words inside 128-bit lanes, with rows 4l … 4l+3 in lane l, needs two shuffles per
result and gives 16 columns of 4 groups from 16 loads.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.cpu.dot.address import behind, repeat, times
from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.cpu.dot.spec import Offset
from tilewright.backends.llvm.spelling import bits_of, constant, vector
from tilewright.backends.llvm.writer import LlvmWriter

BIAS = -128
"""What is added to (and, mod 256, xor-ed into) a signed byte to make it an unsigned one."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """A packed operand: `groups` rows of `columns` words, written in vectors of `lanes` words.

    `lanes` divides `columns`.
    """

    lanes: int
    columns: int
    groups: int


def transpose_words(
    w: LlvmWriter, source: str, destination: str, sizes: Sizes, *, word_bits: int, row_bytes: Offset
) -> None:
    """Copy rows of words, one per column and `row_bytes` apart, to rows of words, one per group."""
    quad = 128 // word_bits
    lanes, columns = sizes.lanes, sizes.columns
    if sizes.groups % quad or lanes % quad:
        _transpose_by_word(w, source, destination, sizes, word_bits, row_bytes)
        return
    word_bytes = word_bits // 8
    row_offsets = [times(w, lane, row_bytes) for lane in range(lanes)]

    def chunk(c: Offset, _: list[str]) -> list[str]:
        first = behind(w, source, c, times(w, lanes, row_bytes))
        into = behind(w, destination, c, lanes * word_bytes)

        def quads(g: Offset, _: list[str]) -> list[str]:
            start = behind(w, first, g, 16)
            rows = [_gather_lanes(w, start, row_offsets[r::quad], word_bits) for r in range(quad)]
            at = behind(w, into, g, quad * columns * word_bytes)
            for r, value in enumerate(_transpose_in_lanes(w, rows, word_bits, lanes)):
                type = vector(f"i{word_bits}", lanes)
                w.store(type, value, behind(w, at, r * columns * word_bytes), align=word_bytes)
            return []

        repeat(w, sizes.groups // quad, quads)
        return []

    repeat(w, columns // lanes, chunk)


def _gather_lanes(w: LlvmWriter, start: str, offsets: list[Offset], word_bits: int) -> str:
    """One vector of 128-bit pieces from several rows."""
    quad = 128 // word_bits
    element = f"i{word_bits}"
    pieces = [w.load(vector(element, quad), behind(w, start, offset), align=1) for offset in offsets]
    return w.concat(pieces, element, quad)


def _transpose_in_lanes(w: LlvmWriter, rows: list[str], word_bits: int, lanes: int) -> list[str]:
    """Transpose the square of words that equal 128-bit lanes of `rows` form."""
    type, quad = vector(f"i{word_bits}", lanes), len(rows)
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


def _transpose_by_word(
    w: LlvmWriter, source: str, destination: str, sizes: Sizes, word_bits: int, row_bytes: Offset
) -> None:
    type, word_bytes = f"i{word_bits}", word_bits // 8

    def column(c: Offset, _: list[str]) -> list[str]:
        first, into = behind(w, source, c, row_bytes), behind(w, destination, c, word_bytes)

        def group(g: Offset, _: list[str]) -> list[str]:
            value = w.load(type, behind(w, first, g, word_bytes), align=1)
            w.store(type, value, behind(w, into, g, sizes.columns * word_bytes), align=word_bytes)
            return []

        repeat(w, sizes.groups, group)
        return []

    repeat(w, sizes.columns, column)


def interleave_rows(
    w: LlvmWriter,
    by: Arithmetic,
    source: str,
    destination: str,
    sizes: Sizes,
    *,
    row_bytes: Offset,
    bias: bool = False,
) -> None:
    """Copy rows of elements, one per k and `row_bytes` apart, to rows of words, one per group."""
    lanes, columns = sizes.lanes, sizes.columns
    element = f"i{bits_of(by.element)}"
    type = vector(element, lanes * by.group)
    row_offsets = [times(w, r, row_bytes) for r in range(by.group)]

    def chunk(c: Offset, _: list[str]) -> list[str]:
        first = behind(w, source, c, lanes * by.element_bytes)
        into = behind(w, destination, c, lanes * by.word_bytes)

        def group(g: Offset, _: list[str]) -> list[str]:
            start = behind(w, first, g, times(w, by.group, row_bytes))
            rows = [w.load(vector(element, lanes), behind(w, start, o), align=1) for o in row_offsets]
            words = _interleaved(w, rows, element, lanes)
            if bias:
                words = _biased(w, words, lanes * by.group)
            w.store(type, words, behind(w, into, g, columns * by.word_bytes), align=by.word_bytes)
            return []

        repeat(w, sizes.groups, group)
        return []

    repeat(w, columns // lanes, chunk)


def _interleaved(w: LlvmWriter, rows: list[str], element: str, lanes: int) -> str:
    """Lane 0 of every row, lane 1 of every row, …"""
    joined = w.concat(rows, element, lanes)
    if lanes == 1:
        return joined
    order = [lane + row * lanes for lane in range(lanes) for row in range(len(rows))]
    return w.shuffle(vector(element, lanes * len(rows)), joined, "poison", order)


def bias_rows(
    w: LlvmWriter, source: str, destination: str, *, rows: int, row_bytes: Offset, width: int, lanes: int
) -> None:
    """Copy rows of `width` bytes, adding 128 to each; the copies lie without gaps."""
    lanes = min(lanes, width)
    type = vector("i8", lanes)

    def row(r: Offset, _: list[str]) -> list[str]:
        first, into = behind(w, source, r, row_bytes), behind(w, destination, r, width)

        def piece(p: Offset, _: list[str]) -> list[str]:
            value = w.load(type, behind(w, first, p, lanes), align=1)
            w.store(type, _biased(w, value, lanes), behind(w, into, p, lanes), align=1)
            return []

        repeat(w, width // lanes, piece)
        return []

    repeat(w, rows, row)


def _biased(w: LlvmWriter, bytes: str, lanes: int) -> str:
    return w.emit(f"xor {vector('i8', lanes)} {bytes}, {constant(BIAS, 'i8', lanes)}")


def sum_columns(w: LlvmWriter, by: Arithmetic, panel: str, destination: str, sizes: Sizes) -> None:
    """Store, per column of a packed panel, what the bias of A adds to the products, negated."""
    lanes = sizes.lanes
    type = vector(by.accumulator, lanes)
    ones = constant(1, by.element, lanes * by.group)
    width = lanes * by.word_bytes
    vectors = range(sizes.columns // lanes)

    def add(_: Offset, carried: list[str]) -> list[str]:
        at, *sums = carried
        for v in vectors:
            words = w.load(by.operand(lanes), behind(w, at, v * width), align=by.word_bytes)
            sums[v] = by.accumulate(w, by, lanes, sums[v], ones, words)
        return [behind(w, at, sizes.columns * by.word_bytes), *sums]

    _, *sums = repeat(w, sizes.groups, add, [("ptr", panel), *[(type, by.zero(lanes))] * len(vectors)])
    for v in vectors:
        scaled = w.emit(f"mul {type} {sums[v]}, {constant(BIAS, by.accumulator, lanes)}")
        w.store(type, scaled, behind(w, destination, v * width), align=by.word_bytes)
