"""`add2` and its like on simulated GPUs: pairs of elements by one instruction."""

from __future__ import annotations

from typing import Any

import gluon_programs as programs
import ml_dtypes
import numpy as np
import pytest
from descriptors import aligned
from gluon_assembly import assembled_text

import tilewright
from tilewright import gluon
from tilewright.compat import float2
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import add2, fma2, min2

RANDOM = np.random.default_rng(3)


def numbers(dtype: Any) -> np.ndarray:
    """Small multiples of a quarter, with which all of it is exact."""
    found = aligned((512,), dtype)
    found[...] = RANDOM.integers(-8, 9, 512) / 4
    return found


@pytest.mark.parametrize(
    ("dtype", "kind", "target"),
    [
        (np.float32, "f32x2", "cuda:100"),
        (np.float16, "f16x2", "cuda:100"),
        (np.float16, "f16x2", "cuda:80"),
        (ml_dtypes.bfloat16, "bf16x2", "cuda:90"),
    ],
)
def test_pairs_are_computed_at_once(dtype: Any, kind: str, target: str) -> None:
    x, y, out = numbers(dtype), numbers(dtype), aligned((512,), dtype)
    halves = dtype is not np.float32
    with tilewright.simulate(target):
        kernel = programs.pairs[(1,)](x, y, out, N=512, HALVES=halves)
    text = assembled_text(kernel, int(target.removeprefix("cuda:")))
    a, b = x.astype(np.float64), y.astype(np.float64)
    expected = (a + b) * (1.5 - b) + a * 2
    expected = np.maximum(np.minimum(expected, b), a) if halves else expected
    np.testing.assert_array_equal(out.astype(np.float64), expected)
    names = ["add", "sub", "mul", "fma.rn", *(["min", "max"] if halves else [])]
    assert {name: text.count(f"{name}.{kind}") for name in names} == dict.fromkeys(names, 2)


@gluon.jit
def scalars_and_rows(x, row, number, out):
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    i, j = gl.arange(0, 16, layout=gl.SliceLayout(1, layout)), gl.arange(0, 32, layout=gl.SliceLayout(0, layout))
    places = i[:, None] * 32 + j[None, :]
    gl.store(out + places, fma2(gl.load(row + j)[None, :], gl.load(x + places), number))


def test_rows_and_scalars_are_spread() -> None:
    x, row, out = numbers(np.float32).reshape(16, 32), numbers(np.float32)[:32], aligned((16, 32), np.float32)
    with tilewright.simulate("cuda:100"):
        scalars_and_rows[(1,)](x, row, 0.25, out)
    np.testing.assert_array_equal(out, row * x + 0.25)


@gluon.jit
def copies(x, out):
    """Threads hold two copies of each element beside one another, and two elements."""
    layout: gl.constexpr = gl.DistributedLinearLayout(
        [[0], [1]], [[2], [4], [8], [16], [32]], [[64], [128]], [], [256]
    )
    places = gl.arange(0, 256, layout=layout)
    gl.store(out + places, add2(gl.load(x + places), 1.0))


def test_copies_are_computed_once() -> None:
    x, out = numbers(np.float16), aligned((256,), np.float16)
    with tilewright.simulate("cuda:100"):
        text = copies[(1,)](x, out).asm["ptx"]
    np.testing.assert_array_equal(out, x[:256] + np.float16(1))
    assert text.count("add.f16x2") == 1


@gluon.jit
def sums(x, y, out, EACH: gl.constexpr, N: gl.constexpr, DTYPE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([EACH], [32], [4], [0])
    places = gl.arange(0, N, layout=layout)
    gl.store(out + places, add2(gl.load(x + places), gl.load(y + places), DTYPE))


@gluon.jit
def least(x, y, out, EACH: gl.constexpr, N: gl.constexpr, DTYPE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([EACH], [32], [4], [0])
    places = gl.arange(0, N, layout=layout)
    gl.store(out + places, min2(gl.load(x + places), gl.load(y + places), DTYPE))


@gluon.jit
def numbers_alone(x, y, out, EACH: gl.constexpr, N: gl.constexpr, DTYPE: gl.constexpr):
    gl.store(out, add2(1.0, 2.0))


HALF, SINGLE = np.float16, np.float32


@pytest.mark.quick
@pytest.mark.parametrize(
    ("kernel", "target", "kinds", "each", "dtype", "problem"),
    [
        (sums, "cuda:90", (SINGLE, SINGLE), 4, None, "add.f32x2"),
        (sums, "cuda:80", (ml_dtypes.bfloat16, ml_dtypes.bfloat16), 4, None, "add.bf16x2"),
        (sums, "cuda:100", (HALF, HALF), 1, None, "one element per thread"),
        (sums, "cuda:100", (HALF, SINGLE), 4, None, "add2 takes and gives elements of one type"),
        (sums, "cuda:100", (SINGLE, SINGLE), 4, gl.float16, "add2 takes and gives elements of one type"),
        (sums, "cuda:100", (np.int32, np.int32), 4, None, "add2 takes and gives elements of one type"),
        (least, "cuda:100", (SINGLE, SINGLE), 4, None, "min2 takes and gives elements of one type"),
        (numbers_alone, "cuda:100", (HALF, HALF), 4, None, "add2 wants a tile with a layout"),
    ],
)
def test_what_is_no_pair_is_refused(
    kernel: Any, target: str, kinds: tuple[Any, Any], each: int, dtype: Any, problem: str
) -> None:
    x, y, out = (aligned((512,), kind) for kind in (*kinds, np.float32))
    with tilewright.simulate(target), pytest.raises(tilewright.CompilationError) as caught:
        kernel[(1,)](x, y, out, EACH=each, N=128 * each, DTYPE=dtype)
    assert problem in caught.value.diagnostic.headline
    assert "2(" in str(caught.value)


@gluon.jit
def pairs_of_float2(x, y, out, factor, AXIS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([2, 4], [8, 4], [4, 1], [1, 0])
    rows, columns = gl.arange(0, 32, gl.SliceLayout(1, layout)), gl.arange(0, 16, gl.SliceLayout(0, layout))
    at = rows[:, None] * 16 + columns[None, :]
    a, b = float2.pack(gl.load(x + at), AXIS), float2.pack(gl.load(y + at), AXIS)
    found = float2.unpack(float2.fma(a, float2.full_like(b, factor), (a + b) * a - b), AXIS)
    gl.store(out + at, gl.convert_layout(found, layout))
    first, second = float2.unpack2(a.sum(axis=1 - AXIS))
    sums = gl.arange(0, first.shape[0], first.type.layout)
    gl.store(out + 512 + sums, first)
    gl.store(out + 544 + sums, second)


@pytest.mark.parametrize("axis", [0, 1])
def test_float2_of_older_versions(axis: int) -> None:
    x, y, out = numbers(np.float32), numbers(np.float32), aligned((576,), np.float32)
    a, b = x.reshape(32, 16), y.reshape(32, 16)
    with tilewright.simulate("cuda:100"):
        kernel = pairs_of_float2[(1,)](x, y, out, 1.5, AXIS=axis)
    np.testing.assert_array_equal(out[:512].reshape(32, 16), a * np.float32(1.5) + ((a + b) * a - b))
    sums = a.sum(axis=1 - axis)
    np.testing.assert_array_equal(out[512 : 512 + len(sums) // 2], sums[::2])
    np.testing.assert_array_equal(out[544 : 544 + len(sums) // 2], sums[1::2])
    assert all(f"{name}.f32x2" in kernel.asm["ptx"] for name in ("add", "sub", "mul", "fma.rn"))
