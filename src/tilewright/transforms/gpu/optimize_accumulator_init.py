"""Products that add to zeros do not add: nobody needs to write the zeros.

    for … iter_args(%c = %zeros)                        for … iter_args(%c = %zeros, %use = %false)
      %d = ttng.warp_group_dot %a, %b, %c         ->      %d = ttng.warp_group_dot %a, %b, %c, %use
      yield %d                                            yield %d, %true

A sum that a select clears in front of its product is not cleared; the product does not add to it. Triton does so with
sums that are cleared behind the product, too, and gives another result if that was the last step: those stay cleared.
"""

from __future__ import annotations

from math import copysign
from typing import NamedTuple

from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, defining_op
from tilewright.ir.operands import operand, operand_groups, set_operand_groups
from tilewright.ir.types import f32, i1
from tilewright.transforms.gpu.matrix_instructions import FP8
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.matching import constant_of, has_one_use

FLAGS = {"ttng.warp_group_dot": "useC", "ttng.tc_gen5_mma": "useD", "ttng.tc_gen5_mma_scaled": "useD"}
"""The operand of each product that says whether it adds."""


def optimize_accumulator_init(module: Op) -> bool:
    """Let products in loops start without a sum where the sum is zero."""
    products = [
        op for op in module.walk() if op.name in FLAGS and op.parent is not None and op.parent.name == "scf.for"
    ]
    changed = [_start_without_sum(product) for product in products if not _adds_in_parts(product)]
    for alloc in [op for op in module.walk() if op.name == "ttng.tmem_alloc"]:
        _forget_unused_sum(alloc)
    return any(changed)


class _Sum(NamedTuple):
    """What a product adds to: operand `place` of `op`."""

    op: Op
    place: int

    @property
    def value(self) -> Value:
        return self.op.operands[self.place]


def _adds_in_parts(product: Op) -> bool:
    """Whether fp8 products are added up in several parts: each of them would have to ask."""
    if product.name != "ttng.warp_group_dot" or product.results[0].type.scalar is not f32:
        return False
    limit, a = product.attributes.get("maxNumImpreciseAcc"), product.operands[0].type
    return a.scalar in FP8 and isinstance(limit, Number) and limit.value < (a.shape or (0, 0))[1]


def _sum_of(product: Op) -> _Sum | None:
    if product.name == "ttng.warp_group_dot":
        return _Sum(product, 2)
    alloc = defining_op(operand_groups(product)["d"][0], "ttng.tmem_alloc")
    if alloc is None or not alloc.operands or alloc.block is not product.block or not _is_alone(alloc, product):
        return None
    return _Sum(alloc, 0)


def _is_alone(alloc: Op, product: Op) -> bool:
    """Whether tensor memory is written by one product, which is computed in any case, and only read behind it."""
    users = [user for user in alloc.results[0].uses if user is not product]
    if not constant_of(operand_groups(product)["pred"][0]):
        return False
    behind: set[Op] = set()
    op = product.next
    while op is not None:
        behind.add(op)
        op = op.next
    return all(user.name == "ttng.tmem_load" and user in behind for user in users)


def _start_without_sum(product: Op) -> bool:
    flag = operand(product, FLAGS[product.name])
    sum = _sum_of(product)
    if sum is None or (flag is not None and not constant_of(flag)):
        return False
    ops, value = TileOps(product), sum.value
    if _is_plus_zero(value):
        _set_flag(product, ops.literal(0, i1))
        return True
    select = defining_op(value, "arith.select")
    if select is not None and select.operands[0].type is i1 and has_one_use(value):
        return _ask_instead_of_clearing(product, select)
    return _ask_from_second_step_on(product, value)


def _is_plus_zero(value: Value) -> bool:
    """Whether adding to `value` changes nothing; -0 would decide about the sign of a zero."""
    constant = constant_of(value)
    return constant == 0 and copysign(1.0, constant) > 0


def _set_flag(product: Op, flag: Value) -> None:
    set_operand_groups(product, {FLAGS[product.name]: [flag]})


def _ask_instead_of_clearing(product: Op, select: Op) -> bool:
    """product(select(p, 0, x))  ->  product(x) if not p"""
    cleared = [_is_plus_zero(value) for value in select.operands[1:]]
    if not any(cleared) or all(cleared):
        return False
    ops = TileOps(select)
    condition, truth, lie = select.operands[0], ops.literal(1, i1), ops.literal(0, i1)
    flags = (lie, truth) if cleared[0] else (truth, lie)
    _set_flag(product, ops.emit("arith.select", (condition, *flags), i1))
    select.replace([select.operands[2 if cleared[0] else 1]])
    return True


def _ask_from_second_step_on(product: Op, value: Value) -> bool:
    """A sum that a loop starts with zero: the loop carries whether there is one."""
    loop = product.parent
    assert loop is not None, "the product is in a loop"
    block = loop.regions[0].block
    if value.owner is not block or value.index == 0 or not _is_plus_zero(loop.operands[2 + value.index]):
        return False
    ops = TileOps(loop)
    loop.set_operands([*loop.operands, ops.literal(0, i1)])
    loop.results.append(Value(i1, loop, len(loop.results)))
    _set_flag(product, block.add_argument(i1))
    block.terminator.set_operands([*block.terminator.operands, ops.literal(1, i1)])
    return True


def _forget_unused_sum(alloc: Op) -> None:
    """Tensor memory that a product writes without adding needs no contents before."""
    products = [user for user in alloc.results[0].uses if user.name in FLAGS]
    if not alloc.operands or len(products) != 1 or alloc.block is not products[0].block:
        return
    flag = operand_groups(products[0])["useD"][0]
    if _is_plus_zero(flag) and _is_alone(alloc, products[0]):
        alloc.set_operands([])
