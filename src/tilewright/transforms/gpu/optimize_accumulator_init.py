"""Products with a zero accumulator overwrite it instead, so the zeros need not be written.

    for … iter_args(%c = %zeros)                        for … iter_args(%c = %zeros, %use = %false)
      %d = ttng.warp_group_dot %a, %b, %c         ->      %d = ttng.warp_group_dot %a, %b, %c, %use
      yield %d                                            yield %d, %true

An accumulator that a select or a branch clears before its product is not cleared; the product overwrites it. Nor is one
that is cleared after the product; the loop carries whether the next product overwrites it:

    for … iter_args(%c = %zeros)                        for … iter_args(%c = %zeros, %use = %false)
      %d = ttng.warp_group_dot %a, %b, %c         ->      %d = ttng.warp_group_dot %a, %b, %c, %use
      %e = scf.if %last { use(%d); yield %zeros }         %next = arith.select %last, %false, %true
           else { yield %d }                              scf.if %last { use(%d) }
      yield %e                                            yield %d, %next
    use(%r)                                             use(select %flag, %r, %zeros)

The last iteration may have cleared it, too, so a select after the loop does. Triton has no such select, and returns the
sum that was to be cleared.
"""

from __future__ import annotations

from math import copysign
from typing import NamedTuple, TypeAlias

from tilewright.dialects.arith import Select
from tilewright.dialects.scf import For, If
from tilewright.dialects.ttng_mma import TensorCoreMma, WarpGroupDot
from tilewright.dialects.ttng_tensor_memory import TmemAlloc, TmemLoad
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.operands import set_operand_groups
from tilewright.ir.types import f32, i1
from tilewright.transforms.carried_values import add_carried
from tilewright.transforms.gpu.matrix_instructions import FP8
from tilewright.transforms.gpu.tile_ops import TileOps
from tilewright.transforms.matching import constant_of, following, has_one_use, is_inside

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
    after = set(following(product))
    return all(isinstance(user, TmemLoad) and user in after for user in users)


def _start_without_accumulator(product: Adding, loop: For) -> bool:
    flag, value = product.uses_accumulator, _accumulator_of(product)
    if value is None or (flag is not None and not constant_of(flag)):
        return False
    if _is_plus_zero(value):
        _set_flag(product, TileOps(product).literal(0, i1))
        return True
    clearing = _clearing_of(value)
    if clearing is not None:
        _set_flag(product, clearing.flag())
        clearing.remove()
        return True
    return _ask_in_next_step(product, loop, value)


def _is_plus_zero(value: Value) -> bool:
    """Whether adding to `value` changes nothing; -0 would decide about the sign of a zero."""
    constant = constant_of(value)
    return constant == 0 and copysign(1.0, constant) > 0


def _set_flag(product: Adding, flag: Value) -> None:
    set_operand_groups(product, {"useC" if isinstance(product, WarpGroupDot) else "useD": [flag]})


class _Clearing(NamedTuple):
    """A select or a branch that gives zeros, or else `kept`.

    Attributes:
        value: what it gives.
        zeros: which one is chosen for zeros: 0 if `condition` holds, 1 if not.
    """

    value: Value
    condition: Value
    zeros: int
    kept: Value

    def flag(self) -> Value:
        """Whether the value is `kept`."""
        assert self.value.op is not None, "an op chooses"
        ops = TileOps(self.value.op)
        truth = ops.literal(1, i1)
        return (
            self.condition if self.zeros else ops.emit("arith.select", (self.condition, ops.literal(0, i1), truth), i1)
        )

    def remove(self) -> None:
        """Let users have `kept`."""
        op = self.value.op
        if isinstance(op, If):
            op.arms[self.zeros].block.terminator.set_operand(self.value.index, self.kept)
            self.value.replace_by(self.kept)
        elif op is not None:
            op.replace([self.kept])


def _clearing_of(value: Value) -> _Clearing | None:
    """The select or branch that clears `value`, if it has one user and is cleared as a whole."""
    op = value.op
    if isinstance(op, Select):
        choices = [op.chosen, op.other]
    elif isinstance(op, If):
        choices = [arm.block.terminator.operands[value.index] for arm in op.arms]
    else:
        return None
    cleared = [_is_plus_zero(choice) for choice in choices]
    if sum(cleared) != 1 or op.condition.type is not i1 or not has_one_use(value):
        return None
    kept = choices[cleared[0]]
    return None if is_inside(kept, op) else _Clearing(value, op.condition, cleared.index(True), kept)


def _ask_in_next_step(product: Adding, loop: For, value: Value) -> bool:
    """An accumulator that a loop starts with zeros, or clears after its product: the loop carries whether there is one.

    Nothing but the product may use it: it is not cleared any more.
    """
    if value.owner is not loop.body or value.index == 0:
        return False
    number = value.index - 1
    begins_clear = _is_plus_zero(loop.inits[number])
    clearing = _clearing_of(loop.yielded[number]) if has_one_use(value) else None
    if clearing is not None and (clearing.value.op is None or clearing.value.op.block is not loop.body):
        clearing = None
    if clearing is None and not begins_clear:
        return False
    ops, end = TileOps(loop), loop.body.terminator
    _set_flag(product, add_carried(loop, ops.literal(not begins_clear, i1)))
    end.set_operands([*end.operands, ops.literal(1, i1) if clearing is None else clearing.flag()])
    if clearing is not None:
        clearing.remove()
        _clear_result(loop, number, loop.results[-1])
    return True


def _clear_result(loop: For, number: int, flag: Value) -> None:
    """Let users of a result of `loop` have zeros where `flag` says that there is no accumulator."""
    result = loop.results[number]
    users = list(result.uses)
    if users:
        after = TileOps.after(loop)
        sum = after.emit("arith.select", (flag, result, after.literal(0, result.type)), result.type)
        for user in users:
            user.set_operands([sum if operand is result else operand for operand in user.operands])


def _forget_unused_accumulator(alloc: TmemAlloc) -> None:
    """Tensor memory that a product writes without adding needs no contents before."""
    products = [user for user in alloc.results[0].uses if isinstance(user, TensorCoreMma)]
    if alloc.source is None or len(products) != 1 or alloc.block is not products[0].block:
        return
    if _is_plus_zero(products[0].uses_accumulator) and _is_alone(alloc, products[0]):
        alloc.set_operands([])
