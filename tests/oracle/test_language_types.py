"""Operators, conversions and functions of the language on all element types: machine code against the interpreters."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import agree, jit, quick_first, random_numbers

import tilewright.language as tl
from tilewright.language.extra import libdevice

TYPES = {
    np.int8: tl.int8,
    np.uint8: tl.uint8,
    np.int16: tl.int16,
    np.uint16: tl.uint16,
    np.int32: tl.int32,
    np.uint32: tl.uint32,
    np.int64: tl.int64,
    np.uint64: tl.uint64,
    np.float16: tl.float16,
    ml_dtypes.bfloat16: tl.bfloat16,
    np.float32: tl.float32,
    np.float64: tl.float64,
    np.bool_: tl.int1,
}
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
INTEGERS = tuple(dtype for dtype in TYPES if dtype not in FLOATS and dtype is not np.bool_)
COUNT = 64


def name(dtype: Any) -> str:
    """The name of a NumPy type."""
    return np.dtype(dtype).name


@jit
def convert(x, out, TO: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i).to(TO))


@pytest.mark.parametrize("target", quick_first(TYPES, (np.uint8, np.float16, np.bool_)), ids=name)
@pytest.mark.parametrize("source", quick_first(TYPES, (np.int8, np.uint32, np.float32, np.bool_)), ids=name)
def test_conversions(source: Any, target: Any) -> None:
    x = random_numbers(source, COUNT, 1, special=source is not np.bool_)
    agree(convert, x, np.zeros(COUNT, target), TO=TYPES[target], B=COUNT, rtol=0.0)


@jit
def arithmetic(x, y, out, B: tl.constexpr, WHOLE: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a + b)
    tl.store(out + B + i, a - b)
    tl.store(out + 2 * B + i, a * b)
    tl.store(out + 3 * B + i, tl.maximum(a, b))
    tl.store(out + 4 * B + i, tl.minimum(a, b))
    tl.store(out + 5 * B + i, tl.where(a < b, -a, b + 3))
    if WHOLE:
        tl.store(out + 6 * B + i, a // b)
        tl.store(out + 7 * B + i, a % b)
        tl.store(out + 8 * B + i, (a & b) | (a ^ (b + 1)))
        tl.store(out + 9 * B + i, (a >> (b & 3)) + (b << (a & 3)))
        tl.store(out + 10 * B + i, ~a)
    else:
        tl.store(out + 6 * B + i, a / b)
        tl.store(out + 7 * B + i, tl.clamp(a, -1.0, 1.0))


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=name)
def test_operators(dtype: Any) -> None:
    x, y = (random_numbers(dtype, COUNT, seed, special=True) for seed in (2, 3))
    agree(arithmetic, x, y, np.zeros(COUNT * 11, dtype), B=COUNT, WHOLE=dtype in INTEGERS)


@jit
def mixed(x, y, out, n, f, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, (a + b).to(tl.float64))
    tl.store(out + B + i, (a * n + b).to(tl.float64))
    tl.store(out + 2 * B + i, (a + f).to(tl.float64))
    tl.store(out + 3 * B + i, (b / 3).to(tl.float64))
    tl.store(out + 4 * B + i, (a < b).to(tl.float64))


@pytest.mark.parametrize(
    "right", quick_first([np.int8, np.uint32, np.int64, np.float16, np.float32], (np.int8, np.float16)), ids=name
)
@pytest.mark.parametrize("left", [np.uint8, np.int32, np.uint64, ml_dtypes.bfloat16, np.float32], ids=name)
def test_mixed_types(left: Any, right: Any) -> None:
    x, y = random_numbers(left, COUNT, 4), random_numbers(right, COUNT, 5)
    agree(mixed, x, y, np.zeros(COUNT * 5, np.float64), 3, 0.5, B=COUNT, rtol=1e-6)  # fp32 division: 1 ulp


@jit
def with_an_argument(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(out + i, (a + n).to(tl.float64))
    tl.store(out + B + i, (n * a).to(tl.float64))
    tl.store(out + 2 * B + i, (a - n.to(tl.int32)).to(tl.float64))
    tl.store(out + 3 * B + i, (tl.max(a, 0) + n).to(tl.float64))
    tl.store(out + 4 * B + i, tl.where(a < n, n, a).to(tl.float64))
    tl.store(out + 5 * B + i, ((n - 3) // 2 + a.to(tl.float64)))


@pytest.mark.parametrize("number", [1, 2, -1, True, False, 0, 300, 2**40], ids=str)
@pytest.mark.parametrize("dtype", quick_first([*INTEGERS, np.bool_, np.float16], (np.int8, np.uint16)), ids=name)
def test_a_tile_meets_an_argument(dtype: Any, number: Any) -> None:
    """The argument 1 is a constant, which adapts to the tile; other numbers are 32 bits wide, and so is the sum."""
    x = random_numbers(dtype, COUNT, 5, special=True)
    found = agree(with_an_argument, x, np.zeros(COUNT * 6), number, B=COUNT)[1]
    if number in (1, 2) and number is not True and dtype in (np.int8, np.uint8, np.int16, np.uint16):
        kind = np.dtype(dtype if number == 1 else np.int32)
        np.testing.assert_array_equal(found[:COUNT], x.astype(kind) + kind.type(number))


@jit
def mathematics(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    a = tl.abs(v) + 0.01
    tl.store(out + i, tl.exp(v))
    tl.store(out + B + i, tl.log(a))
    tl.store(out + 2 * B + i, tl.sin(v) + tl.cos(v))
    tl.store(out + 3 * B + i, tl.erf(v))
    tl.store(out + 4 * B + i, tl.sqrt(a) + tl.rsqrt(a))
    tl.store(out + 5 * B + i, tl.sigmoid(v))
    tl.store(out + 6 * B + i, libdevice.tanh(v))
    tl.store(out + 7 * B + i, tl.exp2(v) + tl.log2(a))
    tl.store(out + 8 * B + i, libdevice.pow(a, v))
    tl.store(out + 9 * B + i, tl.floor(v) * tl.ceil(v))
    tl.store(out + 10 * B + i, tl.fma(v, a, v))


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=name)
def test_mathematics(dtype: Any) -> None:
    agree(mathematics, random_numbers(dtype, COUNT, 6).clip(-30, 30), np.zeros(COUNT * 11, dtype), B=COUNT)


@jit
def randoms(out, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.rand(seed, i))
    tl.store(out + B + i, tl.randn(seed, i))
    tl.store(out + 2 * B + i, tl.randint(seed, i).to(tl.float32))


def test_random_numbers() -> None:
    found = agree(randoms, np.zeros(3 * 128, np.float32), 1234, B=128, rtol=1e-5)[0]
    assert 0.3 < found[:128].mean() < 0.7
    assert len(set(found[:128])) > 100


@jit
def scalar_arguments(out, a, b, c, flag):
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)
    tl.store(out + 3, a * b + c)
    tl.store(out + 4, flag)


@pytest.mark.parametrize("numbers", [(2, 3, 5.5), (2**40, -7, 0.25), (-1, 2**63, 1e10), (1, 0, -0.0)])
def test_scalar_arguments(numbers: tuple[Any, Any, float]) -> None:
    for flag in (True, False):
        agree(scalar_arguments, np.zeros(5, np.float64), *numbers, flag)


@jit
def annotated(out, a: tl.float16, b: tl.int8, c: tl.uint32):
    tl.store(out, a)
    tl.store(out + 1, b)
    tl.store(out + 2, c)


def test_annotated_arguments() -> None:
    agree(annotated, np.zeros(3, np.float64), 0.1, -3, 2**31 + 5)
