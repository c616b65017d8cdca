"""Elements are read exactly, and sums are rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.backends.ptxsim.mma import finish, multiply, multiply_bits, scaled
from tilewright.backends.ptxsim.value_types import WIDTHS, read_elements, write_elements


def raw(values: object, dtype: object) -> np.ndarray:
    return np.asarray(values).astype(dtype).view(np.uint8)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("element", "dtype"),
    [
        ("f16", np.float16),
        ("bf16", ml_dtypes.bfloat16),
        ("f32", np.float32),
        ("f64", np.float64),
        ("e4m3", ml_dtypes.float8_e4m3fn),
        ("e5m2", ml_dtypes.float8_e5m2),
        ("s8", np.int8),
        ("u8", np.uint8),
        ("s32", np.int32),
    ],
)
def test_elements_of_whole_bytes(element: str, dtype: object) -> None:
    values = [0, 1, 2, 3.5, 56] if "8" not in element[1:] and element != "s32" else [0, 1, 2, 3, 56]
    found = read_elements(raw(values, dtype), element)
    assert found.tolist() == values
    assert found.dtype == (np.int64 if element in ("s8", "u8", "s32") else np.float64)


def test_elements_of_parts_of_bytes() -> None:
    byte = np.array([0x9F], np.uint8)
    assert read_elements(byte, "s4").tolist() == [-1, -7]
    assert read_elements(byte, "u4").tolist() == [15, 9]
    assert read_elements(byte, "b1").tolist() == [1, 1, 1, 1, 1, 0, 0, 1]
    assert read_elements(byte, "e2m1x2").tolist() == [-6.0, -0.5]
    assert read_elements(np.array([0b011100, 0b100000], np.uint8), "e2m1").tolist() == [6.0, -0.0]
    assert read_elements(np.array([0b011111], np.uint8), "e2m3").tolist() == [7.5]
    assert read_elements(np.array([0b011111], np.uint8), "e3m2").tolist() == [28.0]
    assert read_elements(np.array([126, 127, 128], np.uint8), "ue8m0").tolist() == [0.5, 1.0, 2.0]
    assert read_elements(np.array([0xB8], np.uint8), "ue4m3").tolist() == [1.0]
    assert set(WIDTHS.values()) == {1, 4, 8, 16, 32, 64}


def test_tf32_loses_thirteen_bits() -> None:
    assert read_elements(raw([1 + 2**-10, 1 + 2**-11], np.float32), "tf32").tolist() == [1 + 2**-10, 1.0]


def test_a_sum_is_rounded_once() -> None:
    """Neither 2**24 + 1 + 1 in float32 nor 2048 + 1 + 1 in float16 would get further one by one."""
    ones = np.ones((1, 2))
    found = finish(multiply(ones, ones.T) + np.array([[2.0**24]]), "f32")
    assert found.view(np.float32).item() == 2**24 + 2
    found = finish(multiply(ones, ones.T) + np.array([[2048.0]]), "f16")
    assert found.view(np.float16).item() == 2050


def test_integers_wrap_or_saturate() -> None:
    first, second = np.array([[127]]), np.array([[127]])
    sums = np.array([[2**31 - 1]])
    total = multiply(first, second) + sums
    assert finish(total, "s32").view(np.int32).item() == 127 * 127 - 1 - 2**31
    assert finish(total, "s32", saturate=True).view(np.int32).item() == 2**31 - 1


def test_bits() -> None:
    first, second = np.array([[1, 1, 0, 0]]), np.array([[1], [0], [1], [0]])
    assert multiply_bits(first, second, "and").item() == 1
    assert multiply_bits(first, second, "xor").item() == 2


def test_scales_belong_to_blocks() -> None:
    values = np.ones((1, 2, 4))
    assert scaled(values, np.array([[[2.0, 4.0], [1.0, 0.5]]]), 2)[0].tolist() == [[2, 2, 4, 4], [1, 1, 0.5, 0.5]]


def test_round_to_nearest_even() -> None:
    assert write_elements(np.array([2049.0, 2051.0]), "f16").view(np.float16).tolist() == [2048.0, 2052.0]
