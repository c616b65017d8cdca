"""Bringing operands into the order in which the micro-kernel reads them: rows of words, one word per column.

`interleave_rows`   [k][column] -> [k / group][column][group]: two or four rows become one row of words
`copy_rows`         [k][column] -> the same without gaps, for rows that lie far apart

`Packed.sums` also stores -128 · the sum over k of every column: what takes the bias of A off the products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.backends.cpu.dot.address import behind, repeat, times
from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.cpu.dot.spec import Offset
from tilewright.backends.llvm.memory import spaced_load
from tilewright.backends.llvm.spelling import bits_of, constant, vector
from tilewright.backends.llvm.writer import LlvmWriter

BIAS = -128
"""What is added to (and, mod 256, xor-ed into) a signed byte to make it an unsigned one."""
WORD_BIAS = -0x7F7F7F80
"""The same for the four bytes of a word."""


UNROLLED = 8
"""Up to this many vectors are packed without a loop."""
WORDS = 4
"""So many words are copied one by one per trip of a loop."""


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A packed operand in memory: `groups` rows of `columns` words, written in vectors of `lanes` words.

    `lanes` divides `columns`. `sums` is the address of an i32 per column for the column sums, if they are wanted.
    """

    pointer: str
    lanes: int
    columns: int
    groups: int
    sums: str | None = None


Combine = Callable[[str], list[str]]
"""From the address of the source to one row of packed vectors."""


def stream(
    w: LlvmWriter, by: Arithmetic, source: str, into: Packed, *, vectors: int, step_bytes: Offset, combine: Combine
) -> None:
    """Fill `vectors` vectors of every packed row; the source moves on by `step_bytes` from row to row.

    `into.pointer` and `into.sums` are those of the first of these columns.
    """
    type, width = by.operand(into.lanes), into.lanes * by.word_bytes
    total = vector(by.accumulator, into.lanes)
    starts = [] if into.sums is None else [(total, by.zero(into.lanes))] * vectors

    def row(_: Offset, carried: list[str]) -> list[str]:
        here, at, *sums = carried
        words = combine(here)
        for v, value in enumerate(words):
            w.store(type, value, behind(w, at, v * width), align=by.element_bytes)
        sums = [add_columns(w, by, into.lanes, held, value) for held, value in zip(sums, words, strict=False)]
        return [behind(w, here, step_bytes), behind(w, at, into.columns * by.word_bytes), *sums]

    carried = [("ptr", source), ("ptr", into.pointer), *starts]
    if into.groups * vectors <= UNROLLED:
        sums = [value for _, value in carried]
        for group in range(into.groups):
            sums = row(group, sums)
    else:
        sums = repeat(w, into.groups, row, carried)
    for v, value in enumerate(sums[2:]):
        store_sums(w, by, into, v, value)


def add_columns(w: LlvmWriter, by: Arithmetic, lanes: int, sums: str, words: str) -> str:
    """Add the elements of each word to the column's sum."""
    return by.accumulate(w, by, lanes, sums, constant(1, by.element, lanes * by.group), words)


def store_sums(w: LlvmWriter, by: Arithmetic, into: Packed, v: int, sums: str) -> None:
    """Store finished column sums of vector number `v`, times the bias."""
    assert into.sums is not None, "there is a place for the sums"
    type = vector(by.accumulator, into.lanes)
    scaled = w.emit(f"mul {type} {sums}, {constant(BIAS, by.accumulator, into.lanes)}")
    w.store(type, scaled, behind(w, into.sums, v * into.lanes * by.word_bytes), align=by.word_bytes)


