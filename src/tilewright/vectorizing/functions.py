"""The table of the ops for functions of `math`, NumPy, `tl` and Python.

    math.exp, np.exp, tl.exp  →  exp                    known(np.exp)(x)        math.exp of x, in the kind NumPy takes
    min, np.minimum, tl.minimum …                       known(open) is None

A function of `math` gives a Python float for Python numbers, one of NumPy a float64, as in Python.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import language as tl
from tilewright.ir.declare import OPS
from tilewright.language.extra import libdevice
from tilewright.support.diagnostics import SemanticError
from tilewright.vectorizing import arithmetic
from tilewright.vectorizing.arithmetic import OPERATORS, compare, copysign, extern, operands, refuse, select
from tilewright.vectorizing.casting import Number, cast, describe, kind_of, to_element, truth
from tilewright.vectorizing.element import Element, check, constant, emit, is_exact
from tilewright.vectorizing.errors import ASK_PYTHON, NotANumber
from tilewright.vectorizing.kinds import (
    BITS,
    BOOL,
    FLOAT32,
    FLOAT64,
    INT64,
    WEAK_BOOL,
    WEAK_FLOAT,
    WEAK_INT,
    Kind,
    float_of,
    float_of_both,
    promote,
)
from tilewright.vectorizing.powers import check_finite, float_power, power

Function = Callable[..., Any]


def apply(name: str, *values: Element) -> Element:
    """The function of the math library on elements of one float kind."""
    kind = values[0].kind
    if f"math.{name}" in OPS:
        return emit(f"math.{name}", values, kind)
    return emit("tt.extern_elementwise", values, kind, extern(name))


def _in_floats(name: str) -> Function:
    """A function of floats, whose errors are Python's when it gets Python's numbers."""

    def function(*values: Number) -> Element:
        kind = float_of(kind_of(values[0]))
        for value in values[1:]:
            kind = float_of_both(kind_of(values[0]), kind_of(value))
        result = apply(name, *(cast(value, kind) for value in values))
        if kind == WEAK_FLOAT and is_exact():
            check_finite(result)
        return result

    return function


def _of_numpy(function: Function) -> Function:
    """A function of NumPy: if all arguments are Python's numbers, they are NumPy's, as in `np.add(n, 2)`, an int64."""

    def called(*values: Number, **options: Any) -> Any:
        if all(value is None or kind_of(value).weak for value in values):
            values = tuple(cast(x, x.kind.strong) if isinstance(x, Element) else x for x in values)
        return function(*values, **options)

    return called


def _exact(name: str) -> Function:
    """A function that rounds; integers stay as they are, as in NumPy."""

    def function(value: Number) -> Element:
        kind = kind_of(value)
        return apply(name, to_element(value)) if kind.is_float else to_element(value)

    return function


def _to_python_int(name: str) -> Callable[[Number], Element]:
    """`math.floor`: an integer of Python floats, else as NumPy's."""
    rounded = _exact(name)

    def function(value: Number) -> Element:
        result: Element = rounded(value)
        if result.kind != WEAK_FLOAT:
            return cast(result, WEAK_INT) if result.kind == WEAK_BOOL else result
        if is_exact():
            bound = constant(float(1 << 63), WEAK_FLOAT)
            check(compare("lt", apply("absf", result), bound), ASK_PYTHON)
        return cast(result, WEAK_INT)

    return function


_truncated = _to_python_int("trunc")


# --- choosing -----------------------------------------------------------------------------------------------------


def where(condition: Number, yes: Number, no: Number) -> Element:
    """`yes` where the condition holds, else `no`."""
    kind = promote(kind_of(yes), kind_of(no)).strong
    return select(truth(condition), cast(yes, kind), cast(no, kind))


def _extreme(sign: str, float_op: str, *, python: bool = False) -> Function:
    """The larger or smaller of two; `python`: the first operand unless the second one is beyond it (also for NaN)."""

    def function(left: Number, right: Number) -> Element:
        kind = promote(kind_of(left), kind_of(right))
        a, b = cast(left, kind), cast(right, kind)
        if python or kind.is_bool:
            return select(compare("lt" if sign == "min" else "gt", b, a), b, a)
        if kind.is_float:
            return emit(float_op, [a, b], kind)
        return emit(f"arith.{sign}{'s' if kind.signed else 'u'}i", [a, b], kind)

    return function


def _folded(two: Function) -> Function:
    """`min(a, b, …)` and `min((a, b, …))`."""

    def function(*values: Any) -> Any:
        items = values[0] if len(values) == 1 else values
        result = items[0]
        for item in items[1:]:
            result = two(result, item)
        return result

    return function


maximum, minimum = _extreme("max", "arith.maximumf"), _extreme("min", "arith.minimumf")
fmax, fmin = _extreme("max", "arith.maxnumf"), _extreme("min", "arith.minnumf")


