"""The innermost loop: a block of C in registers, one group of k per trip.

For f32 on AVX-512 with 8 × 32 the loop is 2 loads of B, 8 broadcasts of A and 16 multiply-adds.

Where an instruction multiplies two rows by two columns, an accumulator holds a matrix of 2 × 2 (with wide vectors,
several side by side). At the end, two accumulators give a vector of each of the two rows.

The block, by `micro_shape`:

    f32, AVX-512, 128×128     8 rows × 2 vectors of 16      16 accumulators, 2 for B, one for A at a time
    f32, AVX2,    128×128     6 rows × 2 vectors of 8       12 accumulators of 16 registers
    int8, AVX-512, 128×128    4 rows × 4 vectors of 16      8 loads instead of 10, half as many words of A to bias
    f32, NEON,    64×64       4 rows × 4 vectors of 4       8 loads for 16 multiply-adds instead of 10
    int8, NEON,   64×64       8 rows × 2 vectors of 4       by matrices of 2 × 2: 4 registers of A, 4 of B
    f32, AVX-512, 1×256       1 row × 8 vectors             enough independent chains for the latency
    bf16, AMX,    128×128     32 rows × 2 vectors of 16     four tiles of C, two of B and one of A (`tiles.py`)

At least as many accumulators as `CpuCosts.chains` are needed for full speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.cpu.dot.packing import WORD_BIAS
from tilewright.backends.cpu.dot.spec import Offset, advance, carry, times
from tilewright.backends.cpu.loop_builder import BYTES, LoopBuilder
from tilewright.backends.llvm.cpu_costs import CACHE_LINE, SECOND_LEVEL, CpuCosts
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.amx import ROWS
from tilewright.dialects.vector import wide_type
from tilewright.ir.core import Value
from tilewright.ir.types import i64


@dataclass(frozen=True)
class Shape:
    """`rows` rows of `vectors` vectors of `lanes` lanes each."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def micro_shape(m: int, n: int, arithmetic: Arithmetic, target: Target) -> Shape:
    """The block of an m × n tile of C that is computed at once. Its columns divide n; its rows need not divide m."""
    lanes = min(n, target.lanes(arithmetic.accumulator.bits))
    available = n // lanes
    if arithmetic.tiles:
        return Shape(min(m, 2 * ROWS), min(available, 2), lanes)
    costs = target.costs
    vectors = min(available, _side_by_side(arithmetic, costs))
    while m * vectors < costs.chains and vectors < min(available, costs.chains):
        vectors *= 2
    return Shape(_rows(m, vectors, costs), vectors, lanes)


def _side_by_side(arithmetic: Arithmetic, costs: CpuCosts) -> int:
    if arithmetic.square:
        return costs.square_columns
    return costs.grouped_columns if arithmetic.group > 1 else costs.product_columns


