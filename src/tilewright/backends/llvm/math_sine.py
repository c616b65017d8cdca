"""sin and cos of float on CPUs: in double, by one polynomial for half a turn.

    n = round(x / π)    r = x / π - n    sin x = (-1)ⁿ · sin πr = (-1)ⁿ · r · P(r²)
                        w = ¼ - r²       cos x = (-1)ⁿ · cos πr = (-1)ⁿ · w · Q(w)

The factor w is 0 where the cosine is, so that small results are as exact as large ones. Of 1/π the first 29 bits make
a product that is exact, and the rest is added to what is left of it. Without quadrants there are no two polynomials to
choose from, and what double rounds does not count. GPUs, whose double is slow, compute in float, as
`math_trigonometric.py` has it.
"""

from __future__ import annotations

from tilewright.backends.llvm import coefficients
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.math_trigonometric import far_sine
from tilewright.backends.llvm.writer import LlvmWriter

MAGIC = 6755399441055744.0  # 1.5 · 2⁵²
ONE_OVER_PI, ONE_OVER_PI_LOW = 0.3183098854497075, 7.340831634506093e-10
LIMIT = 1.0e6


def sin(x: Lanes) -> Lanes:
    """The sine of float; 0.65 ulp for every finite x."""
    return _in_double(x, turned=False)


def cos(x: Lanes) -> Lanes:
    """The cosine of float; 0.65 ulp for every finite x."""
    return _in_double(x, turned=True)


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
