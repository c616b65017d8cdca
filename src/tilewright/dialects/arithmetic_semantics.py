"""Reference semantics of the `arith` and `math` ops, in NumPy: the same for folding, interpreters and tests.

    ARITHMETIC_SEMANTICS["arith.divsi"](op, np.int32(-7), np.int32(2)) == -3

Each of the functions takes the op (for its attributes and result type) and one array per operand. Integers are signless
and stored signed: unsigned ops use an unsigned view of them. Results that LLVM leaves undefined are defined here: x/0
and x%0 are 0, a shift by the width or more gives 0 (`shrsi`: the sign), and a float beyond the integer's range gives
the nearest integer (NaN: 0). Folding checks `is_defined` first and leaves those cases alone. 8-bit floats saturate:
values that are too large, infinity included, become the largest number; NaN stays NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.support.exact_rounding import Array, convert_float, fused, is_native, odd, odd_double

ReferenceSemantics: TypeAlias = Callable[..., Array]

UNSIGNED = {np.dtype(f"i{size}"): np.dtype(f"u{size}") for size in (1, 2, 4, 8)}
quiet = np.errstate(all="ignore")


# --- integers ---------------------------------------------------------------------------------------------------


def signed(compute: Callable[[Array, Array], Array]) -> ReferenceSemantics:
    """Semantics on signed operands; `true : i1` is -1 there."""

    @quiet
    def semantics(op: Any, a: Array, b: Array) -> Array:
        if a.dtype != np.bool_:
            return compute(a, b)
        return (compute(-a.astype(np.int8), -b.astype(np.int8)) & 1).astype(np.bool_)

    return semantics


def unsigned(compute: Callable[[Array, Array], Array]) -> ReferenceSemantics:
    """Semantics on unsigned operands."""

    @quiet
    def semantics(op: Any, a: Array, b: Array) -> Array:
        if a.dtype == np.bool_:
            return (compute(a.astype(np.uint8), b.astype(np.uint8)) & 1).astype(np.bool_)
        view = UNSIGNED[a.dtype]
        return compute(a.view(view), b.view(view)).view(a.dtype)

    return semantics


def _leading_zeros(op: Any, a: Array) -> Array:
    """The zeros above the highest one. The bit behind it is cleared, since a float of 53 bits may round up."""
    if a.dtype == np.bool_:
        return np.logical_not(a)
    x = a.view(UNSIGNED[a.dtype])
    highest = x & ~(x >> x.dtype.type(1))
    return (8 * a.dtype.itemsize - np.frexp(highest.astype(np.float64))[1]).astype(a.dtype)


def _set_bits(op: Any, a: Array) -> Array:
    """How many bits are 1."""
    if a.dtype == np.bool_:
        return a
    x = a.view(UNSIGNED[a.dtype])
    number = x.dtype.type
    bits = [(x >> number(place)) & number(1) for place in range(8 * x.dtype.itemsize)]
    return reduce(np.add, bits).astype(a.dtype)


def _nonzero(b: Array) -> Array:
    return np.where(b == 0, b.dtype.type(1), b)


def _where_nonzero(b: Array, result: Array) -> Array:
    return np.where(b == 0, b.dtype.type(0), result)


def _remainder(a: Array, b: Array) -> Array:
    return _where_nonzero(b, np.fmod(a, _nonzero(b)))


def _divide(a: Array, b: Array) -> Array:
    """a / b rounded towards zero."""
    return _where_nonzero(b, np.floor_divide(a - _remainder(a, b), _nonzero(b)))


def _divide_up(a: Array, b: Array) -> Array:
    rounded_down = (_remainder(a, b) != 0) & ((a < 0) == (b < 0))
    return _divide(a, b) + rounded_down.astype(a.dtype)


def _divide_down(a: Array, b: Array) -> Array:
    return _where_nonzero(b, np.floor_divide(a, _nonzero(b)))


COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _compare_integers(op: Any, a: Array, b: Array) -> Array:
    predicate: str = op.attributes["predicate"].name
    if predicate in ("eq", "ne"):
        return COMPARISONS[predicate](a, b)
    if a.dtype == np.bool_:
        a, b = (-x.astype(np.int8) for x in (a, b))
    if predicate[0] == "u":
        a, b = (x.view(UNSIGNED[x.dtype]) for x in (a, b))
    return COMPARISONS[predicate[1:]](a, b)


# --- floats -----------------------------------------------------------------------------------------------------


def _of_sign(compute: Callable[[Array], Array]) -> ReferenceSemantics:
    """Semantics that change no more than the sign, in any format."""

    @quiet
    def semantics(op: Any, x: Array) -> Array:
        return compute(x)

    return semantics


def floating(compute: Callable[..., Array]) -> ReferenceSemantics:
    """Semantics whose one rounding single precision can do: + - * / sqrt, fmod, minima and the like."""

    @quiet
    def semantics(op: Any, *arrays: Array) -> Array:
        dtype = arrays[0].dtype
        if is_native(dtype):
            return compute(*arrays)
        return convert_float(compute(*(a.astype(np.float32) for a in arrays)), dtype)

    return semantics


def transcendental(compute: Callable[..., Array]) -> ReferenceSemantics:
    """Semantics evaluated in double precision and rounded to the operand's type."""

    @quiet
    def semantics(op: Any, *arrays: Array) -> Array:
        return convert_float(compute(*(a.astype(np.float64) for a in arrays)), arrays[0].dtype)

    return semantics


