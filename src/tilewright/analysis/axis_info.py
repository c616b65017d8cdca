"""Axis info of all values of a function: a forward data-flow analysis over regions.

    %r = tt.make_range {start = 0, end = 64}     contiguity [64]  divisibility [2^62]  constancy [1]
    %s = tt.splat %base                          contiguity [1]   divisibility [16]    constancy [64]   (hint: 16)
    %o = arith.addi %s, %r                       contiguity [64]  divisibility [16]    constancy [1]

Loop-carried values start with what their initial values have and are joined with what the body yields until nothing
changes; results of `scf.if` are the join of both arms. `axis_rules` says what each op does, `axis_lattice` what the
words mean. Hints of the program (`tt.divisibility`, `tt.contiguity`, `tt.constancy` on ops and arguments) are believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tilewright.analysis.axis_lattice import AxisInfo, axes, join, nothing_known, power_of_two
from tilewright.analysis.axis_rules import TRANSFERS, elementwise
from tilewright.ir.attributes import Attribute, Dense, DenseArray, Number
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.types import Type

__all__ = ["AxisInfo", "analyze_axis_info"]

Facts: TypeAlias = dict[Value, AxisInfo]
HINTS = ("tt.contiguity", "tt.divisibility", "tt.constancy")
"""Names of the attributes that carry promises, in the order of AxisInfo's fields."""


def analyze_axis_info(function: Op) -> Mapping[Value, AxisInfo]:
    """Axis info of every value in `function` (a `tt.func`), its arguments included."""
    facts: Facts = {}
    arg_hints = function.attributes.get("arg_attrs") or ()
    assert isinstance(arg_hints, tuple), "arg_attrs has one dictionary per argument"
    for region in function.regions:
        for block in region.blocks:
            for value in block.args:
                facts[value] = nothing_known(value.type)
        for value, hints in zip(region.block.args, arg_hints, strict=False):
            assert isinstance(hints, dict), "the attributes of an argument are a dictionary"
            facts[value] = _believe(hints, facts[value], value.type)
        for block in region.blocks:
            _visit_block(block, facts)
    return facts


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
    if transfer is None and op.definition.elementwise:
        transfer = elementwise
    if transfer is None:
        _visit_regions(op, facts)
        for value in op.results:
            facts[value] = nothing_known(value.type)
        return
    known = transfer(op, [facts[value] for value in op.operands])
    facts[op.results[0]] = _believe(op.attributes, known, op.results[0].type)


def _visit_regions(op: Op, facts: Facts) -> None:
    for region in op.regions:
        for block in region.blocks:
            for value in block.args:
                facts[value] = nothing_known(value.type)
            _visit_block(block, facts)


def _believe(hints: Mapping[str, Attribute], known: AxisInfo, type: Type) -> AxisInfo:
    """`known` with the program's promises about it."""
    if not any(name in hints for name in HINTS):
        return known
    facts = list(known[:3])
    for position, name in enumerate(HINTS):
        hint = hints.get(name)
        if hint is not None:
            facts[position] = tuple(map(max, facts[position], _numbers(hint, len(axes(type)))))
    return AxisInfo(facts[0], facts[1], facts[2], known.constant, known.non_negative)


def _numbers(hint: Attribute, rank: int) -> Sequence[int]:
    match hint:
        case Number(value):
            values: Sequence[float] = (value,) * rank
        case Dense(values) | DenseArray(_, values):
            pass
        case _:
            return (1,) * rank
    return [power_of_two(int(value)) for value in values]


# --- control flow -----------------------------------------------------------------------------------------------


def _joined(into: Sequence[AxisInfo], other: Sequence[AxisInfo], values: Sequence[Value]) -> list[AxisInfo]:
    return [join(a, b, value.type) for a, b, value in zip(into, other, values, strict=True)]


def _visit_for(op: Op, facts: Facts) -> None:
    body = op.regions[0].block
    low, _, step, *initial = (facts[value] for value in op.operands)
    counter, *arguments = body.args
    divisibility = min(low.divisibility[0], step.divisibility[0])
    facts[counter] = AxisInfo((1,), (divisibility,), (1,), None, low.non_negative and step.non_negative)
    carried = list(initial)
    while True:
        facts.update(zip(arguments, carried, strict=True))
        _visit_block(body, facts)
        joined = _joined(carried, [facts[value] for value in body.terminator.operands], arguments)
        if joined == carried:
            break
        carried = joined
    facts.update(zip(op.results, carried, strict=True))


def _visit_while(op: Op, facts: Facts) -> None:
    before, after = (region.block for region in op.regions)
    carried = [facts[value] for value in op.operands]
    while True:
        facts.update(zip(before.args, carried, strict=True))
        _visit_block(before, facts)
        passed = [facts[value] for value in before.terminator.operands[1:]]
        facts.update(zip(after.args, passed, strict=True))
        _visit_block(after, facts)
        joined = _joined(carried, [facts[value] for value in after.terminator.operands], before.args)
        if joined == carried:
            break
        carried = joined
    facts.update(zip(op.results, passed, strict=True))


def _visit_if(op: Op, facts: Facts) -> None:
    arms = [region.block for region in op.regions if region.blocks]
    for arm in arms:
        _visit_block(arm, facts)
    if op.results:
        yielded = [[facts[value] for value in arm.terminator.operands] for arm in arms]
        facts.update(zip(op.results, _joined(yielded[0], yielded[1], op.results), strict=True))


REGION_VISITORS = {"scf.for": _visit_for, "scf.while": _visit_while, "scf.if": _visit_if}
