"""Numbers that bf16 holds exactly are cut from f32, and no others: all codes and scales, and what has to be rounded."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.dot.spec import multiplies_bf16
from tilewright.backends.cpu.narrow_exactly import narrow_exactly
from tilewright.backends.llvm.machine import host_target
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.language.scaled import _numbers, _spread

FOUR = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
TARGET = host_target()
SCALES = np.arange(256, dtype=np.uint8)


@tw.jit
def scaled(codes, scales, out, B: tl.constexpr, FORMAT: tl.constexpr):
    """Each row of codes times its scale, as bf16 in 16 bits."""
    row = tl.program_id(0)
    PACKED: tl.constexpr = B // 2 if FORMAT == "e2m1" else B
    code = tl.load(codes + tl.arange(0, PACKED))[None, :]
    scale = tl.load(scales + row + tl.zeros((1, 1), tl.int32))
    numbers = (_numbers(code, FORMAT, -1) * _spread(scale, B)).to(tl.bfloat16)
    tl.store(out + row * B + tl.arange(0, B)[None, :], numbers.to(tl.int16, bitcast=True))


@tw.jit
def cast(x, out, B: tl.constexpr, HOW: tl.constexpr):
    """Numbers that are computed in f32, as bf16 in 16 bits."""
    i = tl.arange(0, B)
    number = tl.load(x + i)
    if HOW == "f8":
        number = number.to(tl.float8e5, bitcast=True).to(tl.float32)
    if HOW == "square":
        number = (number * number).to(tl.float32)
    if HOW == "sum":
        number = number.to(tl.float8e5, bitcast=True).to(tl.float32) + 0.00390625
    if HOW == "third":
        number = number.to(tl.float8e5, bitcast=True).to(tl.float32) * 0.3333333
    if HOW == "eighth":
        number = number.to(tl.float8e5, bitcast=True).to(tl.float32) * 0.125
    if HOW == "tiny":
        number = number.to(tl.float8e5, bitcast=True).to(tl.float32) * 7.52316384526264e-37  # 2 ** -120
    if HOW == "bits":
        number = (number & 0x7FFF8000).to(tl.float32, bitcast=True)
    if HOW == "upper bits":
        number = (number & -65536).to(tl.float32, bitcast=True)
    tl.store(out + i, number.to(tl.float32).to(tl.bfloat16).to(tl.int16, bitcast=True))


def ttir(kernel: Any) -> Op:
    return parse_module(kernel.asm["ttir"])


def rounded(numbers: np.ndarray) -> np.ndarray:
    """The bits of bf16 of f32, to the nearest, ties to even; one NaN."""
    bits = numbers.astype(np.float32).view(np.uint32).astype(np.uint64)
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(numbers), 0x7FC0, nearest).astype(np.uint16)


def one_nan(bits: np.ndarray) -> np.ndarray:
    """All NaNs as the same one."""
    return np.where((bits & 0x7FFF) > 0x7F80, 0x7FC0, bits.view(np.uint16)).astype(np.uint16)


def numbers_of(format: str) -> tuple[np.ndarray, np.ndarray]:
    """All codes of a format, and their numbers."""
    codes = np.arange(256, dtype=np.uint8)
    if format == "e2m1":
        signed = np.concatenate([FOUR, -FOUR])
        return codes, np.stack([signed[codes & 15], signed[codes >> 4]], 1).ravel()
    if format == "e5m2":
        return codes, (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    sign, exponent, mantissa = np.where(codes >> 7, -1.0, 1.0), (codes >> 3 & 15).astype(int), (codes & 7) / 8
    number = np.where(exponent == 0, mantissa * 2.0**-6, (1 + mantissa) * 2.0 ** (exponent - 7))
    return codes, np.where(codes & 127 == 127, np.nan, sign * number)


@pytest.mark.parametrize(("format", "is_exact"), [("e2m1", True), ("e4m3", False), ("e5m2", False)])
def test_all_codes_times_all_scales(format: str, is_exact: bool) -> None:
    """Scaled 8-bit floats may be smaller than bf16 can tell; 4-bit floats never are."""
    codes, numbers = numbers_of(format)
    out = np.zeros((256, len(numbers)), np.int16)
    kernel = scaled[(256,)](codes, SCALES, out, len(numbers), format)
    factors = np.where(SCALES == 255, np.nan, 2.0 ** (SCALES.astype(float) - 127))
    with np.errstate(all="ignore"):
        expected = rounded((numbers * factors[:, None]).astype(np.float32))
    assert (one_nan(out) == expected).all()
    assert narrow_exactly(ttir(kernel), TARGET) == is_exact


@pytest.mark.parametrize(
    ("how", "is_exact"),
    [
        *(("f8", True), ("square", False), ("sum", False), ("third", False), ("eighth", True), ("tiny", False)),
        *(("bits", False), ("upper bits", True)),
    ],
)
def test_what_has_to_be_rounded_is(how: str, is_exact: bool) -> None:
    bits = np.random.default_rng(3).integers(0, 1 << 32, 1024, np.uint32)
    bits[:8] = 0x7F800001, 0x7FC00000, 0x7F800000, 0xFF800000, 0x80000000, 1, 0x007F8000, 0x7F7F8000
    x = bits.view(np.float32) if how == "square" else bits.view(np.int32) if "bits" in how else bits.astype(np.uint8)
    out = np.zeros(1024, np.int16)
    kernel = cast[(1,)](x, out, 1024, how)
    assert narrow_exactly(ttir(kernel), TARGET) == is_exact
    small = (bits.astype(np.uint8).astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        numbers = {
            "f8": small,
            "square": bits.view(np.float32) ** 2,
            "sum": small + np.float32(0.00390625),
            "third": small * np.float32(0.3333333),
            "eighth": small * np.float32(0.125),
            "tiny": small * np.float32(2.0**-120),
            "bits": (bits & 0x7FFF8000).view(np.float32),
            "upper bits": (bits & 0xFFFF0000).view(np.float32),
        }[how]
        assert (one_nan(out) == rounded(numbers)).all()


@tw.jit
def powers(x, out, B: tl.constexpr, N: tl.constexpr):
    """Squares of squares, N times."""
    number = tl.load(x + tl.arange(0, B)).to(tl.float8e5, bitcast=True).to(tl.float32)
    for _ in tl.static_range(N):
        number = number * number
    tl.store(out + tl.arange(0, B), number.to(tl.bfloat16).to(tl.int16, bitcast=True))


@pytest.mark.parametrize(("turns", "is_exact"), [(1, True), (2, False), (60, False)])
def test_squares_of_squares(turns: int, is_exact: bool) -> None:
    """Digits add up; each value is looked at once, however many ways lead to it."""
    module = ttir(powers.warmup(np.zeros(64, np.uint8), np.zeros(64, np.int16), 64, turns, grid=(1,)))
    start = time.process_time()
    assert narrow_exactly(module, TARGET) == is_exact
    assert time.process_time() - start < 1


@tw.jit
def scaled_product(codes, scales, by, out, FORMAT: tl.constexpr, HOW: tl.constexpr):
    """Rows of codes, each 32 times with other scales, times a matrix."""
    row, column = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    code = tl.load(codes + tl.program_id(0) * 32 + column + row * 0)
    scale = tl.load(scales + tl.program_id(1) * 32 + row)
    numbers = (_numbers(code, FORMAT, -1) * _spread(scale, 32)).to(tl.bfloat16)
    right = tl.load(by + row * 32 + column).to(tl.bfloat16)
    if HOW == "right":
        total = tl.dot(right, numbers.trans())
    elif HOW == "sum":
        total = tl.dot(right, right, numbers.to(tl.float32))
    else:
        total = tl.dot(numbers, right)
    if HOW == "seen":
        total += numbers.to(tl.float32)
    tl.store(out + (tl.program_id(0) * 8 + tl.program_id(1)) * 1024 + row * 32 + column, total)


def product_of(format: str, how: str) -> tuple[Any, np.ndarray]:
    """The kernel, and the products of all codes times all scales by ones on the diagonal."""
    codes, out = np.arange(256, dtype=np.uint8), np.zeros((8, 8, 32, 32), np.float32)
    return scaled_product[(8, 8)](codes, SCALES, np.eye(32, dtype=np.float32), out, format, how), out


@pytest.mark.parametrize("how", ["left", "right"])
@pytest.mark.parametrize("format", ["e4m3", "e5m2"])
def test_what_products_take_for_zero_need_not_be_rounded(format: str, how: str) -> None:
    """Normal numbers are what they are; subnormal ones are zero on machines that multiply bf16."""
    kernel, out = product_of(format, how)
    _, numbers = numbers_of(format)
    factors = np.where(SCALES == 255, np.nan, 2.0 ** (SCALES.astype(float) - 127)).reshape(8, 32)
    finite, found = np.isfinite(numbers), (out if how == "left" else out.swapaxes(2, 3))
    for first in range(8):
        row = numbers[first * 32 : first * 32 + 32]
        with np.errstate(all="ignore"):
            bits = rounded((row[None, None, :] * factors[:, :, None]).astype(np.float32)).astype(np.uint32) << 16
        expected = bits.view(np.float32)
        is_there = np.isfinite(expected) & (abs(expected) >= 2.0**-126)
        whole = is_there & finite[first * 32 : first * 32 + 32].all() & np.isfinite(expected).all(2, keepdims=True)
        np.testing.assert_array_equal(found[first][whole], expected[whole])
        if multiplies_bf16(TARGET):
            assert (found[first][np.isfinite(found[first]) & (abs(expected) < 2.0**-126)] == 0).all()
    module = ttir(kernel)
    assert narrow_exactly(module, host_target("znver4"))
    assert not narrow_exactly(ttir(kernel), host_target("x86-64-v3"))


@pytest.mark.parametrize("how", ["seen", "sum"])
def test_what_others_see_is_rounded(how: str) -> None:
    kernel, _ = product_of("e5m2", how)
    assert not narrow_exactly(ttir(kernel), host_target("znver4"))