def _of_equals(choose: Callable[[Array, Array], Array], *, negative: bool) -> Callable[[Array, Array], Array]:
    """`choose`, but of zeros the one with this sign."""

    def chosen(a: Array, b: Array) -> Array:
        return np.where(a == b, np.where(np.signbit(a) == negative, a, b), choose(a, b))

    return chosen


smaller_number, larger_number = _of_equals(np.fmin, negative=True), _of_equals(np.fmax, negative=False)
"""A number rather than NaN; -0 < +0, as GPUs have it."""
_minimum, _maximum = _of_equals(np.minimum, negative=True), _of_equals(np.maximum, negative=False)
"""NaN if either is; -0 < +0."""


@quiet
def _compare_floats(op: Any, a: Array, b: Array) -> Array:
    predicate: str = op.attributes["predicate"].name
    unordered = np.isnan(a) | np.isnan(b)
    if predicate in ("uno", "ord"):
        return unordered if predicate == "uno" else ~unordered
    if predicate in ("true", "false"):
        return np.full_like(unordered, predicate == "true")[()]
    relation = COMPARISONS[predicate[1:]](a, b)
    return relation | unordered if predicate[0] == "u" else relation & ~unordered


@quiet
def _fused_multiply_add(op: Any, a: Array, b: Array, c: Array) -> Array:
    """a * b + c with one rounding."""
    return fused(a, b, c) if a.dtype == np.float64 else convert_float(odd("fma", (a, b, c)), a.dtype)


_erf = np.vectorize(math.erf, otypes=[np.float64])


# --- casts ------------------------------------------------------------------------------------------------------


def _as_signed(a: Array) -> Array:
    return -a.astype(np.int8) if a.dtype == np.bool_ else a


def _as_unsigned(a: Array) -> Array:
    return a.astype(np.uint8) if a.dtype == np.bool_ else a.view(UNSIGNED[a.dtype])


def _wrapped(a: Array, dtype: np.dtype[Any]) -> Array:
    """The low bits of the integers `a`."""
    return (a & 1).astype(np.bool_) if dtype == np.bool_ else a.astype(dtype)


def _extend_signed(op: Any, a: Array) -> Array:
    return _wrapped(_as_signed(a), numpy_dtype(op.results[0].type))


def _extend_unsigned(op: Any, a: Array) -> Array:
    return _wrapped(_as_unsigned(a), numpy_dtype(op.results[0].type))


def _integer_to_float(a: Array, dtype: np.dtype[Any]) -> Array:
    return a.astype(dtype) if is_native(dtype) else convert_float(odd_double(a), dtype)


@quiet
def _signed_to_float(op: Any, a: Array) -> Array:
    return _integer_to_float(_as_signed(a), numpy_dtype(op.results[0].type))


@quiet
def _unsigned_to_float(op: Any, a: Array) -> Array:
    return _integer_to_float(_as_unsigned(a), numpy_dtype(op.results[0].type))


@quiet
def _saturated(a: Array, dtype: np.dtype[Any]) -> Array:
    """The floats `a` without their fractions, kept in the range of the integer `dtype`; NaN gives 0."""
    wide = np.trunc(a.astype(np.float64))
    limits = np.iinfo(dtype)
    inside = (wide >= float(limits.min)) & (wide < float(limits.max) + (1.0 if dtype.itemsize < 8 else 0.0))
    beyond = np.where(wide > 0, dtype.type(limits.max), dtype.type(limits.min))
    return np.where(inside, np.where(inside, wide, 0.0).astype(dtype), np.where(np.isnan(wide), dtype.type(0), beyond))


def _float_to_signed(op: Any, a: Array) -> Array:
    dtype = numpy_dtype(op.results[0].type)
    return _wrapped(_saturated(a, np.dtype(np.int8)), dtype) if dtype == np.bool_ else _saturated(a, dtype)


def _float_to_unsigned(op: Any, a: Array) -> Array:
    dtype = numpy_dtype(op.results[0].type)
    if dtype == np.bool_:
        return _wrapped(_saturated(a, np.dtype(np.uint8)), dtype)
    return _saturated(a, UNSIGNED[dtype]).view(dtype)


