"""Memory barriers that each step of a loop makes and removes are made once; their phase alternates.

    for … {                                             %r = ttg.local_alloc
      %r = ttg.local_alloc                              ttng.init_barrier %r, 1
      ttng.init_barrier %r, 1                           for … iter_args(%p = %c0) {
      … %r[%true] …                              ->       … %r[%true] …
      ttng.wait_barrier %r, %c0                           ttng.wait_barrier %r, %p
      ttng.inval_barrier %r                               yield %p ^ 1
    }                                                   }
                                                        ttng.inval_barrier %r

All threads of a block have to meet around the making and the removing, which then happens once.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.dialects.scf import For
from tilewright.dialects.ttg_memory import LocalAlloc
from tilewright.dialects.ttng_barriers import InitBarrier, InvalBarrier, WaitBarrier
from tilewright.ir.core import Op, Value
from tilewright.ir.types import i32
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.matching import constant_of


def hoist_barriers(module: Op) -> bool:
    """Move what makes and removes barriers out of the loops of `module`."""
    loops = [op for op in module.walk() if isinstance(op, For)]
    found = [life for loop in loops for op in loop.body if (life := _life_of(loop, op))]
    for life in found:
        _hoist(life)
    return bool(found)


class _Life(NamedTuple):
    """A barrier that lives in one step of a loop, and completes one phase there."""

    loop: For
    alloc: LocalAlloc
    init: InitBarrier
    wait: WaitBarrier
    remove: InvalBarrier


def _life_of(loop: For, alloc: Op) -> _Life | None:
    if not isinstance(alloc, LocalAlloc) or alloc.source is not None:
        return None
    users = list(alloc.result.uses)
    inits = [user for user in users if isinstance(user, InitBarrier)]
    waits = [user for user in users if isinstance(user, WaitBarrier)]
    removals = [user for user in users if isinstance(user, InvalBarrier)]
    if any(user.block is not alloc.block for user in users) or not len(inits) == len(waits) == len(removals) == 1:
        return None
    (init,), (wait,), (remove,) = inits, waits, removals
    waits_always = wait.predicate is None or constant_of(wait.predicate) == 1
    first_phase = constant_of(wait.phase) == 0
    return _Life(loop, alloc, init, wait, remove) if waits_always and first_phase else None


def _hoist(life: _Life) -> None:
    loop, alloc, init, wait, remove = life
    block, before = loop.body, TileOps(loop)
    barrier = before.emit("ttg.local_alloc", (), alloc.result.type, alloc.attributes)
    before.op("ttng.init_barrier", (barrier,), (), init.attributes)
    alloc.result.replace_by(barrier)
    loop.set_operands([*loop.operands, before.literal(0, i32)])
    loop.results.append(Value(i32, loop, len(loop.results)))
    phase = block.add_argument(i32)
    wait.phase = phase
    at_end = TileOps(block.terminator)
    other = at_end.emit("arith.xori", (phase, at_end.literal(1, i32)), i32)
    block.terminator.set_operands([*block.terminator.operands, other])
    assert loop.next is not None, "a loop is no terminator"
    TileOps(loop.next).op("ttng.inval_barrier", (barrier,), (), remove.attributes)
    for op in (remove, init, alloc):
        op.erase()
