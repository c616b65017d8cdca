"""Remove layout conversions: most cost a round trip through shared memory, and few are necessary.

    %q = ttg.convert_layout %p : … -> #coalesced                %q = … : #coalesced, computed in this layout
    %x = tt.load %q : #coalesced                                %x = tt.load %q : #coalesced
    %y = ttg.convert_layout %x : … -> #default           ->     %z = arith.mulf %x, %x : #coalesced
    %z = arith.mulf %y, %y : #default                           tt.store %s, %z : #coalesced
    %w = ttg.convert_layout %z : … -> #coalesced
    tt.store %r, %w : #coalesced

First the layouts of loads and products propagate forward to dependent values. Of the remaining conversions, those of
values that are cheap to recompute in the other layout are removed; the others move to where they cost least.

Values that a loop carries only for themselves may keep a conversion alive. Their uses in the body are replaced by the
initial value; canonicalization then removes them:

    scf.for … iter_args(%a = %x, %b = %y) {             scf.for … iter_args(%a = %x, %b = %y) {
      %c = arith.addi %a, %b                              %c = arith.addi %x, %b
      tt.store %p, %b                           ->        tt.store %p, %b
      scf.yield %c, %b                                    scf.yield %c, %b
"""

from __future__ import annotations

from tilewright.analysis.value_flow import flows_into
from tilewright.dialects.scf import Condition, For, If, While, Yield
from tilewright.ir.core import Op, Value
from tilewright.ir.effects import is_pure
from tilewright.ir.rewriter import Fold, Rule
from tilewright.transforms import canonicalize, control_flow_rules, conversion_rules
from tilewright.transforms.functions import functions_of, rewrite_functions
from tilewright.transforms.gpu.conversion_hoisting import hoist_conversions
from tilewright.transforms.gpu.layout_propagation import propagate_layouts
from tilewright.transforms.gpu.rematerialization import rematerialize

FORWARDING = (For, While, If, Yield, Condition)


def cut_dead_carried(function: Op) -> None:
    """Let the bodies of loops of `function` use the initial values of unneeded carried values."""
    ops = list(function.walk())
    needed = needed_values(ops)
    for op in ops:
        if isinstance(op, (For, While)):
            arguments = op.carried if isinstance(op, For) else op.before.args
            for argument, start in zip(arguments, op.inits, strict=True):
                if argument not in needed:
                    argument.replace_by(start)


def needed_values(ops: list[Op]) -> set[Value]:
    """The values that something with an effect depends on."""
    sources: dict[Value, list[Value]] = {}
    waiting: list[Value] = []
    for op in ops:
        if isinstance(op, FORWARDING):
            for index, value in enumerate(op.operands):
                targets = flows_into(op, index)
                if not targets:  # bounds and conditions
                    waiting.append(value)
                for target in targets:
                    sources.setdefault(target, []).append(value)
        elif op.regions or op.definition.terminator or not is_pure(op):
            waiting += op.operands
    found: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found.add(value)
        owner = value.owner
        waiting += sources.get(value, ())
        if isinstance(owner, Op) and not isinstance(owner, FORWARDING):
            waiting += owner.operands
    return found


LOOP_RULES: dict[str, tuple[Rule, ...]] = {
    name: control_flow_rules.RULES[name] for name in ("scf.for", "scf.if", "scf.yield")
}
FOLDS: dict[str, tuple[Fold, ...]] = {
    name: fold for name, fold in canonicalize.FOLDS.items() if name not in ("tt.split", "tt.join")
}
"""The folds without those that Triton lacks: a pass that looks for pairs later should find them."""


def remove_layout_conversions(module: Op) -> None:
    """Remove layout conversions from `module` where that makes it faster."""
    functions = functions_of(module)
    for function in functions:
        propagate_layouts(function)
    _clean_up(module)
    changed = True
    while changed:
        changed = sum(map(rematerialize, functions)) > 0
        _clean_up(module)
    for function in functions:
        hoist_conversions(function)
        cut_dead_carried(function)
    _clean_up(module)
    rewrite_functions(module, LOOP_RULES, folds=FOLDS)


def _clean_up(module: Op) -> None:
    """Drop conversions that do nothing, or that the op they convert can do itself."""
    rewrite_functions(module, conversion_rules.RULES, folds=FOLDS)
