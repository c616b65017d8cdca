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

from tilewright.ir.core import Op, Value
from tilewright.ir.operands import operand
from tilewright.ir.types import i32
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.matching import constant_of

INIT, WAIT, REMOVE = LIFE = ("ttng.init_barrier", "ttng.wait_barrier", "ttng.inval_barrier")


def hoist_barriers(module: Op) -> bool:
    """Move what makes and removes barriers out of the loops of `module`."""
    loops = [op for op in module.walk() if op.name == "scf.for"]
    found = [life for loop in loops for op in loop.regions[0].block if (life := _life_of(loop, op))]
    for life in found:
        _hoist(life)
    return bool(found)


class _Life(NamedTuple):
    """A barrier that lives in one step of a loop, and completes one phase there."""

    loop: Op
    alloc: Op
    init: Op
    wait: Op
    remove: Op


def _life_of(loop: Op, alloc: Op) -> _Life | None:
    if alloc.name != "ttg.local_alloc" or alloc.operands:
        return None
    users = list(alloc.result.uses)
    if not any(user.name == INIT for user in users) or any(user.block is not alloc.block for user in users):
        return None
    ends = [[user for user in users if user.name == name] for name in LIFE]
    if [len(ops) for ops in ends] != [1, 1, 1]:
        return None
    (init,), (wait,), (remove,) = ends
    predicate = operand(wait, "pred")
    waits_always = predicate is None or constant_of(predicate) == 1
    first_phase = constant_of(wait.operands[1]) == 0
    return _Life(loop, alloc, init, wait, remove) if waits_always and first_phase else None


def _hoist(life: _Life) -> None:
    loop, alloc, init, wait, remove = life
    block, before = loop.regions[0].block, TileOps(loop)
    barrier = before.emit("ttg.local_alloc", (), alloc.result.type, alloc.attributes)
    before.op(INIT, (barrier,), (), init.attributes)
    alloc.result.replace_by(barrier)
    loop.set_operands([*loop.operands, before.literal(0, i32)])
    loop.results.append(Value(i32, loop, len(loop.results)))
    phase = block.add_argument(i32)
    wait.set_operands([wait.operands[0], phase, *wait.operands[2:]])
    at_end = TileOps(block.terminator)
    other = at_end.emit("arith.xori", (phase, at_end.literal(1, i32)), i32)
    block.terminator.set_operands([*block.terminator.operands, other])
    assert loop.next is not None, "a loop is no terminator"
    TileOps(loop.next).op(REMOVE, (barrier,), (), remove.attributes)
    for op in (remove, init, alloc):
        op.erase()
