"""Bringing operands into the order in which the micro-kernel reads them: rows of words, one word per column.

`interleave_rows`   [k][column] -> [k / group][column][group]: two or four rows become one row of words
`copy_rows`         [k][column] -> the same without gaps, for rows that lie far apart

Where `Packed.sums_at` says so, they also store -128 · the sum over k of every column: what takes the bias of A off the
products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.backends.cpu.dot.address import behind, repeat, times
from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.cpu.dot.spec import Offset
from tilewright.backends.llvm.memory import spaced_load
from tilewright.backends.llvm.spelling import bits_of, constant, vector
from tilewright.backends.llvm.writer import LlvmWriter

BIAS = -128
"""The number added to (and, mod 256, xor-ed into) a signed byte to make it an unsigned one."""
WORD_BIAS = -0x7F7F7F80
"""BIAS for the four bytes of a word."""


UNROLLED = 8
"""Max vectors packed without a loop: rows are read in long pieces, and whole cache lines at once."""
WORDS = 4
"""Words copied one by one per trip of a loop."""


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A packed operand in memory: panels of `groups` rows of `columns` words, written in vectors of `lanes` words.

    Attributes:
        pointer: the address of the first panel.
        lanes: a divisor of `columns`.
        columns, groups: the extents of a panel.
        panels: the number of panels …
        panel_step: … and their distance in bytes.
        sums_at: how many bytes behind a panel its column sums lie, one i32 per column, if they are wanted.
    """

    pointer: str
    lanes: int
    columns: int
    groups: Offset
    panels: int = 1
    panel_step: int = 0
    sums_at: int | None = None

    @property
    def panel_vectors(self) -> int:
        """Vectors in a row of one panel."""
        return self.columns // self.lanes

    @property
    def vectors(self) -> int:
        """Vectors in a row of all panels."""
        return self.panels * self.panel_vectors

    def place(self, v: int, word_bytes: int) -> int:
        """The place of vector number `v` of the first row, in bytes behind `pointer`."""
        panel, inside = divmod(v, self.panel_vectors)
        return panel * self.panel_step + inside * self.lanes * word_bytes

    def part(self, w: LlvmWriter, index: Offset, vectors: int, word_bytes: int) -> Packed:
        """The part from vector number `index` · `vectors` on: whole panels, or a part of the only one."""
        whole = max(1, vectors // self.panel_vectors)
        step = whole * self.panel_step if vectors >= self.panel_vectors else vectors * self.lanes * word_bytes
        return replace(self, pointer=behind(w, self.pointer, index, step), panels=whole)


Combine = Callable[[str], list[str]]
"""A function from the address of the source to one row of packed vectors."""


def stream(
    w: LlvmWriter, by: Arithmetic, source: str, into: Packed, *, vectors: int, step_bytes: Offset, combine: Combine
) -> None:
    """Fill the first `vectors` vectors of every packed row; the source moves on by `step_bytes` from row to row."""
    type, places = by.operand(into.lanes), [into.place(v, by.word_bytes) for v in range(vectors)]
    total = vector(by.accumulator, into.lanes)
    starts = [] if into.sums_at is None else [(total, by.zero(into.lanes))] * vectors

    def row(_: Offset, carried: list[str]) -> list[str]:
        here, at, *sums = carried
        words = combine(here)
        for place, value in zip(places, words, strict=True):
            w.store(type, value, behind(w, at, place), align=by.element_bytes)
        sums = [add_columns(w, by, into.lanes, held, value) for held, value in zip(sums, words, strict=False)]
        return [behind(w, here, step_bytes), behind(w, at, into.columns * by.word_bytes), *sums]

    carried = [("ptr", source), ("ptr", into.pointer), *starts]
    if isinstance(into.groups, int) and into.groups * vectors <= UNROLLED:
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
    assert into.sums_at is not None, "there is a place for the sums"
    type = vector(by.accumulator, into.lanes)
    scaled = w.emit(f"mul {type} {sums}, {constant(BIAS, by.accumulator, into.lanes)}")
    w.store(type, scaled, behind(w, into.pointer, into.sums_at + into.place(v, by.word_bytes)), align=by.word_bytes)


def interleave_rows(
    w: LlvmWriter, by: Arithmetic, source: str, into: Packed, *, row_bytes: Offset, bias: bool = False
) -> None:
    """Pack rows of elements, one row per k and `row_bytes` apart."""
    element, lanes = f"i{bits_of(by.element)}", into.lanes
    paired = into.columns % (2 * lanes) == 0 and (by.group == 2 or "avx512vbmi" in w.target.features)
    together = 2 if paired else 1
    vectors, width = min(into.vectors, UNROLLED), together * lanes
    row_offsets = [times(w, r, row_bytes) for r in range(by.group)]

    def words_of(start: str) -> list[str]:
        rows = [w.load(vector(element, width), behind(w, start, o), align=1) for o in row_offsets]
        words = _interleaved(w, rows, element, lanes=lanes, vectors=together)
        if bias:
            words = [biased(w, value, lanes * by.group) for value in words]
        stored = vector(element, lanes * by.group)
        return [w.convert("bitcast", value, stored, by.operand(lanes)) for value in words]

    def combine(start: str) -> list[str]:
        starts = [behind(w, start, v * lanes * by.element_bytes) for v in range(0, vectors, together)]
        return [words for here in starts for words in words_of(here)]

    def chunk(c: Offset, _: list[str]) -> list[str]:
        first = behind(w, source, c, vectors * lanes * by.element_bytes)
        part = into.part(w, c, vectors, by.word_bytes)
        stream(w, by, first, part, vectors=vectors, step_bytes=times(w, by.group, row_bytes), combine=combine)
        return []

    repeat(w, into.vectors // vectors, chunk)


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
    if isinstance(step, int):
        _copy_vectors(w, by, source, into, row_bytes=row_bytes, step=step)
        return
    with w.branch(w.emit(f"icmp eq i64 {step}, 2")) as branch:
        with branch.then():
            _copy_vectors(w, by, source, into, row_bytes=row_bytes, step=2)
        with branch.otherwise():
            _copy_words(w, by, source, into, row_bytes=row_bytes, step=step)


def _copy_vectors(w: LlvmWriter, by: Arithmetic, source: str, into: Packed, *, row_bytes: Offset, step: int) -> None:
    vectors = min(into.vectors, UNROLLED)
    vector_bytes = into.lanes * step * by.word_bytes

    def combine(start: str) -> list[str]:
        pointers = [behind(w, start, v * vector_bytes) for v in range(vectors)]
        return [spaced_load(w, p, by.element, into.lanes, step, align=by.element_bytes) for p in pointers]

    def chunk(c: Offset, _: list[str]) -> list[str]:
        first, part = behind(w, source, c, vectors * vector_bytes), into.part(w, c, vectors, by.word_bytes)
        stream(w, by, first, part, vectors=vectors, step_bytes=row_bytes, combine=combine)
        return []

    repeat(w, into.vectors // vectors, chunk)


def _copy_words(w: LlvmWriter, by: Arithmetic, source: str, into: Packed, *, row_bytes: Offset, step: Offset) -> None:
    """Copy rows word by word, a few words per trip of a loop."""
    step_bytes, width = times(w, step, by.word_bytes), min(WORDS, into.columns)

    def panel(p: Offset, _: list[str]) -> list[str]:
        begin, to = (
            behind(w, source, p, times(w, into.columns, step_bytes)),
            behind(w, into.pointer, p, into.panel_step),
        )

        def row(g: Offset, _: list[str]) -> list[str]:
            at = behind(w, to, g, into.columns * by.word_bytes)

            def some(c: Offset, carried: list[str]) -> list[str]:
                (here,) = carried
                there = behind(w, at, c, width * by.word_bytes)
                for word in range(width):
                    value = w.load(by.element, here, align=by.element_bytes)
                    w.store(by.element, value, behind(w, there, word * by.word_bytes), align=by.element_bytes)
                    here = behind(w, here, step_bytes)
                return [here]

            repeat(w, into.columns // width, some, [("ptr", behind(w, begin, g, row_bytes))])
            return []

        repeat(w, into.groups, row)
        return []

    repeat(w, into.panels, panel)


def biased(w: LlvmWriter, bytes: str, lanes: int) -> str:
    """The bytes plus 128."""
    return w.emit(f"xor {vector('i8', lanes)} {bytes}, {constant(BIAS, 'i8', lanes)}")
