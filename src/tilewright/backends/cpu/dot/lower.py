"""A whole dot on tiles in scratch memory: packing, and loops over the micro-kernel.

pack B by panels, if its order, grouping or distance of rows asks for it
for each block of rows:
    for each panel of columns:                a panel is as wide as a block of C
        prefetch a share of the next tiles
        C block (+)= A rows · B panel
remaining rows: one more body

So each row of A is read from its memory for one block of rows only. Rows that are a multiple of 4096 bytes apart share
one set of the L1 cache, which holds 8 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from tilewright.backends.cpu.dot.micro import Block, Panel, Parts, Rows, Shape, block_of_c
from tilewright.backends.cpu.dot.packing import BIAS, Packed, copy_rows, copy_words, interleave_rows
from tilewright.backends.cpu.dot.packing_choice import are_apart, packing_pays_off
from tilewright.backends.cpu.dot.plan import Plan, plan_of
from tilewright.backends.cpu.dot.prefetching import Result, asks_both, at_any_step, prefetch_shares, until_the_result
from tilewright.backends.cpu.dot.spec import (
    DotSpec,
    MergedProducts,
    Offset,
    Prefetch,
    advance,
    carry,
    each,
    plus,
    times,
)
from tilewright.backends.cpu.dot.tiles import blocks_by_tiles
from tilewright.backends.cpu.dot.transpose import transpose_words
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.llvm.cpu_costs import PAGE, SINGLE_ROW
from tilewright.backends.llvm.machine import Target
from tilewright.ir.core import Value
from tilewright.ir.types import FloatType, Type

Kept: TypeAlias = tuple[Value, Value]
"""An address at which a packed B is kept, and an i1 that says whether it is there."""


def dot_workspace_bytes(spec: DotSpec, target: Target) -> int:
    """Bytes of 64-byte aligned memory that `lower_dot` needs beside the tiles; often 0.

    Raises:
        ValueError: extents that are no powers of two, or types that the target cannot multiply.
    """
    plan = plan_of(spec, target)
    return plan.a_bytes + plan.panels * plan.panel_step if plan else 0


def lower_dot(
    ops: LoopBuilder,
    target: Target,
    spec: DotSpec,
    a: Value,
    b: Value,
    c: Value,
    workspace: Value,
    *,
    kept: Kept | None = None,
    prefetch: Sequence[Prefetch] = (),
    goes_on: Value | None = None,
    merged: MergedProducts | None = None,
) -> None:
    """Build the loops for C (+)= A·B.

    The tiles do not overlap. A product is rounded as the target's multiply-add does: once for f32 and f64 with fused
    instructions; bf16 pairs as `vdpbf16ps` (subnormal inputs count as zero); integers wrap.

    Args:
        ops: where the ops go.
        target: the machine, which decides about the instructions.
        spec: extents, types and order of the tiles.
        a, b, c: addresses of the tiles, as pointers to bytes.
        workspace: address of `dot_workspace_bytes` bytes; not used when those are 0.
        kept: where the packed B goes instead, and whether it is there already, from a product with the same numbers.
        prefetch: memory that will be used next, fetched little by little along the way: of A, of B, or both in order;
            behind both perhaps that which C goes to.
        goes_on: whether it will be read at all, as far as that is known.
        merged: the products that are computed at once, where iterations may wait for each other; B is then kept.

    Raises:
        ValueError: as `dot_workspace_bytes`.
    """
    plan = plan_of(spec, target)
    if plan is None:
        _number_by_number(ops, spec, a, b, c, fused=target.has_fma)
        return
    prefetch = at_any_step(ops, spec, prefetch, None if kept is None else kept[1])
    rows = _rows(ops, target, plan, a, workspace)
    further = _next_right(ops, plan, b, prefetch, goes_on)
    space = (advance(ops, workspace, plan.a_bytes), None) if kept is None else kept
    panels = _panels(ops, target, plan, b, space, further)
    if plan.by.tiles:
        columns, _ = _columns(ops, plan)
        with _unless(ops, None if merged is None else merged.waits):
            blocks_by_tiles(ops, plan, rows, panels, c, columns=columns, workspace=workspace, merged=merged)
        return
    if spec.rows is None or not plan.expects_few_rows:
        with _unless(ops, None if merged is None else merged.waits):
            _blocks(ops, plan, rows, panels, c, prefetch, goes_on, merged)
        return
    with ops.branch(_has_few_rows(ops, plan, spec.rows)) as branch:
        with branch.then():
            _row_by_row(ops, plan, rows, panels, c, spec.rows, target.costs.chains)
        with branch.otherwise():
            _blocks(ops, plan, rows, panels, c, prefetch, goes_on)


def _rows(ops: LoopBuilder, target: Target, plan: Plan, a: Value, workspace: Value) -> Rows:
    """A in the order of the micro-kernel, packed if need be."""
    spec, by = plan.spec, plan.by
    stride = times(ops, spec.a_stride, by.element_bytes)
    if not plan.packs_a:
        step = times(ops, spec.a_step, by.word_bytes if by.group > 1 else by.element_bytes)
        if plan.may_copy_a:
            return _copied_if_colliding(ops, plan, a, workspace, stride)
        if spec.a_transposed:
            return Rows(a, step, stride)
        return Rows(a, stride, step, plan.adds_bias)
    lanes = 2 if plan.pairs_a else min(spec.m, target.lanes(8 * by.word_bytes))
    into = Packed(pointer=workspace, lanes=lanes, columns=spec.m, groups=plan.depth)
    if plan.pairs_a:
        transpose_words(ops, by, a, into, target=target, row_bytes=stride)
    elif by.group > 1:
        interleave_rows(ops, by, a, into, target=target, row_bytes=stride, bias=plan.adds_bias)
    else:
        copy_rows(ops, by, a, into, row_bytes=stride, step=spec.a_step)
    return Rows(workspace, by.word_bytes, spec.m * by.word_bytes)


def _copied_if_colliding(ops: LoopBuilder, plan: Plan, a: Value, workspace: Value, stride: Offset) -> Rows:
    """A, which lies as [k][m] and whose rows are `stride` bytes apart, copied where these are whole pages."""
    spec, by = plan.spec, plan.by
    into = Packed(pointer=workspace, lanes=min(spec.m, plan.shape.lanes), columns=spec.m, groups=plan.depth)
    with ops.branch(are_apart(ops, times(ops, spec.a_stride, by.element_bytes), PAGE)) as branch, branch.then():
        copy_rows(ops, by, a, into, row_bytes=stride)
    step = branch.join(ops.number(spec.m * by.word_bytes), ops.number(stride))
    return Rows(branch.join(workspace, a), by.word_bytes, step)


def kept_bytes(spec: DotSpec, target: Target, *, computed: bool = False) -> int:
    """Bytes that the packed B of a product takes; 0 where it is not worth keeping.

    A `computed` one is, but for tiles of few rows: programs of one column of tiles are few then, and often one.

    Rows that only have to be interleaved are packed about as fast as panels come back from the L2 cache, unless
    multiply-adds are fast, too.
    """
    plan = plan_of(spec, target)
    if plan is None or not plan.packs_b or (computed and not plan.rereads_b):
        return 0
    bytes = plan.panels * plan.panel_step
    is_interleaved = plan.by.group > 1 and not spec.b_transposed
    least = target.costs.kept_groups if is_interleaved and not computed else 1
    return bytes if 0 < least <= bytes else 0


def _next_right(
    ops: LoopBuilder, plan: Plan, b: Value, prefetch: Sequence[Prefetch], goes_on: Value | None
) -> Value | None:
    """How many bytes behind B the next one is, if single rows ask for it: a B in a buffer is computed from others."""
    soon = [tile.pointer for tile in prefetch if tile.operand == 1]
    if not (plan.expects_few_rows and plan.fetches_by_rows and soon and isinstance(plan.spec.b_stride, Value)):
        return None
    further = ops.sub(ops.address(soon[0]), ops.address(b))
    return further if goes_on is None else ops.select(goes_on, further, 0)


def _panels(
    ops: LoopBuilder,
    target: Target,
    plan: Plan,
    b: Value,
    packed: tuple[Value, Value | None],
    further: Value | None,
) -> Callable[[Offset], Panel]:
    """B in the order of the micro-kernel, packed if need be: where panel number … lies.

    Args:
        packed: where B goes, and an i1 whether it is there already; None: it is not.
        further: where the next B lies behind this one, to be fetched if B is read in place.
    """
    spec, by, shape = plan.spec, plan.by, plan.shape
    stride = times(ops, spec.b_stride, by.element_bytes)
    along = stride if spec.b_transposed else times(ops, spec.b_step, by.element_bytes)
    width = times(ops, shape.columns, along)
    if not plan.packs_b:
        return lambda p: Panel(advance(ops, b, p, width), stride, further=further)

    space, is_there = packed
    sums_at = plan.panel_bytes if by.biased else None
    into = Packed(
        pointer=space,
        lanes=shape.lanes,
        columns=shape.columns,
        groups=plan.depth,
        panels=plan.panels,
        panel_step=plan.panel_step,
        sums_at=sums_at,
    )
    place: tuple[Value, Offset, Offset] = space, plan.panel_step, shape.columns * by.word_bytes
    pays_off = packing_pays_off(ops, spec, target)
    if pays_off is None:
        further = None
        with _unless(ops, is_there):
            _pack(ops, target, plan, b, into, stride)
    else:
        with ops.branch(pays_off) as branch, branch.then(), _unless(ops, is_there):
            _pack(ops, target, plan, b, into, stride)
        places = zip(place[1:], (shape.columns * by.element_bytes, stride), strict=True)
        between, step = (branch.join(ops.number(packed), ops.number(there)) for packed, there in places)
        place = branch.join(space, b), between, step
        further = None if further is None else branch.join(ops.number(0), further)
    start, panel_bytes, step_bytes = place

    def panel(p: Offset) -> Panel:
        pointer = advance(ops, start, p, panel_bytes)
        sums = None if sums_at is None else advance(ops, pointer, sums_at)
        return Panel(pointer, step_bytes, sums, further)

    return panel


@contextmanager
def _unless(ops: LoopBuilder, condition: Value | None) -> Iterator[None]:
    """Let ops be executed where `condition` does not hold; None: always."""
    if condition is None:
        yield
    else:
        with ops.branch(condition) as branch, branch.otherwise():
            yield


def _pack(ops: LoopBuilder, target: Target, plan: Plan, b: Value, into: Packed, stride: Offset) -> None:
    """Bring B, whose rows lie `stride` bytes apart, into the order of the micro-kernel."""
    spec, by = plan.spec, plan.by
    if spec.b_transposed:
        transpose_words(ops, by, b, into, target=target, row_bytes=stride)
    elif by.group > 1:
        interleave_rows(ops, by, b, into, target=target, row_bytes=stride)
    else:
        otherwise = partial(_transpose_or_copy, ops, target, plan, b, into, stride)
        copy_rows(ops, by, b, into, row_bytes=stride, step=spec.b_step, otherwise=otherwise)


def _transpose_or_copy(ops: LoopBuilder, target: Target, plan: Plan, b: Value, into: Packed, stride: Offset) -> None:
    """Pack B, whose columns are far apart: where its rows turn out to be neighbours, and all count, it lies transposed.

    Only the last iteration of a loop along k has fewer rows.
    """
    spec, by = plan.spec, plan.by
    across = ops.compare("eq", ops.number(spec.b_stride), 1)
    if spec.depth is not None:
        across = ops.and_(across, ops.compare("eq", ops.number(spec.depth), spec.k))
    with ops.branch(across) as branch:
        with branch.then():
            whole, step = replace(into, groups=plan.groups), times(ops, spec.b_step, by.word_bytes)
            transpose_words(ops, by, b, whole, target=target, row_bytes=step, short=True)
        with branch.otherwise():
            copy_words(ops, by, b, into, row_bytes=stride, step=spec.b_step)


def _blocks(
    ops: LoopBuilder,
    plan: Plan,
    rows: Rows,
    panel: Callable[[Offset], Panel],
    c: Value,
    prefetch: Sequence[Prefetch],
    goes_on: Value | None,
    merged: MergedProducts | None = None,
) -> None:
    """All blocks of C.

    Where one vector is all that counts of a panel, the block takes so little time that only A is fetched meanwhile.
    """
    spec, by = plan.spec, plan.by
    c_bytes = by.accumulator.bits // 8
    row_bytes, width = spec.c_stride * c_bytes, plan.shape.columns * c_bytes
    whole, rest_of_columns = _columns(ops, plan)
    ahead, result = until_the_result(ops, prefetch, goes_on)

    def blocks(i: Offset, shape: Shape, soon: Sequence[Prefetch]) -> None:
        first = times(ops, i, plan.shape.rows)
        here = _rows_from(ops, plan, rows, first)
        start, one = advance(ops, c, first, row_bytes), replace(shape, vectors=1)
        product = partial(block_of_c, ops, by, groups=plan.depth, rows=here, row_offsets=here.offsets(ops, shape.rows))

        def parts(first: Offset, p: Offset) -> Parts | None:
            if merged is None:
                return None
            places = times(ops, first, rows.row_bytes), times(ops, p, plan.panel_step)
            return Parts(merged.count, merged.table, *places, plan.panel_bytes if by.biased else None)

        def fetch(p: Offset, tiles: Sequence[Prefetch], result: Result | None = None) -> None:
            count = spec.m // plan.shape.rows * plan.panels
            prefetch_shares(ops, tiles, plus(ops, times(ops, i, plan.panels), p), count, result)

        with each(ops, whole, nonempty=spec.columns is None) as p:
            if soon:
                fetch(p, ahead, result)
            place = Block(advance(ops, start, p, width), row_bytes, spec.zero_init, plan.adds_last)
            product(shape, panel=panel(p), block=place, parts=parts(first, p))
        if rest_of_columns == 0:
            return
        with each(ops, rest_of_columns, nonempty=False) as v:
            if asks_both(soon) and goes_on is not None:
                with ops.branch(goes_on) as branch, branch.then():
                    fetch(whole, soon[:1])
            near = advance(ops, advance(ops, start, whole, width), v, one.columns * c_bytes)
            part = panel(whole).advance(ops, times(ops, v, one.columns * by.word_bytes))
            place = Block(near, row_bytes, spec.zero_init, by.group > 1)
            product(one, panel=part, block=place)

    half_block = partial(_half_block, ops, plan, rows, panel, c, columns=(whole, rest_of_columns))
    _every_row(ops, plan, blocks, half_block, prefetch)


def _every_row(
    ops: LoopBuilder,
    plan: Plan,
    blocks: Callable[[Offset, Shape, Sequence[Prefetch]], None],
    half_block: Callable[[Value], None],
    prefetch: Sequence[Prefetch],
) -> None:
    """The rows of blocks that count, each by `blocks`, but for the upper half of a last one."""
    spec, height = plan.spec, plan.shape.rows
    full, rest = divmod(spec.m, height)

    short = rest or plan.half_rows
    count = full if spec.rows is None else ops.udiv(ops.add(spec.rows, height - 1 - short), height)
    with each(ops, count, nonempty=spec.rows is None) as i:
        blocks(i, plan.shape, prefetch)
    if spec.rows is None:
        if rest:
            blocks(full, replace(plan.shape, rows=rest), ())
    elif short:
        with ops.branch(ops.compare("sgt", ops.number(spec.rows), ops.mul(count, height))) as branch, branch.then():
            if rest:
                blocks(count, replace(plan.shape, rows=rest), prefetch)
            else:
                half_block(ops.number(count))


def _rows_from(ops: LoopBuilder, plan: Plan, rows: Rows, first: Offset) -> Rows:
    """The rows of A from `first` on; the last one that counts stands for those behind it."""
    count = plan.spec.rows
    last = ops.sub(count, plus(ops, first, 1)) if count is not None and plan.cuts_a else None
    return replace(rows, pointer=advance(ops, rows.pointer, first, rows.row_bytes), last=last)


def _half_block(
    ops: LoopBuilder,
    plan: Plan,
    rows: Rows,
    panel: Callable[[Offset], Panel],
    c: Value,
    number: Value,
    columns: tuple[Offset, Offset],
) -> None:
    """The upper half of a block of rows, vector by vector, so that one small body does for all columns.

    Args:
        number: the number of the block, which is the last one with rows that count.
        columns: the number of panels that are computed, and of vectors of one more.
    """
    spec, by, one = plan.spec, plan.by, replace(plan.shape, rows=plan.half_rows, vectors=1)
    c_bytes, bits = by.accumulator.bits // 8, plan.shape.vectors.bit_length() - 1
    first = times(ops, number, plan.shape.rows)
    here = _rows_from(ops, plan, rows, first)
    start, offsets = advance(ops, c, first, spec.c_stride * c_bytes), here.offsets(ops, one.rows)

    whole, rest = columns
    count = plus(ops, times(ops, whole, plan.shape.vectors), rest)
    with each(ops, count, nonempty=spec.columns is None) as v:
        at = ops.number(v)
        part = panel(ops.lshr(at, bits)).advance(
            ops, times(ops, ops.and_(at, plan.shape.vectors - 1), one.columns * by.word_bytes)
        )
        near = advance(ops, start, v, one.columns * c_bytes)
        place = Block(near, spec.c_stride * c_bytes, spec.zero_init, by.group > 1)
        block_of_c(ops, by, one, groups=plan.depth, rows=here, row_offsets=offsets, panel=part, block=place)


def _has_few_rows(ops: LoopBuilder, plan: Plan, count: Offset) -> Value:
    """Whether so few rows count that each is computed alone, and all columns of B can be read in place."""
    spec = plan.spec
    found = ops.compare("sle", ops.number(count), plan.shape.rows // SINGLE_ROW)
    if spec.columns is not None:
        found = ops.and_(found, ops.compare("sgt", ops.number(spec.columns), spec.n - plan.column_step))
    return found if spec.b_step == 1 else ops.and_(found, ops.compare("eq", ops.number(spec.b_step), 1))


def _row_by_row(
    ops: LoopBuilder, plan: Plan, rows: Rows, panel: Callable[[Offset], Panel], c: Value, count: Offset, chains: int
) -> None:
    """The first `count` rows, one after the other, each with as many columns at once as there may be chains."""
    spec, by, lanes = plan.spec, plan.by, plan.shape.lanes
    shape = Shape(1, min(spec.n // lanes, chains), lanes)
    c_bytes = by.accumulator.bits // 8

    with each(ops, count, nonempty=False) as r:
        here = replace(rows, pointer=advance(ops, rows.pointer, r, rows.row_bytes))
        start = advance(ops, c, r, spec.c_stride * c_bytes)
        with each(ops, spec.n // shape.columns) as p:
            part = panel(times(ops, p, shape.vectors // plan.shape.vectors))
            place = Block(advance(ops, start, p, shape.columns * c_bytes), 0, spec.zero_init, by.group > 1)
            block_of_c(ops, by, shape, groups=plan.depth, rows=here, row_offsets=[0], panel=part, block=place)


def _columns(ops: LoopBuilder, plan: Plan) -> tuple[Offset, Offset]:
    """The panels that are computed, and the vectors of one more panel."""
    columns, step = plan.spec.columns, plan.column_step
    if columns is None:
        return plan.panels, 0
    steps = ops.lshr(ops.number(plus(ops, columns, step - 1)), step.bit_length() - 1)
    if step == plan.shape.columns:
        return steps, 0
    return ops.lshr(steps, plan.shape.vectors.bit_length() - 1), ops.and_(steps, plan.shape.vectors - 1)


def _number_by_number(ops: LoopBuilder, spec: DotSpec, a: Value, b: Value, c: Value, *, fused: bool) -> None:
    """Three loops; the arguments are those of `lower_dot`."""
    acc = spec.acc_type
    acc_bytes = acc.bits // 8
    a_row, a_step = _strides(ops, spec.a_type, spec.a_stride, transposed=spec.a_transposed)
    b_step, b_column = _strides(ops, spec.b_type, spec.b_stride, transposed=spec.b_transposed)

    def element(i: Offset, j: Offset) -> None:
        row, column = advance(ops, a, i, a_row), advance(ops, b, j, b_column)
        place = advance(ops, advance(ops, c, i, spec.c_stride * acc_bytes), j, acc_bytes)

        def step(p: Offset, carried: list[Value]) -> list[Value]:
            left = _widened(ops, spec.a_type, row, times(ops, p, a_step), acc, biased=spec.a_biased)
            right = _widened(ops, spec.b_type, column, times(ops, p, b_step), acc)
            if isinstance(acc, FloatType):
                return [ops.fma(left, right, carried[0], fused=fused)]
            return [ops.add(carried[0], ops.mul(left, right))]

        start = ops.constant(0, acc)
        if spec.zero_init is not True:
            held = ops.load(acc, place, align=acc_bytes)
            start = held if spec.zero_init is False else ops.select(spec.zero_init, start, held)
        (total,) = carry(ops, spec.k, step, [start])
        ops.store(total, place, align=acc_bytes)

    rows = spec.m if spec.rows is None else spec.rows
    with each(ops, rows, nonempty=spec.rows is None) as i, each(ops, spec.n) as j:
        element(i, j)


def _strides(ops: LoopBuilder, type: Type, stride: Offset, *, transposed: bool) -> tuple[Offset, Offset]:
    """Bytes between neighbours along the first and the second axis."""
    near = type.bits // 8
    far = times(ops, stride, near)
    return (near, far) if transposed else (far, near)


def _widened(ops: LoopBuilder, type: Type, pointer: Value, offset: Offset, acc: Type, *, biased: bool = False) -> Value:
    value = ops.load(type, pointer, offset, align=type.bits // 8)
    if biased:
        value = ops.xor(value, BIAS)
    return ops.convert("extf" if isinstance(type, FloatType) else "extsi", value, acc)
