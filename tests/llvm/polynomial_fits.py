"""The origin of backends/llvm/coefficients.py and segment_tables.py.

    python tests/llvm/polynomial_fits.py coefficients | segments

Each polynomial interpolates its function at Chebyshev points in 60-digit arithmetic (mpmath) and is rounded once,
or one coefficient after the other.
"""

import struct
import sys
from collections.abc import Callable
from typing import NamedTuple

import mpmath
import numpy as np
from mpmath import mp, mpf

from tilewright.backends.llvm.math_powers import FACTORS, LESS, LN2_LOW, MAGIC
from tilewright.backends.llvm.math_special import ERFC_QUARTER

mp.dps = 60
BALANCING = 12
"""Steps towards the smallest largest error."""

SQRT_HALF = mpmath.sqrt(mpf(1) / 2)
QUARTER_PI = mpmath.pi / 4
QUARTER = mpf(ERFC_QUARTER)
HALF_TURN = mpf("0.501")
"""The largest argument that is left when multiples of half a turn are gone, in half turns."""


def exp_rest(r):
    return (mpmath.expm1(r) - r) / r**2 if abs(r) > 1e-15 else mpf(1) / 2


def exp_rest_of(entries):
    """The same where the powers in the table are smaller; near 0, where it is multiplied by r², that does not count."""
    return lambda r: exp_rest(r) + (mpf(LESS[entries]) / r**2 if abs(r) > 1e-3 else 0)


def exp2_rest(r):
    return mpmath.expm1(r * mpmath.log(2)) / r if r else mpmath.log(2)


def log_rest(f):
    return (mpmath.log1p(f) - f + f**2 / 2) / f**3 if f else mpf(1) / 3


def log2_rest(f):
    return mpmath.log1p(f) / mpmath.log(2) / f - 1 if f else 1 / mpmath.log(2) - 1


def log_ratio_rest(z):
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) - 2 * s) / s**3 if z else mpf(2) / 3


def log_ratio_rest2(z):
    """The same without its first term 2/3."""
    return (log_ratio_rest(z) - mpf(2) / 3) / z if z else mpf(2) / 5


def log_tail(z):
    """The rest of 2 atanh(u/2) / u, with z = u², after 1 + z/12, divided by z²."""
    u = mpmath.sqrt(z)
    return (2 * mpmath.atanh(u / 2) / u - 1 - z / 12) / z**2 if z > 1e-15 else mpf(1) / 80


def sin_rest(z):
    r = mpmath.sqrt(z)
    return (mpmath.sin(r) / r - 1) / z if z else mpf(-1) / 6


def sin_of_turns(z):
    r = mpmath.sqrt(z)
    return mpmath.sin(mpmath.pi * r) / r if z else mpmath.pi


def cos_of_turns(w):
    """The cosine of turns, by w = ¼ - turns², over its factor w, which is 0 where the cosine is."""
    return mpmath.cos(mpmath.pi * mpmath.sqrt(mpf(1) / 4 - w)) / w if w else mpmath.pi


