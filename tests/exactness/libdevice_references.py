"""References for libdevice's functions, from mpmath, fractions and plain integers; and the errors allowed.

    REAL["erfc"].value(mpf(1))          0.15729920705…
    WHOLE["clz"]("int32", 5)            29

Bounds are in units in the last place of fp32 and of fp64. CUDA's own bound stands where it is above 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
from exact_rounding import FORMATS, encode
from mpmath import mp, mpf

HALF = 0.5000001
NAN, INFINITY = mpf("nan"), mpf("inf")


@dataclass(frozen=True)
class Real:
    """A function of floats.

    Attributes:
        value: the exact result, as an mpf or a float.
        bounds: largest error in ulp in fp32 (None: takes no fp32) and fp64.
        low, high: where arguments are drawn from, of all sizes.
        arity: how many arguments it takes.
    """

    value: Callable[..., Any]
    bounds: tuple[float | None, float | None]
    low: float = -1e300
    high: float = 1e300
    arity: int = 1


def defined(value: Callable[..., Any], **others: Any) -> Callable[..., Any]:
    """`value`, but NaN where mpmath gives a complex number, and what `others` says at certain arguments."""
    special = {float(key): found for key, found in others.get("at", {}).items()}

    def function(*arguments: Any) -> Any:
        if any(map(mp.isnan, arguments)):
            return NAN
        if len(arguments) == 1 and float(arguments[0]) in special:
            return special[float(arguments[0])]
        found = value(*arguments)
        return NAN if isinstance(found, mpmath.mpc) else found

    return function


def _round(x: Any) -> Any:
    return x if mp.isinf(x) else mp.sign(x) * mp.floor(abs(x) + mpf("0.5"))


def _lgamma(x: Any) -> Any:
    return INFINITY if x <= 0 and x == mp.floor(x) else mp.re(mp.loggamma(x))


def _tgamma(x: Any) -> Any:
    if x <= 0 and x == mp.floor(x):
        return NAN if x else INFINITY
    return mpf(0) if x < -200 else INFINITY if x > 200 else mp.gamma(x)


def _erfcx(x: Any) -> Any:
    if x < 1000:
        return mp.exp(x * x) * mp.erfc(x)
    return (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * mp.sqrt(mp.pi))


def _erfc(x: Any) -> Any:
    return mpf(0) if x > 30 else mpf(2) if x < -30 else mp.erfc(x)


def _normcdf(x: Any) -> Any:
    return _erfc(-x / mp.sqrt(2)) / 2


def _erfcinv(y: Any) -> Any:
    """The inverse by Newton's method on the logarithm: 1 - y is not exact near 0."""
    if y == 0 or y == 2 or not 0 < y < 2:
        return INFINITY if y == 0 else -INFINITY if y == 2 else NAN
    if y > mpf("0.01"):
        return mp.erfinv(1 - y)
    z = mp.sqrt(-mp.log(y))
    for _ in range(60):
        tail = mp.erfc(z)
        step = (mp.log(tail) - mp.log(y)) * tail * mp.sqrt(mp.pi) / 2 * mp.exp(z * z)
        z += step
        if abs(step) < mpf(10) ** -30:
            break
    return z


def _erfinv(x: Any) -> Any:
    if abs(x) >= 1:
        return x * INFINITY if abs(x) == 1 else NAN
    return _erfcinv(1 - x) if x > mpf("0.99") else -_erfcinv(1 + x) if x < mpf("-0.99") else mp.erfinv(x)


def _atan2(y: Any, x: Any) -> Any:
    return mpf(math.atan2(float(y), float(x))) if mp.isinf(x) or mp.isinf(y) else mp.atan2(y, x)


def _length(*parts: Any) -> Any:
    """Infinite where one part is, even beside NaN."""
    return INFINITY if any(map(mp.isinf, parts)) else mp.sqrt(sum(part * part for part in parts))


def _by_length(*parts: Any) -> Any:
    length = _length(*parts)
    return INFINITY if length == 0 else 1 / length


def _sinpi(x: Any) -> Any:
    return NAN if mp.isinf(x) else mp.sinpi(x)


