"""Uniform values, the same in all lanes: computed from scalars of the call, constants, and counters of common loops.

%0 = arith.addi %n, %c1         uniform where %n is
%1 = arith.addf %x, %y          not where %x varies
scf.while                       what it carries is uniform as long as its condition and the next values are
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.dialects.scf import If, While
from tilewright.ir.core import Block, Value


def uniform_values(block: Block, uniform: Iterable[Value]) -> set[Value]:
    """The uniform values of a function whose arguments `uniform` are."""
    found = set(uniform)
    _visit(block, found)
    return found


def _visit(block: Block, found: set[Value]) -> None:
    for op in block:
        if isinstance(op, If):
            _visit_if(op, found)
        elif isinstance(op, While):
            _visit_while(op, found)
        elif all(operand in found for operand in op.operands):
            found.update(op.results)


def _visit_if(op: If, found: set[Value]) -> None:
    for region in op.arms:
        _visit(region.block, found)
    if op.condition in found and op.results:
        sides = zip(*(region.block.terminator.operands for region in op.regions), strict=True)
        found.update(result for result, pair in zip(op.results, sides, strict=True) if found.issuperset(pair))


def _visit_while(op: While, found: set[Value]) -> None:
    before, after = op.before, op.after
    candidates = [value in found for value in op.inits]
    while True:
        inside = set(found)
        inside.update(argument for argument, holds in zip(before.args, candidates, strict=True) if holds)
        _visit(before, inside)
        condition, passed = op.condition.condition, op.condition.values
        inside.update(argument for argument, value in zip(after.args, passed, strict=True) if value in inside)
        _visit(after, inside)
        agree = condition in inside
        still = [holds and agree and value in inside for holds, value in zip(candidates, op.yielded, strict=True)]
        if still == candidates:
            break
        candidates = still
    found |= inside
    if agree:
        found.update(result for result, value in zip(op.results, passed, strict=True) if value in inside)
