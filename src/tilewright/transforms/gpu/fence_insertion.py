"""Fences that make threads' writes to shared memory visible to matrix instructions.

    %a = ttg.local_alloc %x : …                         %a = ttg.local_alloc %x : …
    scf.for … {                                         ttng.fence_async_shared {bCluster = false}
      ttng.warp_group_dot %a, …                         scf.for … { ttng.warp_group_dot %a, … }

`wgmma` and `tcgen05.mma` read shared memory through the asynchronous proxy, which does not see stores of threads
without a fence. Copies by TMA go through that proxy themselves and need none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.analysis.buffer_aliases import users_through_views
from tilewright.dialects.scf import For, If
from tilewright.dialects.traits import Loop
from tilewright.dialects.ttg_async import AsyncCopyGlobalToLocal
from tilewright.dialects.ttg_memory import LocalAlloc, LocalStore
from tilewright.dialects.ttg_warp_specialize import WarpSpecializePartitions
from tilewright.dialects.ttng_barriers import FenceAsyncShared
from tilewright.dialects.ttng_mma import AsyncMma
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import MemDescType
from tilewright.transforms.matching import is_in
from tilewright.transforms.op_builder import OpBuilder

STORES = (LocalStore, AsyncCopyGlobalToLocal)
"""Ops by which threads write to a buffer that was allocated before; what `cp.async` copies counts as theirs, too."""
FIRST_CAPABILITY = 90


@dataclass(frozen=True)
class FenceOptions:
    """The device: before compute capability 90 it has no asynchronous proxy."""

    compute_capability: int = 90


def fence_insertion(module: Op, options: FenceOptions | None = None) -> bool:
    """Insert fences before the matrix instructions of `module` that need them, outside of loops where possible."""
    if (options or FenceOptions()).compute_capability < FIRST_CAPABILITY:
        return False
    changed = False
    for dot in [op for op in module.walk() if isinstance(op, AsyncMma)]:
        writers = {op for value in (dot.a, dot.b) for op in _writers(value)}
        if writers:
            changed |= _fence(_place(dot, writers))
    return changed


def _place(dot: Op, writers: set[Op]) -> Op:
    """The op that the fence goes before: `dot`, or the outermost loop around it that none of `writers` is in."""
    place = dot
    around = dot.parent
    while around is not None:
        if isinstance(around, Loop):
            if any(is_in(writer, around) for writer in writers):
                break
            place = around
        around = around.parent
    return place


def _fence(place: Op) -> bool:
    previous = place.previous
    if isinstance(previous, FenceAsyncShared) and not previous.cluster:
        return False
    OpBuilder(place).op("ttng.fence_async_shared", (), (), {"bCluster": False})
    return True


# --- who wrote a buffer -------------------------------------------------------------------------------------------


def _writers(buffer: Value) -> Iterator[Op]:
    """The ops through which threads may have written to `buffer`; those of which nothing is known among them."""
    seen: set[Value] = set()
    waiting = [buffer]
    while waiting:
        value = waiting.pop()
        if value in seen or not isinstance(value.type, MemDescType):
            continue
        seen.add(value)
        op = value.owner
        if isinstance(op, LocalAlloc):
            if op.source is not None:
                yield op
            yield from (user for user in users_through_views(value) if isinstance(user, STORES))
        else:
            sources = _sources(value)
            if sources is None:
                yield op if isinstance(op, Op) else _owner_of(op)
            else:
                waiting += sources


def _owner_of(block: Block) -> Op:
    assert block.region is not None, "a block of a function is in a region"
    assert block.region.op is not None, "a region belongs to an op"
    return block.region.op


def _sources(value: Value) -> Sequence[Value] | None:
    """The buffers that `value` may be, or be a part of; None: it may be any."""
    op = value.owner
    if isinstance(op, Op):
        if isinstance(op, For):
            return op.inits[value.index], op.yielded[value.index]
        if isinstance(op, If):
            return [region.block.terminator.operands[value.index] for region in op.regions]
        return None if op.regions else op.operands
    owner = _owner_of(op)
    if isinstance(owner, For):
        return owner.inits[value.index - 1], owner.yielded[value.index - 1]
    if isinstance(owner, WarpSpecializePartitions):
        holder = owner.parent
        captured = owner.operands or (holder.operands if holder is not None else ())
        return captured[value.index : value.index + 1]
    return None