def _rows(m: int, vectors: int, costs: CpuCosts) -> int:
    if vectors == 1:
        return min(m, costs.chains)  # the L1 cache has 8 to 12 ways for rows that are whole pages apart
    if costs.registers == 32:
        return min(m, 16 // vectors)
    # 6 × 2 is best with 16 registers, but a rest of 2 rows runs at half speed and costs a second body.
    takes_six = m % 6 == 4 or m >= 128
    return min(m, 6 if takes_six and vectors == 2 else max(1, costs.chains // vectors))


@dataclass(frozen=True)
class Rows:
    """A as the micro-kernel reads it: the word of row i and group g lies at pointer + i·row_bytes + g·step_bytes.

    `signed`: the bytes have yet to be biased. One instruction loads, spreads and biases a word.
    `last`: the last row that there is, which stands for those behind it.
    """

    pointer: Value
    row_bytes: Offset
    step_bytes: Offset
    signed: bool = False
    last: Value | None = None

    def offsets(self, ops: LoopBuilder, count: int) -> list[Offset]:
        """The distances of the first `count` rows from `pointer` in bytes."""
        numbers: list[Offset] = list(range(count))
        if self.last is not None:
            numbers[1:] = [ops.smin(r, self.last) for r in range(1, count)]
        return [times(ops, r, self.row_bytes) for r in numbers]

    def are_neighbours(self, by: Arithmetic) -> bool:
        """Whether the words of two rows lie side by side, as in a packed A."""
        return self.last is None and isinstance(self.row_bytes, int) and self.row_bytes == by.word_bytes


@dataclass(frozen=True)
class Panel:
    """Columns of B as the micro-kernel reads them: the words of group g lie consecutively at pointer + g·step_bytes.

    `correction` is the address of an i32 per column that is added to C before anything else. What lies `further` bytes
    behind is read next; single rows fetch it meanwhile, as blocks are too few then to spread that over them.
    """

    pointer: Value
    step_bytes: Offset
    correction: Value | None = None
    further: Value | None = None

    def fetch_further(self, ops: LoopBuilder, group: Value, bytes: int) -> None:
        """Fetch what is read next where this panel has the `bytes` at `group`."""
        next = advance(ops, group, self.further or 0)
        for place in range(0, bytes, CACHE_LINE):
            ops.prefetch(next, place, locality=SECOND_LEVEL)

    def advance(self, ops: LoopBuilder, bytes: Offset) -> Panel:
        """The part of a panel without sums from the column `bytes` behind the first one on."""
        return Panel(advance(ops, self.pointer, bytes), self.step_bytes)


@dataclass(frozen=True)
class Parts:
    """The products that are added to a block, one after the other.

    Attributes:
        count: their number, an i64.
        table: the address of the addresses of the A and of the packed B of each.
        rows, panel: where the rows and the panel of the block begin in these, in bytes.
        sums_at: how many bytes behind a panel its sums lie, if it has some.
    """

    count: Value
    table: Value
    rows: Offset
    panel: Offset
    sums_at: int | None

    def rows_of(self, ops: LoopBuilder, part: Offset) -> Value:
        return self._place(ops, part, 0, self.rows)

    def panel_of(self, ops: LoopBuilder, part: Offset) -> Value:
        return self._place(ops, part, 1, self.panel)

    def _place(self, ops: LoopBuilder, part: Offset, number: int, bytes: Offset) -> Value:
        address = ops.load(i64, advance(ops, self.table, part, 16), 8 * number, align=8)
        return advance(ops, ops.emit("tt.int_to_ptr", (address,), BYTES), bytes)


@dataclass(frozen=True)
class Block:
    """A block of C in memory.

    Attributes:
        zero_init: it is written without having been read, an i1 if known only at launch.
        adds_last: what it holds is added behind the last step.
    """

    pointer: Value
    row_bytes: int
    zero_init: bool | Value
    adds_last: bool


def block_of_c(
    ops: LoopBuilder,
    by: Arithmetic,
    shape: Shape,
    *,
    groups: Offset,
    rows: Rows,
    row_offsets: list[Offset],
    panel: Panel,
    block: Block,
    parts: Parts | None = None,
) -> None:
    """C (+)= A·B for one block of C, whose rows of A lie `row_offsets` behind the first.

    Args:
        ops: where ops go.
        by: the arithmetic.
        shape: extents of the block.
        groups: the number of groups that are summed up.
        rows: the rows of A.
        row_offsets: their distances from the first one in bytes.
        panel: the columns of B.
        block: the place of C.
        parts: the products that are added, of which this is the last; None: this one alone.
    """
    places = _places(by, shape, block)
    starts = _start_values(ops, by, shape, places, panel=panel, block=block, parts=parts)
    if by.group > 1 and block.zero_init is not True:
        for place in places:
            ops.prefetch(block.pointer, place, write=True)
    rows_of_a = _pairs_of_rows if by.square else _single_rows
    lanes = shape.lanes // 2 if by.square else shape.lanes  # columns that one instruction takes

    def step(_: Offset, carried: list[Value]) -> list[Value]:
        a, b, *sums = carried
        places = range(0, shape.columns * by.word_bytes, lanes * by.word_bytes)
        columns = [ops.load(by.operand(lanes), b, place, align=by.element_bytes) for place in places]
        if panel.further is not None and shape.rows == 1:
            panel.fetch_further(ops, b, shape.columns * by.word_bytes)
        at = 0
        for word in rows_of_a(ops, by, shape, a, rows, row_offsets):
            for column in columns:
                sums[at] = by.accumulate(ops, sums[at], word, column)
                at += 1
        return [advance(ops, a, rows.step_bytes), advance(ops, b, panel.step_bytes), *sums]

    if parts is None:
        _, _, *sums = carry(ops, groups, step, [rows.pointer, panel.pointer, *starts])
    else:
        each = parts

        def part(number: Offset, carried: list[Value]) -> list[Value]:
            return carry(ops, groups, step, [each.rows_of(ops, number), each.panel_of(ops, number), *carried])[2:]

        sums = carry(ops, parts.count, part, starts)
    if by.square:
        sums = _rows_of_matrices(ops, shape, sums)
    for value, place in zip(_final_values(ops, by, shape, places, sums, block), places, strict=True):
        ops.store(value, block.pointer, place, align=_alignment(by))


def _places(by: Arithmetic, shape: Shape, block: Block) -> list[int]:
    """The vectors of the block, in bytes from its start."""
    vector_bytes = shape.lanes * by.accumulator.bits // 8
    return [r * block.row_bytes + v * vector_bytes for r in range(shape.rows) for v in range(shape.vectors)]


def _start_values(
    ops: LoopBuilder,
    by: Arithmetic,
    shape: Shape,
    places: list[int],
    *,
    panel: Panel,
    block: Block,
    parts: Parts | None,
) -> list[Value]:
    """The accumulators before the first step; where C is added last, see `_final_values`."""
    if panel.correction is not None:
        columns = [v * shape.lanes * by.word_bytes for v in range(shape.vectors)]
        if parts is None:
            return _load_all(ops, by, shape, panel.correction, columns) * shape.rows
        return _corrections(ops, by, shape, parts, columns) * shape.rows
    if block.adds_last:
        return [ops.constant(0, by.total(shape.lanes))] * len(places)
    return _held(ops, by, shape, places, block)


def _corrections(ops: LoopBuilder, by: Arithmetic, shape: Shape, parts: Parts, columns: list[int]) -> list[Value]:
    """The corrections of the panels of all parts together, vector by vector."""

    def add(number: Offset, carried: list[Value]) -> list[Value]:
        place = advance(ops, parts.panel_of(ops, number), parts.sums_at or 0)
        more = _load_all(ops, by, shape, place, columns)
        return [ops.add(held, value) for held, value in zip(carried, more, strict=True)]

    return carry(ops, parts.count, add, [ops.constant(0, by.total(shape.lanes))] * len(columns))


def _final_values(
    ops: LoopBuilder, by: Arithmetic, shape: Shape, places: list[int], sums: list[Value], block: Block
) -> list[Value]:
    """The final values of C."""
    if not block.adds_last or block.zero_init is True:
        return sums
    if block.zero_init is False:
        return _added(ops, by, shape, places, sums, block)
    with ops.branch(block.zero_init) as branch, branch.otherwise():
        added = _added(ops, by, shape, places, sums, block)
    return [branch.join(value, more) for value, more in zip(sums, added, strict=True)]


def _added(
    ops: LoopBuilder, by: Arithmetic, shape: Shape, places: list[int], sums: list[Value], block: Block
) -> list[Value]:
    """The sums and what the block holds before."""
    before = _load_all(ops, by, shape, block.pointer, places)
    return [ops.add(held, value) for held, value in zip(before, sums, strict=True)]


def _held(ops: LoopBuilder, by: Arithmetic, shape: Shape, places: list[int], block: Block) -> list[Value]:
    """The vectors that the block holds before, zeros where it is not to be read."""
    zeros = [ops.constant(0, by.total(shape.lanes))] * len(places)
    if isinstance(block.zero_init, bool):
        return zeros if block.zero_init else _load_all(ops, by, shape, block.pointer, places)
    with ops.branch(block.zero_init) as branch, branch.otherwise():
        held = _load_all(ops, by, shape, block.pointer, places)
    return [branch.join(zero, value) for zero, value in zip(zeros, held, strict=True)]


def _load_all(ops: LoopBuilder, by: Arithmetic, shape: Shape, pointer: Value, places: list[int]) -> list[Value]:
    return [ops.load(by.total(shape.lanes), pointer, place, align=_alignment(by)) for place in places]


def _alignment(by: Arithmetic) -> int:
    """Rows of C and panels start at multiples of the element size at least; unaligned access costs nothing extra."""
    return by.accumulator.bits // 8


def _single_rows(
    ops: LoopBuilder, by: Arithmetic, shape: Shape, pointer: Value, rows: Rows, offsets: list[Offset]
) -> Iterator[Value]:
    """A's word of each row, in all lanes."""
    for offset in offsets:
        yield _broadcast(ops, by, shape, pointer, offset, signed=rows.signed)


def _pairs_of_rows(
    ops: LoopBuilder, by: Arithmetic, shape: Shape, pointer: Value, rows: Rows, offsets: list[Offset]
) -> Iterator[Value]:
    """A's words of two rows after the other, beside every two columns."""
    pair, align = wide_type(by.word, 2), by.element_bytes
    for first, second in zip(offsets[::2], offsets[1::2], strict=True):
        if rows.are_neighbours(by):
            words = ops.load(pair, pointer, first, align=align)
        else:
            words = ops.concat([ops.load(by.word, pointer, offset, align=align) for offset in (first, second)])
        if shape.lanes > 4:
            words = ops.shuffle(words, None, [0, 1] * (shape.lanes // 4))
        yield ops.bitcast(words, by.operand(shape.lanes // 2))


def _rows_of_matrices(ops: LoopBuilder, shape: Shape, matrices: list[Value]) -> list[Value]:
    """The vectors of all rows, of accumulators that hold two rows each."""
    first = [lane for start in range(0, 2 * shape.lanes, 4) for lane in (start, start + 1)]
    second = [lane + 2 for lane in first]
    found, width = [], 2 * shape.vectors
    for start in range(0, len(matrices), width):
        row_pair = matrices[start : start + width]
        for lanes in (first, second):
            found += [ops.shuffle(a, b, lanes) for a, b in zip(row_pair[::2], row_pair[1::2], strict=True)]
    return found


def _broadcast(
    ops: LoopBuilder, by: Arithmetic, shape: Shape, pointer: Value, offset: Offset, *, signed: bool
) -> Value:
    """A's word for one row, in all lanes."""
    spread = ops.splat(ops.load(by.word, pointer, offset, align=by.element_bytes), shape.lanes)
    if signed:
        spread = ops.xor(spread, WORD_BIAS)
    return ops.bitcast(spread, by.operand(shape.lanes))