def cos_rest(z):
    return (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z**2 if z else mpf(1) / 24


def asin_rest(z):
    s = mpmath.sqrt(z)
    return (mpmath.asin(s) / s - 1) / z if z else mpf(1) / 6


def atan_rest(z):
    s = mpmath.sqrt(z)
    return (mpmath.atan(s) / s - 1) / z if z else mpf(-1) / 3


def tanh_rest(z):
    """The function without a quarter, which is subtracted apart."""
    x = mpmath.sqrt(z)
    return ((mpmath.tanh(x) / x - 1) / z if z else mpf(-1) / 3) + mpf(1) / 4


def expm1_twice_rest(r):
    return mpmath.expm1(2 * r) / r if r else mpf(2)


def tanh_after_first(z):
    x = mpmath.sqrt(z)
    return (mpmath.tanh(x) / x - 1) / z if z else mpf(-1) / 3


def erf_rest(z):
    x = mpmath.sqrt(z)
    return mpmath.erf(x) / x - 1 if z else 2 / mpmath.sqrt(mpmath.pi) - 1


def erfc_exponent(t):
    return mpmath.log(mpmath.erfc(t)) / mpmath.log(2)


def erfc_from_quarter(w):
    return (mpmath.log(mpmath.erfc(w + QUARTER)) / mpmath.log(2) + 2) / w


def erfc_scaled(q):
    """exp(t²) erfc(t) with t = 1/q - 2."""
    t = 1 / q - 2
    return mpmath.exp(t * t) * mpmath.erfc(t)


def over_start(entries, base):
    """The multiplier of a power in the table, less 1."""
    return lambda r: base**r / mpf(FACTORS[entries]) - 1


SHIFT = {entries: -mpf(LN2_LOW) * mpf(magic) for entries, magic in MAGIC.items()}
WIDE = {8: mpf("1.307") * mpmath.log(2) / 16, 16: mpf("1.287") * mpmath.log(2) / 32}

# name: (function, from, to, degree, bits of the format). The rests for tables are multiplied by the argument's square
# (exp) or the argument (exp2): fitted to a range 1.287 or 1.05 times as wide as needed, their errors count least.
FITS = {
    "EXP_DOUBLE": (exp_rest, "-0.3467", "0.3467", 9, 64),
    "EXP_8_FLOAT": (exp_rest_of(8), SHIFT[8] - WIDE[8], SHIFT[8] + WIDE[8], 1, 32),
    "EXP_16_FLOAT": (exp_rest_of(16), SHIFT[16] - WIDE[16], SHIFT[16] + WIDE[16], 1, 32),
    "EXP2_DOUBLE": (exp2_rest, "-0.5", "0.5", 11, 64),
    "EXP2_8_FLOAT": (over_start(8, mpf(2)), "-0.0625", "0.0625", 3, 32),
    "EXP2_16_ABOVE_FLOAT": (over_start(16, mpf(2)), "0", "0.0625", 3, 32),
    "LOG_FLOAT": (log_rest, SQRT_HALF - 1, 2 * SQRT_HALF - 1, 8, 32),
    "LOG2_FLOAT": (log2_rest, SQRT_HALF - 1, 2 * SQRT_HALF - 1, 9, 32),
    "LOG_DOUBLE": (log_ratio_rest, "0", "0.02944", 7, 64),
    "LOG_TAIL_DOUBLE": (log_ratio_rest2, "0", "0.02944", 6, 64),
    "LOG_TAIL_FLOAT": (log_tail, "0", "0.1178", 2, 32),
    "SIN_FLOAT": (sin_rest, "0", QUARTER_PI**2, 2, 32),
    "COS_FLOAT": (cos_rest, "0", QUARTER_PI**2, 2, 32),
    "SIN_DOUBLE": (sin_rest, "0", QUARTER_PI**2, 5, 64),
    "COS_DOUBLE": (cos_rest, "0", QUARTER_PI**2, 5, 64),
    "ASIN_DOUBLE": (asin_rest, "0", "0.25", 13, 64),
    "ATAN_DOUBLE": (atan_rest, "0", "0.1716", 10, 64),
    "ERF_FLOAT": (erf_rest, "0", "1", 6, 32),
    "ERF_DOUBLE": (erf_rest, "0", "1", 13, 64),
    "ERFC_EXPONENT_FLOAT": (erfc_exponent, "1", "4", 8, 32),
    "ERFC_DOUBLE": (erfc_scaled, mpf(1) / 8, mpf(1) / 3, 17, 64),
}

# name: (function, from, to, degree, what the polynomial is multiplied by), of double
FITS_BALANCED = {
    "SIN_OF_TURNS": (sin_of_turns, "0", HALF_TURN**2, 4, lambda z: 1 / sin_of_turns(z)),
    "COS_OF_TURNS": (cos_of_turns, 0.25 - HALF_TURN**2, "0.25", 4, lambda w: 1 / cos_of_turns(w)),
}

# name: (function, from, to, degree, what the polynomial is multiplied by), of float
FITS_IN_TURN = {
    "EXP_FLOAT": (exp_rest, "-0.3467", "0.3467", 4, lambda r: r**2),
    "EXP2_FLOAT": (exp2_rest, "-0.5", "0.5", 5, lambda r: r),
    "TANH_FLOAT": (tanh_rest, "0", mpf("0.95") ** 2, 6, lambda z: z),
    "TANH_BELOW_HALF_FLOAT": (tanh_after_first, "0", mpf("0.55") ** 2, 3, lambda z: z),
    "EXPM1_TWICE_FLOAT": (expm1_twice_rest, "-0.1734", "0.1734", 5, lambda r: r),
    "ERF_NEAR_FLOAT": (erf_rest, "0", mpf("0.85") ** 2, 6, lambda z: 1),
    "ERFC_FROM_QUARTER_FLOAT": (
        erfc_from_quarter,
        mpf("0.85") - QUARTER,
        mpf("3.93") - QUARTER,
        7,
        lambda w: w * mpmath.erfc(w + QUARTER),
    ),
}


def value_at(coefficients, x):
    """The polynomial's value; mpmath's own warns in newer versions that the highest comes first."""
    total = mpf(0)
    for coefficient in coefficients:
        total = total * x + coefficient
    return total


def interpolate(function, low, high, degree):
    """Coefficients, highest first."""
    low, high = mpf(low), mpf(high)
    nodes = [
        (low + high) / 2 + (high - low) / 2 * mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * degree + 2))
        for k in range(degree + 1)
    ]
    powers = mpmath.matrix([[x**i for i in range(degree, -1, -1)] for x in nodes])
    return list(mpmath.lu_solve(powers, mpmath.matrix([function(x) for x in nodes])))


