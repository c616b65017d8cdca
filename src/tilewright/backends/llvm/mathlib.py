"""The math library: every function as inline instructions, no libm.

`FUNCTIONS[name](x, …)` takes and returns Lanes of float or double. Narrower formats compute in float and round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tilewright.backends.llvm.lanes import Lanes

MathFunction: TypeAlias = Callable[..., Lanes]


def square_root(x: Lanes) -> Lanes:
    return x.kind.call("llvm.sqrt", x)


def reciprocal_square_root(x: Lanes) -> Lanes:
    return 1.0 / square_root(x)


def round_down(x: Lanes) -> Lanes:
    return x.kind.call("llvm.floor", x)


def round_up(x: Lanes) -> Lanes:
    return x.kind.call("llvm.ceil", x)


def round_to_zero(x: Lanes) -> Lanes:
    return x.kind.call("llvm.trunc", x)


def round_to_even(x: Lanes) -> Lanes:
    return x.kind.call("llvm.roundeven", x)


def fused_multiply_add(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    return a.kind.fma(a, b, c)


FUNCTIONS: dict[str, MathFunction] = {
    "absf": abs,
    "ceil": round_up,
    "floor": round_down,
    "fma": fused_multiply_add,
    "rint": round_to_even,
    "rsqrt": reciprocal_square_root,
    "sqrt": square_root,
    "trunc": round_to_zero,
}
