"""A whole dot on tiles in scratch memory: packing, and loops over the micro-kernel.

for each panel of columns:                    a panel is as wide as a block of C
    pack the panel of B, if its order or grouping asks for it
    for each block of rows:
        prefetch a share of the next tiles
        C block (+)= A rows · B panel
remaining rows: one more body
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.backends.cpu.dot.address import behind, repeat, times
from tilewright.backends.cpu.dot.arithmetic import Arithmetic, select_arithmetic
from tilewright.backends.cpu.dot.micro import Block, Panel, Rows, emit_block
from tilewright.backends.cpu.dot.packing import Packed, bias_rows, copy_rows, interleave_rows
from tilewright.backends.cpu.dot.prefetching import emit_share
from tilewright.backends.cpu.dot.scalar import emit_scalar_dot
from tilewright.backends.cpu.dot.shape import Shape, micro_shape
from tilewright.backends.cpu.dot.spec import DotSpec, Offset, Prefetch
from tilewright.backends.cpu.dot.transpose import transpose_words
from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.spelling import bits_of
from tilewright.backends.llvm.writer import LlvmWriter

LINE = 64


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
    def packs_a(self) -> bool:
        return self.adds_bias or (self.spec.a_transposed and self.by.group > 1)

    @property
    def adds_bias(self) -> bool:
        return self.by.biased and not self.spec.a_biased

    @property
    def packs_b(self) -> bool:
        return self.spec.b_transposed or self.by.group > 1 or isinstance(self.spec.b_stride, str)

    @property
    def a_bytes(self) -> int:
        """Workspace for the packed A."""
        return _lines(self.spec.m * self.spec.k * self.by.element_bytes) if self.packs_a else 0

    @property
    def panel_bytes(self) -> int:
        """Workspace for one packed panel of B."""
        return _lines(self.groups * self.shape.columns * self.by.word_bytes) if self.packs_b else 0

    @property
    def correction_bytes(self) -> int:
        """Workspace for the column sums of one panel."""
        return _lines(self.shape.columns * 4) if self.by.biased else 0


def _lines(bytes: int) -> int:
    return -(-bytes // LINE) * LINE


def _plan(spec: DotSpec, target: Target) -> Plan | None:
    """How to compute the dot by blocks; None when the tile is smaller than one step of the instruction."""
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


def dot_workspace_bytes(spec: DotSpec, target: Target) -> int:
    """Bytes of 64-byte aligned memory that `emit_dot` needs beside the tiles; often 0.

    Raises:
        ValueError: extents that are no powers of two, or types that the target cannot multiply.
    """
    plan = _plan(spec, target)
    return plan.a_bytes + plan.panel_bytes + plan.correction_bytes if plan else 0


def emit_dot(
    w: LlvmWriter, spec: DotSpec, a: str, b: str, c: str, workspace: str, *, prefetch: Sequence[Prefetch] = ()
) -> None:
    """Write code for C (+)= A·B.

    The tiles do not overlap. A product is rounded as the target's multiply-add does: once for f32 and f64 with fused
    instructions; bf16 pairs as `vdpbf16ps` (subnormal inputs count as zero); integers wrap.

    Args:
        w: where the code goes; its target decides about the instructions.
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
    panel_space = behind(w, workspace, plan.a_bytes)
    shape = plan.shape

    def panel(p: Offset, _: list[str]) -> list[str]:
        packed = _panel(w, plan, b, p, panel_space)
        column = behind(w, c, p, shape.columns * bits_of(plan.by.accumulator) // 8)
        _emit_column(w, plan, p, rows, packed, column, prefetch)
        return []

    repeat(w, spec.n // shape.columns, panel)


def _rows(w: LlvmWriter, plan: Plan, a: str, workspace: str) -> Rows:
    """A in the order of the micro-kernel, packed if need be."""
    spec, by = plan.spec, plan.by
    stride = times(w, spec.a_stride, by.element_bytes)
    if not plan.packs_a:
        if spec.a_transposed:
            return Rows(a, by.element_bytes, stride)
        return Rows(a, stride, by.word_bytes)
    if spec.a_transposed:
        lanes = min(spec.m, w.target.lanes(32))
        into = Packed(pointer=workspace, lanes=lanes, columns=spec.m, groups=plan.groups)
        interleave_rows(w, by, a, into, row_bytes=stride, bias=plan.adds_bias)
        return Rows(workspace, by.word_bytes, spec.m * by.word_bytes)
    bias_rows(w, a, workspace, rows=spec.m, row_bytes=stride, width=spec.k, lanes=w.target.lanes(8))
    return Rows(workspace, spec.k, by.word_bytes)


def _panel(w: LlvmWriter, plan: Plan, b: str, index: Offset, space: str) -> Panel:
    """Panel number `index` of B in the order of the micro-kernel, packed if need be."""
    spec, by, shape = plan.spec, plan.by, plan.shape
    stride = times(w, spec.b_stride, by.element_bytes)
    along = stride if spec.b_transposed else by.element_bytes
    first = behind(w, b, index, times(w, shape.columns, along))
    if not plan.packs_b:
        return Panel(first, stride)
    sums = behind(w, space, plan.panel_bytes) if by.biased else None
    into = Packed(pointer=space, lanes=shape.lanes, columns=shape.columns, groups=plan.groups, sums=sums)
    if spec.b_transposed:
        transpose_words(w, by, first, into, row_bytes=stride)
    elif by.group > 1:
        interleave_rows(w, by, first, into, row_bytes=stride)
    else:
        copy_rows(w, by, first, into, row_bytes=stride)
    return Panel(space, shape.columns * by.word_bytes, sums)


def _emit_column(
    w: LlvmWriter, plan: Plan, index: Offset, rows: Rows, panel: Panel, c: str, prefetch: Sequence[Prefetch]
) -> None:
    """All blocks of C that lie in panel number `index`."""
    spec, shape = plan.spec, plan.shape
    c_row_bytes = spec.c_stride * bits_of(plan.by.accumulator) // 8

    def block(i: Offset, shape: Shape) -> None:
        first = times(w, i, plan.shape.rows)
        emit_block(
            w,
            plan.by,
            shape,
            groups=plan.groups,
            rows=replace(rows, pointer=behind(w, rows.pointer, first, rows.row_bytes)),
            panel=panel,
            block=Block(behind(w, c, first, c_row_bytes), c_row_bytes, spec.zero_init),
        )

    full, rest = divmod(spec.m, shape.rows)
    shares = full * (spec.n // shape.columns)

    def full_block(i: Offset, _: list[str]) -> list[str]:
        for soon in prefetch:
            emit_share(w, soon, times(w, index, full), i, shares)
        block(i, shape)
        return []

    repeat(w, full, full_block)
    if rest:
        block(full, replace(shape, rows=rest))
