"""Sums that a loop carries stay in tensor memory from step to step.

    for … iter_args(%c = %start)                        %m, %t = ttng.tmem_alloc %start
      %m, %t = ttng.tmem_alloc %c                       for … iter_args(%s = %t)
      %u = ttng.tc_gen5_mma %a, %b, %m[%t]       ->       %u = ttng.tc_gen5_mma %a, %b, %m[%s]
      %d = ttng.tmem_load %m[%u]                          yield %u
      yield %d                                          %d = ttng.tmem_load %m[…]

Otherwise each step would write all sums and read them again.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.dialects.scf import For
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad
from tilewright.ir.core import Op, Value, defining
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.matching import has_one_use


def hoist_tensor_memory(module: Op) -> bool:
    """Move tensor memory of sums in front of the loops of `module` that carry them."""
    loops = [op for op in module.walk() if isinstance(op, For)]
    found = [
        accumulator for loop in loops for argument in loop.carried if (accumulator := _accumulator_of(loop, argument))
    ]
    for accumulator in found:
        _hoist(accumulator)
    return bool(found)


class _Accumulator(NamedTuple):
    """An accumulator that `loop` carries as `argument`: each step puts it into memory and takes it out again."""

    loop: For
    argument: Value
    alloc: TmemAlloc
    load: TmemLoad


def _accumulator_of(loop: For, argument: Value) -> _Accumulator | None:
    """The accumulator that `argument` is, if only products of the loop's body add to it."""
    users = list(argument.uses)
    alloc = users[0] if len(users) == 1 else None
    if not isinstance(alloc, TmemAlloc) or alloc.block is not loop.body:
        return None
    result = loop.yielded[argument.index - 1]
    load = defining(result, TmemLoad)
    if load is None or len(alloc.results) != 2 or len(load.results) != 2 or not has_one_use(result):
        return None
    memory = alloc.results[0]
    others = [user for user in memory.uses if user is not load]
    adds = all(isinstance(user, TensorCoreMma) and user.block is loop.body for user in others)
    is_whole = load.buffer is memory and load.block is loop.body and not list(load.results[1].uses)
    return _Accumulator(loop, argument, alloc, load) if adds and is_whole and load.token is not None else None


def _hoist(accumulator: _Accumulator) -> None:
    loop, argument, alloc, load = accumulator
    block, number = loop.body, argument.index - 1
    types = [result.type for result in alloc.results]
    memory, token = TileOps(loop).op("ttng.tmem_alloc", (loop.inits[number],), types, alloc.attributes).results
    loop.set_operands([*loop.operands, token])
    loop.results.append(Value(token.type, loop, len(loop.results)))
    alloc.replace([memory, block.add_argument(token.type)])
    yielded = list(block.terminator.operands)
    yielded[number] = argument  # canonicalization finds that nobody needs it
    assert load.token is not None, "the load waits for a product"
    block.terminator.set_operands([*yielded, load.token])
    assert loop.next is not None, "a loop is no terminator"
    after = TileOps(loop.next).op(
        "ttng.tmem_load", (memory, loop.results[-1]), [result.type for result in load.results], load.attributes
    )
    loop.results[number].replace_by(after.results[0])
    load.erase()
