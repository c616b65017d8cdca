"""The innermost loop where one instruction multiplies tiles: a block of C in up to four tile registers.

For bf16 and a block of 32 × 32 an iteration is 2 tiles of A, 2 of B and 4 products of 16 × 16 × 32. A is read where it
lies, each row of a tile 64 bytes of a row. B is packed as for instructions on vectors: a row of a tile is the words of
one group.

So that all registers have one configuration, tiles are whole. Where the last rows of A do not exist, those that do are
copied (`_copy`). Nothing is prefetched: the loads of eight tiles are under way at once, and more requests delay them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.cpu.dot.micro import Block, Panel, Parts, Rows, Shape
from tilewright.backends.cpu.dot.plan import Plan
from tilewright.backends.cpu.dot.spec import MergedProducts, Offset, advance, carry, each, plus, times
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.dialects.amx import ROW_BYTES, ROWS, tile_type
from tilewright.dialects.vector import wide_type
from tilewright.ir.core import Value
from tilewright.ir.types import i8


@dataclass(frozen=True)
class CopiedParts(Parts):
    """Products whose rows of a block are copied to `space`, `copy_bytes` apart from each other."""

    space: Value
    copy_bytes: int

    def rows_of(self, ops: LoopBuilder, part: Offset) -> Value:
        return advance(ops, self.space, part, self.copy_bytes)


def blocks_by_tiles(
    ops: LoopBuilder,
    plan: Plan,
    rows: Rows,
    panel: Callable[[Offset], Panel],
    c: Value,
    *,
    columns: Offset,
    workspace: Value,
    merged: MergedProducts | None = None,
) -> None:
    """All blocks of C.

    Args:
        ops: where ops go.
        plan: the plan of the product.
        rows: the rows of A.
        panel: gives the panel of a number.
        c: the address of C.
        columns: the number of panels that count.
        workspace: room for the last rows of A, where `Plan.copies_last_rows` holds.
        merged: the products that are added at once; None: this one alone.
    """
    spec, shape = plan.spec, plan.shape
    product = _Product(ops, plan, rows, panel, c, columns, workspace, merged)
    if spec.rows is None:
        with each(ops, spec.m // shape.rows) as i:
            product.blocks(i)
        return
    count = ops.number(spec.rows)
    whole = ops.udiv(count if plan.copies_last_rows else ops.add(count, shape.rows - 1), shape.rows)
    with each(ops, whole, nonempty=False) as i:
        product.blocks(i)
    if plan.copies_last_rows:
        first = ops.mul(whole, shape.rows)
        with ops.branch(ops.compare("slt", first, count)) as branch, branch.then():
            product.blocks(whole, product.last_rows(first, ops.sub(count, first)))


@dataclass(frozen=True)
class _Product:
    """A product, by the arguments of `blocks_by_tiles`, which all of its blocks share."""

    ops: LoopBuilder
    plan: Plan
    rows: Rows
    panel: Callable[[Offset], Panel]
    c: Value
    columns: Offset
    workspace: Value
    merged: MergedProducts | None

    def blocks(self, i: Offset, copies: Rows | None = None) -> None:
        """The blocks of C of block `i` of the rows of A, which are read from `copies` where there are some."""
        ops, plan, spec = self.ops, self.plan, self.plan.spec
        first, row_bytes = times(ops, i, plan.shape.rows), spec.c_stride * plan.by.accumulator.bits // 8
        rows = replace(self.rows, pointer=advance(ops, self.rows.pointer, first, self.rows.row_bytes))
        start = advance(ops, self.c, first, row_bytes)
        with each(ops, self.columns, nonempty=spec.columns is None) as p:
            place = advance(ops, start, p, plan.shape.vectors * ROW_BYTES)
            block = Block(place, row_bytes, spec.zero_init, adds_last=False)
            parts = self._parts(first, p, copied=copies is not None)
            _block(ops, plan, rows=copies or rows, panel=self.panel(p), block=block, parts=parts)

    def _parts(self, first: Offset, p: Offset, *, copied: bool) -> Parts | None:
        """The products that are added to a block that begins with row `first`, in panel `p`."""
        if self.merged is None:
            return None
        places = times(self.ops, first, self.rows.row_bytes), times(self.ops, p, self.plan.panel_step)
        found = self.merged.count, self.merged.table, *places, None
        return CopiedParts(*found, self.workspace, self.plan.copy_bytes) if copied else Parts(*found)

    def last_rows(self, first: Offset, count: Offset) -> Rows:
        """The `count` rows of A from row `first` on, of all products that are added, copied to the workspace."""
        ops, plan, merged = self.ops, self.plan, self.merged
        bytes = plan.spec.k * plan.by.element_bytes
        if merged is None:
            return _copy(ops, self.rows, first, count, self.workspace, bytes)
        with each(ops, merged.count) as number:
            source = replace(self.rows, pointer=Parts(merged.count, merged.table, 0, 0, None).rows_of(ops, number))
            copies = _copy(ops, source, first, count, advance(ops, self.workspace, number, plan.copy_bytes), bytes)
        return replace(copies, pointer=self.workspace)


def _block(ops: LoopBuilder, plan: Plan, *, rows: Rows, panel: Panel, block: Block, parts: Parts | None) -> None:
    """C (+)= A·B for one block of C.

    Args:
        ops: where ops go.
        plan: the plan of the product.
        rows: the rows of A, which all exist.
        panel: the columns of B.
        block: the place of C.
        parts: the products that are added, of which this is the last; None: this one alone.
    """
    by, shape, groups = plan.by, plan.shape, plan.groups
    down, across = range(shape.rows // ROWS), range(shape.vectors)
    places = [r * ROWS * block.row_bytes + v * ROW_BYTES for r in down for v in across]
    a_rows = [times(ops, r * ROWS, rows.row_bytes) for r in down]
    a_step, b_step = times(ops, ROWS, rows.step_bytes), times(ops, ROWS, panel.step_bytes)
    _zero(ops, by, shape, block)

    def step(_: Offset, carried: list[Value]) -> list[Value]:
        a, b, *sums = carried
        columns = [_load(ops, by, b, v * ROW_BYTES, panel.step_bytes) for v in across]
        for r, offset in enumerate(a_rows):
            row = _load(ops, by, a, offset, rows.row_bytes)
            for v, column in enumerate(columns, r * shape.vectors):
                sums[v] = ops.tile_multiply(row, column, sums[v])
        return [advance(ops, a, a_step), advance(ops, b, b_step), *sums]

    def product(a: Value, b: Value, sums: list[Value]) -> list[Value]:
        return carry(ops, groups // ROWS, step, [a, b, *sums])[2:]

    totals = tile_type(by.accumulator)
    starts = [ops.tile_load(totals, block.pointer, place, block.row_bytes) for place in places]
    if parts is None:
        sums = product(rows.pointer, panel.pointer, starts)
    else:
        found = parts
        sums = carry(
            ops, found.count, lambda n, held: product(found.rows_of(ops, n), found.panel_of(ops, n), held), starts
        )
    for value, place in zip(sums, places, strict=True):
        ops.tile_store(value, block.pointer, place, block.row_bytes)


def _load(ops: LoopBuilder, by: Arithmetic, pointer: Value, offset: Offset, stride: Offset) -> Value:
    return ops.tile_load(tile_type(by.element), pointer, offset, stride)


def _zero(ops: LoopBuilder, by: Arithmetic, shape: Shape, block: Block) -> None:
    """Fill the block with zeros where it is not to be read: registers cannot be copied, so each loads its own."""
    if block.zero_init is False:
        return
    if isinstance(block.zero_init, Value):
        with ops.branch(block.zero_init) as branch, branch.then():
            _fill(ops, by, shape, block)
    else:
        _fill(ops, by, shape, block)


def _fill(ops: LoopBuilder, by: Arithmetic, shape: Shape, block: Block) -> None:
    zeros = ops.constant(0, by.total(shape.lanes))
    with each(ops, shape.rows) as r:
        here = advance(ops, block.pointer, r, block.row_bytes)
        for v in range(shape.vectors):
            ops.store(zeros, here, v * ROW_BYTES, align=by.accumulator.bits // 8)


def _copy(ops: LoopBuilder, rows: Rows, first: Offset, count: Offset, space: Value, row_bytes: int) -> Rows:
    """The `count` rows of A from number `first` on, copied to `space`, where what lies behind them is anything.

    Args:
        ops: where ops go.
        rows: the rows of A.
        first: the number of the first row that is copied.
        count: the number of rows that exist behind it.
        space: the address of room for a block of rows.
        row_bytes: the bytes of a row, a multiple of a tile's.
    """
    piece = wide_type(i8, ROW_BYTES)
    with each(ops, count, nonempty=False) as r:
        source = advance(ops, rows.pointer, plus(ops, first, r), rows.row_bytes)
        into = advance(ops, space, r, row_bytes)
        with each(ops, row_bytes // ROW_BYTES) as part:
            place = times(ops, part, ROW_BYTES)
            ops.store(ops.load(piece, source, place), into, place)
    return Rows(space, row_bytes, rows.step_bytes)
