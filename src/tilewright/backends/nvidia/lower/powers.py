"""Powers of floats on GPUs, whose doubles are slow or few: in float, with sums of two where one is not exact enough.

    x^y = 2^(y · log2 x)          log2 x = e + log2 m = e + h · (1 + q),  m in [√½, √2)
    h = u · log2 e,  u = 2f / (2 + f),  f = m - 1                 q = u²/12 + u⁴/80 + …

The exponent is at most 150, and its error is that of the result: the logarithm needs 8 bits more than a float has.
Signs, zeros, infinities and NaN have code of their own, which others jump over. 1 ulp.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm import coefficients
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.math_logarithm import with_signs
from tilewright.backends.nvidia.lower.lowerer import Lowerer

SMALLEST_NORMAL = 2.0**-126
UPSCALE_BITS = 24
MIN_MANTISSA = 0x3F3504F3
"""√½, as bits."""
EXPONENT = 0xFF800000 - (1 << 32)
"""The sign and the exponent among a float's bits."""
ONE = 0x3F800000
INFINITY, NAN = float("inf"), float("nan")
LARGEST_FINITE = 0x7F7FFFFF
LOG2_E_HIGH, LOG2_E_LOW = 1.4426950216293335, 1.925963033500011e-08
TWELFTH_HIGH, TWELFTH_LOW = 0.0833333358168602, -2.4835269396561444e-09
MAX_EXPONENT = 192.0
"""Max size of exponents; beyond it, powers of two are 0 or infinite, whatever they are multiplied by."""


def power(lowerer: Lowerer, operands: Sequence[str]) -> str:
    """x^y of f32."""
    w = lowerer.w
    k = LaneType(w, "float", 1)
    x, y = map(k, operands)
    high, low = _log2(lowerer, abs(x))
    product = y * high
    usual = _exp2(product, k.fma(y, low, k.fma(y, high, -product)))
    is_rare = k.integers.compare("uge", x.bits - 1, LARGEST_FINITE) | ~(abs(y) < INFINITY)
    parameters = [("float", name) for name in ("%x", "%y", "%usual")]
    edges = w.helper(
        "tw_pow_edges",
        parameters,
        "float",
        lambda: _with_edges(*(k(name) for _, name in parameters)).name,
        attributes="noinline",
    )
    with w.branch(is_rare.name, unlikely=True) as b, b.then():
        rare = w.call("float", edges, [("float", value.name) for value in (x, y, usual)])
    return usual.joined(b, k(rare)).name


def _log2(lowerer: Lowerer, x: Lanes) -> tuple[Lanes, Lanes]:
    """log2 of a positive finite number, as a sum of two.

    PTX has no instruction that subtracts a product, so some values are kept with the other sign: -u is `minus_u`.
    """
    k = x.kind
    is_tiny = x < SMALLEST_NORMAL
    bits = k.select(is_tiny, x * 2.0**UPSCALE_BITS, x).bits
    steps = (bits - MIN_MANTISSA) & EXPONENT
    f = k.from_bits(bits - steps) - 1.0
    e = k.cast("sitofp", steps.shift_signed(23)) - k.select(is_tiny, float(UPSCALE_BITS), 0.0)
    half = f * 0.5
    inverse = k(lowerer.w.call("float", "llvm.nvvm.rcp.approx.ftz.f", [("float", (-1.0 - half).name)]))
    minus_u = f * inverse
    minus_u_low = k.fma(minus_u, half, f + minus_u) * inverse
    h = minus_u * -LOG2_E_HIGH
    minus_h_low = k.fma(minus_u_low, LOG2_E_HIGH, k.fma(minus_u, LOG2_E_LOW, k.fma(minus_u, LOG2_E_HIGH, h)))
    z, u = minus_u * minus_u, -minus_u
    minus_z_low = k.fma(u + u, minus_u_low, k.fma(u, minus_u, z))
    q = z * TWELFTH_HIGH
    minus_rest = k.polynomial(z, [-c for c in (*coefficients.LOG_TAIL_FLOAT, TWELFTH_LOW)])
    minus_q_low = k.fma(z, minus_rest, k.fma(minus_z_low, TWELFTH_HIGH, k.fma(z, -TWELFTH_HIGH, q)))
    t = h * q
    minus_t_low = k.fma(minus_h_low, q, k.fma(h, minus_q_low, k.fma(-h, q, t)))
    most, low = _sum_of_large(e, h)
    high, lower = _sum_of_large(most, t)
    return high, (low - minus_h_low) + (lower - minus_t_low)


def _sum_of_large(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """a + b and its rounding error, where a is 0 or larger than b."""
    total = a + b
    return total, b - (total - a)


def _exp2(x: Lanes, low: Lanes) -> Lanes:
    """2^(x + low); low may be anything where 2^x is 0 or infinite."""
    k = x.kind
    within = k.call("llvm.minnum", k.call("llvm.maxnum", x, -MAX_EXPONENT), MAX_EXPONENT)
    n = k.call("llvm.roundeven", within)
    r = (within - n) + k.select(x.equals(within), low, 0.0)
    value = k.fma(r, k.polynomial(r, coefficients.EXP2_FLOAT), 1.0)
    steps = k.integers.cast("fptosi", n)
    half = steps.shift_signed(1)
    return k.from_bits(value.bits + (half << 23)) * k.from_bits((steps - half << 23) + ONE)


def _with_edges(x: Lanes, y: Lanes, usual: Lanes) -> Lanes:
    """x^y where x is no positive finite number, or y is NaN or infinite; `usual` is right for other |x| and y."""
    k, base = x.kind, abs(x)
    is_extreme = base.equals(0.0) | base.equals(INFINITY) | abs(y).equals(INFINITY)
    limit = k.select((base < 1.0) ^ (y < 0.0), 0.0, INFINITY)
    magnitude = k.select(k.compare("uno", x, y), NAN, k.select(is_extreme, limit, usual))
    return with_signs(x, y, magnitude)