def _cospi(x: Any) -> Any:
    return NAN if mp.isinf(x) else mp.cospi(x)


def _cube_root(x: Any) -> Any:
    return x if mp.isinf(x) or x == 0 else mp.sign(x) * mp.cbrt(abs(x))


def _by_cube_root(x: Any) -> Any:
    return INFINITY if x == 0 else 1 / _cube_root(x)


def _logb(x: Any) -> Any:
    return -INFINITY if x == 0 else abs(x) if mp.isinf(x) else mpf(mp.frexp(x)[1] - 1)


def _quotient(x: Any, y: Any) -> Any:
    return mp.sign(x) * INFINITY if y == 0 and x != 0 else NAN if y == 0 else x / y


def _modulo(x: Any, y: Any) -> Any:
    if mp.isinf(x) or y == 0:
        return NAN
    return x if mp.isinf(y) else mp.sign(x) * _of(_fraction(abs(x)) % _fraction(abs(y)))


def _remainder(x: Any, y: Any) -> Any:
    if mp.isinf(x) or y == 0:
        return NAN
    return x if mp.isinf(y) else _of(_fraction(x) - _fraction(y) * round(_fraction(x) / _fraction(y)))


def _fraction(x: Any) -> Fraction:
    return Fraction(float(x))


def _of(x: Fraction) -> Any:
    return mpf(x.numerator) / mpf(x.denominator)


def _whole(rounding: Callable[[Any], Any]) -> Callable[..., Any]:
    return defined(lambda x: x if mp.isinf(x) else rounding(x))


