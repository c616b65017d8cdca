"""Math functions: by an instruction where the hardware has one that Triton uses, else by `backends/llvm/mathlib.py`.

    math.exp    f32     ex2.approx.f32 of the product with log2 e
    math.exp2   f32     ex2.approx.ftz.f32; without enable_reflect_ftz ex2.approx.f32
    math.sqrt   f32     sqrt.approx.ftz.f32               tt.precise_sqrt: sqrt.rn.f32
    math.rsqrt  f32     rsqrt.approx.ftz.f32
    math.sin    f32     in float, where CPUs compute in double; so is math.cos
    math.erf    f32     two polynomials, and ex2.approx.ftz.f32
    math.tanh   f32     a short polynomial, and from 0.55 on 1 - 2 / (1 + e^2x) by ex2.approx and rcp.approx; 2 ulp
    pow         f32     without doubles, which are slow or few; f64: a function of the module
    math.log    f32     one polynomial; code of its own for negative, infinite and NaN; likewise math.log2
    log10, log1p        through log2 and log of f32, where others compute in double
    add_rd, fma_ru, …   add.rm, fma.rp

Functions of f16, bf16 and fp8 are computed in f32 and rounded.

Powers of f32 use pairs of floats (high and low part) where one float is not exact enough:

    x^y = 2^(y · log2 x)          log2 x = e + log2 m = e + h · (1 + q),  m in [√½, √2)
    h = u · log2 e,  u = 2f / (2 + f),  f = m - 1                 q = u²/12 + u⁴/80 + …

The exponent is at most 150, and its absolute error is the relative error of the result, so the logarithm needs 8 bits
more than a float has. Signs, zeros, infinities and NaN have code of their own, which ordinary arguments jump over. The
error is 1 ulp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tilewright.backends.llvm import coefficients, math_trigonometric
from tilewright.backends.llvm.conversions import from_single, to_single
from tilewright.backends.llvm.elementwise import EXTERN_PREFIX
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.math_logarithm import LN2, with_signs
from tilewright.backends.llvm.math_powers import LOG2_E
from tilewright.backends.llvm.mathlib import DIRECTED, FUNCTIONS, MathFunction
from tilewright.backends.llvm.spelling import literal
from tilewright.backends.nvidia.lower.lowerer import Lowerer
from tilewright.backends.nvidia.lower.rules import Rule
from tilewright.dialects.tile_semantics import PTX_ROUNDING
from tilewright.dialects.tt_elementwise import ExternElementwise
from tilewright.ir.core import Op
from tilewright.ir.types import Type, f64

SMALLEST_NORMAL = 2.0**-126
UPSCALE_BITS = 24
MIN_MANTISSA = 0x3F3504F3
"""√½, as bits."""
EXPONENT = 0xFF800000 - (1 << 32)
"""The sign and the exponent among a float's bits."""
ONE = 0x3F800000
INFINITY, NAN = float("inf"), float("nan")
LARGEST_FINITE = 0x7F7FFFFF
INFINITY_BITS = 0x7F800000
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
    within = k.call("llvm.minnum", k.call("llvm.maxnum", product, -MAX_EXPONENT), MAX_EXPONENT)
    is_within = product.equals(within)  # not so where y is infinite or NaN
    usual = _exp2(within, k.select(is_within, k.fma(y, low, k.fma(y, high, -product)), 0.0))
    is_rare = k.integers.compare("uge", x.bits - 1, LARGEST_FINITE) | ~is_within
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
    _, e, f = _decomposed(x)
    half = f * 0.5
    inverse = k(lowerer.w.call("float", "llvm.nvvm.rcp.approx.ftz.f", [("float", k.fma(f, -0.5, -1.0).name)]))
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


