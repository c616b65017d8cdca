"""Remove layout conversions: most cost a round trip through shared memory, and few are needed.

    %q = ttg.convert_layout %p : … -> #coalesced                %q = … : #coalesced, computed like that
    %x = tt.load %q : #coalesced                                %x = tt.load %q : #coalesced
    %y = ttg.convert_layout %x : … -> #default           ->     %z = arith.mulf %x, %x : #coalesced
    %z = arith.mulf %y, %y : #default                           tt.store %s, %z : #coalesced
    %w = ttg.convert_layout %z : … -> #coalesced
    tt.store %r, %w : #coalesced

First the layouts of loads and products spread forward to what is computed from them. Of the conversions that are left,
some go as what they convert is cheap to compute again in the other layout; the others move to where they cost least.
"""

from __future__ import annotations

from tilewright.ir.core import Op
from tilewright.ir.rewriter import Fold, Rule
from tilewright.transforms import canonicalize, control_flow_rules, conversion_rules
from tilewright.transforms.functions import functions_of, rewrite_functions
from tilewright.transforms.gpu.conversion_hoisting import hoist_conversions
from tilewright.transforms.gpu.dead_carried import cut_dead_carried
from tilewright.transforms.gpu.layout_propagation import propagate_layouts
from tilewright.transforms.gpu.rematerialization import rematerialize

LOOP_RULES: dict[str, tuple[Rule, ...]] = {
    name: control_flow_rules.RULES[name] for name in ("scf.for", "scf.if", "scf.yield")
}
FOLDS: dict[str, tuple[Fold, ...]] = {
    name: fold for name, fold in canonicalize.FOLDS.items() if name not in ("tt.split", "tt.join")
}
"""The folds without those that Triton lacks: a pass that looks for pairs later should find them."""


def remove_layout_conversions(module: Op) -> None:
    """Remove conversions of layouts from `module`, as far as that makes it faster."""
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
