"""Axis info of all values of a function or a module: a forward data-flow analysis over regions.

    %r = tt.make_range {start = 0, end = 64}     contiguity [64]  divisibility [2^30]  constancy [1]
    %s = tt.splat %base                          contiguity [1]   divisibility [16]    constancy [64]   (hint: 16)
    %o = arith.addi %s, %r                       contiguity [64]  divisibility [16]    constancy [1]

Values that come together (carried by a loop, yielded by the branches of an `scf.if`, passed to a block or a function)
have what all of them have in common, and loops are repeated until nothing changes. `axis_rules` has the transfer
function of each op, `axis_lattice` defines the terms. Hints of the program (`tt.divisibility`, `tt.contiguity`,
`tt.constancy` on ops and arguments) are trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tilewright.analysis.axis_lattice import AxisInfo, axes, join, nothing_known
from tilewright.analysis.axis_rules import TRANSFERS
from tilewright.analysis.value_flow import callees_first, calls_in
from tilewright.dialects.cf import target_operands
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.tt_function import Func
from tilewright.dialects.ttg_warp_specialize import WarpSpecialize, partitions_of
from tilewright.ir.attributes import Attribute, Dense, DenseArray, Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import Type

__all__ = ["AxisInfo", "alignment_remarks", "analyze_axis_info"]

Facts: TypeAlias = dict[Value, AxisInfo]
Hints: TypeAlias = Mapping[str, Attribute]
HINTS = ("tt.contiguity", "tt.divisibility", "tt.constancy")
"""Names of the attributes that carry promises, in the order of AxisInfo's fields."""


def analyze_axis_info(root: Op) -> Mapping[Value, AxisInfo]:
    """Axis info of every value in `root` (a `tt.func` or a module), arguments of functions included.

    In a module the arguments of functions have what all calls pass, and hints; those of functions that call themselves
    have hints alone.
    """
    facts: Facts = {}
    functions, recursive = ([root], set[Func]()) if isinstance(root, Func) else callees_first(root)
    passed: dict[Func, list[AxisInfo]] = {}
    for function in reversed(functions):
        _visit_function(function, passed.get(function) if function not in recursive else None, facts)
        for call, callee in calls_in(function):
            known = [facts[value] for value in call.arguments]
            before = passed.setdefault(callee, known)
            passed[callee] = [_met(a, b) for a, b in zip(before, known, strict=True)]
    return facts


def alignment_remarks(module: Op) -> Iterator[tuple[Op, str]]:
    """The axis info of each result, in the words of Triton's `-test-print-alignment`."""
    facts = analyze_axis_info(module)
    for op in module.walk():
        for value in op.results:
            yield op, f"=> {facts[value].text}"


# --- functions --------------------------------------------------------------------------------------------------


def _met(a: AxisInfo, b: AxisInfo) -> AxisInfo:
    return join(a, b)._replace(constant=None)


def _visit_function(function: Func, passed: Sequence[AxisInfo] | None, facts: Facts) -> None:
    if not function.region.blocks:
        return
    arguments = zip(function.body.args, function.argument_attributes, strict=True)
    for position, (value, promised) in enumerate(arguments):
        facts[value] = _believe(promised, nothing_known(value.type), value.type)
        if passed is not None and value.type.shape is None:
            known = passed[position]
            facts[value] = _met(known, _believe(promised, known, value.type))
    _visit_region(function.region, facts)


# --- blocks -----------------------------------------------------------------------------------------------------


def _visit_region(region: Region, facts: Facts) -> None:
    """Visit all blocks, the arguments of the first being known, until what they pass on no longer changes."""
    if len(region.blocks) == 1:
        _visit_block(region.blocks[0], facts)
        return
    reached = {region.blocks[0]}
    changed = True
    while changed:
        changed = False
        for block in region.blocks:
            if block in reached:
                _visit_block(block, facts)
                changed |= _pass_on(block.terminator, reached, facts)
    for block in region.blocks:
        if block not in reached:
            _know_nothing(block, facts)


def _pass_on(jump: Op, reached: set[Block], facts: Facts) -> bool:
    """Give the targets of `jump` what it passes; whether that is news."""
    news = False
    if not jump.successors:
        return news
    for block, values in zip(jump.successors, target_operands(jump), strict=True):
        known = [facts[value] for value in values]
        if block in reached:
            known = _joined([facts[value] for value in block.args], known)
        news |= block not in reached or known != [facts[value] for value in block.args]
        reached.add(block)
        facts.update(zip(block.args, known, strict=True))
    return news


