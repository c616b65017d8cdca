"""erf and the remainder of a division."""

from __future__ import annotations

from tilewright.backends.llvm import coefficients, segment_tables
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.math_exponential import exp, exp2_of_product
from tilewright.backends.llvm.math_registers import has_segments, odd_by_segments
from tilewright.backends.llvm.writer import LlvmWriter

INFINITY = float("inf")
NAN = float("nan")
ERF_FAR = 0.85
"""The argument from which on the error of 1 - erfc is as small as that of a polynomial."""
ERFC_QUARTER = 0.813419818878173828125
"""The argument at which erfc is a quarter."""


def erf(x: Lanes) -> Lanes:
    """The error function; 1 ulp, in double 2. By segments with AVX, else a polynomial, and 1 - erfc beyond it."""
    k = x.kind
    if has_segments(k, 16):
        middles = segment_tables.ERF_16_MIDDLES
        return odd_by_segments(x, segment_tables.ERF_16, segment_tables.ERF_16_WIDTH, limit=3.93, middles=middles)
    if has_segments(k, 8):
        return odd_by_segments(x, segment_tables.ERF_8, segment_tables.ERF_8_WIDTH, limit=3.92)
    t = abs(x)
    z = t * t
    if k.element == "float":
        near = k.fma(t, k.polynomial(z, coefficients.ERF_NEAR_FLOAT), t)
        return k.with_sign_of(k.select(t < ERF_FAR, near, 1.0 - _erfc(k.minimum(3.93, t))), x)
    near = k.fma(t, k.polynomial(z, coefficients.ERF_DOUBLE), t)
    u = k.minimum(6.0, t)
    far = 1.0 - exp(-(u * u)) * k.polynomial(1.0 / (u + 2.0), coefficients.ERFC_DOUBLE)
    return k.with_sign_of(k.select(t < 1.0, near, far), x)


def _erfc(t: Lanes) -> Lanes:
    """2^(w·P(w) - 2) with w = t - ERFC_QUARTER, for float: where erfc is large, w is small and rounds little."""
    w = t - ERFC_QUARTER
    return exp2_of_product(w, t.kind.polynomial(w, coefficients.ERFC_FROM_QUARTER_FLOAT), 2)


def remainder(x: Lanes, y: Lanes) -> Lanes:
    """x - y·trunc(x / y) as C's fmod, exact.

    Where the quotient has few enough bits one division and one correction do; other lanes call a scalar helper.
    """
    k = x.kind
    if k.element == "float":
        double = k.with_element("double")
        return k.cast("fptrunc", _remainder(double.cast("fpext", x), double.cast("fpext", y), 2.0**28))
    return _remainder(x, y, 2.0**50)


def _remainder(x: Lanes, y: Lanes, quotient_limit: float) -> Lanes:
    k, w = x.kind, x.kind.writer
    a, b = abs(x), abs(y)
    quotient = k.call("llvm.trunc", a / b)
    rest = k.fma(-quotient, b, a)
    near = k.select(rest < 0.0, rest + b, rest)
    near = k.select(a < b, a, near)  # also for an infinite b
    is_hard = k.compare("ugt", quotient, quotient_limit)
    if quotient_limit > 2.0**28 and not w.target.has_fma:
        is_hard = k.compare("uge", a, b)  # the product would be rounded
    with w.branch(is_hard.any(), unlikely=True) as branch, branch.then():
        exact = _remainder_by_lanes(a, b)
    return k.with_sign_of(near.joined(branch, exact), x)


def _remainder_by_lanes(a: Lanes, b: Lanes) -> Lanes:
    k, w = a.kind, a.kind.writer
    parameters = [("ptr", "%dividends"), ("ptr", "%divisors"), ("i64", "%count")]
    helper = w.helper("tw_remainder", parameters, "void", lambda: _divide_each(w))
    left, right = w.alloca(8 * k.lanes), w.alloca(8 * k.lanes)
    w.store(k.type, a.name, left, align=8)
    w.store(k.type, b.name, right, align=8)
    w.call_void(helper, [("ptr", left), ("ptr", right), ("i64", str(k.lanes))])
    return k(w.load(k.type, left, align=8))


def _divide_each(w: LlvmWriter) -> None:
    """Doubles at `%dividends` replaced by their remainder."""
    f = LaneType(w, "double", 1)
    with w.loop(0, "%count") as loop:
        place = w.offset("%dividends", "double", loop.index)
        divisor = f(w.load("double", w.offset("%divisors", "double", loop.index), align=8))
        w.store("double", _long_division(f(w.load("double", place, align=8)), divisor).name, place, align=8)


def _long_division(a: Lanes, b: Lanes) -> Lanes:
    """The remainder of scalar doubles ≥ 0 by long division, 11 bits of the quotient at a time."""
    f, w = a.kind, a.kind.writer
    i64 = f.integers
    is_bad = f.compare("uge", a, INFINITY) | f.compare("ueq", b, 0.0)
    a_exponent, a_mantissa = _parts(f.select(is_bad, 1.0, a))
    is_unbounded = b.equals(INFINITY)
    b_exponent, b_mantissa = _parts(f.select(is_bad | is_unbounded, 1.0, b))
    first = i64.binary("urem", a_mantissa, b_mantissa)
    distance = a_exponent - b_exponent
    with w.loop(0, distance.name, 11, carried=[("i64", first.name)], guarded=True) as loop:
        step = i64.call("llvm.smin", distance - i64(loop.index), 11)
        loop.next = [i64.binary("urem", i64(loop.carried[0]) << step, b_mantissa).name]
    rest = f.cast("uitofp", i64(loop.results[0]))
    half = (b_exponent - 1075).shift_signed(1)
    other = (b_exponent - 1075) - half
    for part in (half, other):
        rest = rest * f.from_bits((part + 1023) << 52)
    rest = f.select((a < b) | is_unbounded, a, rest)
    return f.select(is_bad, NAN, rest)


def _parts(x: Lanes) -> tuple[Lanes, Lanes]:
    """(e, m) with x = m · 2^(e - 1075); denormals have e = 1."""
    i64 = x.kind.integers
    exponent = x.bits >> 52
    fraction = x.bits & ((1 << 52) - 1)
    is_denormal = exponent.equals(0)
    mantissa = i64.select(is_denormal, fraction, fraction | (1 << 52))
    return i64.select(is_denormal, 1, exponent), mantissa
