"""The reference semantics against plain Python: all pairs of int8, all comparisons, NaN and signed zero rules."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from tilewright.dialects.arithmetic_semantics import ARITHMETIC_SEMANTICS, is_defined
from tilewright.ir.attributes import Keyword
from tilewright.ir.types import FLOATS, Type, bf16, f16, f32, i1, i8, i16, i32, i64


def fake(name: str, result: Type, predicate: str = "") -> SimpleNamespace:
    results = [SimpleNamespace(type=result)]
    return SimpleNamespace(name=name, results=results, attributes={"predicate": Keyword(predicate)})


def wrap(value: int, bits: int = 8) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def towards_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


SIGNED = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "minsi": min,
    "maxsi": max,
    "divsi": lambda a, b: towards_zero(a, b) if b else 0,
    "remsi": lambda a, b: a - b * towards_zero(a, b) if b else 0,
    "ceildivsi": lambda a, b: -(-a // b) if b else 0,
    "floordivsi": lambda a, b: a // b if b else 0,
    "shrsi": lambda a, b: a >> (b if 0 <= b < 8 else 7),
}
UNSIGNED = {
    "divui": lambda a, b: a // b if b else 0,
    "remui": lambda a, b: a % b if b else 0,
    "ceildivui": lambda a, b: -(-a // b) if b else 0,
    "minui": min,
    "maxui": max,
    "shli": lambda a, b: a << b if b < 8 else 0,
    "shrui": lambda a, b: a >> b if b < 8 else 0,
}
EVERY_I8 = np.arange(-128, 128, dtype=np.int8)


@pytest.mark.parametrize("name", [*SIGNED, *UNSIGNED])
def test_every_pair_of_int8(name: str) -> None:
    a, b = (x.ravel() for x in np.meshgrid(EVERY_I8, EVERY_I8))
    got = ARITHMETIC_SEMANTICS["arith." + name](fake("arith." + name, i8), a, b)
    assert got.dtype == np.int8
    if name in SIGNED:
        want = [wrap(SIGNED[name](x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    else:
        want = [wrap(UNSIGNED[name](x % 256, y % 256)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert got.tolist() == want


@pytest.mark.quick
@pytest.mark.parametrize("name", [*SIGNED, *UNSIGNED])
def test_truth_values_are_one_bit_integers(name: str) -> None:
    for a in (0, 1):
        for b in (0, 1):
            if not is_defined(op := fake("arith." + name, i1), -a, -b):
                continue
            got = ARITHMETIC_SEMANTICS["arith." + name](op, np.bool_(a), np.bool_(b))
            want = SIGNED[name](-a, -b) if name in SIGNED else UNSIGNED[name](a, b)
            assert bool(got) == bool(want & 1), (a, b)


@pytest.mark.quick
@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
def test_integer_comparison(predicate: str) -> None:
    a, b = (x.ravel() for x in np.meshgrid(EVERY_I8, EVERY_I8))
    got = ARITHMETIC_SEMANTICS["arith.cmpi"](fake("arith.cmpi", i1, predicate), a, b)
    x, y = (v.astype(int) % 256 if predicate[0] == "u" else v.astype(int) for v in (a, b))
    want = getattr(operator, predicate[-2:])(x, y)
    assert (got == want).all()


def test_signed_comparison_of_truth_values() -> None:
    assert bool(ARITHMETIC_SEMANTICS["arith.cmpi"](fake("arith.cmpi", i1, "slt"), np.True_, np.False_))
    assert not bool(ARITHMETIC_SEMANTICS["arith.cmpi"](fake("arith.cmpi", i1, "ult"), np.True_, np.False_))


@pytest.mark.quick
@pytest.mark.parametrize(
    "predicate",
    ["oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true", "false"],
)
def test_float_comparison(predicate: str) -> None:
    for a in (1.0, -0.0, math.nan):
        for b in (0.0, 1.0, math.nan):
            nan = a != a or b != b
            if predicate in ("true", "false", "uno", "ord"):
                want = {"true": True, "false": False, "uno": nan, "ord": not nan}[predicate]
            else:
                want = predicate[0] == "u" if nan else getattr(operator, predicate[1:])(a, b)
            got = ARITHMETIC_SEMANTICS["arith.cmpf"](fake("arith.cmpf", i1, predicate), np.float32(a), np.float32(b))
            assert bool(got) == want, (a, b)


def test_minimum_rules() -> None:
    one, nan, minus, plus = (np.float32(x) for x in (1, np.nan, -0.0, 0.0))
    assert ARITHMETIC_SEMANTICS["arith.minnumf"](None, one, nan) == 1
    assert np.isnan(ARITHMETIC_SEMANTICS["arith.minimumf"](None, one, nan))
    assert np.isnan(ARITHMETIC_SEMANTICS["arith.maximumf"](None, nan, one))
    assert np.signbit(ARITHMETIC_SEMANTICS["arith.minimumf"](None, plus, minus))
    assert not np.signbit(ARITHMETIC_SEMANTICS["arith.maximumf"](None, minus, plus))


@pytest.mark.quick
@pytest.mark.parametrize("type", [bf16, FLOATS["f8E5M2"], FLOATS["f8E4M3FN"]])
def test_double_to_narrow_rounds_once(type: Type) -> None:
    """A double just above the middle of two bfloat16 must not fall onto the middle in single precision."""
    middle = 1 + 2.0 ** -{"bf16": 8, "f8E5M2": 3, "f8E4M3FN": 4}[type.text]
    got = ARITHMETIC_SEMANTICS["arith.truncf"](fake("arith.truncf", type), np.float64(middle + 2.0**-40))
    assert float(got) == 1 + 2 * (middle - 1)
    got = ARITHMETIC_SEMANTICS["arith.truncf"](fake("arith.truncf", type), np.float64(middle))
    assert float(got) == 1


def test_fused_multiply_add_rounds_once() -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(300).astype(np.float32) for _ in range(2))
    c = (-(a.astype(np.float64) * b) * (1 + random.standard_normal(300) * 2.0**-24)).astype(np.float32)
    got = ARITHMETIC_SEMANTICS["math.fma"](fake("math.fma", f32), a, b, c)
    for x, y, z, r in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        below, above = (float(np.nextafter(np.float32(r), np.float32(d))) for d in (-np.inf, np.inf))
        assert abs(Fraction(r) - exact) <= min(abs(Fraction(below) - exact), abs(Fraction(above) - exact))


def test_casts() -> None:
    def cast(name: str, to: Type, value: np.generic) -> float:
        return ARITHMETIC_SEMANTICS["arith." + name](fake("arith." + name, to), value).item()

    assert cast("extsi", i32, np.True_) == -1
    assert cast("extui", i32, np.True_) == 1
    assert cast("extui", i32, np.int8(-1)) == 255
    assert cast("trunci", i8, np.int32(300)) == 44
    assert cast("trunci", i1, np.int32(2)) is False
    assert cast("sitofp", f16, np.int32(70000)) == math.inf
    assert cast("uitofp", f32, np.int8(-1)) == 255
    assert cast("uitofp", f32, np.True_) == 1
    assert cast("fptosi", i16, np.float32(-3.9)) == -3
    assert cast("fptoui", i8, np.float32(200.5)) == wrap(200)
    assert cast("fptoui", i64, np.float64(2.0**63)) == -(2**63)
    assert cast("bitcast", i32, np.float32(1)) == 0x3F800000
    assert cast("bitcast", i16, ml_dtypes.bfloat16(1)) == 0x3F80


def test_undefined_cases_are_named() -> None:
    assert not is_defined(fake("arith.divsi", i8), np.int8(1), np.int8(0))
    assert not is_defined(fake("arith.divsi", i8), np.int8(-128), np.int8(-1))
    assert is_defined(fake("arith.divui", i8), np.int8(-128), np.int8(-1))
    assert not is_defined(fake("arith.shli", i8), np.int8(1), np.int8(8))
    assert not is_defined(fake("arith.fptosi", i8), np.float32(128))
    assert is_defined(fake("arith.fptosi", i8), np.float32(127.9))
    assert is_defined(fake("arith.fptosi", i8), np.float32(-128.9))
    assert not is_defined(fake("arith.fptosi", i8), np.float32(-129))
    assert is_defined(fake("arith.fptoui", i8), np.float32(255.9))
    assert is_defined(fake("arith.fptoui", i8), np.float32(-0.9))
    assert not is_defined(fake("arith.fptoui", i8), np.float32(256))
    assert not is_defined(fake("arith.fptoui", i8), np.float32(-1))
    assert not is_defined(fake("arith.fptosi", i8), np.float32(np.nan))


def test_zeros_have_an_order_and_signs_of_narrow_floats_are_only_bits() -> None:
    zeros = [np.array([sign * 0.0], np.float32) for sign in (1, -1)]
    for x, y in (zeros, zeros[::-1]):
        assert np.signbit(ARITHMETIC_SEMANTICS["arith.minnumf"](None, x, y)).all()
        assert not np.signbit(ARITHMETIC_SEMANTICS["arith.maxnumf"](None, x, y)).any()
    narrow = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e5m2)
    np.testing.assert_array_equal(
        ARITHMETIC_SEMANTICS["arith.negf"](None, narrow).view(np.uint8), narrow.view(np.uint8) ^ 0x80
    )
    np.testing.assert_array_equal(
        ARITHMETIC_SEMANTICS["math.absf"](None, narrow).view(np.uint8), narrow.view(np.uint8) & 0x7F
    )
