"""Bringing operands into the order in which the micro-kernel reads them: rows of words, one word per column.

`interleave_rows`   [k][column] -> [k / group][column][group]: two or four rows become one row of words
`copy_rows`         [k][column] -> the same without gaps, for rows that lie far apart

Where `Packed.sums_at` says so, they also store -128 · the sum over k of every column: what takes the bias of A off the
products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.cpu.dot.spec import Offset, advance, carry, each, times
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.vector import wide_type
from tilewright.ir.core import Value
from tilewright.ir.types import IntType

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

    pointer: Value
    lanes: int
    columns: int
    groups: Offset
    panels: int = 1
    panel_step: int = 0
    sums_at: int | None = None

    @property
    def whole_groups(self) -> int:
        """`groups` of an operand whose depth is known."""
        assert isinstance(self.groups, int), "the whole depth is transposed"
        return self.groups

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

    def part(self, ops: LoopBuilder, index: Offset, vectors: int, word_bytes: int) -> Packed:
        """The part from vector number `index` · `vectors` on: whole panels, or a part of the only one."""
        whole = max(1, vectors // self.panel_vectors)
        step = whole * self.panel_step if vectors >= self.panel_vectors else vectors * self.lanes * word_bytes
        return replace(self, pointer=advance(ops, self.pointer, index, step), panels=whole)


Combine = Callable[[Value], list[Value]]
"""A function from the address of the source to one row of packed vectors."""


def stream(
    ops: LoopBuilder, by: Arithmetic, source: Value, into: Packed, *, vectors: int, step_bytes: Offset, combine: Combine
) -> None:
    """Fill the first `vectors` vectors of every packed row; the source moves on by `step_bytes` from row to row.

    Args:
        ops: where ops go.
        by: the arithmetic.
        source: the address of what the first packed row is made of.
        into: the packed operand.
        vectors: the number of vectors of each row that are filled.
        step_bytes: the distance of the sources of two rows in bytes.
        combine: makes the vectors of a row.
    """
    places = [into.place(v, by.word_bytes) for v in range(vectors)]
    starts = [] if into.sums_at is None else [ops.constant(0, by.total(into.lanes))] * vectors

    def row(_: Offset, carried: list[Value]) -> list[Value]:
        here, at, *sums = carried
        words = combine(here)
        for place, value in zip(places, words, strict=True):
            ops.store(value, at, place, align=by.element_bytes)
        sums = [add_columns(ops, by, held, value) for held, value in zip(sums, words, strict=False)]
        return [advance(ops, here, step_bytes), advance(ops, at, into.columns * by.word_bytes), *sums]

    carried = [source, into.pointer, *starts]
    if isinstance(into.groups, int) and into.groups * vectors <= UNROLLED:
        sums = carried
        for group in range(into.groups):
            sums = row(group, sums)
    else:
        sums = carry(ops, into.groups, row, carried)
    for v, value in enumerate(sums[2:]):
        store_sums(ops, by, into, v, value)


def add_columns(ops: LoopBuilder, by: Arithmetic, sums: Value, words: Value) -> Value:
    """Add the elements of each word to the column's sum."""
    return by.accumulate(ops, sums, ops.constant(1, words.type), words)


def store_sums(ops: LoopBuilder, by: Arithmetic, into: Packed, v: int, sums: Value) -> None:
    """Store finished column sums of vector number `v`, times the bias.

    Args:
        ops: where ops go.
        by: the arithmetic.
        into: the packed operand, which has a place for sums.
        v: the number of the vector in a row.
        sums: the sum of each of its columns, before the bias.
    """
    assert into.sums_at is not None, "there is a place for the sums"
    place = into.sums_at + into.place(v, by.word_bytes)
    ops.store(ops.mul(sums, BIAS), into.pointer, place, align=by.word_bytes)


