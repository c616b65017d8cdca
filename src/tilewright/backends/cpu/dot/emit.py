"""A whole dot on tiles in scratch memory: packing, and loops over the micro-kernel.

pack B by panels, if its order, grouping or distance of rows asks for it
for each block of rows:
    for each panel of columns:                a panel is as wide as a block of C
        prefetch a share of the next tiles
        C block (+)= A rows · B panel
remaining rows: one more body

So each row of A is read from its place in memory for one block of rows only. Rows that lie a multiple of 4096 bytes
apart share one set of the L1 cache, which holds 8 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.backends.cpu.dot.address import behind, plus, repeat, times
from tilewright.backends.cpu.dot.arithmetic import Arithmetic, select_arithmetic
from tilewright.backends.cpu.dot.micro import Block, Panel, Rows, emit_block
from tilewright.backends.cpu.dot.packing import BIAS, Packed, copy_rows, interleave_rows
from tilewright.backends.cpu.dot.prefetching import emit_shares
from tilewright.backends.cpu.dot.shape import Shape, micro_shape
from tilewright.backends.cpu.dot.spec import DotSpec, Offset, Prefetch
from tilewright.backends.cpu.dot.transpose import transpose_words
from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.spelling import bits_of, element_of, is_float, literal
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.types import Type

LINE = 64
MANY_PANELS = 4
"""Min panels for which copying a transposed A pays off where vectors are narrow."""


@dataclass(frozen=True)
class Plan:
    """All that is decided about a dot before code is written."""

    spec: DotSpec
    by: Arithmetic
    shape: Shape

    @property
    def groups(self) -> int:
        return self.spec.k // self.by.group

    @property
    def depth(self) -> Offset:
        """The number of groups that count."""
        return self.groups if self.spec.depth is None else self.spec.depth

    @property
    def packs_a(self) -> bool:
        """Whether A is packed: if transposed, it has each k on another cache line, and every panel reads it again."""
        far = isinstance(self.spec.a_stride, str) and self.panels >= MANY_PANELS
        is_narrow = self.shape.lanes * self.by.word_bytes < LINE
        return self.spec.a_transposed and (self.by.group > 1 or (far and is_narrow))

    @property
    def adds_bias(self) -> bool:
        return self.by.biased and not self.spec.a_biased

    @property
    def packs_b(self) -> bool:
        spec = self.spec
        return spec.b_transposed or self.by.group > 1 or isinstance(spec.b_stride, str) or spec.b_step != 1

    @property
    def panels(self) -> int:
        return self.spec.n // self.shape.columns

    @property
    def a_bytes(self) -> int:
        """Workspace for the packed A."""
        return _lines(self.spec.m * self.spec.k * self.by.element_bytes) if self.packs_a else 0

    @property
    def panel_bytes(self) -> int:
        """Workspace for one packed panel of B, without its column sums."""
        return _lines(self.groups * self.shape.columns * self.by.word_bytes) if self.packs_b else 0

    @property
    def panel_step(self) -> int:
        """The distance of packed panels: each is followed by its column sums, if there are any."""
        return self.panel_bytes + (_lines(self.shape.columns * 4) if self.by.biased else 0)


def _lines(bytes: int) -> int:
    return -(-bytes // LINE) * LINE


def _plan(spec: DotSpec, target: Target) -> Plan | None:
    """The plan to compute the dot by blocks; None when the tile is smaller than one step of the instruction."""
    if any(extent < 1 or extent & (extent - 1) for extent in (spec.m, spec.n, spec.k)):
        raise ValueError(f"the extents of a dot are powers of two, not {spec.m}×{spec.n}×{spec.k}")
    if spec.a_type is not spec.b_type:
        raise ValueError(f"the operands of a dot lie in memory as one type, not {spec.a_type} and {spec.b_type}")
    by = select_arithmetic(spec.a_type, spec.acc_type, target)
    if by.group > 1 and (spec.k < by.group or spec.n < 4):
        return None
    if by.biased and spec.b_transposed and spec.k < 16:
        return None
    return Plan(spec, by, micro_shape(spec.m, spec.n, by, target))


def takes_steps(spec: DotSpec, operand: int, target: Target) -> bool:
    """Whether the columns of A (operand 0) or B (operand 1) may lie apart from each other.

    A is read word by word; B is packed. Where words are groups of neighbours, neither works.
    """
    whole = select_arithmetic(spec.a_type, spec.acc_type, target).group == 1
    return whole and (operand == 0 or not spec.b_transposed)


def dot_workspace_bytes(spec: DotSpec, target: Target) -> int:
    """Bytes of 64-byte aligned memory that `emit_dot` needs beside the tiles; often 0.

    Raises:
        ValueError: extents that are no powers of two, or types that the target cannot multiply.
    """
    plan = _plan(spec, target)
    return plan.a_bytes + plan.panels * plan.panel_step if plan else 0


def emit_dot(
    w: LlvmWriter, spec: DotSpec, a: str, b: str, c: str, workspace: str, *, prefetch: Sequence[Prefetch] = ()
) -> None:
    """Write code for C (+)= A·B.

    The tiles do not overlap. A product is rounded as the target's multiply-add does: once for f32 and f64 with fused
    instructions; bf16 pairs as `vdpbf16ps` (subnormal inputs count as zero); integers wrap.

    Args:
        w: the writer that the code goes to; its target decides about the instructions.
        spec: extents, types and order of the tiles.
        a, b, c: addresses of the tiles.
        workspace: address of `dot_workspace_bytes` bytes; not used when those are 0.
        prefetch: memory that will be read next, fetched little by little along the way.

    Raises:
        ValueError: as `dot_workspace_bytes`.
    """
    plan = _plan(spec, w.target)
    if plan is None:
        emit_scalar_dot(w, spec, a, b, c)
        return
    rows = _rows(w, plan, a, workspace)
    panels = _panels(w, plan, b, behind(w, workspace, plan.a_bytes))
    _emit_blocks(w, plan, rows, panels, c, prefetch)


def _rows(w: LlvmWriter, plan: Plan, a: str, workspace: str) -> Rows:
    """A in the order of the micro-kernel, packed if need be."""
    spec, by = plan.spec, plan.by
    stride = times(w, spec.a_stride, by.element_bytes)
    if not plan.packs_a:
        step = times(w, spec.a_step, by.word_bytes if by.group > 1 else by.element_bytes)
        if spec.a_transposed:
            return Rows(a, step, stride)
        return Rows(a, stride, step, plan.adds_bias)
    lanes = min(spec.m, w.target.lanes(8 * by.word_bytes))
    into = Packed(pointer=workspace, lanes=lanes, columns=spec.m, groups=plan.depth)
    if by.group > 1:
        interleave_rows(w, by, a, into, row_bytes=stride, bias=plan.adds_bias)
    else:
        copy_rows(w, by, a, into, row_bytes=stride, step=spec.a_step)
    return Rows(workspace, by.word_bytes, spec.m * by.word_bytes)


def _panels(w: LlvmWriter, plan: Plan, b: str, space: str) -> Callable[[Offset], Panel]:
    """B in the order of the micro-kernel, packed if need be: where panel number … lies."""
    spec, by, shape = plan.spec, plan.by, plan.shape
    stride = times(w, spec.b_stride, by.element_bytes)
    along = stride if spec.b_transposed else times(w, spec.b_step, by.element_bytes)
    width = times(w, shape.columns, along)
    if not plan.packs_b:
        return lambda p: Panel(behind(w, b, p, width), stride)

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
    if spec.b_transposed:
        transpose_words(w, by, b, into, row_bytes=stride)
    elif by.group > 1:
        interleave_rows(w, by, b, into, row_bytes=stride)
    else:
        copy_rows(w, by, b, into, row_bytes=stride, step=spec.b_step)

    def packed(p: Offset) -> Panel:
        pointer = behind(w, space, p, plan.panel_step)
        sums = None if sums_at is None else behind(w, pointer, sums_at)
        return Panel(pointer, shape.columns * by.word_bytes, sums)

    return packed


def _emit_blocks(
    w: LlvmWriter, plan: Plan, rows: Rows, panel: Callable[[Offset], Panel], c: str, prefetch: Sequence[Prefetch]
) -> None:
    """All blocks of C."""
    spec, by = plan.spec, plan.by
    c_bytes = bits_of(by.accumulator) // 8
    row_bytes, width = spec.c_stride * c_bytes, plan.shape.columns * c_bytes
    full, rest = divmod(spec.m, plan.shape.rows)

    def blocks(i: Offset, shape: Shape, soon: Sequence[Prefetch]) -> None:
        first = times(w, i, plan.shape.rows)
        here = replace(rows, pointer=behind(w, rows.pointer, first, rows.row_bytes))
        start = behind(w, c, first, row_bytes)

        def block(p: Offset, _: list[str]) -> list[str]:
            if soon:
                emit_shares(w, soon, plus(w, times(w, i, plan.panels), p), full * plan.panels)
            place = Block(behind(w, start, p, width), row_bytes, spec.zero_init)
            emit_block(w, by, shape, groups=plan.depth, rows=here, panel=panel(p), block=place)
            return []

        repeat(w, plan.panels, block)

    def full_row(i: Offset, _: list[str]) -> list[str]:
        blocks(i, plan.shape, prefetch)
        return []

    repeat(w, full, full_row)
    if rest:
        blocks(full, replace(plan.shape, rows=rest), ())


def emit_scalar_dot(w: LlvmWriter, spec: DotSpec, a: str, b: str, c: str) -> None:
    """Write three loops; the arguments are those of `emit_dot`."""
    acc = element_of(spec.acc_type)
    acc_bytes = bits_of(acc) // 8
    a_row, a_step = _strides(w, spec.a_type, spec.a_stride, transposed=spec.a_transposed)
    b_step, b_column = _strides(w, spec.b_type, spec.b_stride, transposed=spec.b_transposed)

    def element(i: Offset, j: Offset) -> None:
        row, column = behind(w, a, i, a_row), behind(w, b, j, b_column)
        place = behind(w, behind(w, c, i, spec.c_stride * acc_bytes), j, acc_bytes)

        def step(p: Offset, carried: list[str]) -> list[str]:
            left = _widened(w, spec.a_type, behind(w, row, p, a_step), acc, biased=spec.a_biased)
            right = _widened(w, spec.b_type, behind(w, column, p, b_step), acc)
            if is_float(acc):
                return [w.fma(acc, left, right, carried[0])]
            return [w.emit(f"add {acc} {carried[0]}, {w.emit(f'mul {acc} {left}, {right}')}")]

        start = literal(0, acc) if spec.zero_init else w.load(acc, place, align=acc_bytes)
        (total,) = repeat(w, spec.k, step, [(acc, start)])
        w.store(acc, total, place, align=acc_bytes)

    def row(i: Offset, _: list[str]) -> list[str]:
        def column(j: Offset, _: list[str]) -> list[str]:
            element(i, j)
            return []

        repeat(w, spec.n, column)
        return []

    repeat(w, spec.m, row)


def _strides(w: LlvmWriter, type: Type, stride: Offset, *, transposed: bool) -> tuple[Offset, Offset]:
    """Bytes between neighbours along the first and the second axis."""
    near = type.bits // 8
    far = times(w, stride, near)
    return (near, far) if transposed else (far, near)


def _widened(w: LlvmWriter, type: Type, pointer: str, acc: str, *, biased: bool = False) -> str:
    element = element_of(type)
    value = w.load(element, pointer, align=type.bits // 8)
    if biased:
        value = w.emit(f"xor {element} {value}, {BIAS}")
    return w.convert("fpext" if is_float(element) else "sext", value, element, acc)