def clip(value: Number, low: Number, high: Number) -> Any:
    """`min(max(value, low), high)`; None is no limit."""
    result = value if low is None else maximum(value, low)
    return result if high is None else minimum(result, high)


def sign(value: Number) -> Element:
    """-1, 0 or 1; NaN stays."""
    element = to_element(value)
    kind = element.kind
    if kind.is_bool:
        raise refuse("sign", kind)
    zero, one = constant(0, kind), constant(1, kind)
    positive = select(compare("gt", element, zero), one, zero)
    if not (kind.signed or kind.is_float):
        return positive
    either = select(compare("lt", element, zero), constant(-1, kind), positive)
    return select(compare("ne", element, element), element, either) if kind.is_float else either


# --- questions ----------------------------------------------------------------------------------------------------


def _answer(value: Number) -> Kind:
    return WEAK_BOOL if kind_of(value).weak else BOOL


def isnan(value: Number) -> Element:
    """Whether it is no number."""
    element = to_element(value)
    return compare("ne", element, element, _answer(value))


def _against_infinity(predicate: str) -> Function:
    def function(value: Number) -> Element:
        kind = float_of(kind_of(value))
        size = apply("absf", cast(value, kind))
        return compare(predicate, size, constant(float("inf"), kind), _answer(value))

    return function


def signbit(value: Number) -> Element:
    """Whether the sign is negative, as that of -0.0 is."""
    kind = float_of(kind_of(value))
    return compare("lt", copysign(constant(1.0, kind), cast(value, kind)), constant(0.0, kind), _answer(value))


def _logical(name: str) -> Function:
    def function(left: Number, right: Number) -> Element:
        return emit(f"arith.{name}", [truth(left), truth(right)], BOOL)

    return function


# --- others -------------------------------------------------------------------------------------------------------


def square(value: Number) -> Any:
    """`value * value`."""
    return power(value, 2)


def reciprocal(value: Number) -> Any:
    """`1 / value` of floats."""
    kind = kind_of(value)
    if kind.is_float:
        return arithmetic.truediv(1, value)
    return divided(constant(1, kind), value)


def hypot(left: Number, right: Number) -> Element:
    """The length of a vector, computed in float64: no square of a float32 overflows there."""
    kind = float_of_both(kind_of(left), kind_of(right))
    a, b = cast(left, FLOAT64), cast(right, FLOAT64)
    if kind.bits < 64:
        return cast(apply("sqrt", arithmetic.add(square(a), square(b))), kind)
    a, b = apply("absf", a), apply("absf", b)
    large, small = maximum(a, b), minimum(a, b)
    ratio = arithmetic.truediv(small, large)
    scaled = arithmetic.mul(large, apply("sqrt", arithmetic.add(1.0, square(ratio))))
    is_edge = OPERATORS["or_"](compare("eq", large, constant(0.0, FLOAT64)), _against_infinity("eq")(large))
    result = select(is_edge, large, scaled)
    return Element(result.handle, kind)


def logaddexp(left: Number, right: Number) -> Element:
    """log(exp(left) + exp(right)), where neither overflows."""
    kind = float_of_both(kind_of(left), kind_of(right))
    a, b = cast(left, kind), cast(right, kind)
    distance = arithmetic.neg(apply("absf", arithmetic.sub(a, b)))
    sum = arithmetic.add(maximum(a, b), apply("log1p", apply("exp", distance)))
    return select(compare("eq", a, b), arithmetic.add(a, math.log(2)), sum)


def _times(factor: float) -> Function:
    """The product with a factor that float16 does not hold, which is float32 there."""

    def function(value: Number) -> Any:
        kind = float_of(kind_of(value))
        wide = FLOAT32 if kind.bits < 32 else kind
        return cast(arithmetic.mul(cast(value, wide), factor), kind)

    return function


def divided(left: Number, right: Number) -> Element:
    """The quotient of integers, towards zero."""
    a, b, kind = operands(left, right, least=Kind("int8"))
    arithmetic.check_divisor(b)
    return emit("arith.divsi" if kind.signed else "arith.divui", [a, b], kind)


def fmod(left: Number, right: Number) -> Element:
    """The remainder with the sign of `left`."""
    a, b, kind = operands(left, right, least=Kind("int8"))
    arithmetic.check_divisor(b)
    if kind.is_float:
        return emit("arith.remf", [a, b], kind)
    return emit("arith.remsi" if kind.signed else "arith.remui", [a, b], kind)


def float_fmod(left: Number, right: Number) -> Element:
    """`math.fmod`: always a float."""
    kind = float_of_both(kind_of(left), kind_of(right))
    result = fmod(cast(left, kind), cast(right, kind))
    if kind == WEAK_FLOAT and is_exact():
        check_finite(result)
    return result


