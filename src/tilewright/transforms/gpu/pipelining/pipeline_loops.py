"""Pipelines the scheduled loops of a module: loads, products and stores of several iterations overlap.

scf.for … {                              copies of the first two tiles
  %x = tt.load %p     {stage 0}    ->    scf.for … {
  %d = tt.dot …       {stage 2}            ttg.async_wait …; %x = ttg.local_load …; %d = tt.dot …
}                                          the copy of the tile after next
                                         }

A wait for a group of copies permits as many pending groups as are committed after that group, on the path with the
fewest of them. Waits with no group committed in between become one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from tilewright.dialects.scf import For
from tilewright.dialects.traits import ControlFlow, Loop
from tilewright.dialects.ttg_async import AsyncCommitGroup, AsyncWait
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import i32
from tilewright.transforms.gpu.pipelining.assign_latencies import DEFAULT_STAGES, StageOptions, stages_of
from tilewright.transforms.gpu.pipelining.descriptors import pipeline_stores
from tilewright.transforms.gpu.pipelining.expand_loops import expand_loops, simplify_arithmetic
from tilewright.transforms.gpu.pipelining.lower_loops import lower_loops
from tilewright.transforms.gpu.pipelining.schedule import loops_of
from tilewright.transforms.gpu.pipelining.wgmma_waits import launch_wgmmas
from tilewright.transforms.matching import following
from tilewright.transforms.op_builder import OpBuilder


def update_waits(module: Op) -> None:
    """Let every wait of `module` wait no longer than it must."""
    waits = [op for op in module.walk() if isinstance(op, AsyncWait)]
    for wait in waits:
        wait.attributes = {**wait.attributes, "num": Number(_groups_after(wait), i32)}
    for wait in waits:
        if wait.block is not None:
            _merge(wait)


def _groups_after(wait: AsyncWait) -> int:
    """Min number of groups closed between those that `wait` waits for and `wait`."""
    return min((_Ways().fewest(token, _in_block_of(token, wait), 0) for token in wait.tokens), default=0)


def _in_block_of(value: Value, op: Op) -> Op:
    """`op`, or the op around it in the block where `value` is defined."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.block
    while op.block is not block:
        parent = op.parent
        assert parent is not None, "a value is defined around its users"
        op = parent
    return op


class _Ways:
    """The ways on which a token comes to an op, and the one with the fewest groups so far."""

    def __init__(self) -> None:
        self._best: int | None = None

    def fewest(self, token: Value, op: Op, count: int) -> int:
        """The least number of groups closed from the origin of `token` to `op`, and `count` more."""
        owner = token.owner
        if isinstance(owner, Op):
            total = count + _commits(owner.next, op)
            self._best = total if self._best is None else min(self._best, total)
            return self._best
        loop = owner.region.op if owner.region is not None else None
        if not isinstance(loop, For):
            return 0
        count += _commits(owner.first, op)
        if self._best is not None and count >= self._best:
            return self._best
        outside = self.fewest(loop.inits[token.index - 1], loop, count)
        around = self.fewest(loop.yielded[token.index - 1], owner.terminator, count)
        return min(outside, around)


def _commits(first: Op | None, end: Op) -> int:
    """The number of groups closed from `first` up to `end`; those in branches do not count."""
    count = 0
    while first is not None and first is not end:
        count += isinstance(first, AsyncCommitGroup)
        first = first.next
    return count


def _merge(wait: AsyncWait) -> None:
    """Let `wait` do for the waits behind it, too."""
    group = [wait, *_following(wait)]
    if len(group) == 1:
        return
    least = min(op.pending for op in group)
    tokens = [token for op in group for token in op.tokens]
    merged = OpBuilder(wait).op("ttg.async_wait", tokens, [wait.result.type], {"num": Number(least, i32)})
    for op in group:
        op.replace(merged.results)


def _following(wait: AsyncWait) -> Iterator[AsyncWait]:
    between = takewhile(lambda op: not _may_close_groups(op), following(wait))
    return (op for op in between if isinstance(op, AsyncWait))


def _may_close_groups(op: Op) -> bool:
    """Whether `op` closes a group, or something in it may."""
    branches = isinstance(op, (ControlFlow, WarpSpecialize)) or op.name == "scf.execute_region"
    return isinstance(op, AsyncCommitGroup) or branches


def pipeline_loops(module: Op, options: StageOptions = DEFAULT_STAGES) -> None:
    """Pipeline the loops of `module` according to their schedules."""
    lower_loops(module)  # loads become copies that run on
    expand_loops(module)  # stages of several iterations run in one
    for loop in loops_of(module, For):
        if stages_of(loop, options.num_stages) >= 1:
            launch_wgmmas(loop)  # products run on, too
    update_waits(module)  # copies of later iterations need not have arrived
    simplify_arithmetic(module)
    for any_loop in loops_of(module, Loop):
        if stages_of(any_loop, options.num_stages) > 1:
            pipeline_stores(any_loop)  # and stores by descriptor