KEEP_ZERO = {
    *("asin", "asinh", "atan", "atanh", "cbrt", "ceil", "erf", "erfinv", "expm1", "fast_sinf", "fast_tanf", "floor"),
    *("fast_tanhf", "log1p", "nearbyint", "rint", "round", "sin", "sinh", "sinpi", "sqrt", "tan", "tanh", "trunc"),
}
"""Functions that give -0 for -0 and 0 for 0."""
POLES = {"rcbrt", "rsqrt", "rsqrt_rn", "tgamma"}
"""Functions that give -infinity for -0 and infinity for 0."""
EXACT = (0.0, 0.0)
ROUNDED = (HALF, HALF)
REAL: dict[str, Real] = {
    "abs": Real(defined(abs), EXACT),
    "acos": Real(defined(mp.acos), (HALF, 2), -1, 1),
    "acosh": Real(defined(mp.acosh), (2, 2.2), 1),
    "asin": Real(defined(mp.asin), (HALF, 1.5), -1, 1),
    "asinh": Real(defined(mp.asinh), (2, 2)),
    "atan": Real(defined(mp.atan), (HALF, 2)),
    "atan2": Real(defined(_atan2), (HALF, 2), arity=2),
    "atanh": Real(defined(mp.atanh, at={1: INFINITY, -1: -INFINITY}), (1.9, 2), -1, 1),
    "cbrt": Real(defined(_cube_root), (HALF, 2)),
    "ceil": Real(_whole(mp.ceil), EXACT, -1e18, 1e18),
    "cos": Real(defined(mp.cos), (2, 1), -1e5, 1e5),
    "cosh": Real(defined(mp.cosh), (HALF, 2), -700, 700),
    "cospi": Real(defined(_cospi), (HALF, 2), -1e9, 1e9),
    "erf": Real(defined(mp.erf), (1.8, 2), -6, 6),
    "erfc": Real(defined(_erfc), (2, 5), -6, 27),
    "erfcinv": Real(defined(_erfcinv), (HALF, 6), 0, 2),
    "erfcx": Real(defined(_erfcx), (HALF, 4), -26),
    "erfinv": Real(defined(_erfinv), (2.2, 5), -1, 1),
    "exp": Real(defined(mp.exp), (1.5, 1.5), -740, 700),
    "exp10": Real(defined(lambda x: mpf(10) ** x), (HALF, 2), -320, 308),
    "exp2": Real(defined(lambda x: mpf(2) ** x), (1.5, 1.5), -1070, 1020),
    "expm1": Real(defined(mp.expm1), (1.5, 1.5), -700, 700),
    "fast_cosf": Real(defined(mp.cos), (2, None), -1e5, 1e5),
    "fast_dividef": Real(defined(_quotient), (2, None), arity=2),
    "fast_exp10f": Real(defined(lambda x: mpf(10) ** x), (HALF, None), -44, 38),
    "fast_expf": Real(defined(mp.exp), (1.5, None), -100, 88),
    "fast_log10f": Real(defined(mp.log10), (1.75, None), 0),
    "fast_log2f": Real(defined(lambda x: mp.log(x, 2)), (1.5, None), 0),
    "fast_logf": Real(defined(mp.log), (1.5, None), 0),
    "fast_powf": Real(defined(mp.power), (HALF, None), 1e-9, 9e3, arity=2),
    "fast_sinf": Real(defined(mp.sin), (2, None), -1e5, 1e5),
    "fast_tanf": Real(defined(mp.tan), (HALF, None), -1e5, 1e5),
    "fast_tanhf": Real(defined(mp.tanh), (2, None), -30, 30),
    "fdim": Real(defined(lambda x, y: mpf(0) if x <= y else x - y), ROUNDED, arity=2),
    "floor": Real(_whole(mp.floor), EXACT, -1e18, 1e18),
    "fma": Real(defined(lambda x, y, z: x * y + z), ROUNDED, -1e100, 1e100, arity=3),
    "fmod": Real(defined(_modulo), EXACT, arity=2),
    "hypot": Real(_length, (HALF, 1.5), arity=2),
    "lgamma": Real(defined(_lgamma), (HALF, 4), -2.2, 1e300),
    "log": Real(defined(mp.log), (1.5, 1.5), 0),
    "log10": Real(defined(mp.log10), (1.75, 2), 0),
    "log1p": Real(defined(mp.log1p, at={-1: -INFINITY}), (1, 2), -1),
    "log2": Real(defined(lambda x: mp.log(x, 2)), (1.5, 2), 0),
    "logb": Real(defined(_logb), EXACT),
    "nearbyint": Real(_whole(mp.nint), EXACT, -1e18, 1e18),
    "norm3d": Real(_length, (HALF, 1.5), arity=3),
    "norm4d": Real(_length, (HALF, 1.5), arity=4),
    "normcdf": Real(defined(_normcdf), (HALF, 5), -38, 9),
    "normcdfinv": Real(defined(lambda p: -mp.sqrt(2) * _erfcinv(2 * p)), (HALF, 7), 0, 1),
    "pow": Real(defined(mp.power), (HALF, 2), 1e-9, 9e3, arity=2),
    "rcbrt": Real(defined(_by_cube_root), (HALF, 1)),
    "remainder": Real(defined(_remainder), EXACT, arity=2),
    "rhypot": Real(_by_length, (HALF, 2), arity=2),
    "rint": Real(_whole(mp.nint), EXACT, -1e18, 1e18),
    "rnorm3d": Real(_by_length, (HALF, 2), arity=3),
    "rnorm4d": Real(_by_length, (HALF, 2), arity=4),
    "round": Real(_whole(_round), EXACT, -1e18, 1e18),
    "rsqrt": Real(defined(lambda x: 1 / mp.sqrt(x) if x else INFINITY), (1.5, 1.5), 0),
    "rsqrt_rn": Real(defined(lambda x: 1 / mp.sqrt(x) if x else INFINITY), (HALF, None), 0),
    "saturatef": Real(lambda x: mpf(1) if x > 1 else x if x > 0 else mpf(0), (0, None), -2, 2),
    "sin": Real(defined(mp.sin), (2, 1), -1e5, 1e5),
    "sinh": Real(defined(mp.sinh), (2, 2), -700, 700),
    "sinpi": Real(defined(_sinpi), (HALF, 2), -1e9, 1e9),
    "sqrt": Real(defined(mp.sqrt), ROUNDED, 0),
    "tan": Real(defined(mp.tan), (HALF, 1.5), -1e5, 1e5),
    "tanh": Real(defined(mp.tanh), (2, 2), -30, 30),
    "tgamma": Real(defined(_tgamma), (HALF, 10), -180, 171),
    "trunc": Real(_whole(lambda x: mp.sign(x) * mp.floor(abs(x))), EXACT, -1e18, 1e18),
}


