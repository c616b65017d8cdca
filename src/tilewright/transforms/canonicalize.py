"""Canonicalize: fold constants, shorten chains, drop what is known or not needed, until nothing changes.

    %c = arith.constant 4 : i32                      %r = tt.make_range {start = 0, end = 64}
    %d = arith.muli %c, %c                     ->    %s = tt.splat %x
    %r = tt.make_range {start = 0, end = 64}         %t = arith.addi %r, %s
    %s = tt.splat %x                                 …
    %b = tt.broadcast %s
    %t = arith.addi %r, %s

The folds and rules are in `fold_arithmetic`, `arith_rules`, `shape_rules`, `memory_rules` and `control_flow_rules`.
"""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.rewriter import Fold, Rule
from tilewright.transforms import arith_rules, control_flow_rules, fold_arithmetic, memory_rules, shape_rules
from tilewright.transforms.functions import rewrite_functions

FOLDS: dict[str, Fold] = {**fold_arithmetic.FOLDS, **shape_rules.FOLDS, **memory_rules.FOLDS}
RULES: dict[str, tuple[Rule, ...]] = {
    **arith_rules.RULES,
    **shape_rules.RULES,
    **memory_rules.RULES,
    **control_flow_rules.RULES,
}


def canonicalize(module: Op) -> bool:
    """Bring every function of `module` into canonical form; returns whether anything changed."""
    return rewrite_functions(module, RULES, folds=FOLDS)
