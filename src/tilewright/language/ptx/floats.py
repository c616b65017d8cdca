"""Instructions on floats, as operations on tiles.

    FLOATS["fma.rn"].compute(x, y, z)      x · y + z, rounded once
    FLOATS["tanh.approx"].compute(x)       tanh(x), as `libdevice.tanh` has it

PTX only bounds the errors of approximations (`ex2.approx`, `div.full`); the language's functions are nearer. PTX ISA,
sections "Floating point" and "Half precision floating point".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.language import math
from tilewright.language.extra import directed, libdevice
from tilewright.language.extra.bits import bitcast
from tilewright.language.operations import PropagateNan, cast, maximum, minimum, where
from tilewright.language.ptx.integers import RELATIONS
from tilewright.language.ptx.registers import Semantics, only, raw, width_of
from tilewright.semantics.types import float32

SINGLE = only("f32")
WIDE = only("f32 f64")
PAIR = only("f32x2")
NARROW = only("f16 f16x2 bf16 bf16x2")
EVERY = WIDE | NARROW
ROUNDINGS = {"rn": "rn", "rz": "rz", "rm": "rd", "rp": "ru"}
"""PTX's rounding modes → libdevice's names of them."""
SMALLEST = {"f32": 2.0**-126, "f16": 2.0**-14, "f16x2": 2.0**-14, "f32x2": 2.0**-126}
"""The least normal numbers; those below are subnormal, and `ftz` takes them for zero."""


def larger(x: Any, y: Any) -> Any:
    """The larger number; of zeros the positive one."""
    return _of_equals(x, y, maximum(x, y), lambda a, b: a & b)


def smaller(x: Any, y: Any) -> Any:
    """The smaller number; of zeros the negative one."""
    return _of_equals(x, y, minimum(x, y), lambda a, b: a | b)


def _of_equals(x: Any, y: Any, found: Any, choose: Callable[[Any, Any], Any]) -> Any:
    """`found`, but of equal numbers, which differ at most in their signs, the one that `choose` makes of the bits."""
    kind = x.type.scalar
    return where(x == y, bitcast(choose(raw(x), raw(y)), kind), cast(found, kind))


def or_nan(choice: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`larger` or `smaller`, where a NaN is the result."""
    either = maximum if choice is larger else minimum
    return lambda x, y: cast(where((x != x) | (y != y), either(x, y, PropagateNan.ALL), choice(x, y)), x.type.scalar)


def flushed(x: Any, type: str) -> Any:
    """Subnormal numbers as zeros of their sign."""
    bits = raw(x)
    sign = bits >> (width_of(x.type.scalar) - 1) << (width_of(x.type.scalar) - 1)
    return where(math.abs(x) < SMALLEST[type], bitcast(sign, x.type.scalar), x)


def from_zero_to_one(x: Any) -> Any:
    """The number kept in that range; NaN gives 0."""
    return cast(where(x > 0.0, minimum(x, 1.0), 0.0), x.type.scalar)


def without_negatives(x: Any) -> Any:
    """0 for negative numbers; NaN stays."""
    return cast(where(x <= 0.0, 0.0, x), x.type.scalar)


def with_sign_of(signed: Any, size: Any) -> Any:
    """The second number with the sign of the first."""
    kind, shift = size.type.scalar, width_of(size.type.scalar) - 1
    rest = raw(size) ^ (raw(size) >> shift << shift)
    return bitcast(rest | (raw(signed) >> shift << shift), kind)


def negative(x: Any) -> Any:
    """The bits with the other sign."""
    shift = width_of(x.type.scalar) - 1
    return bitcast(raw(x) ^ (~(raw(x) & 0) >> shift << shift), x.type.scalar)


def _numbers(x: Any, y: Any) -> Any:
    return (x == x) & (y == y)


def or_unordered(relation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The relation, which holds for NaN, too."""
    return lambda x, y: relation(x, y) | ~_numbers(x, y)


def _rounded(operation: str, types: frozenset[str]) -> dict[str, Semantics]:
    """`add.rz` and its like, by libdevice's functions."""
    functions = {f"{operation}.{mode}": getattr(directed, f"{operation}_{ours}") for mode, ours in ROUNDINGS.items()}
    return {name: Semantics(function, types) for name, function in functions.items()}


def _in_single(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of halves, too: computed in fp32, and rounded once more."""
    return lambda x: cast(function(cast(x, float32)), x.type.scalar)


APPROXIMATIONS = {
    "ex2.approx": Semantics(_in_single(math.exp2), SINGLE | only("f16 f16x2")),
    "tanh.approx": Semantics(_in_single(libdevice.tanh), SINGLE | NARROW),
    "lg2.approx": Semantics(math.log2, SINGLE),
    "sin.approx": Semantics(math.sin, SINGLE),
    "cos.approx": Semantics(math.cos, SINGLE),
    "sqrt.approx": Semantics(math.sqrt, SINGLE),
    "rsqrt.approx": Semantics(math.rsqrt, WIDE),
    "rcp.approx": Semantics(lambda x: 1.0 / x, SINGLE),
    "div.approx": Semantics(lambda x, y: x / y, SINGLE),
    "div.full": Semantics(lambda x, y: x / y, SINGLE),
}
COMPARED = WIDE | only("f16 bf16")
ORDERED = {**RELATIONS, "ne": lambda x, y: (x != y) & _numbers(x, y)}
FLOATS: dict[str, Semantics] = {
    "add": Semantics(lambda x, y: x + y, EVERY | PAIR),
    "sub": Semantics(lambda x, y: x - y, EVERY | PAIR),
    "mul": Semantics(lambda x, y: x * y, EVERY | PAIR),
    **_rounded("add", WIDE),
    **_rounded("sub", WIDE),
    **_rounded("mul", WIDE),
    **_rounded("div", WIDE),
    **_rounded("fma", WIDE),
    **_rounded("sqrt", WIDE),
    **_rounded("rcp", WIDE),
    **APPROXIMATIONS,
    "min": Semantics(smaller, EVERY),
    "max": Semantics(larger, EVERY),
    "min.NaN": Semantics(or_nan(smaller), SINGLE | NARROW),
    "max.NaN": Semantics(or_nan(larger), SINGLE | NARROW),
    "neg": Semantics(negative, EVERY),
    "abs": Semantics(math.abs, EVERY),
    "copysign": Semantics(with_sign_of, WIDE),
    "setp.num": Semantics(_numbers, WIDE),
    "setp.nan": Semantics(lambda x, y: ~_numbers(x, y), WIDE),
    **{f"setp.{name}": Semantics(function, COMPARED) for name, function in ORDERED.items()},
    **{f"setp.{name}u": Semantics(or_unordered(function), COMPARED) for name, function in ORDERED.items()},
}
"""Instructions by name without the type at the end and without `ftz`, `sat` and `relu`, which act alike on all."""
HALVES: dict[str, Semantics] = {
    "add.rn": FLOATS["add"],
    "sub.rn": FLOATS["sub"],
    "mul.rn": FLOATS["mul"],
    "fma.rn": Semantics(math.fma, NARROW | PAIR),
}
"""Instructions on narrow floats for which libdevice has only wide ones."""