def width(kind: str) -> int:
    """The bits of an integer type, by its name."""
    return int(kind[-2:])


def masked(kind: str, x: int) -> int:
    """The bits of a number, as a number without sign."""
    return x & ((1 << width(kind)) - 1)


def _byte_perm(kind: str, x: int, y: int, selector: int) -> int:
    source = (masked(kind, x) | masked(kind, y) << 32).to_bytes(8, "little")
    return int.from_bytes(bytes(source[selector >> 4 * place & 7] for place in range(4)), "little")


def _mul24(kind: str, x: int, y: int) -> int:
    low = 0xFFFFFF
    if kind == "uint32":
        return (x & low) * (y & low)
    return (((x & low) ^ 0x800000) - 0x800000) * (((y & low) ^ 0x800000) - 0x800000)


WHOLE: dict[str, Callable[..., int]] = {
    "abs": lambda kind, x: abs(x),
    "brev": lambda kind, x: int(f"{masked(kind, x):0{width(kind)}b}"[::-1], 2),
    "byte_perm": _byte_perm,
    "clz": lambda kind, x: width(kind) - masked(kind, x).bit_length(),
    "ffs": lambda kind, x: (x & -x).bit_length(),
    "hadd": lambda kind, x, y: (x + y) >> 1,
    "mul24": _mul24,
    "mulhi": lambda kind, x, y: (x * y) >> width(kind),
    "popc": lambda kind, x: masked(kind, x).bit_count(),
    "rhadd": lambda kind, x, y: (x + y + 1) >> 1,
    "sad": lambda kind, x, y, z: abs(x - y) + z,
}
"""Functions of integers, of which the low bits count."""


def _upper_half(x: Any) -> Any:
    return (x.view(np.uint64) >> np.uint64(32) << np.uint64(32)).view(np.float64)


def _rcp64h(x: Any) -> Any:
    def flushed(y: Any) -> Any:
        return np.where(np.abs(y) < 2.0**-1022, np.copysign(0.0, y), y)

    return flushed(_upper_half(1.0 / flushed(_upper_half(x))))


def _ilogb(x: Any) -> Any:
    found = np.frexp(np.where(np.isfinite(x), x, 1.0))[1] - 1
    return np.where((x == 0) | np.isnan(x), -(2**31), np.where(np.isinf(x), 2**31 - 1, found)).astype(np.int32)


def _ldexp(x: Any, n: Any) -> Any:
    exact = [Fraction(float(v)) if np.isfinite(v) and v != 0 else float(v) for v in x]
    scaled = [v * Fraction(2) ** int(k) if isinstance(v, Fraction) else v for v, k in zip(exact, n, strict=True)]
    form = FORMATS["fp32" if x.dtype == np.float32 else "fp64"]
    return np.array([encode(v, form) for v in scaled], np.uint64).astype(f"u{x.itemsize}").view(x.dtype)


def _hiloint2double(high: Any, low: Any) -> Any:
    return np.stack([low, high], axis=1).reshape(-1).view(np.float64)


PARTS: dict[str, Callable[..., Any]] = {
    "copysign": np.copysign,
    "double2hiint": lambda x: x.view(np.int32)[1::2],
    "double2loint": lambda x: x.view(np.int32)[::2],
    "double_as_longlong": lambda x: x.view(np.int64),
    "finitef": np.isfinite,
    "float_as_int": lambda x: x.view(np.int32),
    "float_as_uint": lambda x: x.view(np.int32),
    "hiloint2double": _hiloint2double,
    "ilogb": _ilogb,
    "int_as_float": lambda x: x.view(np.float32),
    "isfinited": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "ldexp": _ldexp,
    "longlong_as_double": lambda x: x.view(np.float64),
    "nextafter": np.nextafter,
    "rcp64h": _rcp64h,
    "scalbn": _ldexp,
    "signbit": lambda x: np.signbit(x).astype(np.int32),
    "uint_as_float": lambda x: x.view(np.float32),
}
"""Functions that look at bits, on arrays; exact."""
