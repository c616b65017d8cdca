"""Combine selects and ifs: a tile select with the condition of an `scf.if` becomes a result of that `scf.if`.

    %s = arith.select %c, %a, %b : tensor<…>          %s = scf.if %c -> (tensor<…>) {
    scf.if %c {                                         tt.store %p, %v
      tt.store %p, %v                                   scf.yield %a
    }                                                 } else {
    tt.store %q, %s                                     scf.yield %b
                                                      }
                                                      tt.store %q, %s

A select of a tile costs an instruction for each element; a yielded tile costs nothing.

Nested selects: two selects become one if the outer one selects between the inner one's result and one of its operands.

    %n = arith.select %c, %a, %b      →    %k = arith.cmpi ult, %c, %m      m and not c
    %s = arith.select %m, %n, %a           %s = arith.select %k, %b, %a

    %n = arith.select %c, %a, %b      →    %k = arith.andi %m, %c
    %s = arith.select %m, %n, %b           %s = arith.select %k, %a, %b

The running maximum of a masked loop has this form. In a large tile, the inner selects keep their registers until the
outer ones, and ptxas, which has 255, may fail to allocate: it then spills everything, at 32 registers. Conditions take
no registers. Small tiles stay as they are: fewer conditions have to be computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.gather_distance import linear_layout_of
from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.arith import Select
from tilewright.dialects.scf import If
from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.core import Block, Op, Value, defining
from tilewright.ir.declare import OPS
from tilewright.ir.types import TensorType
from tilewright.transforms.carried_values import add_result
from tilewright.transforms.matching import following, has_one_use
from tilewright.transforms.op_builder import OpBuilder


def combine_select_if(module: Op) -> bool:
    """Make every `scf.if` yield the results of preceding selects with its condition."""
    selects = [op for op in module.walk() if isinstance(op, Select)]
    changed = False
    for select in selects:
        changed |= _use_choice_of_arm(select)
    combined: dict[If, list[Select]] = {}
    for select in selects:
        branch = _branch_for(select)
        if branch is not None:
            combined.setdefault(branch, []).append(select)
    for branch, chosen in combined.items():
        _yield_choices(branch, chosen)
    return changed or bool(combined)


def _use_choice_of_arm(select: Select) -> bool:
    """Replace `select %c, %a, %b` in the arms of `scf.if %c` by %a or %b."""
    condition, choices = select.condition, (select.chosen, select.other)
    changed = False
    for user in list(select.result.uses):
        choice = next((choices[arm] for branch, arm in _arms_around(user) if branch.condition is condition), None)
        if choice is not None:
            user.set_operands([choice if value is select.result else value for value in user.operands])
            changed = True
    return changed


def _arms_around(op: Op) -> list[tuple[If, int]]:
    """The `scf.if` ops around `op`, each with the number of the arm that `op` is in."""
    found = []
    region = op.block.region if op.block is not None else None
    while region is not None and (parent := region.op) is not None:
        if isinstance(parent, If):
            found.append((parent, 0 if region is parent.then else 1))
        region = parent.block.region if parent.block is not None else None
    return found


def _branch_for(select: Select) -> If | None:
    """The first `scf.if` with the condition of `select` that stands between it and all of its users."""
    if not isinstance(select.result.type, TensorType) or not select.result.uses:
        return None
    users = {ancestor_in(user, select.block) for user in select.result.uses}
    for op in following(select):
        if op in users:
            return None
        if isinstance(op, If) and op.condition is select.condition:
            return op
    return None


def _yield_choices(branch: If, selects: Sequence[Select]) -> None:
    for arm, region in enumerate(branch.regions):
        if not region.blocks:
            region.add(Block()).append(Op(OPS["scf.yield"], location=branch.location))
        terminator = region.block.terminator
        terminator.set_operands([*terminator.operands, *(select.other if arm else select.chosen for select in selects)])
    for select in selects:
        value = add_result(branch, select.result.type)
        value.name, value.location = select.result.name, select.result.location
        select.replace([value])


LARGE = 128
"""Min number of elements of a tile in a thread for its choices to be merged: half of the registers."""


def nested_selects(module: Op) -> None:
    """Make branches yield the operands of selects of large tiles in their arms."""
    for op in [op for op in module.walk() if isinstance(op, Select)]:
        if _is_large(op.result):
            _merge(op)


def _is_large(value: Value) -> bool:
    if not isinstance(value.type, TensorType):
        return False
    return linear_layout_of(value).in_size("register") >= LARGE


def _merge(outer: Select) -> None:
    condition, kept = outer.condition, outer.other
    inner = defining(outer.chosen, Select)
    if inner is None or inner.block is not outer.block or not has_one_use(inner.result):
        return
    if inner.condition.type is not condition.type:
        return
    if kept is inner.other:
        both, other = _condition(outer, "arith.andi", condition, inner.condition), inner.chosen
    elif kept is inner.chosen:
        both, other = _condition(outer, "arith.cmpi", inner.condition, condition), inner.other
    else:
        return
    outer.set_operands((both, other, kept))
    inner.erase()


def _condition(before: Op, name: str, lhs: Value, rhs: Value) -> Value:
    """The value of both conditions together, combined by a new op before `before`."""
    attributes: dict[str, Attribute] = {"predicate": Keyword("ult")} if name == "arith.cmpi" else {}
    return OpBuilder(before).emit(name, (lhs, rhs), lhs.type, attributes)
