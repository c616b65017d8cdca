"""A whole dot on tiles in scratch memory: packing, and loops over the micro-kernel.

pack the first panel of B, if its order, grouping or distance of rows asks for it
for each panel of columns:                    a panel is as wide as a block of C
    for each block of rows:
        pack a share of the next panel
        prefetch a share of the next tiles
        C block (+)= A rows · B panel
remaining rows: one more body

Packing waits for memory, the micro-kernel for the multipliers: side by side they take little more time than the latter
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.backends.cpu.dot.address import behind, repeat, times
from tilewright.backends.cpu.dot.arithmetic import Arithmetic, select_arithmetic
from tilewright.backends.cpu.dot.micro import Block, Panel, Rows, emit_block
from tilewright.backends.cpu.dot.packing import Packed, copy_rows, interleave_rows
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
        return self.spec.a_transposed and self.by.group > 1

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
    def share(self) -> int:
        """Groups of the next panel to pack with each block of rows; 0: a panel is packed in front of its use.

        Rows along k that are read in parts of lines would be fetched again and again.
        """
        full = self.spec.m // self.shape.rows
        if not self.packs_b or self.by.biased or self.panels == 1 or self.groups % full:
            return 0
        share = self.groups // full
        reads_lines = not self.spec.b_transposed or share * self.by.word_bytes >= LINE
        return share if reads_lines else 0

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


def takes_steps(spec: DotSpec, operand: int, target: Target) -> bool:
    """May the columns of A (operand 0) or B (operand 1) lie apart from each other?

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
    return plan.a_bytes + plan.panel_bytes * (2 if plan.share else 1) + plan.correction_bytes if plan else 0


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

    def column(p: Offset, packed: Panel, before: Callable[[Offset], None]) -> None:
        here = behind(w, c, p, shape.columns * bits_of(plan.by.accumulator) // 8)
        _emit_column(w, plan, p, rows, packed, here, prefetch, before)

    def panel(p: Offset, _: list[str]) -> list[str]:
        column(p, _panel(w, plan, b, p, panel_space), lambda _: None)
        return []

    def panel_ahead(p: Offset, _: list[str]) -> list[str]:
        odd = w.emit(f"and i64 {p}, 1")
        here = behind(w, panel_space, odd, plan.panel_bytes)
        there = behind(w, panel_space, w.emit(f"xor i64 {odd}, 1"), plan.panel_bytes)
        following = w.emit(f"add i64 {p}, 1")
        more = w.emit(f"icmp slt i64 {following}, {plan.panels}")

        def before(block: Offset) -> None:
            with w.branch(more) as branch, branch.then():
                _panel(w, plan, b, following, there, share=block)

        column(p, Panel(here, shape.columns * plan.by.word_bytes), before)
        return []

    if plan.share:
        _panel(w, plan, b, 0, panel_space)
    repeat(w, plan.panels, panel_ahead if plan.share else panel)


def _rows(w: LlvmWriter, plan: Plan, a: str, workspace: str) -> Rows:
    """A in the order of the micro-kernel, packed if need be."""
    spec, by = plan.spec, plan.by
    stride = times(w, spec.a_stride, by.element_bytes)
    if not plan.packs_a:
        step = times(w, spec.a_step, by.word_bytes if by.group > 1 else by.element_bytes)
        if spec.a_transposed:
            return Rows(a, step, stride)
        return Rows(a, stride, step, plan.adds_bias)
    lanes = min(spec.m, w.target.lanes(32))
    into = Packed(pointer=workspace, lanes=lanes, columns=spec.m, groups=plan.groups)
    interleave_rows(w, by, a, into, row_bytes=stride, bias=plan.adds_bias)
    return Rows(workspace, by.word_bytes, spec.m * by.word_bytes)


def _panel(w: LlvmWriter, plan: Plan, b: str, index: Offset, space: str, *, share: Offset | None = None) -> Panel:
    """Panel number `index` of B in the order of the micro-kernel, packed if need be; or one share of it."""
    spec, by, shape = plan.spec, plan.by, plan.shape
    stride = times(w, spec.b_stride, by.element_bytes)
    along = stride if spec.b_transposed else times(w, spec.b_step, by.element_bytes)
    first = behind(w, b, index, times(w, shape.columns, along))
    if not plan.packs_b:
        return Panel(first, stride)
    sums = behind(w, space, plan.panel_bytes) if by.biased else None
    groups = plan.groups
    if share is not None:
        groups = plan.share
        begin = times(w, share, plan.share)
        first = behind(w, first, begin, by.word_bytes if spec.b_transposed else times(w, by.group, stride))
        space = behind(w, space, begin, shape.columns * by.word_bytes)
    into = Packed(pointer=space, lanes=shape.lanes, columns=shape.columns, groups=groups, sums=sums)
    if spec.b_transposed:
        transpose_words(w, by, first, into, row_bytes=stride)
    elif by.group > 1:
        interleave_rows(w, by, first, into, row_bytes=stride)
    else:
        copy_rows(w, by, first, into, row_bytes=stride, step=spec.b_step)
    return Panel(space, shape.columns * by.word_bytes, sums)


def _emit_column(
    w: LlvmWriter,
    plan: Plan,
    index: Offset,
    rows: Rows,
    panel: Panel,
    c: str,
    prefetch: Sequence[Prefetch],
    before: Callable[[Offset], None],
) -> None:
    """All blocks of C that lie in panel number `index`; `before` is called in front of each."""
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
        before(i)
        for soon in prefetch:
            emit_share(w, soon, times(w, index, full), i, shares)
        block(i, shape)
        return []

    repeat(w, full, full_block)
    if rest:
        block(full, replace(shape, rows=rest))