def interleave_rows(
    w: LlvmWriter, by: Arithmetic, source: str, into: Packed, *, row_bytes: Offset, bias: bool = False
) -> None:
    """Pack rows of elements, one row per k and `row_bytes` apart."""
    element, lanes = f"i{bits_of(by.element)}", into.lanes
    paired = into.columns % (2 * lanes) == 0 and (by.group == 2 or "avx512vbmi" in w.target.features)
    vectors = 2 if paired else 1
    width = vectors * lanes
    row_offsets = [times(w, r, row_bytes) for r in range(by.group)]

    def combine(start: str) -> list[str]:
        rows = [w.load(vector(element, width), behind(w, start, o), align=1) for o in row_offsets]
        words = _interleaved(w, rows, element, lanes=lanes, vectors=vectors)
        if bias:
            words = [biased(w, value, lanes * by.group) for value in words]
        stored = vector(element, lanes * by.group)
        return [w.convert("bitcast", value, stored, by.operand(lanes)) for value in words]

    def chunk(c: Offset, _: list[str]) -> list[str]:
        first = behind(w, source, c, width * by.element_bytes)
        part = chunk_of(w, by, into, c, width)
        stream(w, by, first, part, vectors=vectors, step_bytes=times(w, by.group, row_bytes), combine=combine)
        return []

    repeat(w, into.columns // width, chunk)


def chunk_of(w: LlvmWriter, by: Arithmetic, into: Packed, index: Offset, width: int) -> Packed:
    """The packed operand from column `index`·`width` on."""
    sums = None if into.sums is None else behind(w, into.sums, index, width * by.word_bytes)
    pointer = behind(w, into.pointer, index, width * by.word_bytes)
    return Packed(pointer=pointer, lanes=into.lanes, columns=into.columns, groups=into.groups, sums=sums)


def _interleaved(w: LlvmWriter, rows: list[str], element: str, *, lanes: int, vectors: int) -> list[str]:
    """Lane 0 of every row, lane 1 of every row, … in `vectors` parts of `lanes` lanes per row."""
    width, half = lanes * vectors, len(rows) // 2
    if width * half == 1:
        return [w.concat(rows, element, 1)]
    type = vector(element, width * half)
    low, high = w.concat(rows[:half], element, width), w.concat(rows[half:], element, width)
    return [
        w.shuffle(type, low, high, [r * width + v * lanes + lane for lane in range(lanes) for r in range(len(rows))])
        for v in range(vectors)
    ]


def copy_rows(w: LlvmWriter, by: Arithmetic, source: str, into: Packed, *, row_bytes: Offset, step: Offset = 1) -> None:
    """Copy rows of words, `row_bytes` apart; the words of a row lie `step` words apart."""
    vectors = into.columns // into.lanes

    def copy(step: int) -> None:
        places = range(0, into.columns * step * by.word_bytes, into.lanes * step * by.word_bytes)

        def combine(start: str) -> list[str]:
            pointers = [behind(w, start, place) for place in places]
            return [spaced_load(w, p, by.element, into.lanes, step, align=by.element_bytes) for p in pointers]

        stream(w, by, source, into, vectors=vectors, step_bytes=row_bytes, combine=combine)

    if isinstance(step, int):
        copy(step)
        return
    with w.branch(w.emit(f"icmp eq i64 {step}, 2")) as branch:
        with branch.then():
            copy(2)
        with branch.otherwise():
            _copy_words(w, by, source, into, row_bytes=row_bytes, step=step)


def _copy_words(w: LlvmWriter, by: Arithmetic, source: str, into: Packed, *, row_bytes: Offset, step: Offset) -> None:
    """Copy rows word by word, a few words per trip of a loop."""
    step_bytes, width = times(w, step, by.word_bytes), min(WORDS, into.columns)

    def row(g: Offset, _: list[str]) -> list[str]:
        first, at = behind(w, source, g, row_bytes), behind(w, into.pointer, g, into.columns * by.word_bytes)

        def some(c: Offset, carried: list[str]) -> list[str]:
            (here,) = carried
            there = behind(w, at, c, width * by.word_bytes)
            for word in range(width):
                value = w.load(by.element, here, align=by.element_bytes)
                w.store(by.element, value, behind(w, there, word * by.word_bytes), align=by.element_bytes)
                here = behind(w, here, step_bytes)
            return [here]

        repeat(w, into.columns // width, some, [("ptr", first)])
        return []

    repeat(w, into.groups, row)


def biased(w: LlvmWriter, bytes: str, lanes: int) -> str:
    """The bytes plus 128."""
    return w.emit(f"xor {vector('i8', lanes)} {bytes}, {constant(BIAS, 'i8', lanes)}")