def _visit_block(block: Block, facts: Facts) -> None:
    for op in block:
        visit = REGION_VISITORS.get(op.name)
        if visit is not None:
            visit(op, facts)
        elif op.results:
            _visit_op(op, facts)
        elif op.regions:
            _visit_regions(op, facts)


def _visit_op(op: Op, facts: Facts) -> None:
    transfer = TRANSFERS.get(op.name)
    if transfer is None:
        _visit_regions(op, facts)
        for value in op.results:
            facts[value] = _believe(op.attributes, nothing_known(value.type), value.type)
        return
    value = op.result
    facts[value] = _believe(op.attributes, transfer(op, [facts[v] for v in op.operands]), value.type)


def _visit_regions(op: Op, facts: Facts) -> None:
    for region in op.regions:
        if region.blocks:
            for value in region.block.args:
                facts[value] = nothing_known(value.type)
            _visit_region(region, facts)


def _know_nothing(block: Block, facts: Facts) -> None:
    """Fill in a block that is never executed."""
    for value in block.args:
        facts[value] = nothing_known(value.type)
    for op in block:
        for value in op.results:
            facts[value] = _believe(op.attributes, nothing_known(value.type), value.type)
        for region in op.regions:
            for inner in region.blocks:
                _know_nothing(inner, facts)


def _believe(hints: Hints, known: AxisInfo, type: Type) -> AxisInfo:
    """`known` with the program's promises about it."""
    if not any(name in hints for name in HINTS):
        return known
    rank = len(axes(type))
    facts = known.contiguity, known.divisibility, known.constancy
    promised = [_numbers(hints[name], rank) if name in hints else facts[i] for i, name in enumerate(HINTS)]
    return AxisInfo(promised[0], promised[1], promised[2], known.constant)


def _numbers(hint: Attribute, rank: int) -> tuple[int, ...]:
    match hint:
        case Number(int(value)):
            return (value,) * rank
        case Dense(values) | DenseArray(_, values) if len(values) == rank:
            return tuple(map(int, values))
        case _:
            return (1,) * rank


# --- control flow -----------------------------------------------------------------------------------------------


def _joined(into: Sequence[AxisInfo], other: Sequence[AxisInfo]) -> list[AxisInfo]:
    return [join(a, b) for a, b in zip(into, other, strict=True)]


def _visit_for(op: For, facts: Facts) -> None:
    low, _, step, *initial = (facts[value] for value in op.operands)
    counter, *arguments = op.body.args
    facts[counter] = join(low, step)._replace(contiguity=(1,), constancy=(1,), constant=None)
    carried = list(initial)
    while True:
        facts.update(zip(arguments, carried, strict=True))
        _visit_block(op.body, facts)
        joined = _joined(carried, [facts[value] for value in op.yielded])
        if joined == carried:
            break
        carried = joined
    facts.update(zip(op.results, carried, strict=True))


def _visit_while(op: While, facts: Facts) -> None:
    before, after = op.before, op.after
    carried = [facts[value] for value in op.inits]
    while True:
        facts.update(zip(before.args, carried, strict=True))
        _visit_block(before, facts)
        passed = [facts[value] for value in op.condition.values]
        facts.update(zip(after.args, passed, strict=True))
        _visit_block(after, facts)
        joined = _joined(carried, [facts[value] for value in op.yielded])
        if joined == carried:
            break
        carried = joined
    facts.update(zip(op.results, passed, strict=True))


def _visit_if(op: If, facts: Facts) -> None:
    condition = facts[op.condition].constant
    arms = [region.blocks[0] if region.blocks else None for region in op.regions]
    skipped = None if condition is None else arms.pop(0 if condition == 0 else -1) if len(arms) > 1 else None
    if skipped is not None:
        _know_nothing(skipped, facts)
    for arm in filter(None, arms):
        _visit_block(arm, facts)
    if op.results:
        yielded = [[facts[value] for value in arm.terminator.operands] for arm in arms if arm is not None]
        facts.update(zip(op.results, _joined(yielded[0], yielded[-1]), strict=True))


def _visit_warp_specialize(op: WarpSpecialize, facts: Facts) -> None:
    """Each partition gets what the op (or, in another version, the op with the partitions) captures."""
    _visit_block(op.default, facts)
    partitions = partitions_of(op)
    captured = [facts[value] for value in partitions.captures or op.operands]
    for region in partitions.regions:
        facts.update(zip(region.block.args, captured, strict=True))
        _visit_block(region.block, facts)
    for value in op.results:
        facts[value] = nothing_known(value.type)


REGION_VISITORS: Mapping[str, Callable[[Any, Facts], None]] = {
    "scf.for": _visit_for,
    "scf.while": _visit_while,
    "scf.if": _visit_if,
    "ttg.warp_specialize": _visit_warp_specialize,
}