def rounded_in_turn(function, low, high, degree, weight, *, bits=32):
    """Coefficients, highest first: from the constant one on, each is rounded before the rest are fitted.

    So the rest make up for what rounding took. The polynomial's error times `weight` is as small as it can be.
    """
    low, high = mpf(low), mpf(high)
    count = 4 * (degree + 2)
    steps = [mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    points = [(low + high) / 2 + (high - low) / 2 * step for step in steps]
    values = [function(x) for x in points]
    weights = balanced_weights(points, values, [weight(x) for x in points], degree)
    found = []
    for _ in range(degree + 1):
        found.append(rounded(least_squares(points, values, weights, degree, found)[0], bits))
    return found[::-1]


def balanced_weights(points, values, weights, degree):
    """Weights whose least squares have the smallest largest error: more where it is larger, repeatedly (Lawson)."""
    squares = [mpf(1)] * len(points)
    for _ in range(BALANCING):
        both = [w * mpmath.sqrt(q) for w, q in zip(weights, squares, strict=True)]
        found = least_squares(points, values, both, degree, [])[::-1]
        errors = [abs(w * (value_at(found, x) - y)) for x, y, w in zip(points, values, weights, strict=True)]
        total = sum(q * e for q, e in zip(squares, errors, strict=True))
        squares = [len(points) * q * e / total for q, e in zip(squares, errors, strict=True)]
    return [w * mpmath.sqrt(q) for w, q in zip(weights, squares, strict=True)]


def least_squares(points, values, weights, degree, known):
    """Coefficients above the known ones, lowest first."""
    powers = range(len(known), degree + 1)
    columns = mpmath.matrix([[w * x**i for i in powers] for x, w in zip(points, weights, strict=True)])
    rest = [y - value_at(known[::-1], x) if known else y for x, y in zip(points, values, strict=True)]
    wanted = mpmath.matrix([w * y for w, y in zip(weights, rest, strict=True)])
    return list(mpmath.lu_solve(columns.T * columns, columns.T * wanted))


def error_of(function, low, high, coefficients, samples=400):
    """The largest error of the polynomial in exact arithmetic over the function's largest value, as a power of two."""
    low, high = mpf(low), mpf(high)
    points = [low + (high - low) * i / samples for i in range(samples + 1)]
    exact = [function(x) for x in points]
    got = [value_at([mpf(c) for c in coefficients], x) for x in points]
    worst = max(abs(a - b) for a, b in zip(got, exact, strict=True)) / max(abs(y) for y in exact)
    return float(mpmath.log(worst, 2))


def rounded(value, bits):
    value = float(value)
    return struct.unpack("<f", struct.pack("<f", value))[0] if bits == 32 else value


def all_tables():
    once = {
        name: tuple(rounded(c, bits) for c in interpolate(function, low, high, degree))
        for name, (function, low, high, degree, bits) in FITS.items()
    }
    balanced = {name: tuple(rounded_in_turn(*fit, bits=64)) for name, fit in FITS_BALANCED.items()}
    return once | balanced | {name: tuple(rounded_in_turn(*fit)) for name, fit in FITS_IN_TURN.items()}


HEADER = '''"""Polynomials of the math library, highest coefficient first. Printed by tests/llvm/polynomial_fits.py.

A name says function and format; the comment says where it is used and its error
there, relative to the largest value.
"""
'''


def module_text():
    """The module, as ruff formats it."""
    parts = [HEADER]
    for name, table in all_tables().items():
        function, low, high = (FITS | FITS_BALANCED | FITS_IN_TURN)[name][:3]
        bits = error_of(function, low, high, table)
        parts.append(f"# [{float(mpf(low)):.4g}, {float(mpf(high)):.4g}], 2**{bits:.0f}")
        parts += [f"{name} = (", *(f"    {value!r}," for value in table), ")"]
    return "\n".join(parts) + "\n"


class Segments(NamedTuple):
    """An odd function in pieces.

    Attributes:
        ends: of each segment, in the order of the table; one is around 0, or begins there.
        middles: those of the segments; the floats near them whose function is closest to a float, or as they are.
    """

    function: Callable
    degree: int
    ends: list[tuple[float, float]]
    middles: list[float]
    moves: bool


def equal_segments(function, count, width, degree, *, moved=None):
    """Segments around the multiples of a width; `moved`: by segment, how far its middle is moved, in widths."""
    ends = [((k - 0.5) * width, (k + 0.5) * width) for k in range(count)]
    middles = [(k + (moved or {}).get(k, 0)) * width for k in range(count)]
    return Segments(function, degree, ends, middles, moved is not None)


def eighths_of_binades(function, degree):
    """Segments of the numbers that are 1 less than an eighth of a binade: [1, 2), [2, 4), [4, 8), [8, 16).

    In the order of the two lowest bits of the exponent: that of 2 comes first.
    """
    powers = (2, 4, 8, 1)
    ends = [(power * (1 + i / 8) - 1, power * (1 + (i + 1) / 8) - 1) for power in powers for i in range(8)]
    middles = [0.0 if low == 0 else (low + high) / 2 for low, high in ends]
    return Segments(function, degree, ends, middles, moves=True)


# Of widths near the best fit, those of segments whose middles are multiples have the values there that are closest to
# floats, in units of the smallest results of their segments. At the upper end of erf's segment 1, where results are
# small, the term next to the last is below 1/8 if the middle is moved, and rounds less.
SEGMENTS = {
    "ERF_16": equal_segments(mpmath.erf, 16, 16679 / 2**16, 5, moved={1: 0.06}),
    "ERF_8": equal_segments(mpmath.erf, 8, 274066 / 2**19, 7),
    "TANH_32": eighths_of_binades(mpmath.tanh, 5),
}
TRIED = 300
"""Floats on either side among which a middle is chosen."""
ALL_ONE = 9.1
"""A number from which on the functions are 1 as floats."""


def middle_of(name, k):
    """The middle of segment k: where it moves, a float whose function is nearly one, so that c0 is exact."""
    function, _, _, middles, moves = SEGMENTS[name]
    if not moves or not middles[k]:
        return middles[k]
    start = np.float32(middles[k]).view(np.int32)
    floats = np.arange(start - TRIED, start + TRIED, dtype=np.int32).view(np.float32)
    return min(map(float, floats), key=lambda x: abs(function(x) - rounded(function(x), 32)))


def segment(name, k):
    """Coefficients, highest first, of function(middle + u) - u around the middle of segment k."""
    function, degree, ends, _, _ = SEGMENTS[name]
    (low, high), middle = ends[k], mpf(middle_of(name, k))
    if low > ALL_ONE:
        return [*[0.0] * (degree - 1), -1.0, 1.0]
    beyond = mpf(high - low) / 20000

    def exact(u):
        return function(middle + u) - u

    def weight(u):
        return mpf(2) ** -mpmath.floor(mpmath.log(function(middle + u), 2))

    if middle:
        return rounded_in_turn(exact, low - beyond - middle, min(high, ALL_ONE) + beyond - middle, degree, weight)
    # through 0, so that the relative error stays small there
    found = interpolate(lambda u: function(u) / u - 1, -high - beyond, high + beyond, degree - 1)
    return [*(rounded(c, 32) for c in found), 0.0]


def segment_rows(name):
    """One row for each power, highest first, with the coefficients of all segments."""
    columns = [segment(name, k) for k in range(len(SEGMENTS[name].ends))]
    return [list(row) for row in zip(*columns, strict=True)]


def row_text(row, margin):
    return [margin + " ".join(f"{v!r}," for v in row[i : i + 4]) for i in range(0, len(row), 4)]


SEGMENTS_HEADER = '''"""Piecewise polynomials for math_registers.py. Printed by tests/llvm/polynomial_fits.py.

Row i has one coefficient per segment, highest power first. The linear one is less by 1. Segments have their middles at
multiples of their width, or where a table of middles says.
"""

# fmt: off'''


def segments_text():
    parts = [SEGMENTS_HEADER]
    for name, (_, _, ends, _, moves) in SEGMENTS.items():
        if moves:
            middles = [middle_of(name, k) for k in range(len(ends))]
            parts += [f"{name}_MIDDLES = (", *row_text(middles, "    "), ")"]
        low, high = ends[0]
        if low < 0:
            parts.append(f"{name}_WIDTH = {high - low!r}")
        parts.append(f"{name} = (")
        for row in segment_rows(name):
            parts += ["    (", *row_text(row, "        "), "    ),"]
        parts.append(")")
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(segments_text() if sys.argv[1] == "segments" else module_text())
