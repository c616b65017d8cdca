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
from tilewright.dialects.ttng_products import TensorCoreProduct
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad
from tilewright.ir.core import Op, Value, defining
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.matching import has_one_use


def hoist_tensor_memory(module: Op) -> bool:
    """Move tensor memory of sums in front of the loops of `module` that carry them."""
    loops = [op for op in module.walk() if isinstance(op, For)]
    found = [sum for loop in loops for argument in loop.carried if (sum := _sum_of(loop, argument))]
    for sum in found:
        _hoist(sum)
    return bool(found)


class _Sum(NamedTuple):
    """A sum that `loop` carries as `argument`: each step puts it into memory and takes it out again."""

    loop: For
    argument: Value
    alloc: TmemAlloc
    load: TmemLoad


def _sum_of(loop: For, argument: Value) -> _Sum | None:
    """The sum that `argument` is, if only products of the loop's body add to it."""
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
    adds = all(isinstance(user, TensorCoreProduct) and user.block is loop.body for user in others)
    is_whole = load.buffer is memory and load.block is loop.body and not list(load.results[1].uses)
    return _Sum(loop, argument, alloc, load) if adds and is_whole and load.token is not None else None


def _hoist(sum: _Sum) -> None:
    loop, argument, alloc, load = sum
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
