"""Accumulators of a flattened loop stay in tensor memory until their tile is complete.

    scf.for … iter_args(%s = 0) {                          scf.for … iter_args(%adds = false) {
      %m = ttng.tmem_alloc %s                                %m = ttng.tmem_alloc
      ttng.tc_gen5_mma …, %m, %old, …                        ttng.tc_gen5_mma …, %m, %old and %adds, …
      %t = ttng.tmem_load %m                          ->     scf.if %last {
      %r = scf.if %last { use(%t); yield 0 }                   %t = ttng.tmem_load %m; use(%t)
           else { yield %t }                                 }
      yield %r                                               yield not %last
    }                                                      }

`flatten=True` makes such loops. The product of a tile's first iteration overwrites the contents of the memory.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.scf import For, If
from tilewright.dialects.ttng_mma import TensorCoreMma
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad
from tilewright.ir.core import Value, defining
from tilewright.ir.types import i1
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.matching import constant_of, has_one_use, is_behind, is_zero
from tilewright.transforms.op_builder import OpBuilder

BOTH = (TensorCoreMma, TmemLoad)
"""The two users of an accumulator in tensor memory."""


class _Sum(NamedTuple):
    """A sum that is carried by a loop by way of registers, as `start`; the result `result` of `branch` is passed on."""

    start: Value
    product: TensorCoreMma
    load: TmemLoad
    branch: If
    result: int


def keep_accumulator(loop: For, alloc: TmemAlloc) -> bool:
    """Keep the accumulator of `alloc` in place across iterations, if `loop` reinitialises it for each tile.

    Returns:
        whether it does.
    """
    sum = _sum_of(loop, alloc)
    if sum is None:
        return False
    _, product, load, branch, result = sum
    adds = add_carried(loop, OpBuilder(loop).constant(0, i1))
    end = loop.body.terminator
    at = OpBuilder(end)
    end.set_operands([*end.operands, at.compute("arith.xori", branch.condition, at.constant(1, i1))])
    old = product.uses_accumulator
    place = next(number for number, value in enumerate(product.operands) if value is old)
    product.set_operand(place, OpBuilder(product).compute("arith.andi", old, adds))
    branch.otherwise.block.terminator.set_operand(result, loop.inits[sum.start.index - 1])
    first = branch.then.block.first
    assert first is not None, "an arm has a terminator"
    load.replace(OpBuilder(first).insert(load.clone({})).results)
    alloc.set_operands(())
    return True


def _sum_of(loop: For, alloc: TmemAlloc) -> _Sum | None:
    """The accumulator that `alloc` continues from the previous iteration, if only the last one of a tile uses it."""
    start, users = alloc.source, list(alloc.results[0].uses)
    if start is None or start.owner is not loop.body or start.index == 0 or len(users) != len(BOTH):
        return None
    left = loop.yielded[start.index - 1]
    product, load = (next((user for user in users if isinstance(user, kind)), None) for kind in BOTH)
    branch = defining(left, If)
    if not isinstance(product, TensorCoreMma) or not isinstance(load, TmemLoad) or branch is None:
        return None
    sum = _Sum(start, product, load, branch, left.index)
    in_order = all(op.block is loop.body for op in (alloc, product, load, branch)) and is_behind(load, product)
    stays = in_order and constant_of(product.predicate) == 1 and not loop.results[start.index - 1].uses
    return sum if stays and _is_used_at_last(sum) and is_zero(loop.inits[start.index - 1]) else None


def _is_used_at_last(sum: _Sum) -> bool:
    """Whether the sum is used in one arm, which begins it again with zeros, and the other arm hands it on as it is."""
    value, result = sum.load.results[0], sum.branch.results[sum.result]
    new, kept = (arm.block.terminator.operands[sum.result] for arm in sum.branch.arms)
    last = sum.branch.then.block
    other = sum.branch.otherwise.block.terminator
    alone = all(user is other or ancestor_in(user, last) is not None for user in value.uses) and value.uses[other] == 1
    return is_zero(new) and kept is value and alone and has_one_use(sum.start) and has_one_use(result)
