"""`base ** exponent`: by products for small constant exponents, by squaring for integers, else by `pow`.

x ** 2         x * x                       x ** 0.5       sqrt(x)
x ** -1        1 / x (floats)              n ** m         a loop over the bits of m
"""

from __future__ import annotations

from typing import Any

from tilewright.ir.core import Block, Op, Region
from tilewright.semantics.active import active
from tilewright.vectorizing.arithmetic import compare, extern, mul, operands, truediv
from tilewright.vectorizing.casting import Number, cast, kind_of
from tilewright.vectorizing.element import IR_TYPES, Element, check, constant, emit, is_exact
from tilewright.vectorizing.errors import ASK_PYTHON, NEGATIVE_POWER
from tilewright.vectorizing.kinds import BOOL, WEAK_FLOAT, WEAK_INT, Kind

_MAX_PRODUCTS, _MAX_FLOAT_PRODUCTS = 64, 4


def power(base: Number, exponent: Number) -> Any:
    """`base ** exponent`, `np.power(base, exponent)`."""
    kind = operands(base, exponent, least=Kind("int8"))[2]
    fixed = exponent if exponent.__class__ in (int, float) else None
    if fixed.__class__ is int and fixed == 2 and kind_of(base) == BOOL:
        kind = Kind("int8")  # NumPy squares
    if kind.is_float:
        found = _fixed_float(cast(base, kind), fixed)
        return _float_power(base, exponent, kind) if found is None else found
    if fixed is not None and fixed < 0 and kind.weak:
        return power(cast(base, WEAK_FLOAT), float(fixed))
    if fixed is not None and 0 <= fixed <= _MAX_PRODUCTS:
        return _product(cast(base, kind), int(fixed))
    return _integer_power(cast(base, kind), cast(exponent, kind))


def _fixed_float(base: Element, exponent: float | None) -> Element | None:
    if exponent == 0.5:
        return _finite(emit("math.sqrt", [base], base.kind))
    if exponent is None or not abs(exponent) <= _MAX_FLOAT_PRODUCTS or 2 * exponent != int(2 * exponent):
        return None
    result = _product(base, int(abs(exponent)))
    if exponent != int(exponent):
        result = emit("arith.mulf", [result, emit("math.sqrt", [base], base.kind)], base.kind)
    return _finite(result if exponent >= 0 else truediv(1, result))


def _product(base: Element, exponent: int) -> Element:
    """base · base · …, by squares."""
    result: Element | None = None
    square = base
    while exponent:
        if exponent & 1:
            result = square if result is None else mul(result, square)
        exponent >>= 1
        if exponent:
            square = mul(square, square)
    return constant(1, base.kind) if result is None else result


def _float_power(base: Number, exponent: Number, kind: Kind) -> Element:
    return _finite(emit("tt.extern_elementwise", [cast(base, kind), cast(exponent, kind)], kind, extern("pow")))


def _finite(result: Element) -> Element:
    """Check a result: one that is infinite, or no real number, may be an error or a complex number in Python."""
    if result.kind == WEAK_FLOAT and is_exact():
        check_finite(result)
    return result


def check_finite(result: Element) -> None:
    """Leave the case of infinity and NaN to Python."""
    size = emit("math.absf", [result], result.kind)
    check(compare("lt", size, constant(float("inf"), result.kind)), ASK_PYTHON)


def _integer_power(base: Element, exponent: Element) -> Element:
    """The power by squaring, in a loop that ends when no bit of the exponent is left."""
    kind = base.kind
    if kind.signed or kind == WEAK_INT:
        check(compare("ge", exponent, constant(0, kind)), ASK_PYTHON if kind.weak and is_exact() else NEGATIVE_POWER)
    type, emitter = IR_TYPES[kind.name], active()
    zero, one = constant(0, kind), constant(1, kind)
    before, after = Block([type] * 3), Block([type] * 3)
    with emitter.recording(before):
        *_, rest = (Element(value, kind) for value in before.args)
        test = compare("gt", rest, zero)
    before.append(Op.create("scf.condition", [test.handle, *before.args], location=emitter.location))
    with emitter.recording(after):
        result, square, rest = (Element(value, kind) for value in after.args)
        odd = compare("ne", emit("arith.andi", [rest, one], kind), zero)
        result = emit("arith.select", [odd, mul(result, square), result], kind)
        rest = emit("arith.shrui", [rest, one], kind)
        more = compare("ne", rest, zero)
        square = emit("arith.select", [more, _squared(square, more), square], kind)
    after.append(Op.create("scf.yield", [v.handle for v in (result, square, rest)], location=emitter.location))
    initial = [one.handle, base.handle, exponent.handle]
    results = emitter.emit("scf.while", initial, [type] * 3, None, [Region([before]), Region([after])])
    return Element(results[0], kind)


def _squared(square: Element, wanted: Element) -> Element:
    """The square, of which an overflow only counts if it is wanted."""
    if square.kind != WEAK_INT or not is_exact():
        return mul(square, square)
    return mul(square, emit("arith.select", [wanted, square, constant(1, WEAK_INT)], WEAK_INT))


def float_power(base: Number, exponent: Number) -> Any:
    """`math.pow`: always a float."""
    weak = kind_of(base).weak and kind_of(exponent).weak
    kind = WEAK_FLOAT if weak else operands(base, exponent, least=Kind("float16"))[2]
    kind = kind if kind.is_float else Kind("float64")
    fixed = exponent if isinstance(exponent, (int, float)) else None
    found = _fixed_float(cast(base, kind), fixed)
    return _float_power(base, exponent, kind) if found is None else found
