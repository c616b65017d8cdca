"""Numbers in text: exact, and spelled as MLIR spells them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.ir.literals import canonical, float_bits, float_from_bits, number_text, read_number
from tilewright.ir.types import FLOATS, FloatType, IntType, bf16, f16, f32, f64, i1, i8, i32, index

pytestmark = pytest.mark.quick

SPELLINGS = [
    (1.0, f32, "1.000000e+00"),
    (-0.0, f32, "-0.000000e+00"),
    (1.3, f32, "1.300000e+00"),
    (0.9995, f32, "0.999499976"),
    (0.1, bf16, "1.000980e-01"),
    (1.44269504, f32, "1.44269502"),
    (0.1, f64, "1.000000e-01"),
    (1 / 3, f64, "0.33333333333333331"),
    (1e-30, f32, "1.000000e-30"),
    (1.1754944e-38, f32, "1.17549435E-38"),
    (16777216.0, f32, "0x4B800000"),
    (123456789.0, f32, "0x4CEB79A3"),
    (math.inf, f16, "0x7C00"),
    (-math.inf, f32, "0xFF800000"),
    (math.nan, f32, "0x7FC00000"),
    (1, i1, "true"),
    (-5, i8, "-5"),
    (7, index, "7"),
]


@pytest.mark.quick
@pytest.mark.parametrize(("value", "type", "text"), SPELLINGS)
def test_spelling(value, type, text) -> None:
    assert number_text(canonical(value, type), type) == text


@given(st.floats(allow_nan=False), st.sampled_from(sorted(FLOATS)))
def test_floats_survive_text(value: float, name: str) -> None:
    type = FLOATS[name]
    rounded = canonical(value, type)
    again = read_number(number_text(rounded, type), type)
    assert again == rounded or (math.isnan(again) and math.isnan(rounded))
    assert math.copysign(1, again) == math.copysign(1, rounded)


@given(st.integers(0, 2**16 - 1), st.sampled_from(["f16", "bf16"]))
def test_bits_survive(bits: int, name: str) -> None:
    value = float_from_bits(bits, FLOATS[name])
    if not math.isnan(value):
        assert float_bits(value, FLOATS[name]) == bits


@given(st.integers(), st.sampled_from([1, 8, 16, 32, 64]))
def test_integers_wrap(value: int, bits: int) -> None:
    wrapped = canonical(value, IntType(bits))
    assert (wrapped - value) % 2**bits == 0
    assert -(2 ** (bits - 1)) <= wrapped < 2 ** (bits - 1) or bits == 1


@pytest.mark.parametrize("text", ["1.5", "x", ""])
def test_no_integer(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        read_number(text, i32)


@pytest.mark.parametrize("type", [f16, f32, FLOATS["f8E5M2"]])
def test_patterns_with_too_many_bits(type: FloatType) -> None:
    with pytest.raises(ValueError, match=f"more than {type.bits} bits"):
        read_number("0x1" + "0" * (type.bits // 4), type)
