"""Canonical forms of structured control flow.

    scf.if %true {A} else {B}                   ->  A
    %r = scf.if %c {yield %x} else {yield %y}   ->  %r = arith.select %c, %x, %y
    scf.for without iterations                  ->  its initial values
    scf.for of one iteration                    ->  its body
    %r = scf.for … iter_args(%a = %x) {… yield %a}   ->  %x instead of %a and %r

Unused results of an `if` and unused values carried by a loop are removed.

So are unused results of `ttg.warp_specialize`, and duplicate or unused captures:

    ttg.warp_specialize(%a, %a, %b)     partition0(%x, %y, %z) { "use"(%x, %y) }
    ttg.warp_specialize(%a)             partition0(%x) { "use"(%x, %x) }
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.dialects.scf import Condition, For, If, While, Yield
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, WarpSpecializePartitions, WarpYield
from tilewright.ir.core import Op, Region, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.rewriter import Rewriter, Rule
from tilewright.ir.types import i1
from tilewright.transforms.carried_values import drop_arguments, drop_results, without
from tilewright.transforms.matching import constant_of, integer_of, is_inside

# --- moving regions -----------------------------------------------------------------------------------------------


def splice(op: Op, region: Region, arguments: Sequence[Value], rewriter: Rewriter) -> None:
    """Put the body of `region`, run once on `arguments`, in the place of `op`; it yields the results of `op`."""
    block = region.block
    for argument, value in zip(block.args, arguments, strict=True):
        replace_value(argument, value, rewriter)
    terminator = block.terminator
    results = list(terminator.operands)
    terminator.erase()
    assert op.block is not None, "a spliced op is in a block"
    moved = list(block)
    op.block.splice(moved, op)
    for inner in moved:
        rewriter.revisit(inner)
    rewriter.replace(op, results)


def replace_value(old: Value, new: Value, rewriter: Rewriter) -> None:
    """Let the users of `old` use `new`; they, and the op that need not provide `old` any more, are looked at again."""
    if not old.uses:
        return
    for user in old.uses:
        rewriter.revisit(user)
    old.replace_by(new)
    rewriter.changed = True
    rewriter.lost_a_use(old)


# --- scf.if -------------------------------------------------------------------------------------------------------


def known_condition(op: If, rewriter: Rewriter) -> bool:
    """if true {A} else {B}  ->  A;   if false {A} else {B}  ->  B"""
    condition = constant_of(op.condition)
    if condition is None:
        return False
    region = op.then if condition else op.otherwise
    if region.blocks:
        splice(op, region, (), rewriter)
    else:
        rewriter.erase(op)
    return True


def unused_results_of_if(op: If, rewriter: Rewriter) -> bool:
    """Unused results are not yielded."""
    dropped = [i for i, result in enumerate(op.results) if not result.uses]
    if not dropped:
        return False
    for region in op.regions:
        terminator = region.block.terminator
        rewriter.set_operands(terminator, without(terminator.operands, dropped))
    drop_results(op, dropped)
    rewriter.modified(op)
    return True


def yields_known_outside(op: If, rewriter: Rewriter) -> bool:
    """Both arms yield x: x.   One yields x, the other y, both from outside or the arms empty: select(c, x, y)."""
    if not op.results:
        return False
    arms = [region.block.terminator for region in op.regions]
    changed = False
    for i, result in enumerate(op.results):
        x, y = (arm.operands[i] for arm in arms)
        if not result.uses or is_inside(x, op) or is_inside(y, op):
            continue
        if x is not y:
            if not _is_small(result, op):
                continue
            x = rewriter.create(op, "arith.select", (op.condition, x, y), (result.type,)).result
        replace_value(result, x, rewriter)
        changed = True
    return changed


def _is_small(result: Value, op: If) -> bool:
    """Whether choosing costs no more than the branch: a scalar, or there is nothing else to do in the branch."""
    return result.type.shape is None or all(region.block.first is region.block.last for region in op.regions)


def condition_inside_arm(op: If, rewriter: Rewriter) -> bool:
    """Inside {A} of if c {A} else {B}, c is true; inside {B} it is false."""
    condition = op.condition
    changed = False
    for user in list(condition.uses):
        if user is op:
            continue
        arm = _arm_of(user, op)
        if arm is not None:
            known = rewriter.constant(int(arm == 0), i1)
            rewriter.set_operands(user, [known if value is condition else value for value in user.operands])
            changed = True
    return changed


def _arm_of(user: Op, op: If) -> int | None:
    inner: Op | None = user
    while inner is not None and inner.block is not None:
        if inner.parent is op:
            return next(i for i, region in enumerate(op.regions) if region is inner.block.region)
        inner = inner.parent
    return None


# --- scf.for ------------------------------------------------------------------------------------------------------


def known_trip_count(op: For, rewriter: Rewriter) -> bool:
    """for lo >= hi  ->  initial values;   for lo, lo + step >= hi  ->  the body once"""
    low, high, step = integer_of(op.low), integer_of(op.high), integer_of(op.step)
    if op.low is op.high or (low is not None and high is not None and high <= low):
        rewriter.replace(op, op.inits)
        return True
    if low is None or high is None or step is None or low + step < high:
        return False
    splice(op, op.regions[0], (op.low, *op.inits), rewriter)
    return True


def empty_for(op: For, rewriter: Rewriter) -> bool:
    """for … {yield x}, x from outside, over one step or more  ->  x"""
    block = op.body
    low, high = integer_of(op.low), integer_of(op.high)
    if block.first is not block.last or low is None or high is None or high <= low:
        return False
    yielded = op.yielded
    if any(is_inside(value, op) for value in yielded):
        return False
    rewriter.replace(op, yielded)
    return True


def invariant_in_for(op: For, rewriter: Rewriter) -> bool:
    """for iter_args(a = x) {… yield a or x}  ->  x instead of a and of the result"""
    found = []
    for i, (argument, value, yielded) in enumerate(zip(op.carried, op.inits, op.yielded, strict=True)):
        if yielded is argument or yielded is value:
            found.append(i)
            replace_value(argument, value, rewriter)
            replace_value(op.results[i], value, rewriter)
    return _drop_carried(op, found, rewriter)


def duplicate_in_for(op: For, rewriter: Rewriter) -> bool:
    """for iter_args(a = x, b = x) {… yield y, y}  ->  a instead of b"""
    carried = op.carried
    first: dict[tuple[Value, Value], int] = {}
    found = []
    for i, pair in enumerate(zip(op.inits, op.yielded, strict=True)):
        same = first.setdefault(pair, i)
        if same != i:
            found.append(i)
            replace_value(carried[i], carried[same], rewriter)
            replace_value(op.results[i], op.results[same], rewriter)
    return _drop_carried(op, found, rewriter)


def unused_in_for(op: For, rewriter: Rewriter) -> bool:
    """A carried value whose result is unused and which only feeds itself is removed."""
    dead = [i for i, result in enumerate(op.results) if not result.uses and _feeds_only_itself(op, i)]
    for i in dead:
        replace_value(op.carried[i], op.inits[i], rewriter)
    return _drop_carried(op, dead, rewriter)


def _feeds_only_itself(op: For, position: int) -> bool:
    """Whether the carried value is used for nothing but to compute its own next value."""
    block, terminator = op.body, op.body.terminator
    pending: list[Value] = [op.carried[position]]
    seen: set[Value] = set(pending)
    while pending:
        value = pending.pop()
        for user in value.uses:
            if user is terminator:
                if any(v is value and i != position for i, v in enumerate(terminator.operands)):
                    return False
            elif user.block is not block or user.regions or not is_pure(user):
                return False
            else:
                fresh = [result for result in user.results if result not in seen]
                seen.update(fresh)
                pending.extend(fresh)
    return True


def _drop_carried(op: For, dropped: Collection[int], rewriter: Rewriter) -> bool:
    """Remove carried values, if any; only the terminator uses their arguments and results."""
    if not dropped:
        return False
    terminator = op.body.terminator
    rewriter.set_operands(terminator, without(terminator.operands, dropped))
    rewriter.set_operands(op, without(op.operands, [i + 3 for i in dropped]))
    drop_arguments(op.body, [i + 1 for i in dropped])
    drop_results(op, dropped)
    return True


def look_at_loop_again(op: Yield | Condition, rewriter: Rewriter) -> bool:
    """Queue the loop again: what it yields has changed, so its own rules may apply now."""
    parent = op.parent
    if parent is not None:
        rewriter.revisit_later(parent)
    return False


# --- scf.while ----------------------------------------------------------------------------------------------------


def invariant_in_while(op: While, rewriter: Rewriter) -> bool:
    """while (a = x) {…} do {… yield x, or the a that was passed on}  ->  x instead of a"""
    after, condition = op.after, op.condition
    found = []
    for i, (argument, value, yielded) in enumerate(zip(op.before.args, op.inits, op.yielded, strict=True)):
        passed = condition.values[yielded.index] if yielded.owner is after else None
        if yielded is value or passed is argument or passed is value:
            found.append(i)
            replace_value(argument, value, rewriter)
    return _drop_initial(op, found, rewriter)


def passed_from_outside(op: While, rewriter: Rewriter) -> bool:
    """while … condition(c, x), x from outside  ->  x instead of the argument and of the result"""
    changed = False
    for value, argument, result in zip(op.condition.values, op.after.args, op.results, strict=True):
        if (argument.uses or result.uses) and not is_inside(value, op):
            replace_value(argument, value, rewriter)
            replace_value(result, value, rewriter)
            changed = True
    return changed


def unused_in_while(op: While, rewriter: Rewriter) -> bool:
    """Values passed on that are used neither in the body nor after the loop, and unused loop values, are removed."""
    before, after = op.before, op.after
    passed = [i for i, (a, r) in enumerate(zip(after.args, op.results, strict=True)) if not a.uses and not r.uses]
    if passed:
        condition = op.condition
        rewriter.set_operands(condition, without(condition.operands, [i + 1 for i in passed]))
        drop_arguments(after, passed)
        drop_results(op, passed)
        rewriter.modified(op)
    initial = [i for i, argument in enumerate(before.args) if not argument.uses]
    return _drop_initial(op, initial, rewriter) or bool(passed)


def _drop_initial(op: While, dropped: Collection[int], rewriter: Rewriter) -> bool:
    if not dropped:
        return False
    terminator = op.after.terminator
    rewriter.set_operands(terminator, without(terminator.operands, dropped))
    rewriter.set_operands(op, without(op.operands, dropped))
    drop_arguments(op.before, dropped)
    return True


def never_entered(op: While, rewriter: Rewriter) -> bool:
    """while {A; condition(false, x)} do {B}  ->  A, x"""
    condition = op.condition
    if constant_of(condition.condition) != 0:
        return False
    condition.set_operands(condition.values)
    splice(op, op.regions[0], op.inits, rewriter)
    return True


# --- ttg.warp_specialize ------------------------------------------------------------------------------------------


def unused_results(op: WarpSpecialize, rewriter: Rewriter) -> bool:
    """Unused results are not yielded."""
    dropped = [i for i, result in enumerate(op.results) if not result.uses]
    if not dropped:
        return False
    for block in op.regions[0].blocks:
        end = block.terminator
        if isinstance(end, WarpYield):
            rewriter.set_operands(end, without(end.values, dropped))
    drop_results(op, dropped)
    return True


def unused_captures(op: WarpSpecializePartitions, rewriter: Rewriter) -> bool:
    """Captures that no partition uses, or that it has already, are dropped."""
    dropped: list[int] = []
    known: dict[Value, int] = {}
    for i, capture in enumerate(op.captures):
        if any(region.block.args[i].uses for region in op.regions):
            first = known.setdefault(capture, i)
            if first == i:
                continue
            for region in op.regions:
                replace_value(region.block.args[i], region.block.args[first], rewriter)
        dropped.append(i)
    if not dropped:
        return False
    for region in op.regions:
        drop_arguments(region.block, dropped)
    rewriter.set_operands(op, without(op.captures, dropped))
    return True


RULES: dict[str, tuple[Rule, ...]] = {
    "scf.if": (known_condition, unused_results_of_if, yields_known_outside, condition_inside_arm),
    "scf.for": (known_trip_count, empty_for, invariant_in_for, duplicate_in_for, unused_in_for),
    "scf.while": (never_entered, invariant_in_while, passed_from_outside, unused_in_while),
    "scf.yield": (look_at_loop_again,),
    "scf.condition": (look_at_loop_again,),
    "ttg.warp_specialize": (unused_results,),
    "ttg.warp_specialize.partitions": (unused_captures,),
}