def heaviside(value: Number, at_zero: Number) -> Any:
    """0 for negative, 1 for positive numbers."""
    kind = float_of_both(kind_of(value), kind_of(at_zero))
    x = cast(value, kind)
    zero, one = constant(0.0, kind), constant(1.0, kind)
    step = select(compare("gt", x, zero), one, select(compare("lt", x, zero), zero, x))
    return select(compare("eq", x, zero), cast(at_zero, kind), step)


def rounded(value: Number, digits: int | None = None) -> Any:
    """`round(value)`: to the nearest integer, halves to the even one; integers stay as they are."""
    if digits:
        raise refuse("round to digits", kind_of(value), reason="only round(x) can be compiled")
    kind = kind_of(value)
    return _to_python_int("rint")(value) if kind.weak and digits is None else _exact("rint")(value)


def astype(value: Number, dtype: Any) -> Element:
    """The number as another dtype: NumPy's, its name, or Python's `bool`, `int` and `float`.

    Raises:
        SemanticError: a dtype that no element can have.
    """
    try:
        name = np.dtype(getattr(dtype, "name", dtype)).name
    except TypeError:
        raise SemanticError(NotANumber(describe(dtype))) from None
    if name not in BITS:
        raise SemanticError(NotANumber(f"an array of {name}"))
    return cast(value, Kind(name))


def _converted_to(weak: Kind, strong: Kind) -> Function:
    """`int(x)`: a Python number of a Python number, else a NumPy one."""

    def function(value: Number) -> Element:
        kind = kind_of(value)
        if kind == WEAK_FLOAT and weak == WEAK_INT:
            return _truncated(value)
        return cast(value, weak if kind.weak else strong)

    return function


def _dtype_class(name: str) -> Function:
    return lambda value: astype(value, name)


# --- the table ----------------------------------------------------------------------------------------------------

# name in the math library: functions of `math` (and `tl`), functions of NumPy
FLOAT_FUNCTIONS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "absf": ((math.fabs,), (np.fabs,)),
    "acos": ((math.acos, libdevice.acos), (np.arccos,)),
    "acosh": ((math.acosh, libdevice.acosh), (np.arccosh,)),
    "asin": ((math.asin, libdevice.asin), (np.arcsin,)),
    "asinh": ((math.asinh, libdevice.asinh), (np.arcsinh,)),
    "atan": ((math.atan, libdevice.atan), (np.arctan,)),
    "atan2": ((math.atan2, libdevice.atan2), (np.arctan2,)),
    "atanh": ((math.atanh, libdevice.atanh), (np.arctanh,)),
    "cbrt": ((getattr(math, "cbrt", None), libdevice.cbrt), (np.cbrt,)),
    "copysign": ((math.copysign, libdevice.copysign), (np.copysign,)),
    "cos": ((math.cos, tl.cos, libdevice.cos), (np.cos,)),
    "cosh": ((math.cosh, libdevice.cosh), (np.cosh,)),
    "erf": ((math.erf, tl.erf, libdevice.erf), ()),
    "exp": ((math.exp, tl.exp, libdevice.exp), (np.exp,)),
    "exp2": ((getattr(math, "exp2", None), tl.exp2, libdevice.exp2), (np.exp2,)),
    "expm1": ((math.expm1, libdevice.expm1), (np.expm1,)),
    "fma": ((getattr(math, "fma", None), tl.fma), ()),
    "log": ((tl.log, libdevice.log), (np.log,)),
    "log10": ((math.log10, libdevice.log10), (np.log10,)),
    "log1p": ((math.log1p, libdevice.log1p), (np.log1p,)),
    "log2": ((math.log2, tl.log2, libdevice.log2), (np.log2,)),
    "rsqrt": ((tl.rsqrt, libdevice.rsqrt), ()),
    "sigmoid": ((tl.sigmoid,), ()),
    "sin": ((math.sin, tl.sin, libdevice.sin), (np.sin,)),
    "sinh": ((math.sinh, libdevice.sinh), (np.sinh,)),
    "sqrt": ((math.sqrt, tl.sqrt, tl.sqrt_rn, libdevice.sqrt), (np.sqrt,)),
    "tan": ((math.tan, libdevice.tan), (np.tan,)),
    "tanh": ((math.tanh, libdevice.tanh), (np.tanh,)),
}


def _logarithm(value: Number, base: Number | None = None) -> Any:
    log = _in_floats("log")
    return log(value) if base is None else arithmetic.truediv(log(value), log(base))


def _power(base: Number, exponent: Number) -> Any:
    return power(base, exponent)


OPERATORS["pow"] = power
OPERATORS["astype"] = astype

