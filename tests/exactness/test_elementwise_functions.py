"""tl.math and its like on every number of 16 bits and on dense ones of 32 and 64, against wider NumPy types.

fp16 and bf16 are computed in fp32, where the kernel asks for it. Bounds are in ulp, for fp32, fp64, and fp32 on GPUs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from exact_rounding import FORMATS, decode, encode
from test_directed_rounding import exact
from ways import GPUS, WAYS, answer

import tilewright as tw
import tilewright.language as tl

HALF = 0.5000001
BLOCK = 1024
TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64}
INTEGERS = {"int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64}
FUNCTIONS: dict[str, tuple[Any, float, float, float]] = {
    "abs": (np.abs, 0, 0, 0),
    "ceil": (np.ceil, 0, 0, 0),
    "cos": (np.cos, 0.94, 1.6, 2),
    "erf": (lambda x: np.array([math.erf(v) for v in x.astype(float)]).astype(x.dtype), 1, 2, 4),
    "exp": (np.exp, 1, 1.5, 2),
    "exp2": (np.exp2, 1.15, 1.5, 2),
    "floor": (np.floor, 0, 0, 0),
    "log": (np.log, 0.85, 1.5, 1.5),
    "log2": (np.log2, 1.15, 2, 1.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 1.5, 2),
    "sin": (np.sin, 0.94, 1.6, 2),
    "sqrt": (np.sqrt, HALF, HALF, 1),
    "sqrt_rn": (np.sqrt, HALF, HALF, HALF),
}
FLUSHED = ("exp2", "rsqrt", "sqrt")
"""On GPUs an instruction takes subnormal fp32 for 0, and gives 0 for them, as in Triton."""


@tw.jit
def of_one(x, out, F: tl.constexpr, SIZE: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + i)
    wide = value.to(tl.float32) if value.dtype.primitive_bitwidth == 16 else value
    for k in tl.static_range(len(F)):
        tl.store(out + k * SIZE + i, F[k](wide).to(value.dtype))


@tw.jit
def minmax(x, y, z, out, MODE: tl.constexpr, SIZE: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, tl.minimum(a, b, propagate_nan=MODE))
    tl.store(out + SIZE + i, tl.maximum(a, b, propagate_nan=MODE))
    tl.store(out + 2 * SIZE + i, tl.clamp(a, b, c, propagate_nan=MODE))


@tw.jit
def of_three(x, y, z, out, F: tl.constexpr, COUNT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, F(a, b) if COUNT == 2 else F(a, b, c))


@tw.jit
def high_products(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.umulhi(tl.load(x + i), tl.load(y + i)))


def all_or_dense(kind: str, *, thin: bool) -> np.ndarray:
    """Every number of 16 bits; of wider ones each exponent with a few fractions and many of common size."""
    type = np.dtype(TYPES[kind])
    random = np.random.default_rng(type.itemsize)
    if type.itemsize == 2:
        codes = np.arange(1 << 16, dtype=np.uint16)
        return (random.permutation(codes)[:BLOCK] if thin else codes).view(type)
    limits = np.finfo(type)
    codes = random.integers(0, 1 << limits.bits, 1 << 14, dtype=np.uint64).astype(f"u{type.itemsize}").view(type)
    common = random.standard_normal(1 << 15) * 2.0 ** random.integers(-12, 9, 1 << 15)
    steps = np.arange(1 << 14) * 0.25 - 2048
    tiny = random.integers(0, 1 << (limits.nmant - 1), 1 << 10).astype(f"u{type.itemsize}").view(type)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.min, limits.tiny, limits.smallest_subnormal, 1]
    parts = [np.array(edges), tiny, -tiny, common, steps, codes]
    numbers = np.concatenate([part.astype(type) for part in parts])
    chosen = random.permutation(numbers) if thin else numbers
    return chosen[: BLOCK if thin else len(numbers) // BLOCK * BLOCK]


def ulp(values: np.ndarray, kind: str) -> np.ndarray:
    """One unit in the last place of numbers of these sizes in a type."""
    form = FORMATS[kind]
    power = np.frexp(np.where(np.isfinite(values), values, 1))[1] - 1
    return np.ldexp(values.dtype.type(1), np.maximum(power, 1 - form.bias) - form.fraction)


def check(name: str, kind: str, x: np.ndarray, got: np.ndarray, way: str) -> None:
    reference, *bounds = FUNCTIONS[name]
    wide = np.longdouble if kind == "fp64" else np.float64
    bound = np.full(x.shape, bounds[1] if kind == "fp64" else bounds[2 if way in GPUS else 0])
    if way in GPUS and name == "exp" and kind != "fp64":
        bound = bound + 1.173 * np.minimum(np.abs(x.astype(float)), 200)  # a product with log2(e) is rounded first
    with np.errstate(all="ignore"):
        wanted = reference(x.astype(wide))
        narrow = wanted.astype(TYPES[kind])
        if kind in ("fp16", "bf16"):
            bound = HALF + bound * 2.0 ** (FORMATS[kind].fraction - 23)
        error = np.abs(got.astype(wide) - wanted) / ulp(wanted, kind)
        same = (got == narrow) | (np.isnan(got) & np.isnan(narrow))
        beyond = ~np.isfinite(narrow.astype(wide)) | ~np.isfinite(got.astype(wide))
        wrong = np.where(beyond, ~same, error > bound)
        wrong |= (narrow == 0) & (wanted == 0) & (np.signbit(got.astype(wide)) != np.signbit(wanted))
        if way in GPUS and name in FLUSHED and kind != "fp64":
            small = 2.0**-126
            wrong &= ~((np.abs(x.astype(float)) < small) | (np.abs(wanted) < small)) | (x == 0)
    places = np.flatnonzero(wrong)[:4]
    assert not wrong.any(), (name, kind, int(wrong.sum()), [(x[k], got[k], wanted[k], error[k]) for k in places])


def cases(kinds: Any, quick: Any) -> list[Any]:
    every = [(kind, way) for kind in kinds for way in WAYS]
    slow = pytest.mark.slow
    return [case if case in quick or case[1] == "eager" else pytest.param(*case, marks=slow) for case in every]


@pytest.mark.quick
@pytest.mark.parametrize(("kind", "way"), cases(TYPES, [("bf16", "native")]))
def test_functions(kind: str, way: str) -> None:
    names = [name for name in FUNCTIONS if name != "sqrt_rn" or kind != "fp64"]
    x = all_or_dense(kind, thin=way != "native")
    functions = tuple(getattr(tl, name) for name in names)
    arrays = {"x": x, "out": np.zeros((len(names), x.size), TYPES[kind])}
    out = answer(way, of_one, arrays, grid=x.size // BLOCK, F=functions, SIZE=x.size, N=BLOCK)["out"]
    for name, got in zip(names, out, strict=True):
        check(name, kind, x, got, way)


@pytest.mark.quick
@pytest.mark.parametrize("mode", ["NONE", "ALL"])
@pytest.mark.parametrize(("kind", "way"), cases(TYPES, [("fp16", "native")]))
def test_extremes(kind: str, way: str, mode: str) -> None:
    """NONE prefers numbers to NaN, ALL keeps NaN. Of equal zeros either may come, without ALL.

    NaNs are quiet: with a signalling one NONE may give NaN, as IEEE 754-2008's minNum does, and AVX-512's instruction.
    """
    random = np.random.default_rng(3)
    x = all_or_dense(kind, thin=way != "native").copy()
    with np.errstate(all="ignore"):
        x[np.isnan(x)] = np.nan
    y, z = random.permutation(x), random.permutation(x)
    y[::7], y[1::11] = x[::7], np.nan
    with np.errstate(all="ignore"):
        low, high = np.fmin(y, z).astype(x.dtype), np.fmax(y, z).astype(x.dtype)
    arrays = {"x": x, "y": low, "z": high, "out": np.zeros((3, x.size), TYPES[kind])}
    constants = {"MODE": tl.PropagateNan[mode], "SIZE": x.size, "N": BLOCK}
    least, most, kept = answer(way, minmax, arrays, grid=x.size // BLOCK, **constants)["out"]
    a, b, c = (array.astype(np.float64) for array in (x, low, high))
    with np.errstate(all="ignore"):
        smaller, larger = (np.fmin, np.fmax) if mode == "NONE" else (np.minimum, np.maximum)
        wanted = smaller(a, b), larger(a, b), np.fmin(np.fmax(a, b), c)
        if mode == "ALL":
            wanted = (*wanted[:2], np.where(np.isnan(a), a, wanted[2]))
        for name, got, right in zip(("minimum", "maximum", "clamp"), (least, most, kept), wanted, strict=True):
            plain = got.astype(np.float64)
            wrong = (plain != right) & ~(np.isnan(plain) & np.isnan(right))
            if name == "clamp":
                wrong &= ~(np.isnan(b) | np.isnan(c))  # bounds are numbers
            elif mode == "ALL":
                zero = (a == 0) & (b == 0)
                negative = (np.signbit(a) | np.signbit(b)) if name == "minimum" else (np.signbit(a) & np.signbit(b))
                wrong |= zero & (np.signbit(plain) != negative)
            places = np.flatnonzero(wrong)[:4]
            assert not wrong.any(), (name, [(a[k], b[k], c[k], plain[k], right[k]) for k in places])


def codes_near(kind: str) -> list[np.ndarray]:
    """Three lists of numbers whose products and sums meet ties, cancel, and leave the range."""
    form, random = FORMATS[kind], np.random.default_rng(9)
    lists = []
    for _ in range(3):
        any_code = random.integers(0, 1 << form.bits, 128, dtype=np.uint64)
        span = 1 << min(form.fraction + 3, 12)
        near = (form.bias << form.fraction) + random.integers(-span, span, 128)
        signs = random.integers(0, 2, 128).astype(np.uint64) * np.uint64(form.sign)
        lists.append(np.concatenate([any_code, near.astype(np.uint64) | signs]))
    lists[2][200:] = lists[0][200:] ^ np.uint64(form.sign)
    lists[2][150:190] = np.arange(40)
    return [codes.astype(f"u{form.bits // 8}") for codes in lists]


ROUNDED_ONCE = {"fma": ("fma", tl.fma, 3), "div_rn": ("div", tl.div_rn, 2), "fdiv": ("div", tl.fdiv, 2)}


@pytest.mark.quick
@pytest.mark.parametrize("name", ROUNDED_ONCE)
@pytest.mark.parametrize(("kind", "way"), cases(TYPES, [("fp16", "native")]))
def test_what_is_rounded_once(kind: str, way: str, name: str) -> None:
    operation, function, count = ROUNDED_ONCE[name]
    if (name == "div_rn" and kind != "fp32") or (name == "fdiv" and way in GPUS):
        return
    codes = codes_near(kind)
    arrays = {key: code.view(TYPES[kind]) for key, code in zip("xyz", codes, strict=True)}
    arrays["out"] = np.zeros(256, TYPES[kind])
    out = answer(way, of_three, arrays, F=function, COUNT=count, N=256)["out"].view(codes[0].dtype)
    form = FORMATS[kind]
    numbers = [[decode(int(code), form) for code in array] for array in codes]
    for *values, got in zip(*numbers, out.tolist(), strict=True):
        right = encode(exact(operation, "rn", *values), form)
        is_nan = decode(got, form) != decode(got, form)
        assert got == right or (is_nan and right == form.nan), (name, *map(float, values), hex(got), hex(right))


@pytest.mark.quick
@pytest.mark.parametrize(("kind", "way"), cases(INTEGERS, [("uint64", "native")]))
def test_high_products(kind: str, way: str) -> None:
    """The operands count as unsigned, whatever their type."""
    type, random = INTEGERS[kind], np.random.default_rng(1)
    limits = np.iinfo(type)
    edges = np.array([0, 1, limits.max, limits.min, limits.max - 1, limits.min // 2, 2, 3], type)
    x, y = (
        np.concatenate([np.repeat(edges, 8), random.integers(limits.min, limits.max, 192, dtype=type)]) for _ in "xy"
    )
    y[:64] = np.tile(edges, 8)
    out = answer(way, high_products, {"x": x, "y": y, "out": np.zeros(256, type)}, N=256)["out"]
    mask = (1 << limits.bits) - 1
    for a, b, got in zip(x.tolist(), y.tolist(), out.tolist(), strict=True):
        assert got & mask == (a & mask) * (b & mask) >> limits.bits


def test_the_reference_rounds_to_even() -> None:
    """Known codes: ties, the smallest subnormal number, overflow in all modes, and what saturates."""
    half, brain, tiny = FORMATS["fp16"], FORMATS["bf16"], FORMATS["fp8e4nv"]
    assert encode(Fraction(2049), half) == 0x6800
    assert encode(Fraction(2051), half) == 0x6802
    assert encode(Fraction(1, 1 << 25), half) == 0
    assert encode(Fraction(1, 1 << 25), half, "ru") == 1
    assert encode(Fraction(-70000), half) == 0xFC00
    assert encode(Fraction(-70000), half, "rz") == 0xFBFF
    assert encode(Fraction(1, 3), brain) == 0x3EAB
    assert encode(Fraction(1000), tiny) == 0x7E
    assert decode(0x3555, half) == Fraction(1365, 4096)


@tw.jit
def changed_signs(x, out, KIND: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i).to(KIND, bitcast=True)
    tl.store(out + i, (-value).to(tl.uint8, bitcast=True))
    tl.store(out + N + i, tl.abs(value).to(tl.uint8, bitcast=True))


@pytest.mark.parametrize("way", ["native", "eager", pytest.param("ttir", marks=pytest.mark.slow)])
def test_signs_of_eight_bits(way: str) -> None:
    """Every pattern; formats without -0 keep 0 and NaN, whose bits -0 would have."""
    x = np.arange(256).astype(np.uint8)
    for kind, has_zeros in (
        (tl.float8e5, True),
        (tl.float8e4nv, True),
        (tl.float8e4b8, False),
        (tl.float8e5b16, False),
    ):
        found = answer(way, changed_signs, {"x": x, "out": np.zeros(512, np.uint8)}, KIND=kind, N=256)["out"]
        stay = np.zeros(256, np.bool_) if has_zeros else (x & 0x7F) == 0
        np.testing.assert_array_equal(found[:256], np.where(stay, x, x ^ 0x80))
        np.testing.assert_array_equal(found[256:], np.where(stay & (x != 0), x, x & 0x7F))