def _bitcast(op: Any, a: Array) -> Array:
    return np.asarray(a).view(numpy_dtype(op.results[0].type))[()]


ARITHMETIC_SEMANTICS: dict[str, ReferenceSemantics] = {
    "arith.addi": signed(np.add),
    "arith.subi": signed(np.subtract),
    "arith.muli": signed(np.multiply),
    "arith.divsi": signed(_divide),
    "arith.divui": unsigned(_divide),
    "arith.remsi": signed(_remainder),
    "arith.remui": unsigned(_remainder),
    "arith.ceildivsi": signed(_divide_up),
    "arith.ceildivui": unsigned(_divide_up),
    "arith.floordivsi": signed(_divide_down),
    "arith.andi": signed(np.bitwise_and),
    "arith.ori": signed(np.bitwise_or),
    "arith.xori": signed(np.bitwise_xor),
    # NumPy shifts by the width or more, which all negative numbers are, as if one by one: no bit of the value is left.
    "arith.shli": unsigned(np.left_shift),
    "arith.shrsi": signed(np.right_shift),
    "arith.shrui": unsigned(np.right_shift),
    "arith.minsi": signed(np.minimum),
    "arith.maxsi": signed(np.maximum),
    "arith.minui": unsigned(np.minimum),
    "arith.maxui": unsigned(np.maximum),
    "arith.cmpi": _compare_integers,
    "arith.addf": floating(np.add),
    "arith.subf": floating(np.subtract),
    "arith.mulf": floating(np.multiply),
    "arith.divf": floating(np.divide),
    "arith.remf": floating(np.fmod),
    "arith.negf": _of_sign(np.negative),
    "arith.minnumf": floating(smaller_number),
    "arith.maxnumf": floating(larger_number),
    "arith.minimumf": floating(_minimum),
    "arith.maximumf": floating(_maximum),
    "arith.cmpf": _compare_floats,
    "arith.select": lambda op, condition, a, b: np.where(condition, a, b),
    "arith.extsi": _extend_signed,
    "arith.extui": _extend_unsigned,
    "arith.trunci": _extend_signed,
    "arith.index_cast": _extend_signed,
    "arith.index_castui": _extend_unsigned,
    "arith.extf": lambda op, a: convert_float(a, numpy_dtype(op.results[0].type)),
    "arith.truncf": lambda op, a: convert_float(a, numpy_dtype(op.results[0].type)),
    "arith.sitofp": _signed_to_float,
    "arith.uitofp": _unsigned_to_float,
    "arith.fptosi": _float_to_signed,
    "arith.fptoui": _float_to_unsigned,
    "arith.bitcast": _bitcast,
    "math.exp": transcendental(np.exp),
    "math.exp2": transcendental(np.exp2),
    "math.log": transcendental(np.log),
    "math.log2": transcendental(np.log2),
    "math.sin": transcendental(np.sin),
    "math.cos": transcendental(np.cos),
    "math.tanh": transcendental(np.tanh),
    "math.erf": transcendental(_erf),
    "math.rsqrt": transcendental(lambda a: 1.0 / np.sqrt(a)),
    "math.sqrt": floating(np.sqrt),
    "math.floor": floating(np.floor),
    "math.ceil": floating(np.ceil),
    "math.absf": _of_sign(np.abs),
    "math.absi": lambda op, a: np.abs(a),
    "math.ctlz": _leading_zeros,
    "math.ctpop": _set_bits,
    "math.fma": _fused_multiply_add,
}

DIVISIONS = frozenset(
    f"arith.{name}" for name in ("divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi")
)
SHIFTS = frozenset(("arith.shli", "arith.shrsi", "arith.shrui"))
FLOAT_TO_INT = frozenset(("arith.fptosi", "arith.fptoui"))


def is_defined(op: Any, *arrays: Array) -> bool:
    """Whether LLVM defines the result of the arith or math op on these scalars (no x/0, no overlong shift, …)."""
    if op.name in DIVISIONS:
        a, b = (int(x) for x in arrays)
        overflows: bool = op.name.endswith("si") and b == -1 and a == -(1 << op.results[0].type.bits - 1)
        return b != 0 and not overflows
    if op.name in SHIFTS:
        return int(arrays[1]) in range(op.results[0].type.bits)
    if op.name in FLOAT_TO_INT:
        value, bits = float(arrays[0]), op.results[0].type.bits
        low, high = (-(1 << bits - 1), 1 << bits - 1) if op.name == "arith.fptosi" else (0, 1 << bits)
        return math.isfinite(value) and low <= math.trunc(value) < high
    return True
