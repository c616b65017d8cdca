"""Combine selects and ifs: a choice between tiles that an `scf.if` makes anyway is one of its results.

    %s = arith.select %c, %a, %b : tensor<…>          %s = scf.if %c -> (tensor<…>) {
    scf.if %c {                                         tt.store %p, %v
      tt.store %p, %v                                   scf.yield %a
    }                                                 } else {
    tt.store %q, %s                                     scf.yield %b
                                                      }
                                                      tt.store %q, %s

A tile that is chosen element by element costs an instruction for each of them, one that an arm yields costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.live_ranges import ancestor_in
from tilewright.dialects.arith import Select
from tilewright.dialects.scf import If
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.declare import OPS
from tilewright.ir.types import TensorType


def combine_select_if(module: Op) -> bool:
    """Let every `scf.if` yield what selects with its condition choose, where those stand in front of it."""
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
    op = select.next
    users = {ancestor_in(user, select.block) for user in select.result.uses}
    while op is not None:
        if op in users:
            return None
        if isinstance(op, If) and op.condition is select.condition:
            return op
        op = op.next
    return None


def _yield_choices(branch: If, selects: Sequence[Select]) -> None:
    for arm, region in enumerate(branch.regions):
        if not region.blocks:
            region.add(Block()).append(Op(OPS["scf.yield"], location=branch.location))
        terminator = region.block.terminator
        terminator.set_operands([*terminator.operands, *(select.other if arm else select.chosen for select in selects)])
    for select in selects:
        value = Value(select.result.type, branch, len(branch.results), select.result.name)
        value.location = select.result.location
        branch.results.append(value)
        select.replace([value])
