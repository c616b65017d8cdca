"""sin, cos, tan and their inverses; sin and cos of float for GPUs only, as CPUs have `math_sine.py`.

    x = n·π/2 + r, |r| ≤ π/4:      sin x is ±sin r or ±cos r by n mod 4

Small arguments subtract n·π/2 in three steps, of which only the last one rounds. Large ones (|x| ≥ 1e5 in float, 1e6 in
double) are multiplied by the relevant bits of 2/π in a scalar helper, lane by lane (`math_far_angles.py`), which is
correct for every finite argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.backends.llvm import coefficients
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.math_far_angles import HALF_PI, HALF_PI_LOW, payne_hanek, payne_hanek_float
from tilewright.backends.llvm.writer import LlvmWriter

INFINITY = float("inf")
NAN = float("nan")
TWO_OVER_PI = 0.6366197723675814
PI = 3.141592653589793
PI_LOW = 1.2246467991473532e-16
TAN_EIGHTH_PI = 0.41421356237309503


Reduced: TypeAlias = "tuple[Lanes, Lanes, Lanes | None]"
"""(n, r, low) with x = n·π/2 + r + low; of n the last two bits are right. For float there is no low."""
Angle: TypeAlias = "Callable[[Lanes, Lanes, Lanes, Lanes | None], Lanes]"
"""A function of x, n, r and low."""


@dataclass(frozen=True)
class TrigTable:
    """Constants of one format: `half_pi` sums to π/2; `limit` is where three steps no longer suffice."""

    magic: float
    half_pi: tuple[float, float, float]
    limit: float
    sin: tuple[float, ...]
    cos: tuple[float, ...]


TABLES = {
    "float": TrigTable(
        12582912.0,
        (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
        1.0e5,
        coefficients.SIN_FLOAT,
        coefficients.COS_FLOAT,
    ),
    "double": TrigTable(
        6755399441055744.0,
        (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21),  # 33 bits, 33 bits, the rest
        1.0e6,
        coefficients.SIN_DOUBLE,
        coefficients.COS_DOUBLE,
    ),
}


def sin(x: Lanes) -> Lanes:
    """sin x; 1.6 ulp for every finite x; with fused instructions 1 in double."""
    return _of_angle(x, "sin", _sin_of)


def cos(x: Lanes) -> Lanes:
    """cos x; 1.6 ulp for every finite x; with fused instructions 1 in double."""
    return _of_angle(x, "cos", _cos_of)


def tan(x: Lanes) -> Lanes:
    """tan of double; 1.5 ulp, without fused instructions 2.1."""
    return _of_angle(x, "tan", _tan_of)


def tan_in_double(x: Lanes) -> Lanes:
    """tan in double, exact enough for float."""
    return _of_angle(x, "short_tan", _short_tan_of)


def _of_angle(x: Lanes, name: str, function: Angle) -> Lanes:
    """A function of an angle. Of one lane alone, large arguments are left to a function that the module gets once."""
    k, w = x.kind, x.kind.writer
    if k.lanes > 1 or not w.target.has_fma:
        return function(x, *_reduced(x))
    near = function(x, *_less_multiples(x))
    far_function = w.helper(
        f"tw_far_{name}_{k.element}",
        [(k.type, "%x")],
        k.type,
        lambda: function(k("%x"), *_far_alone(k("%x"))).name,
        attributes="noinline",
    )
    with w.branch((abs(x) >= TABLES[k.element].limit).name, unlikely=True) as b, b.then():
        far = k(w.call(k.type, far_function, [(k.type, x.name)]))
    return near.joined(b, far)


def _sin_of(x: Lanes, quadrant: Lanes, r: Lanes, low: Lanes | None) -> Lanes:
    return x.kind.select(x.equals(0.0), x, _by_quadrant(x, quadrant, *_sin_cos(r, low)))


def _cos_of(x: Lanes, quadrant: Lanes, r: Lanes, low: Lanes | None) -> Lanes:
    return _by_quadrant(x, quadrant + 1, *_sin_cos(r, low))


def _tan_of(x: Lanes, quadrant: Lanes, r: Lanes, low: Lanes | None) -> Lanes:
    k = x.kind
    assert low is not None, "float is computed in double"
    (s, s_low), (c, c_low) = _sine(r, low), _cosine(r, low)
    is_odd = (quadrant & 1).differs(0)
    top, bottom = k.select(is_odd, -c, s), k.select(is_odd, s, c)
    top_low, bottom_low = k.select(is_odd, -c_low, s_low), k.select(is_odd, s_low, c_low)
    quotient = top / bottom
    missing = k.fma(-quotient, bottom, top) if x.kind.writer.target.has_fma else k(0.0)
    result = quotient + (missing + (top_low - quotient * bottom_low)) / bottom
    return k.select(abs(x) < INFINITY, k.select(x.equals(0.0), x, result), NAN)


def _short_tan_of(x: Lanes, quadrant: Lanes, r: Lanes, low: Lanes | None) -> Lanes:
    k = x.kind
    s, c = _sin_cos(r, None)
    is_odd = (quadrant & 1).differs(0)
    result = k.select(is_odd, -c, s) / k.select(is_odd, s, c)
    return k.select(abs(x) < INFINITY, k.select(x.equals(0.0), x, result), NAN)


def asin(x: Lanes) -> Lanes:
    """asin of double; 1.5 ulp. From ½ on what the square root and the first sum lose is put right."""
    k, t = x.kind, abs(x)
    is_large = t > 0.5
    z = k.select(is_large, (1.0 - t) * 0.5, t * t)
    root = k.call("llvm.sqrt", z)
    s = k.select(is_large, root, t)
    rest = s * (z * k.polynomial(z, coefficients.ASIN_DOUBLE))
    lost = k.fma(-root, root, z) / k.maximum(root + root, 2.0**-1000)
    twice = root + root
    first = HALF_PI - twice
    second = (HALF_PI - first) - twice
    large = first - ((rest + lost) * 2.0 - (second + HALF_PI_LOW))
    return k.with_sign_of(k.select(is_large, large, s + rest), x)


def asin_in_double(x: Lanes) -> Lanes:
    """asin in double, exact enough for float."""
    k = x.kind
    is_large, half = _arc(x)
    large = (HALF_PI - half * 2.0) + HALF_PI_LOW
    return k.with_sign_of(k.select(is_large, large, half), x)


def acos(x: Lanes) -> Lanes:
    """acos of double; 2 ulp."""
    k = x.kind
    is_large, half = _arc(x)
    middle = HALF_PI - (k.with_sign_of(half, x) - HALF_PI_LOW)
    double = half + half
    return k.select(is_large, k.select(x < 0.0, (PI - double) + PI_LOW, double), middle)


def atan(x: Lanes) -> Lanes:
    """atan of double; 2 ulp."""
    k, t = x.kind, abs(x)
    is_infinite = t.equals(INFINITY)
    result = k.select(is_infinite, HALF_PI, _arc_tangent(t, k(1.0)))
    return k.with_sign_of(result, x)


def atan2(y: Lanes, x: Lanes) -> Lanes:
    """The angle of (x, y) with C's rules for zeros and infinities, for double; 2 ulp."""
    k = x.kind
    rise, run = abs(y), abs(x)
    equal = rise.equals(run)  # also both infinite
    none = rise.equals(0.0)
    huge = k.maximum(rise, run) > 2.0**1000
    scale = k.select(huge, 2.0**-60, 1.0)
    n = k.select(equal, k.select(none, 0.0, 1.0), rise * scale)
    d = k.select(equal | none, 1.0, run * scale)
    angle = _arc_tangent(n, d)
    angle = k.select(rise.equals(INFINITY) & ~equal, HALF_PI, angle)
    from_left = x.bits < 0
    angle = k.select(from_left, (PI - angle) + PI_LOW, angle)
    angle = k.select(k.compare("uno", x, y), NAN, angle)
    return k.with_sign_of(angle, y)