def _decomposed(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """A positive finite x as 2^e · (1 + f), with 1 + f in [√½, √2): x, scaled up where it is tiny, e and f."""
    k = x.kind
    is_tiny = x < SMALLEST_NORMAL
    scaled = k.select(is_tiny, x * 2.0**UPSCALE_BITS, x)
    steps = (scaled.bits - MIN_MANTISSA) & EXPONENT
    f = k.from_bits(scaled.bits - steps) - 1.0
    e = k.fma(k.cast("sitofp", steps), 2.0**-23, k.select(is_tiny, -float(UPSCALE_BITS), 0.0))
    return scaled, e, f


def _sum_of_large(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """a + b and its rounding error, where a is 0 or larger than b."""
    total = a + b
    return total, b - (total - a)


def _exp2(x: Lanes, low: Lanes) -> Lanes:
    """2^(x + low), where x is no larger than `MAX_EXPONENT`."""
    k = x.kind
    n = k.call("llvm.roundeven", x)
    r = (x - n) + low
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


Single: TypeAlias = Callable[[Lowerer, Sequence[str]], str]
"""A function of f32, as instructions."""
LOG10_2 = 0.30102999566398120
LONG = ("pow",)
"""Functions of double that are called."""
LARGE = 2.0**30
"""A number so large that 1 added to it is lost, and its quotient by itself too small to matter."""
ERF_END = 4.0
"""The argument from which on erf is 1."""
TANH_FAR = 0.55
"""The argument from which on tanh is computed by a power of 2."""


def widened(lowerer: Lowerer, value: str, type: Type) -> str:
    """A value of any float format below f64 as f32."""
    element = lowerer.element(type)
    if element in ("bfloat", "half"):
        return lowerer.w.emit(f"fpext {element} {value} to float")
    return to_single(lowerer.w, value, type.scalar.text, 1)


def narrowed(lowerer: Lowerer, value: str, type: Type) -> str:
    """An f32 rounded to a float format below f64."""
    element = lowerer.element(type)
    if element in ("bfloat", "half"):
        return lowerer.w.emit(f"fptrunc float {value} to {element}")
    return from_single(lowerer.w, value, type.scalar.text, 1)


def _function(name: str, single: Single | None = None) -> Rule:
    """A function of floats; `single` is how f32 has it, or None: by the library, as f64 always does."""

    def rule(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
        type = op.result.type.scalar
        if type is f64:
            return _of_double(lowerer, name, operands)
        wide = [widened(lowerer, value, type) for value in operands]
        if single is not None:
            return narrowed(lowerer, single(lowerer, wide), type)
        kind = LaneType(lowerer.w, "float", 1)
        return narrowed(lowerer, FUNCTIONS[name](*map(kind, wide)).name, type)

    return rule


def _of_double(lowerer: Lowerer, name: str, operands: Sequence[str]) -> str:
    """A function of doubles: a long one is called, so that few registers serve all elements of a thread."""
    w, double = lowerer.w, LaneType(lowerer.w, "double", 1)
    if name not in LONG:
        return FUNCTIONS[name](*map(double, operands)).name
    parameters = [("double", f"%x{number}") for number in range(len(operands))]

    def body() -> str:
        return FUNCTIONS[name](*(double(parameter) for _, parameter in parameters)).name

    helper = w.helper(f"tw_{name}_double", parameters, "double", body, attributes="noinline")
    return w.call("double", helper, [("double", operand) for operand in operands])


def _intrinsic(name: str) -> Single:
    """One of LLVM's intrinsics for this hardware, on f32."""
    return lambda lowerer, operands: lowerer.w.call("float", name, [("float", value) for value in operands])


def _library(function: MathFunction) -> Single:
    """One of the library's functions that `FUNCTIONS` has only for CPUs."""
    return lambda lowerer, operands: function(*(LaneType(lowerer.w, "float", 1)(value) for value in operands)).name


def _exp(lowerer: Lowerer, operands: Sequence[str]) -> str:
    w, (x,) = lowerer.w, operands
    scaled = w.emit(f"fmul {w.fusion}float {x}, {literal(LOG2_E, 'float')}")
    return _intrinsic("llvm.nvvm.ex2.approx.f")(lowerer, [scaled])


def _power_of_two(lowerer: Lowerer, operands: Sequence[str]) -> str:
    flush = ".ftz" if lowerer.target.flush else ""
    return _intrinsic(f"llvm.nvvm.ex2.approx{flush}.f")(lowerer, operands)


def _erf(lowerer: Lowerer, operands: Sequence[str]) -> str:
    """erf: below 1 a polynomial, above it 1 less a power of 2, as the library has it."""
    k = LaneType(lowerer.w, "float", 1)
    (x,) = map(k, operands)
    t = abs(x)
    near = k.fma(t, k.polynomial(t * t, coefficients.ERF_FLOAT), t)
    exponent = k.polynomial(k.minimum(ERF_END, t), coefficients.ERFC_EXPONENT_FLOAT)
    far = 1.0 - k(_intrinsic("llvm.nvvm.ex2.approx.ftz.f")(lowerer, [exponent.name]))
    return k.with_sign_of(k.select(t < 1.0, near, far), x).name


def _tanh(lowerer: Lowerer, operands: Sequence[str]) -> str:
    """tanh: x + x³ P(x²) near zero, else 1 - 2 / (1 + e^2x), which is 1 where the power is infinite."""
    k = LaneType(lowerer.w, "float", 1)
    (x,) = map(k, operands)
    t, z = abs(x), x * x
    near = k.fma(t * z, k.polynomial(z, coefficients.TANH_BELOW_HALF_FLOAT), t)
    power = k(_intrinsic("llvm.nvvm.ex2.approx.ftz.f")(lowerer, [(t * (2 * LOG2_E)).name]))
    inverse = k(_intrinsic("llvm.nvvm.rcp.approx.ftz.f")(lowerer, [(power + 1.0).name]))
    return k.with_sign_of(k.select(t < TANH_FAR, near, k.fma(inverse, -2.0, 1.0)), x).name


def _logarithm(of_mantissa: Callable[[Lanes, Lanes], Lanes]) -> Single:
    """A logarithm; `of_mantissa` has it of 2^e · (1 + f).

    What is negative, infinite or NaN has code that others jump over, of assembly, which LLVM makes no choice of: beside
    a choice ptxas computes the logarithms of all elements at once, and eight of them take 40 registers instead of 32.
    """

    def single(lowerer: Lowerer, operands: Sequence[str]) -> str:
        k = LaneType(lowerer.w, "float", 1)
        (x,) = map(k, operands)
        scaled, e, f = _decomposed(x)
        usual = of_mantissa(e, f)
        with lowerer.w.branch(k.integers.compare("uge", scaled.bits, INFINITY_BITS).name) as b, b.then():
            edge = k(lowerer.computed("float", "fma.rn.f32 $0, $1, 0f7F800000, 0f7F800000;", [("float", scaled.name)]))
        above_zero = usual.joined(b, edge)
        return k.select(scaled.equals(0.0), -INFINITY, above_zero).name

    return single


def _natural(e: Lanes, f: Lanes) -> Lanes:
    k = f.kind
    tail = k.fma(f, k.polynomial(f, coefficients.LOG_FLOAT), -0.5)
    return k.fma(e, LN2, k.fma(f * tail, f, f))


def _binary(e: Lanes, f: Lanes) -> Lanes:
    k = f.kind
    return k.fma(f, k.polynomial(f, coefficients.LOG2_FLOAT), f) + e


_log, _log2_of = _logarithm(_natural), _logarithm(_binary)


def _log10(lowerer: Lowerer, operands: Sequence[str]) -> str:
    return (LaneType(lowerer.w, "float", 1)(_log2_of(lowerer, operands)) * LOG10_2).name


def _log1p(lowerer: Lowerer, operands: Sequence[str]) -> str:
    """log(u) for u = 1 + x as it was rounded, and what the rounding took, divided by u."""
    k = LaneType(lowerer.w, "float", 1)
    (x,) = map(k, operands)
    u = x + 1.0
    lost = k(_divided(lowerer, (x - (u - 1.0)).name, u.name))
    log = k(_log(lowerer, [u.name]))
    inside = (u > 0.0) & (u < LARGE)
    return k.select(u.equals(1.0), x, k.select(inside, log + lost, log)).name


def _divided(lowerer: Lowerer, x: str, y: str) -> str:
    return lowerer.w.call("float", "llvm.nvvm.div.full", [("float", x), ("float", y)])


def _directed(name: str) -> Rule:
    """Arithmetic by the instruction that rounds as the name says: add_rd is add.rm."""
    operation, mode = name.split("_")

    def rule(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
        element, form = ("double", "f64") if op.result.type.scalar is f64 else ("float", "f32")
        places = ", ".join(f"${number}" for number in range(len(operands) + 1))
        given = [(element, operand) for operand in operands]
        return lowerer.computed(element, f"{operation}.{PTX_ROUNDING[mode]}.{form} {places};", given)

    return rule


def _extern(lowerer: Lowerer, op: ExternElementwise, operands: Sequence[str]) -> str:
    """A function by name: one of ours, or one of a library that is linked later."""
    symbol = op.symbol
    name = symbol.removeprefix(EXTERN_PREFIX)
    if symbol.startswith(EXTERN_PREFIX):
        return EXTERNS[name](lowerer, op, operands)
    given = [(lowerer.element(value.type), text) for value, text in zip(op.operands, operands, strict=True)]
    return lowerer.w.call(lowerer.element(op.result.type), symbol, given)


SINGLES: dict[str, Single] = {
    "cos": _library(math_trigonometric.cos),
    "erf": _erf,
    "exp": _exp,
    "exp2": _power_of_two,
    "log": _log,
    "log10": _log10,
    "log1p": _log1p,
    "log2": _log2_of,
    "pow": power,
    "rsqrt": _intrinsic("llvm.nvvm.rsqrt.approx.ftz.f"),
    "sin": _library(math_trigonometric.sin),
    "sqrt": _intrinsic("llvm.nvvm.sqrt.approx.ftz.f"),
    "tanh": _tanh,
}
EXTERNS = {name: _directed(name) if name in DIRECTED else _function(name, SINGLES.get(name)) for name in FUNCTIONS}
_SIGNS_AND_SUMS = ("absf", "fma")
RULES: dict[str, Rule] = {
    **{f"math.{name}": _function(name, SINGLES.get(name)) for name in FUNCTIONS if name not in _SIGNS_AND_SUMS},
    "tt.extern_elementwise": _extern,
    "tt.precise_sqrt": _function("sqrt"),
}
