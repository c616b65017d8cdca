"""sin and cos of float on CPUs.

In double, by one polynomial for half a turn:

    n = round(x / π)    r = x / π - n    sin x = (-1)ⁿ · sin πr = (-1)ⁿ · r · P(r²)
                        w = ¼ - r²       cos x = (-1)ⁿ · cos πr = (-1)ⁿ · w · Q(w)

The factor w is 0 where the cosine is, so that small results are as exact as large ones. The product with the first 29
bits of 1/π is exact; the product with the remaining bits is added to the remainder. Since n counts half turns and not
quarter turns, no choice between two polynomials is needed. The rounding errors of double are too small to matter.

With AVX-512, arguments below FLOAT_LIMIT stay float, of which a register holds twice as many:

    n = round(16x / π)    r = x - nπ/16    S = sin nπ/16    C = cos nπ/16
    sin x = S + (C·r + (C·(sin r - r) + S·(cos r - 1)))

S and C are looked up in a table of 32 numbers. All small terms are added first, together with the low parts of S and r,
so that almost only the last two additions round. x - nπ/16 is exact up to its last term: π/16 is split into three
parts, the second of which has so few bits that n times it is exact. GPUs, whose double arithmetic is slow, use
`math_trigonometric.py`.
"""

from __future__ import annotations

import math

import numpy as np

from tilewright.backends.llvm import coefficients
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.math_registers import MAGIC as FLOAT_MAGIC
from tilewright.backends.llvm.math_registers import has_segments, looked_up
from tilewright.backends.llvm.math_trigonometric import far_sine
from tilewright.backends.llvm.writer import LlvmWriter

MAGIC = 6755399441055744.0  # 1.5 · 2⁵²
ONE_OVER_PI, ONE_OVER_PI_LOW = 0.3183098854497075, 7.340831634506093e-10
LIMIT = 1.0e6

PI_16 = 0.19634954631328583, -5.464244168251753e-09, 3.204180085321362e-13
"""π/16 in three parts: of 24, 12 and 24 bits."""
FLOAT_LIMIT = 512.0
"""The number from which on n, of more than 12 bits, times the second part of π/16 is not exact."""
SIGN = 1 << 31


def sin(x: Lanes) -> Lanes:
    """The sine of float; 0.65 ulp for every finite x, with AVX-512 0.94."""
    if not has_segments(x.kind, 16):
        return _in_double(x, turned=False)
    k, positive = x.kind, abs(x)
    found = _in_float(positive, turned=False)
    return k.from_bits(found.bits ^ (x.bits & SIGN))


def cos(x: Lanes) -> Lanes:
    """The cosine of float; 0.65 ulp for every finite x, with AVX-512 0.94."""
    return _in_float(abs(x), turned=True) if has_segments(x.kind, 16) else _in_double(x, turned=True)


def _in_float(x: Lanes, *, turned: bool) -> Lanes:
    """sin or cos of positive numbers; large ones in double."""
    k, near, is_large = x.kind, _near_in_float(x, turned=turned), x >= FLOAT_LIMIT
    with k.writer.branch(is_large.any(), unlikely=True) as branch, branch.then():
        both = k.select(is_large, _in_double(x, turned=turned), near)
    return near.joined(branch, both)


def _near_in_float(x: Lanes, *, turned: bool) -> Lanes:
    """sin or cos of a float below FLOAT_LIMIT; NaN stays."""
    k = x.kind
    first, second, third = PI_16
    rounded = k.fma(x, 1 / first, FLOAT_MAGIC)
    n = rounded - FLOAT_MAGIC
    whole = k.fma(n, -first, x)
    less = n * second
    r = whole - less
    rest = k.fma(n, -third, (whole - r) - less)
    z = r * r
    bent = k.fma(r * z, k.polynomial(z, (1 / 120, -1 / 6)), rest)  # sin r - r
    fallen = z * k.polynomial(z, (1 / 24, -1 / 2))  # cos r - 1
    sine, sine_rest, cosine = (looked_up(rounded.bits, table, k) for table in (COSINES if turned else SINES))
    small = k.fma(cosine, bent, k.fma(sine, fallen, sine_rest))
    return sine + k.fma(cosine, r, small)


def _sixteenths(quarters: int) -> tuple[list[float], list[float], list[float]]:
    """The sine of the angles kπ/16 and so many quarters of a turn as a float, its error, and the cosine."""
    first = [math.sin(k * math.pi / 16) for k in range(9)]
    half = [*first, *first[7:0:-1]]
    turn = [*half, *(-value for value in half)]
    sines, cosines = (turn[start:] + turn[:start] for start in (8 * quarters, 8 * quarters + 8))
    floats = np.array(sines, np.float32).tolist()
    rests = [value - rounded for value, rounded in zip(sines, floats, strict=True)]
    return floats, np.array(rests, np.float32).tolist(), np.array(cosines, np.float32).tolist()


SINES, COSINES = _sixteenths(0), _sixteenths(1)


def _in_double(x: Lanes, *, turned: bool) -> Lanes:
    k = x.kind
    double = k.with_element("double")
    near = k.cast("fptrunc", _near(double.cast("fpext", x), turned=turned))
    is_far = abs(x) >= LIMIT
    with k.writer.branch(is_far.any(), unlikely=True) as branch, branch.then():
        both = k.select(is_far, _far(x, turned=turned), near)
    return near.joined(branch, both)


def _near(x: Lanes, *, turned: bool) -> Lanes:
    """sin or cos of a double below LIMIT; NaN stays."""
    k = x.kind
    rounded = k.fma(x, ONE_OVER_PI, MAGIC)
    r = k.fma(x, ONE_OVER_PI_LOW, k.fma(x, ONE_OVER_PI, -(rounded - MAGIC)))
    if turned:
        w = k.fma(-r, r, 0.25)
        s = w * k.polynomial(w, coefficients.COS_OF_TURNS)
    else:
        s = r * k.polynomial(r * r, coefficients.SIN_OF_TURNS)
    return k.from_bits(s.bits ^ (rounded.bits << 63))


def _far(x: Lanes, *, turned: bool) -> Lanes:
    """sin or cos lane by lane, through memory. Infinity gives NaN."""
    k, w = x.kind, x.kind.writer
    name = "tw_cos_far" if turned else "tw_sin_far"
    helper = w.helper(name, [("ptr", "%values"), ("i64", "%count")], "void", lambda: _each(w, turned=turned))
    place = w.alloca(4 * k.lanes)
    w.store(k.type, x.name, place, align=4)
    w.call_void(helper, [("ptr", place), ("i64", str(k.lanes))])
    return k(w.load(k.type, place, align=4))


def _each(w: LlvmWriter, *, turned: bool) -> None:
    """Floats at `%values` replaced by their sine or cosine."""
    single, double = LaneType(w, "float", 1), LaneType(w, "double", 1)
    with w.loop(0, "%count") as loop:
        place = w.offset("%values", "float", loop.index)
        x = double.cast("fpext", single(w.load("float", place, align=4)))
        w.store("float", single.cast("fptrunc", far_sine(x, turned=turned)).name, place, align=4)