def _arc(x: Lanes) -> tuple[Lanes, Lanes]:
    """|x| > ½, and asin of sqrt((1 - |x|) / 2) there, of |x| elsewhere."""
    k, t = x.kind, abs(x)
    is_large = t > 0.5
    z = k.select(is_large, (1.0 - t) * 0.5, t * t)
    s = k.select(is_large, k.call("llvm.sqrt", z), t)
    return is_large, k.fma(s * z, k.polynomial(z, coefficients.ASIN_DOUBLE), s)


def _arc_tangent(n: Lanes, d: Lanes) -> Lanes:
    """atan(n / d) of finite n ≥ 0, d ≥ 0: turned by 0, π/4 or π/2 so that the argument is at most tan(π/8)."""
    k = n.kind
    is_middle, is_steep = n > d * TAN_EIGHTH_PI, n > d * (2.0 + TAN_EIGHTH_PI)
    top = k.select(is_steep, -d, k.select(is_middle, n - d, n))
    bottom = k.select(is_steep, n, k.select(is_middle, n + d, d))
    turn = k.select(is_steep, HALF_PI, k.select(is_middle, HALF_PI / 2, 0.0))
    turn_low = k.select(is_steep, HALF_PI_LOW, k.select(is_middle, HALF_PI_LOW / 2, 0.0))
    s = top / bottom
    z = s * s
    return turn + (k.fma(s * z, k.polynomial(z, coefficients.ATAN_DOUBLE), turn_low) + s)


def _sin_cos(r: Lanes, low: Lanes | None) -> tuple[Lanes, Lanes]:
    """sin and cos of |r + low| ≤ π/4. With `low` only the last sum rounds visibly."""
    k, table, z = r.kind, TABLES[r.kind.element], r * r
    if low is None:
        s = k.fma(z * k.polynomial(z, table.sin), r, r)
        return s, k.fma(z * z, k.polynomial(z, table.cos), k.fma(z, -0.5, 1.0))
    return _sine(r, low)[0], _cosine(r, low)[0]


