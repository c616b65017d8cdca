"""Unroll-and-jam of rows: rows of few vectors go through each phase of their nest side by side.

    "cpu.nest"() <{mode = rows, outer = array<i64: 128>}> ({    →    "cpu.nest"() <{…, together = 4}> ({

A reduction ends in a chain of a few lanes, and a loop that adds to one vector waits for each addition; another row's
work fills that time. Rows that need separate loops are not joined, because the work would not be near enough.
"""

from __future__ import annotations

from tilewright.backends.cpu.costs import SINKS, is_tile
from tilewright.backends.cpu.loop_builder import operand_of
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.backends.cpu.strides import run_time_strides
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.cpu import Accumulate, Write
from tilewright.dialects.cpu import Nest as NestOp
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.core import Op

ROWS_TOGETHER = 2
"""Rows that go side by side where a loop along them waits for the reduction of another one."""
SHORT_ROW = 4
"""Max vectors of a row without a loop."""


def join_rows(module: Op, target: Target) -> bool:
    """Choose how many rows the nests of `module` (ttcir) process at once; returns whether any processes several."""
    found = {op: _rows(op, target) for op in module.ops_of(NestOp) if _is_simple(op)}
    for nest, rows in found.items():
        nest.mark(together=rows)
    return any(rows > 1 for rows in found.values())


def _is_simple(op: NestOp) -> bool:
    """Whether it has rows and no more than sums and writes; what is kept for one row allows one row only."""
    sinks = op.body.ops_of(SINKS)
    has_rows = op.mode == "rows" and bool(op.outer)
    return has_rows and all(isinstance(r, Reduce) or (isinstance(r, Write) and not r.row) for r in sinks)


def _rows(op: NestOp, target: Target) -> int:
    """The number of rows that go through each phase side by side."""
    for loop in op.body.ops_of(Accumulate):
        return _rows_of_loop(Nest(op), loop, target)
    if op.outer[-1] == 1 or op.body.ops_of(Load):
        return 1
    nest = Nest(op)
    extents = {r: nest.inner_extent(r) for r in nest.sinks}
    short = max(extents.values()) <= SHORT_ROW * op.lanes
    phases = {nest.phases[r] for r, extent in extents.items() if extent > 1}
    return ROWS_TOGETHER if short and len(phases) > 1 else 1


def _rows_of_loop(nest: Nest, op: Accumulate, target: Target) -> int:
    """The number of rows that the loop `op` of the kernel goes through side by side: as many as registers hold.

    Elements that are no neighbours are what takes time, and code.
    """
    costs = target.costs
    if op.extent == 1 or any(not isinstance(operand_of(stride), int) for stride in run_time_strides(nest.op)):
        return 1
    chunks = op.extent // min(op.extent, nest.op.lanes)
    if min(nest.op.chunks, default=1) < chunks:
        return 1
    vectors = chunks * sum(map(is_tile, op.results))
    rows = max(1, min(costs.chains // chunks, costs.registers // (2 * vectors)))
    return min(nest.outer[-1], 1 << (rows.bit_length() - 1))