OTHERS: tuple[tuple[Function, tuple[Any, ...]], ...] = (
    (OPERATORS["abs"], (builtins.abs, np.abs, tl.abs)),
    (OPERATORS["add"], (np.add,)),
    (OPERATORS["and_"], (np.bitwise_and,)),
    (OPERATORS["eq"], (np.equal,)),
    (OPERATORS["floordiv"], (np.floor_divide,)),
    (OPERATORS["ge"], (np.greater_equal,)),
    (OPERATORS["gt"], (np.greater,)),
    (OPERATORS["invert"], (np.invert,)),
    (OPERATORS["le"], (np.less_equal,)),
    (OPERATORS["logical_not"], (np.logical_not,)),
    (OPERATORS["lshift"], (np.left_shift,)),
    (OPERATORS["lt"], (np.less,)),
    (OPERATORS["mod"], (np.remainder, np.mod)),
    (OPERATORS["mul"], (np.multiply,)),
    (OPERATORS["ne"], (np.not_equal,)),
    (OPERATORS["neg"], (np.negative,)),
    (OPERATORS["or_"], (np.bitwise_or,)),
    (OPERATORS["pos"], (np.positive,)),
    (OPERATORS["rshift"], (np.right_shift,)),
    (OPERATORS["sub"], (np.subtract,)),
    (OPERATORS["truediv"], (np.true_divide, np.divide, tl.fdiv, tl.div_rn)),
    (OPERATORS["xor"], (np.bitwise_xor,)),
    (_against_infinity("eq"), (math.isinf, np.isinf)),
    (_against_infinity("lt"), (math.isfinite, np.isfinite)),
    (_converted_to(WEAK_BOOL, BOOL), (builtins.bool,)),
    (_converted_to(WEAK_FLOAT, FLOAT64), (builtins.float,)),
    (_converted_to(WEAK_INT, INT64), (builtins.int,)),
    (_exact("ceil"), (np.ceil, tl.ceil)),
    (_exact("floor"), (np.floor, tl.floor)),
    (lambda value: apply("rint", cast(value, float_of(kind_of(value)))), (np.rint,)),
    (_exact("trunc"), (np.trunc,)),
    (_folded(_extreme("max", "", python=True)), (builtins.max,)),
    (_folded(_extreme("min", "", python=True)), (builtins.min,)),
    (_logarithm, (math.log,)),
    (_logical("andi"), (np.logical_and,)),
    (_logical("ori"), (np.logical_or,)),
    (_logical("xori"), (np.logical_xor,)),
    (_power, (builtins.pow, np.power)),
    (_times(180 / math.pi), (math.degrees, np.degrees, np.rad2deg)),
    (_times(math.pi / 180), (math.radians, np.radians, np.deg2rad)),
    (_to_python_int("ceil"), (math.ceil,)),
    (_to_python_int("floor"), (math.floor,)),
    (_to_python_int("trunc"), (math.trunc,)),
    (arithmetic.divide_both, (builtins.divmod,)),
    (clip, (np.clip, tl.clamp)),
    (float_power, (math.pow,)),
    (fmax, (np.fmax, tl.maximum)),
    (fmin, (np.fmin, tl.minimum)),
    (float_fmod, (math.fmod,)),
    (fmod, (np.fmod,)),
    (heaviside, (np.heaviside,)),
    (hypot, (np.hypot, math.hypot)),
    (isnan, (math.isnan, np.isnan)),
    (logaddexp, (np.logaddexp,)),
    (maximum, (np.maximum,)),
    (minimum, (np.minimum,)),
    (reciprocal, (np.reciprocal,)),
    (rounded, (builtins.round, np.round)),
    (sign, (np.sign,)),
    (signbit, (np.signbit,)),
    (square, (np.square,)),
    (where, (np.where, tl.where)),
)


def _table() -> dict[int, Function]:
    """The table by identity: some of the functions cannot be hashed by value."""
    table = {id(known): function for function, names in OTHERS for known in names}
    for of_array in (*(f for _, names in OTHERS for f in names if isinstance(f, np.ufunc)), np.clip, np.round):
        table[id(of_array)] = _of_numpy(table[id(of_array)])
    for name, (of_python, of_numpy) in FLOAT_FUNCTIONS.items():
        table.update((id(known), _in_floats(name)) for known in of_python)
        table.update((id(known), _of_numpy(_in_floats(name))) for known in of_numpy)
    table.update((id(getattr(np, name)), _dtype_class(name)) for name in BITS if name != "bool")
    table[id(np.bool_)] = _dtype_class("bool")
    table.pop(id(None), None)
    return table


TABLE = _table()


def known(function: Any) -> Function | None:
    """The function that does the same with elements; None if it has no meaning there."""
    return TABLE.get(id(function))


Element.operations = OPERATORS
Element.functions = staticmethod(known)  # told here, because functions use elements
