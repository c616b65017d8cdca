"""Canonicalize: folds constants, shortens chains, removes redundant ops, until nothing changes.

    %c = arith.constant 4 : i32                      %r = tt.make_range {start = 0, end = 64}
    %d = arith.muli %c, %c                     ->    %s = tt.splat %x
    %r = tt.make_range {start = 0, end = 64}         %t = arith.addi %r, %s
    %s = tt.splat %x                                 …
    %b = tt.broadcast %s
    %t = arith.addi %r, %s

The folds and rules are in the files named `…_rules`.
"""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.rewriter import Fold, Rule
from tilewright.transforms import (
    arith_rules,
    control_flow_rules,
    conversion_rules,
    memory_rules,
    shape_rules,
)
from tilewright.transforms.functions import rewrite_functions

PARTS = (
    arith_rules,
    shape_rules,
    memory_rules,
    control_flow_rules,
    conversion_rules,
)
FOLDS: dict[str, tuple[Fold, ...]] = {
    **arith_rules.FOLDS,
    **shape_rules.FOLDS,
    **memory_rules.FOLDS,
    **conversion_rules.FOLDS,
}
RULES: dict[str, tuple[Rule, ...]] = {
    name: tuple(rule for part in PARTS for rule in part.RULES.get(name, ()))
    for name in {name: None for part in PARTS for name in part.RULES}
}


OWN_RULES = frozenset(
    {arith_rules.joined_comparisons, control_flow_rules.unused_in_for, control_flow_rules.unused_in_while}
)
"""Rules that Triton lacks: it keeps values that a loop carries only for themselves, and redundant comparisons."""
TRITONS_RULES = {name: tuple(rule for rule in rules if rule not in OWN_RULES) for name, rules in RULES.items()}


def canonicalize(module: Op) -> bool:
    """Bring every function of `module` into canonical form; returns whether anything changed."""
    return rewrite_functions(module, RULES, folds=FOLDS)


def canonicalize_as_triton(module: Op) -> bool:
    """Canonicalize by Triton's rules only; returns whether anything changed."""
    return rewrite_functions(module, TRITONS_RULES, folds=FOLDS)