def interleave_rows(
    ops: LoopBuilder,
    by: Arithmetic,
    source: Value,
    into: Packed,
    *,
    target: Target,
    row_bytes: Offset,
    bias: bool = False,
) -> None:
    """Pack rows of elements, one row per k and `row_bytes` apart.

    Args:
        ops: where ops go.
        by: the arithmetic.
        source: the address of the first element.
        into: the packed operand.
        target: the machine.
        row_bytes: the distance of rows in bytes.
        bias: make unsigned bytes of signed ones.
    """
    element, lanes = IntType(by.element.bits), into.lanes
    vectors = min(into.vectors, UNROLLED)
    together = _together(by, into, vectors, target)
    width = together * lanes
    row_offsets = [times(ops, r, row_bytes) for r in range(by.group)]

    def words_of(start: Value) -> list[Value]:
        rows = [ops.load(wide_type(element, width), start, offset) for offset in row_offsets]
        fills_register = target.neon and width >= target.lanes(element.bits)
        interleaved = _zipped if fills_register else _interleaved
        words = interleaved(ops, rows, lanes=lanes, vectors=together)
        if bias:
            words = [ops.xor(value, BIAS) for value in words]
        return [ops.bitcast(value, by.operand(lanes)) for value in words]

    def combine(start: Value) -> list[Value]:
        starts = [advance(ops, start, v * lanes * by.element_bytes) for v in range(0, vectors, together)]
        return [words for here in starts for words in words_of(here)]

    with each(ops, into.vectors // vectors) as c:
        first = advance(ops, source, c, vectors * lanes * by.element_bytes)
        part = into.part(ops, c, vectors, by.word_bytes)
        stream(ops, by, first, part, vectors=vectors, step_bytes=times(ops, by.group, row_bytes), combine=combine)


def _together(by: Arithmetic, into: Packed, vectors: int, target: Target) -> int:
    """The packed vectors that are made of one vector of each row."""
    if target.neon:
        return max(1, min(vectors, target.lanes(by.element.bits) // into.lanes))
    paired = into.columns % (2 * into.lanes) == 0 and (by.group == 2 or "avx512vbmi" in target.features)
    return 2 if paired else 1


def _interleaved(ops: LoopBuilder, rows: list[Value], *, lanes: int, vectors: int) -> list[Value]:
    """Lane 0 of every row, lane 1 of every row, … in `vectors` parts of `lanes` lanes per row."""
    width, half = lanes * vectors, len(rows) // 2
    if width * half == 1:
        return [ops.concat(rows)]
    low, high = ops.concat(rows[:half]), ops.concat(rows[half:])
    return [
        ops.shuffle(low, high, [r * width + v * lanes + lane for lane in range(lanes) for r in range(len(rows))])
        for v in range(vectors)
    ]


def _zipped(ops: LoopBuilder, rows: list[Value], *, lanes: int, vectors: int) -> list[Value]:
    """As `_interleaved`, by instructions that take lanes of two registers alternately: zip1, zip2 of AArch64."""
    found = _interleaved_by_halves(ops, rows, lanes * vectors)
    step = len(found) // vectors
    return [ops.concat(found[start : start + step]) for start in range(0, len(found), step)]


def _interleaved_by_halves(ops: LoopBuilder, rows: list[Value], width: int) -> list[Value]:
    """Lane 0 of every row, lane 1 of every row, … in as many vectors of `width` lanes."""
    if len(rows) == 1:
        return rows
    indices = [lane for pair in zip(range(width), range(width, 2 * width), strict=True) for lane in pair]
    pairs = zip(*(_interleaved_by_halves(ops, rows[parity::2], width) for parity in (0, 1)), strict=True)
    return [ops.shuffle(a, b, half) for a, b in pairs for half in (indices[:width], indices[width:])]


def copy_rows(
    ops: LoopBuilder,
    by: Arithmetic,
    source: Value,
    into: Packed,
    *,
    row_bytes: Offset,
    step: Offset = 1,
    otherwise: Callable[[], None] | None = None,
) -> None:
    """Copy rows of words, `row_bytes` apart; the words of a row lie `step` words apart.

    Args:
        ops: where ops go.
        by: the arithmetic.
        source: the address of the first word.
        into: the packed operand.
        row_bytes: the distance of rows in bytes.
        step: the distance of neighbours in a row in words.
        otherwise: builds the copy where the step turns out to be no small one; None: word by word.
    """
    if isinstance(step, int):
        _copy_vectors(ops, by, source, into, row_bytes=row_bytes, step=step)
        return
    word_by_word = partial(copy_words, ops, by, source, into, row_bytes=row_bytes, step=step)
    _copy_by_step(ops, by, source, into, (1, 2), row_bytes=row_bytes, step=step, otherwise=otherwise or word_by_word)


def _copy_by_step(
    ops: LoopBuilder,
    by: Arithmetic,
    source: Value,
    into: Packed,
    known: Sequence[int],
    *,
    row_bytes: Offset,
    step: Value,
    otherwise: Callable[[], None],
) -> None:
    """Copy rows in vectors where the step turns out to be one of those `known`."""
    if not known:
        otherwise()
        return
    first, *others = known
    with ops.branch(ops.compare("eq", step, first)) as branch:
        with branch.then():
            _copy_vectors(ops, by, source, into, row_bytes=row_bytes, step=first)
        with branch.otherwise():
            _copy_by_step(ops, by, source, into, others, row_bytes=row_bytes, step=step, otherwise=otherwise)


def _copy_vectors(
    ops: LoopBuilder, by: Arithmetic, source: Value, into: Packed, *, row_bytes: Offset, step: int
) -> None:
    vectors = min(into.vectors, UNROLLED)
    vector_bytes = into.lanes * step * by.word_bytes

    def combine(start: Value) -> list[Value]:
        pointers = [advance(ops, start, v * vector_bytes) for v in range(vectors)]
        return [ops.spaced_load(by.operand(into.lanes), p, step, align=by.element_bytes) for p in pointers]

    with each(ops, into.vectors // vectors) as c:
        first, part = advance(ops, source, c, vectors * vector_bytes), into.part(ops, c, vectors, by.word_bytes)
        stream(ops, by, first, part, vectors=vectors, step_bytes=row_bytes, combine=combine)


def copy_words(
    ops: LoopBuilder, by: Arithmetic, source: Value, into: Packed, *, row_bytes: Offset, step: Offset
) -> None:
    """Copy rows word by word, a few words per trip of a loop."""
    step_bytes, width = times(ops, step, by.word_bytes), min(WORDS, into.columns)

    def some(c: Offset, carried: list[Value]) -> list[Value]:
        (here,) = carried
        there = advance(ops, at, c, width * by.word_bytes)
        for word in range(width):
            value = ops.load(by.element, here, align=by.element_bytes)
            ops.store(value, there, word * by.word_bytes, align=by.element_bytes)
            here = advance(ops, here, step_bytes)
        return [here]

    with each(ops, into.panels) as p:
        begin = advance(ops, source, p, times(ops, into.columns, step_bytes))
        to = advance(ops, into.pointer, p, into.panel_step)
        with each(ops, into.groups) as g:
            at = advance(ops, to, g, into.columns * by.word_bytes)
            carry(ops, into.columns // width, some, [advance(ops, begin, g, row_bytes)])
