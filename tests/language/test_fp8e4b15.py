"""fp8e4b15: every code upwards, every fp16 number downwards; arithmetic, constants, and what is no such array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.semantics.fp8e4b15 import code_of

CODES = np.arange(256).astype(np.uint8)


def value_of(code: int) -> float:
    """The number that a code stands for, by the definition of such formats."""
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = mantissa * 2.0**-17 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 18)
    return -magnitude if code & 0x80 else magnitude


VALUES = np.array([value_of(code) for code in CODES.tolist()], np.float32)


def nearest_codes(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The codes of fp16 numbers: ±1.75 at most, halves away from zero."""
    magnitudes = np.where(np.isnan(numbers), 1.75, np.minimum(np.abs(numbers.astype(np.float64)), 1.75))
    middles = (VALUES[:126].astype(np.float64) + VALUES[1:127]) / 2
    codes = np.searchsorted(middles, magnitudes, side="right")  # of a number in the middle, the greater code
    return codes | np.where(np.signbit(numbers), 0x80, 0)


def convert(x: Any, out: Any, BLOCK: tl.constexpr) -> None:
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


def compute(x: Any, out: Any) -> None:
    i = tl.arange(0, 256)
    eighths = tl.load(x + i)
    half = tl.full((256,), 0.5, tl.float8e4b15)
    tl.store(out + i, eighths + half)
    tl.store(out + 256 + i, -eighths * 2.0)
    tl.store(out + 512 + i, tl.abs(eighths))
    tl.store(out + 768 + i, tl.where(eighths < 0, half, eighths))
    tl.store(out + 1024 + i, tl.load(x + i, mask=i < 128, other=-0.3))


@pytest.fixture(params=["compiled", "interpreted"])
def jitted(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return lambda fn: tw.jit(fn, interpret=request.param == "interpreted")


def as_eighths(array: np.ndarray[Any, Any]) -> Any:
    return tw.reinterpret(array, tl.float8e4b15)


@pytest.mark.parametrize("wide", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_every_code_upwards(jitted: Callable[[Any], Any], wide: Any) -> None:
    out = np.zeros(256, wide)
    jitted(convert)[(1,)](as_eighths(CODES.copy()), out, BLOCK=256)
    assert (out == VALUES.astype(wide)).all()
    assert (np.signbit(out) == (CODES >= 128)).all()


def test_every_half_downwards(jitted: Callable[[Any], Any]) -> None:
    halves = np.arange(65536).astype(np.uint16).view(np.float16)
    out = np.zeros(65536, np.uint8)
    jitted(convert)[(4,)](halves, as_eighths(out), BLOCK=16384)
    assert out.tolist() == nearest_codes(halves).tolist()


@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_wider_numbers_become_fp16_towards_zero_first(jitted: Callable[[Any], Any], wide: Any) -> None:
    tie = 1.0625  # between the codes of 1.0 and 1.125
    numbers = np.array([tie, np.nextafter(wide(tie), wide(0)), -tie, 1e9, -np.inf, np.nan, -0.0, 1e-30] * 2, wide)
    out = np.zeros(16, np.uint8)
    jitted(convert)[(1,)](numbers, as_eighths(out), BLOCK=16)
    assert out[:8].tolist() == [0x79, 0x78, 0xF9, 0x7E, 0xFE, 0x7E, 0x80, 0x00]


def test_arithmetic_takes_place_in_fp16(jitted: Callable[[Any], Any]) -> None:
    out = np.zeros((5, 256), np.float32)
    jitted(compute)[(1,)](as_eighths(CODES.copy()), out)
    halves = VALUES.astype(np.float16)
    assert (out[0] == halves + np.float16(0.5)).all()
    assert (out[1] == -halves * np.float16(2)).all()
    assert (out[2] == abs(halves)).all()
    assert (out[3] == np.where(halves < 0, np.float16(0.5), halves)).all()
    assert (out[4] == np.where(CODES < 128, halves, np.float16(-0.3125))).all()


def test_another_format_of_that_width_is_not_taken_for_it() -> None:
    with pytest.raises(tw.ArgumentError, match="float8_e4m3b11fnuz are not supported"):
        tw.jit(convert)[(1,)](np.zeros(16, ml_dtypes.float8_e4m3b11fnuz), np.zeros(16, np.float32), BLOCK=16)


def test_constants_round_as_other_numbers_do() -> None:
    halves = np.array([half for tie in range(0x40, 0x3F40, 0x80) for half in (tie - 1, tie)], np.uint16)
    numbers = halves.view(np.float16)
    assert [code_of(float(number)) for number in numbers] == nearest_codes(numbers).tolist()


def fill(out: Any, scalar: Any, number: tl.constexpr, kind: tl.constexpr) -> None:
    tl.store(out + tl.arange(0, 16), tl.full((16,), number, kind).to(tl.float32))
    tl.store(scalar, tl.full((), number, kind).to(tl.float32))


@pytest.mark.parametrize("kind", [tl.float8e5, tl.float8e4nv, tl.float8e4b8, tl.float8e5b16, tl.float8e4b15], ids=str)
@pytest.mark.parametrize("number", [0.5, -1.25, -0.0])
def test_constants_of_small_formats(jitted: Callable[[Any], Any], kind: Any, number: float) -> None:
    out, scalar = np.zeros(16, np.float32), np.zeros(1, np.float32)
    jitted(fill)[(1,)](out, scalar, number, kind)
    assert out.tolist() == [number] * 16
    assert scalar.tolist() == [number]
