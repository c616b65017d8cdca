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

from tilewright.ir.core import Op, Value, defining_op
from tilewright.transforms.gpu.mma_lowering import PRODUCTS
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.matching import has_one_use


def hoist_tensor_memory(module: Op) -> bool:
    """Move tensor memory of sums in front of the loops of `module` that carry them."""
    loops = [op for op in module.walk() if op.name == "scf.for"]
    found = [sum for loop in loops for argument in loop.regions[0].block.args[1:] if (sum := _sum_of(loop, argument))]
    for sum in found:
        _hoist(sum)
    return bool(found)


class _Sum(NamedTuple):
    """A sum that `loop` carries as `argument`: each step puts it into memory and takes it out again."""

    loop: Op
    argument: Value
    alloc: Op
    load: Op


def _sum_of(loop: Op, argument: Value) -> _Sum | None:
    """The sum that `argument` is, if only products of the loop's body add to it."""
    block = loop.regions[0].block
    users = list(argument.uses)
    if len(users) != 1 or users[0].name != "ttng.tmem_alloc" or users[0].block is not block:
        return None
    alloc, result = users[0], block.terminator.operands[argument.index - 1]
    load = defining_op(result, "ttng.tmem_load")
    if load is None or len(alloc.results) != 2 or len(load.results) != 2 or not has_one_use(result):
        return None
    memory = alloc.results[0]
    others = [user for user in memory.uses if user is not load]
    adds = all(user.name in PRODUCTS and user.block is block for user in others)
    is_whole = load.operands[0] is memory and load.block is block and not list(load.results[1].uses)
    return _Sum(loop, argument, alloc, load) if adds and is_whole and len(load.operands) == 2 else None


def _hoist(sum: _Sum) -> None:
    loop, argument, alloc, load = sum
    block, number = loop.regions[0].block, argument.index - 1
    types = [result.type for result in alloc.results]
    memory, token = TileOps(loop).op("ttng.tmem_alloc", (loop.operands[3 + number],), types, alloc.attributes).results
    loop.set_operands([*loop.operands, token])
    loop.results.append(Value(token.type, loop, len(loop.results)))
    alloc.replace([memory, block.add_argument(token.type)])
    yielded = list(block.terminator.operands)
    yielded[number] = argument  # of which canonicalization finds that nobody needs it
    block.terminator.set_operands([*yielded, load.operands[1]])
    assert loop.next is not None, "a loop is no terminator"
    after = TileOps(loop.next).op(
        "ttng.tmem_load", (memory, loop.results[-1]), [result.type for result in load.results], load.attributes
    )
    loop.results[number].replace_by(after.results[0])
    load.erase()