def _sine(r: Lanes, low: Lanes) -> tuple[Lanes, Lanes]:
    """The sine of |r + low| ≤ π/4 as a sum of two."""
    k, z = r.kind, r * r
    rest = k.fma(z * k.polynomial(z, TABLES["double"].sin), r, k.fma(z * -0.5, low, low))
    s = r + rest
    return s, (r - s) + rest


def _cosine(r: Lanes, low: Lanes) -> tuple[Lanes, Lanes]:
    """The cosine of |r + low| ≤ π/4 as a sum of two."""
    k, z = r.kind, r * r
    half = z * 0.5
    rounded = 1.0 - half
    rest = ((1.0 - rounded) - half) + k.fma(z * z, k.polynomial(z, TABLES["double"].cos), -(r * low))
    c = rounded + rest
    return c, (rounded - c) + rest


def _by_quadrant(x: Lanes, quadrant: Lanes, s: Lanes, c: Lanes) -> Lanes:
    k = x.kind
    value = k.select((quadrant & 1).differs(0), c, s)
    signed = k.from_bits(value.bits ^ ((quadrant & 2) << (k.width - 2)))
    return k.select(abs(x) < INFINITY, signed, NAN)


def _reduced(x: Lanes) -> Reduced:
    """x without its multiple of π/2, small or large."""
    k, w, table = x.kind, x.kind.writer, TABLES[x.kind.element]
    if k.element == "float" and not w.target.has_fma:
        double = k.with_element("double")
        quadrant, r, _ = _reduced(double.cast("fpext", x))
        return k.integers.cast("trunc", quadrant), k.cast("fptrunc", r), None
    near_quadrant, r, low = _less_multiples(x)
    is_large = abs(x) >= table.limit
    with w.branch(is_large.any(), unlikely=True) as b, b.then():
        far_quadrant, far_r, far_low = _reduced_far(x)
        quadrant = near_quadrant.kind.select(is_large, far_quadrant, near_quadrant)
        near_or_far = k.select(is_large, far_r, r)
        near_low = None if low is None else k.select(is_large, far_low, low)
    joined_low = None if low is None or near_low is None else low.joined(b, near_low)
    return near_quadrant.joined(b, quadrant), r.joined(b, near_or_far), joined_low


def _less_multiples(x: Lanes) -> Reduced:
    """(n, r, low) of small x; in double, low is what the rounding took."""
    k, table = x.kind, TABLES[x.kind.element]
    rounded = k.fma(x, TWO_OVER_PI, table.magic)
    n = rounded - table.magic
    first, second, third = table.half_pi
    exact = k.fma(n, -first, x)
    r = k.fma(n, -second, exact)
    if k.element == "float":
        return rounded.bits, k.fma(n, -third, r), None
    rest = k.fma(n, -third, k.fma(n, -second, exact - r))
    total = r + rest
    return rounded.bits, total, (r - total) + rest


def _far_alone(x: Lanes) -> Reduced:
    """(n, r, low) of one large x."""
    reduce = payne_hanek_float if x.kind.element == "float" else payne_hanek
    return reduce(x)


def _reduced_far(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """`_reduced` for large arguments, lane by lane through memory."""
    k, w = x.kind, x.kind.writer
    doubles, longs = k.with_element("double"), k.with_element("i64")
    parameters = [("ptr", "%values"), ("ptr", "%lows"), ("ptr", "%quadrants"), ("i64", "%count")]
    helper = w.helper("tw_reduce_by_half_pi", parameters, "void", lambda: _reduce_each(w))
    values, lows, quadrants = (w.alloca(8 * k.lanes) for _ in range(3))
    w.store(doubles.type, doubles.cast("fpext", x).name, values, align=8)
    w.call_void(helper, [("ptr", values), ("ptr", lows), ("ptr", quadrants), ("i64", str(k.lanes))])
    quadrant = longs(w.load(longs.type, quadrants, align=8))
    r, low = (doubles(w.load(doubles.type, place, align=8)) for place in (values, lows))
    return k.integers.cast("trunc", quadrant), k.cast("fptrunc", r), k.cast("fptrunc", low)


def _reduce_each(w: LlvmWriter) -> None:
    """Doubles at `%values` replaced by their r, its lower part stored at `%lows`, and n at `%quadrants`."""
    with w.loop(0, "%count") as loop:
        place = w.offset("%values", "double", loop.index)
        quadrant, r, low = payne_hanek(LaneType(w, "double", 1)(w.load("double", place, align=8)))
        w.store("double", r.name, place, align=8)
        w.store("double", low.name, w.offset("%lows", "double", loop.index), align=8)
        w.store("i64", quadrant.name, w.offset("%quadrants", "i64", loop.index), align=8)


def far_sine(x: Lanes, *, turned: bool) -> Lanes:
    """The sine of one double of 2¹⁶ or so and more, or its cosine; exact enough for float."""
    quadrant, r, _ = payne_hanek(x)
    return _by_quadrant(x, quadrant + 1 if turned else quadrant, *_sin_cos(r, None))
