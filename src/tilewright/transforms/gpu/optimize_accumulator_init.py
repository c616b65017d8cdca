"""Products with a zero accumulator overwrite it instead, so the zeros need not be written.

    for … iter_args(%c = %zeros)                        for … iter_args(%c = %zeros, %use = %false)
      %d = ttng.warp_group_dot %a, %b, %c         ->      %d = ttng.warp_group_dot %a, %b, %c, %use
      yield %d                                            yield %d, %true

An accumulator that a select clears before its product is not cleared; the product overwrites it. Triton also does so
with accumulators that are cleared after the product, which changes the result if that was the last iteration: those are
still cleared here.
"""

from __future__ import annotations

from math import copysign
from typing import TypeAlias

from tilewright.dialects.arith import Select
from tilewright.dialects.scf import For
from tilewright.dialects.ttng_mma import TensorCoreMma, WarpGroupDot
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.operands import set_operand_groups
from tilewright.ir.types import f32, i1
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.gpu.matrix_instructions import FP8
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.matching import constant_of, following, has_one_use

Adding: TypeAlias = "WarpGroupDot | TensorCoreMma"
"""A product with an operand that says whether it adds."""


def optimize_accumulator_init(module: Op) -> bool:
    """Let products in loops start without an accumulator where the accumulator is zero."""
    products = [
        (op, op.parent)
        for op in module.walk()
        if isinstance(op, (WarpGroupDot, TensorCoreMma)) and isinstance(op.parent, For)
    ]
    changed = [_start_without_accumulator(product, loop) for product, loop in products if not _adds_in_parts(product)]
    for alloc in [op for op in module.walk() if isinstance(op, TmemAlloc)]:
        _forget_unused_accumulator(alloc)
    return any(changed)


def _adds_in_parts(product: Adding) -> bool:
    """Whether fp8 products are added up in several parts: each of them would need the condition."""
    if not isinstance(product, WarpGroupDot) or product.result.type.scalar is not f32:
        return False
    a = product.a.type
    return (
        a.scalar in FP8
        and "maxNumImpreciseAcc" in product.attributes
        and product.max_imprecise_sums < (a.shape or (0, 0))[1]
    )


def _accumulator_of(product: Adding) -> Value | None:
    """The value in registers that a product adds to; None if it is not known."""
    if isinstance(product, WarpGroupDot):
        return product.accumulator
    alloc = defining(product.accumulator, TmemAlloc)
    if alloc is None or alloc.block is not product.block or not _is_alone(alloc, product):
        return None
    return alloc.source


def _is_alone(alloc: TmemAlloc, product: TensorCoreMma) -> bool:
    """Whether tensor memory is written by one product, which is computed in any case, and only read behind it."""
    users = [user for user in alloc.results[0].uses if user is not product]
    if not constant_of(product.predicate):
        return False
    behind = set(following(product))
    return all(isinstance(user, TmemLoad) and user in behind for user in users)


def _start_without_accumulator(product: Adding, loop: For) -> bool:
    flag, value = product.uses_accumulator, _accumulator_of(product)
    if value is None or (flag is not None and not constant_of(flag)):
        return False
    if _is_plus_zero(value):
        _set_flag(product, TileOps(product).literal(0, i1))
        return True
    select = defining(value, Select)
    if select is not None and select.condition.type is i1 and has_one_use(value):
        return _ask_instead_of_clearing(product, select)
    return _ask_from_second_step_on(product, loop, value)


def _is_plus_zero(value: Value) -> bool:
    """Whether adding to `value` changes nothing; -0 would decide about the sign of a zero."""
    constant = constant_of(value)
    return constant == 0 and copysign(1.0, constant) > 0


def _set_flag(product: Adding, flag: Value) -> None:
    set_operand_groups(product, {"useC" if isinstance(product, WarpGroupDot) else "useD": [flag]})


def _ask_instead_of_clearing(product: Adding, select: Select) -> bool:
    """product(select(p, 0, x))  ->  product(x) if not p"""
    cleared = [_is_plus_zero(value) for value in (select.chosen, select.other)]
    if not any(cleared) or all(cleared):
        return False
    ops = TileOps(select)
    truth, lie = ops.literal(1, i1), ops.literal(0, i1)
    flags = (lie, truth) if cleared[0] else (truth, lie)
    _set_flag(product, ops.emit("arith.select", (select.condition, *flags), i1))
    select.replace([select.other if cleared[0] else select.chosen])
    return True


def _ask_from_second_step_on(product: Adding, loop: For, value: Value) -> bool:
    """An accumulator that a loop starts with zero: the loop carries whether there is one."""
    block = loop.body
    if value.owner is not block or value.index == 0 or not _is_plus_zero(loop.inits[value.index - 1]):
        return False
    ops = TileOps(loop)
    _set_flag(product, add_carried(loop, ops.literal(0, i1)))
    block.terminator.set_operands([*block.terminator.operands, ops.literal(1, i1)])
    return True


def _forget_unused_accumulator(alloc: TmemAlloc) -> None:
    """Tensor memory that a product writes without adding needs no contents before."""
    products = [user for user in alloc.results[0].uses if isinstance(user, TensorCoreMma)]
    if alloc.source is None or len(products) != 1 or alloc.block is not products[0].block:
        return
    if _is_plus_zero(products[0].uses_accumulator) and _is_alone(alloc, products[0]):
        alloc.set_operands([])
