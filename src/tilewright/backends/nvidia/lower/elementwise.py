"""Ops that compute each element from the elements at its place: one register at a time.

    %c = arith.addf %a, %b      %v9 = fadd contract float %v7, %v8

Rules of `backends/llvm/elementwise.py` for one lane serve where a GPU has nothing better. `arithmetic.py` and
`conversions.py` have the rules that differ: 16-bit floats have instructions of their own, and integer divisions do not
trap. `mathematics.py` has the functions.
"""

from __future__ import annotations

from tilewright.backends.llvm import elementwise
from tilewright.backends.nvidia.lower import arithmetic, conversions, mathematics
from tilewright.backends.nvidia.lower.lowerer import Lowering
from tilewright.backends.nvidia.lower.rules import Rule, per_register, shared_rule

RULES: dict[str, Rule] = {
    **dict.fromkeys(elementwise.LOWERINGS, shared_rule),
    **arithmetic.RULES,
    **conversions.RULES,
    **mathematics.RULES,
}
LOWERINGS: dict[str, Lowering] = {
    **{name: per_register(rule) for name, rule in RULES.items()},
    **conversions.LOWERINGS,
}
