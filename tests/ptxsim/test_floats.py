"""Float instructions to the bit, against exact fractions rounded once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ptx_programs import compute

RNG = np.random.default_rng(6)
EDGE_BITS = (0x0, 0x80000000, 0x1, 0x80000001, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x3F800000, 0xBF800000, 0x3F800001)
MORE_EDGE_BITS = (0x3EAAAAAB, 0x33800000, 0x4B000000, 0xCB000001, 0x7F000000, 0x7F7FFFFF, 0x7F800000, 0xFF800000)
EDGES = np.array([*EDGE_BITS, *MORE_EDGE_BITS, 0x7FC00000], np.uint32).view(np.float32)
NAN = 0x7FFFFFFF


def pairs(values: Any, extra: int = 60) -> tuple[Any, Any]:
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    more = RNG.integers(0, 2**32, (2, extra), np.uint32).view(np.float32)
    return np.concatenate([a, more[0]]), np.concatenate([b, more[1]])


A, B = pairs(EDGES)
C = np.resize(EDGES[::-1], A.size)


def as_fraction(value: Any) -> Fraction | None:
    return Fraction(float(value)) if np.isfinite(value) else None


def rounded(exact: Fraction, mode: str, *, mantissa: int, least: int, most: int) -> float:
    """An exact number in a format of so many bits of mantissa, with exponents from `least` to `most`."""
    if not exact:
        return 0.0
    size = abs(exact)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    while Fraction(2) ** power > size:
        power -= 1
    while Fraction(2) ** (power + 1) <= size:
        power += 1
    unit = Fraction(2) ** (max(power, least) - mantissa)
    count, rest = divmod(size, unit)
    up = {
        "rn": rest * 2 > unit or (rest * 2 == unit and count % 2 == 1),
        "rna": rest * 2 >= unit,
        "rz": False,
        "rm": rest > 0 and exact < 0,
        "rp": rest > 0 and exact > 0,
    }[mode]
    size = (count + up) * unit
    sign = -1 if exact < 0 else 1
    largest = (2 - Fraction(1, 2**mantissa)) * Fraction(2) ** most
    if size > largest:
        clipped = mode == "rz" or (mode == "rm" and sign > 0) or (mode == "rp" and sign < 0)
        return float(sign * largest) if clipped else sign * float("inf")
    return float(sign * size)


def single(exact: Fraction, mode: str) -> float:
    return rounded(exact, mode, mantissa=23, least=-126, most=127)


def bits(values: Any) -> list[int]:
    return [int(v) for v in np.asarray(values).view(f"u{np.asarray(values).dtype.itemsize}")]


def expected(operation: str, mode: str, operands: tuple[Any, ...]) -> int | None:
    """The bits of f32, or None where a zero's sign or an infinity is NumPy's business."""
    fractions = [as_fraction(value) for value in operands]
    if None in fractions:
        return None
    a, b, *c = (fraction for fraction in fractions if fraction is not None)
    if operation == "div" and not b:
        return None
    exact = {"add": a + b, "sub": a - b, "mul": a * b, "div": a / b if b else a, "fma": a * b + (c[0] if c else 0)}
    if not exact[operation]:
        return None
    found = np.float32(single(exact[operation], mode))
    return int(
        (np.copysign(np.float32(0), np.float32(-1)) if exact[operation] < 0 and not found else found).view(np.uint32)
    )


MORE = [pytest.param(mode, marks=pytest.mark.slow) for mode in ("rm", "rp")]


@pytest.mark.parametrize("mode", ["rn", "rz", *MORE])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div", "fma"])
def test_every_rounding_is_that_of_the_exact_result(operation: str, mode: str) -> None:
    operands = (A, B, C) if operation == "fma" else (A, B)
    names = ", ".join(f"%r{number + 1}" for number in range(len(operands)))
    found = bits(compute(f"{operation}.{mode}.f32 %r9, {names};", "u4", *operands))
    wanted = [expected(operation, mode, values) for values in zip(*operands, strict=True)]
    assert sum(w is not None for w in wanted) > 200
    assert [(f, w) for f, w in zip(found, wanted, strict=True) if w is not None and f != w] == []


def test_special_operands_follow_ieee_and_nans_are_canonical() -> None:
    with np.errstate(all="ignore"):
        for name, wanted in (("add.f32", A + B), ("mul.f32", A * B), ("div.rn.f32", A / B)):
            found = compute(f"{name} %r9, %r1, %r2;", "u4", A, B)
            wanted = np.where(np.isnan(wanted), np.uint32(NAN), wanted.view(np.uint32))
            assert found.tolist() == wanted.tolist()


def test_ftz_takes_subnormal_operands_and_results_for_zeros() -> None:
    a = np.array([1e-40, -1e-40, 1.5e-38, -1.5e-38], np.float32)
    b = np.array([1.0, 1.0, 0.5, 0.5], np.float32)
    assert bits(compute("mul.ftz.f32 %r9, %r1, %r2;", "u4", a, b)) == [0, 0x80000000, 0, 0x80000000]
    assert compute("mul.f32 %r9, %r1, %r2;", "f4", a, b).tolist() == (a * b).tolist()


def test_saturation_brings_results_into_the_unit_interval() -> None:
    a = np.array([-1.0, 0.25, 7.0, np.nan], np.float32)
    zero = np.zeros(4, np.float32)
    assert compute("add.sat.f32 %r9, %r1, %r2;", "f4", a, zero).tolist() == [0.0, 0.25, 1.0, 0.0]


def test_minimum_and_maximum_of_nans_and_zeros() -> None:
    a = np.array([0.0, -0.0, np.nan, 1.0, np.nan, 3.0], np.float32)
    b = np.array([-0.0, 0.0, 2.0, np.nan, np.nan, -4.0], np.float32)
    minus = 0x80000000
    two, one, three, four = (int(np.float32(x).view(np.uint32)) for x in (2.0, 1.0, 3.0, -4.0))
    assert bits(compute("min.f32 %r9, %r1, %r2;", "u4", a, b)) == [minus, minus, two, one, NAN, four]
    assert bits(compute("max.f32 %r9, %r1, %r2;", "u4", a, b)) == [0, 0, two, one, NAN, three]
    assert bits(compute("max.NaN.f32 %r9, %r1, %r2;", "u4", a, b)) == [0, 0, NAN, NAN, NAN, three]
    assert compute("min.xorsign.abs.f32 %r9, %r1, %r2;", "f4", a, b)[5] == -3.0


HALVES = RNG.integers(0, 2**16, 512).astype(np.uint16)
OTHERS = RNG.integers(0, 2**16, 512).astype(np.uint16)
THIRD = np.concatenate([RNG.integers(0, 2**16, 256), HALVES[:256] ^ 0x8000]).astype(np.uint16)
LIMITS = {"f16": (np.float16, 10, -14, 15), "bf16": (ml_dtypes.bfloat16, 7, -126, 127)}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("operation", ["add", "mul", "fma"])
def test_halves_round_once_alone_and_in_pairs(name: str, operation: str) -> None:
    dtype, mantissa, least, most = LIMITS[name]
    operands = [HALVES, OTHERS, THIRD][: 3 if operation == "fma" else 2]
    suffix = ".rn" if operation == "fma" else ""
    names = ", ".join(f"%h{number + 1}" for number in range(len(operands)))
    alone = compute(f"{operation}{suffix}.{name} %h9, {names};", "u2", *operands)
    packed = [np.ascontiguousarray(v).view(np.uint32) for v in operands]
    names = names.replace("h", "r")
    pairs_found = compute(f"{operation}{suffix}.{name}x2 %r9, {names};", "u4", *packed)
    assert pairs_found.view(np.uint16).tolist() == alone.tolist()
    with np.errstate(invalid="ignore"):
        numbers = [v.view(dtype).astype(np.float64) for v in operands]
    for found, *values in zip(alone, *numbers, strict=True):
        fractions = [as_fraction(value) for value in values]
        if None in fractions:
            continue
        a, b, *c = (f for f in fractions if f is not None)
        exact = {"add": a + b, "mul": a * b, "fma": a * b + (c[0] if c else 0)}[operation]
        wanted = rounded(exact, "rn", mantissa=mantissa, least=least, most=most)
        assert float(np.uint16(found).view(dtype)) == wanted


def test_sums_of_f32_take_halves_as_they_are() -> None:
    halves = np.array([1.5, -2.0, 65504.0], np.float16)
    others = np.array([0.1, 2.0, 1e30], np.float32)
    found = compute("add.rn.f32.f16 %r9, %h1, %r2;", "f4", halves, others)
    assert found.tolist() == (halves.astype(np.float32) + others).tolist()
    found = compute("fma.rn.f32.f16 %r9, %h1, %h2, %r3;", "f4", halves, halves, others)
    assert found.tolist() == (halves.astype(np.float32) ** 2 + others).tolist()


def test_fma_of_f64_rounds_once() -> None:
    a = np.concatenate([RNG.standard_normal(200), [1 + 2.0**-52, 1e-200, 2.0**600, 3.0, 1e308]])
    b = np.concatenate([RNG.standard_normal(200), [1 - 2.0**-52, 1e-120, 2.0**500, 1 / 3, 10.0]])
    c = np.concatenate([-a[:100] * b[:100], RNG.standard_normal(100), [-1.0, 5e-324, -(2.0**1023), -1.0, -1e308]])
    found = compute("fma.rn.f64 %d9, %d1, %d2, %d3;", "f8", a, b, c)
    exact = [Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(a, b, c, strict=True)]
    assert found.tolist() == [rounded(e, "rn", mantissa=52, least=-1022, most=1023) for e in exact]


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_fma_of_f64_rounds_as_asked(mode: str) -> None:
    a, b, c = (RNG.standard_normal(40) for _ in range(3))
    found = compute(f"fma.{mode}.f64 %d9, %d1, %d2, %d3;", "f8", a, b, c)
    exact = [Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(a, b, c, strict=True)]
    assert found.tolist() == [rounded(e, mode, mantissa=52, least=-1022, most=1023) for e in exact]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("ex2", np.exp2),
        ("lg2", np.log2),
        ("sin", np.sin),
        ("tanh", np.tanh),
        ("sqrt", np.sqrt),
        ("rcp", lambda x: 1 / x),
    ],
)
def test_approximations_are_results_rounded_once(name: str, function: Any) -> None:
    values = RNG.uniform(0.1, 20, 64).astype(np.float32)
    found = compute(f"{name}.approx.f32 %r9, %r1;", "f4", values)
    assert found.tolist() == function(values.astype(np.float64)).astype(np.float32).tolist()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("lt", [True, False, False, False]),
        ("ltu", [True, False, True, True]),
        ("ne", [True, False, False, False]),
        ("neu", [True, False, True, True]),
        ("num", [True, True, False, False]),
        ("nan", [False, False, True, True]),
        ("equ", [False, True, True, True]),
    ],
)
def test_comparisons_with_nans(name: str, wanted: list[bool]) -> None:
    a = np.array([1.0, 2.0, np.nan, 1.0], np.float32)
    b = np.array([2.0, 2.0, 1.0, np.nan], np.float32)
    found = compute(f"setp.{name}.f32 %p1, %r1, %r2; selp.b32 %r9, 1, 0, %p1;", "u4", a, b)
    assert found.tolist() == wanted


def test_a_pair_of_predicates_is_the_comparison_and_its_opposite_each_with_the_third() -> None:
    a, b, c = (np.array(v, np.uint32) for v in ([1, 1, 3, 3], [2, 2, 2, 2], [0, 1, 0, 1]))
    code = "setp.ne.b32 %p3, %r3, 0; setp.lt.and.u32 %p1|%p2, %r1, %r2, %p3; selp.b32 %r4, 1, 0, %p1;"
    code += "selp.b32 %r5, 2, 0, %p2; or.b32 %r9, %r4, %r5;"
    assert compute(code, "u4", a, b, c).tolist() == [0, 1, 0, 2]
