"""cvt to the bit: against ml_dtypes, and for directed roundings against exact fractions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ptx_programs import compute

RNG = np.random.default_rng(8)
SINGLES = np.concatenate(
    [
        RNG.standard_normal(200).astype(np.float32),
        (RNG.standard_normal(200) * 300).astype(np.float32),
        np.array(
            [0.0, -0.0, 448.0, 464.0, 465.0, 57344.0, 61440.0, 1e-3, 2.0**-9, 2.0**-10, 65504.0, 65520.0], np.float32
        ),
        np.array([np.inf, -np.inf, 1e30, -1e30, 2.5, 3.5, 0.5, -0.5], np.float32),
    ]
)


def numbers(dtype: Any, values: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype)


@pytest.mark.parametrize(
    ("name", "dtype", "limit"),
    [("e4m3x2", ml_dtypes.float8_e4m3fn, 448.0), ("e5m2x2", ml_dtypes.float8_e5m2, 57344.0)],
)
def test_fp8_pairs_round_and_saturate(name: str, dtype: Any, limit: float) -> None:
    high, low = SINGLES, SINGLES[::-1].copy()
    found = compute(f"cvt.rn.satfinite.{name}.f32 %h9, %r1, %r2;", "u2", high, low).view(np.uint8).reshape(-1, 2)
    for column, values in ((0, low), (1, high)):
        wanted = numbers(dtype, np.clip(values, -limit, limit)).view(np.uint8)
        assert found[:, column].tolist() == wanted.tolist()


@pytest.mark.parametrize(("name", "dtype"), [("e4m3x2", ml_dtypes.float8_e4m3fn), ("e5m2x2", ml_dtypes.float8_e5m2)])
def test_fp8_pairs_widen_exactly(name: str, dtype: Any) -> None:
    every = np.arange(256, dtype=np.uint8).view(np.uint16)
    found = compute(f"cvt.rn.f16x2.{name} %r9, %h1;", "u4", every).view(np.float16)
    wanted = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float16)
    assert np.array_equal(found, wanted, equal_nan=True)


def test_saturated_floats_lie_between_zero_and_one() -> None:
    values = np.array([-np.inf, -3.0, -0.0, 0.25, 1.0, 1.5, np.inf, np.nan], np.float32)
    found = compute("cvt.sat.f32.f32 %r9, %r1;", "u4", values).view(np.float32)
    assert found.tolist() == [0.0, 0.0, 0.0, 0.25, 1.0, 1.0, 1.0, 0.0]
    assert not np.signbit(found).any()


def test_e2m1_pairs() -> None:
    values = np.array([0.0, 0.5, 0.25, 0.75, 1.25, 5.0, 6.0, 100.0, -1.75, -3.5], np.float32)
    code = "{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %r1, %r1; cvt.rn.f16x2.e2m1x2 %r9, t; }"
    found = compute(code, "u4", values).view(np.float16)[::2]
    assert found.tolist() == [0.0, 0.5, 0.0, 1.0, 1.0, 4.0, 6.0, 6.0, -2.0, -4.0]


def test_scales_are_powers_of_two() -> None:
    values = np.array([1.0, 1.5, 2.0, 0.0, 3e38, 2.0**-127], np.float32)
    found = compute("cvt.rp.satfinite.ue8m0x2.f32 %h9, %r1, %r1;", "u2", values).view(np.uint8)[::2]
    assert found.tolist() == [127, 128, 128, 0, 254, 0]
    found = compute("cvt.rz.satfinite.ue8m0x2.f32 %h9, %r1, %r1;", "u2", values).view(np.uint8)[::2]
    assert found.tolist() == [127, 127, 128, 0, 254, 0]


def test_scales_that_are_too_large_are_nan_unless_they_saturate() -> None:
    values = np.array([2.0**127, 3e38, np.inf, -np.inf, np.nan], np.float32)
    wanted = {"rp": [254, *[255] * 4], "rz": [254, 254, *[255] * 3], "rp.satfinite": [*[254] * 4, 255]}
    for modes, exponents in wanted.items():
        found = compute(f"cvt.{modes}.ue8m0x2.f32 %h9, %r1, %r1;", "u2", values).view(np.uint8)[::2]
        assert found.tolist() == exponents


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_halves(name: str, dtype: Any) -> None:
    wanted = numbers(dtype, SINGLES).view(np.uint16)
    assert compute(f"cvt.rn.{name}.f32 %h9, %r1;", "u2", SINGLES).tolist() == wanted.tolist()
    pairs = compute(f"cvt.rn.{name}x2.f32 %r9, %r1, %r1;", "u4", SINGLES).view(np.uint16)[::2]
    assert pairs.tolist() == wanted.tolist()
    every = np.arange(0, 0x7C00, 7, dtype=np.uint16)
    wide = compute(f"cvt.f32.{name} %r9, %h1;", "f4", every)
    assert wide.tolist() == every.view(dtype).astype(np.float32).tolist()


def test_directed_roundings_of_halves_surround_the_number() -> None:
    finite = SINGLES[np.abs(SINGLES) < 60000]
    down = compute("cvt.rm.f16.f32 %h9, %r1;", "f2", finite).astype(np.float64)
    up = compute("cvt.rp.f16.f32 %h9, %r1;", "f2", finite).astype(np.float64)
    nearest = finite.astype(np.float16).astype(np.float64)
    assert ((down <= finite) & (finite <= up)).all()
    assert ((nearest == down) | (nearest == up)).all()
    towards_zero = compute("cvt.rz.f16.f32 %h9, %r1;", "f2", finite).astype(np.float64)
    assert towards_zero.tolist() == np.where(finite < 0, up, down).tolist()


def test_tf32_keeps_ten_bits() -> None:
    values = np.array([1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11, -1.0 - 2.0**-11, np.nan], np.float32)
    found = compute("cvt.rna.tf32.f32 %r9, %r1;", "u4", values)
    wanted = np.array([1 + 2.0**-10, 1 + 2.0**-9, -1 - 2.0**-10], np.float32).view(np.uint32)
    assert found.tolist() == [*wanted.tolist(), 0x7FC00000]
    even = compute("cvt.rn.tf32.f32 %r9, %r1;", "u4", values)
    assert even[:2].view(np.float32).tolist() == [1.0, 1 + 2.0**-9]


def test_integers_from_floats_round_saturate_and_map_nans() -> None:
    values = np.array([2.5, 3.5, -2.5, 1e10, -1e10, np.nan, np.inf, 0.9], np.float32)
    low, high = -(2**31), 2**31 - 1
    assert compute("cvt.rni.s32.f32 %r9, %r1;", "i4", values).tolist() == [2, 4, -2, high, low, 0, high, 1]
    assert compute("cvt.rzi.u32.f32 %r9, %r1;", "u4", values).tolist() == [2, 3, 0, 2**32 - 1, 0, 0, 2**32 - 1, 0]
    assert compute("cvt.rmi.s32.f32 %r9, %r1;", "i4", values)[2] == -3
    assert compute("cvt.rpi.s64.f32 %d9, %r1;", "i8", values)[:3].tolist() == [3, 4, -2]
    assert compute("cvt.rzi.s64.f32 %d9, %r1;", "i8", values)[5] == -(2**63)
    assert compute("cvt.rzi.s8.f32 %r9, %r1;", "i4", np.array([200.0, -200.0], np.float32)).tolist() == [127, -128]


def test_floats_from_integers_round_once() -> None:
    values = np.array([2**24 + 1, -(2**24) - 3, 7, 2**31 - 1], np.int32)
    assert compute("cvt.rn.f32.s32 %r9, %r1;", "f4", values).tolist() == values.astype(np.float32).tolist()
    assert compute("cvt.rz.f32.s32 %r9, %r1;", "f4", values)[3] == 2.0**31 - 128
    large = np.array([2**63 - 1, 2**62 + 2**38 + 1, -(2**55) - 1], np.int64)
    assert compute("cvt.rn.f32.s64 %r9, %d1;", "f4", large).tolist() == large.astype(np.float32).tolist()
    assert compute("cvt.rp.f32.s64 %r9, %d1;", "f4", large)[1] == 2.0**62 + 2.0**39
    assert (
        compute("cvt.rn.bf16.s32 %h9, %r1;", "u2", values).tolist()
        == values.astype(ml_dtypes.bfloat16).view("u2").tolist()
    )


def test_integers_widen_by_their_sign_and_saturate_when_asked() -> None:
    values = np.array([0x1FF, 0x80, 0xFFFFFFFF, 5], np.uint32)
    assert compute("cvt.s32.s8 %r9, %r1;", "i4", values).tolist() == [-1, -128, -1, 5]
    assert compute("cvt.u32.u8 %r9, %r1;", "u4", values).tolist() == [255, 128, 255, 5]
    assert compute("cvt.s64.s32 %d9, %r1;", "i8", values).tolist() == [511, 128, -1, 5]
    assert compute("cvt.sat.u8.s32 %r9, %r1;", "u4", values).tolist() == [255, 128, 0, 5]
    packed = compute("cvt.pack.sat.s8.s32.b32 %r9, %r1, %r1, %r1;", "u4", np.array([300, -300], np.int32))
    assert packed.tolist() == [300 << 16 | 0x7F7F, ((-300 << 16) & 0xFFFFFFFF) | 0x8080]
