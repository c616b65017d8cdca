"""The product partition starts the first product of the next iteration before the other products of this one.

    scf.for %k … {                                   scf.for %k … {            before the loop: A of the first iteration
      wait %keys, %free     scores = q · k     A       A of the next iteration, if any
      wait %shares          sums += p · v      B  ->   B of this iteration
    }                                                }

In attention the probabilities are computed from the scores, so in program order the scores of the next iteration would
wait for the accumulation of this one, and all other warps with them. With this pass they are available when the default
partition has signalled `%shares`. The loop is only scheduled here; `expand_loops` rewrites it.

There is no deadlock: all waits are satisfied in program order if A of the next iteration comes directly after the op
that signals that the scores have been read. That is a possible order of each partition if

- A waits only for copies, and for ops of the previous iteration that come before one that B of it waits for,
- before these ops, their partition has waited only for A in that iteration,
- and the copies have waited in their iteration only for A, or for a slot in a ring of two or more, which B of the
  iteration need not free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from tilewright.dialects.nvws import WarpGroup
from tilewright.dialects.scf import For
from tilewright.dialects.ttg_memory import MemDescIndex
from tilewright.dialects.ttng_barriers import (
    ArriveBarrier,
    AsyncCopyMbarrierArrive,
    BarrierExpect,
    FenceAsyncShared,
    WaitBarrier,
)
from tilewright.dialects.ttng_mma import TensorCoreCommit, TensorCoreMma
from tilewright.ir.core import Op, Value, buffer_type
from tilewright.ir.effects import is_pure
from tilewright.transforms.gpu.pipelining.schedule import Schedule, Slot, body_of
from tilewright.transforms.matching import binary_of, is_after

STARTS = (WaitBarrier, FenceAsyncShared, TensorCoreMma, TensorCoreCommit)
"""The ops with effects of a loop that does nothing but start products."""
COPIES = (BarrierExpect, AsyncCopyMbarrierArrive)
"""The ops that make copies signal a barrier."""


def run_products_ahead(module: Op) -> bool:
    """Schedule loops of `module` whose partition has several products, where these may run ahead."""
    found = False
    for group in module.ops_of(WarpGroup):
        for region in group.regions[1:]:
            for loop in [op for op in region.walk() if isinstance(op, For)]:
                found |= _run_ahead(loop, group)
    return found


def _run_ahead(loop: For, group: WarpGroup) -> bool:
    effects = [op for op in body_of(loop) if not is_pure(op)]
    products = [op for op in effects if isinstance(op, TensorCoreMma)]
    if not products[1:] or not all(isinstance(op, STARTS) for op in effects):
        return False
    rest = effects[effects.index(products[0]) :]
    first = effects[: len(effects) - len(rest)]
    first += takewhile(lambda op: not isinstance(op, (WaitBarrier, FenceAsyncShared)), rest)
    later = effects[len(first) :]
    if products[1] not in later or not _may_run_ahead(first, later, group):
        return False
    _schedule(loop, first, later)
    return True


def _may_run_ahead(first: Sequence[Op], later: Sequence[Op], group: WarpGroup) -> bool:
    """Whether `first` of an iteration may stand before `later` of the previous one in the partition of products."""
    others = [op for region in group.regions for op in region.walk() if isinstance(op, (ArriveBarrier, *COPIES))]
    needed = [op for op in others if _ring(op) in _rings(later, WaitBarrier) and isinstance(op, ArriveBarrier)]
    signals = [op for op in others if _ring(op) in _rings(first, WaitBarrier)]
    signalled, awaited = _rings(first, TensorCoreCommit), {_ring(op) for op in signals}
    is_signalled = bool(needed) and awaited == _rings(first, WaitBarrier)
    before = {_ring(op) for op in first if isinstance(op, WaitBarrier) and binary_of(op.phase, "arith.xori")}
    of_steps = all(isinstance(signal, COPIES) or _ring(signal) in before for signal in signals)
    return is_signalled and of_steps and all(_is_early(signal, needed, signalled) for signal in signals)


def _is_early(signal: Op, needed: Collection[Op], signalled: Collection[Value]) -> bool:
    """Whether `signal` comes before the products that wait for `needed`; an iteration first signals `signalled`."""
    is_copy = isinstance(signal, COPIES)
    if not is_copy and not any(op.block is signal.block and is_after(op, signal) for op in needed):
        return False
    assert signal.block is not None, "the op is in a partition"
    before = takewhile(lambda op: op is not signal, signal.block)
    waits = [
        op for outer in before for op in outer.walk() if isinstance(op, WaitBarrier) and _ring(op) not in signalled
    ]
    return not waits if not is_copy else all(buffer_type(_ring(wait)).shape[0] > 1 for wait in waits)


def _rings(ops: Sequence[Op], kind: type[Op]) -> set[Value]:
    return {_ring(op) for op in ops if isinstance(op, kind)}


def _ring(op: Op) -> Value:
    """The barriers of which `op` waits for one, or signals one."""
    (barrier,) = _barriers(op)
    return barrier.op.source if isinstance(barrier.op, MemDescIndex) else barrier


def _barriers(op: Op) -> Iterator[Value]:
    if isinstance(op, (WaitBarrier, ArriveBarrier, TensorCoreCommit, *COPIES)):
        yield op.barrier


def _schedule(loop: For, first: Collection[Op], later: Collection[Op]) -> None:
    """Let `first` run in one iteration of `loop` with, and before, `later` of the previous iteration."""
    schedule = Schedule()
    slots = [Slot(stage, schedule.last_cluster()) for stage in range(2)]
    for slot, ops in zip(slots, (first, later), strict=True):
        for op in ops:
            schedule.insert(op, slot)
            schedule.insert_needed(op, slot, around=True)
    for op in body_of(loop):
        schedule.insert_new(op, slots[-1])
    schedule.write(loop)
