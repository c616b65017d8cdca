"""Without fusion, sums and products of floats are rounded as the program says, also next to `tl.dot`.

Products of small integers are exact in any order, so compiled code and the eager interpreter agree in every bit.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

SIZE = 32


@tw.jit
def sums_with_dots(a, b, c, out, N: tl.constexpr, STEPS: tl.constexpr, TYPE: tl.constexpr):
    i = tl.arange(0, N)
    place = i[:, None] * N + i[None, :]
    x, y, z = tl.load(a + place), tl.load(b + place), tl.load(c + place).to(TYPE)
    tl.store(out + place, 0.001 + tl.dot(x, y, input_precision="ieee", out_dtype=TYPE))
    tl.store(out + N * N + place, tl.dot(x, y, input_precision="ieee", out_dtype=TYPE) + z)
    total = z
    for _ in range(STEPS):
        total += tl.dot(x, y, input_precision="ieee", out_dtype=TYPE)
    tl.store(out + 2 * N * N + place, total)


@tw.jit
def sums_of_products(a, b, out, N: tl.constexpr):
    i = tl.arange(0, N)
    place = i[:, None] * N + i[None, :]
    x, y = tl.load(a + place), tl.load(b + place)
    tl.store(out + place, tl.sum(x[:, :, None] * y[None, :, :], 1))


def matrices(type: type[np.floating]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    a, b = (random.integers(-8, 9, (SIZE, SIZE)).astype(type) for _ in "ab")
    return a, b, random.standard_normal((SIZE, SIZE)).astype(type)


@pytest.mark.parametrize("kind", ["fp32", "fp16", "fp64"])
def test_sums_with_dots_are_rounded_by_themselves(kind: str) -> None:
    type, result = {
        "fp32": (np.float32, tl.float32),
        "fp16": (np.float16, tl.float32),
        "fp64": (np.float64, tl.float64),
    }[kind]
    a, b, c = matrices(type)
    out, eager = (np.zeros((3, SIZE, SIZE), np.float64 if kind == "fp64" else np.float32) for _ in range(2))
    sums_with_dots[(1,)](a, b, c, out, SIZE, 5, result, enable_fp_fusion=False)
    tw.jit(sums_with_dots.fn, interpret=True)[(1,)](a, b, c, eager, SIZE, 5, result)
    np.testing.assert_array_equal(out, eager)
    product = a.astype(out.dtype) @ b.astype(out.dtype)
    np.testing.assert_array_equal(out[0], out.dtype.type(0.001) + product)
    np.testing.assert_array_equal(out[1], product + c.astype(out.dtype))


def test_products_of_a_sum_are_rounded_each() -> None:
    """1 + 2⁻¹²: its square has a bit that fp32 rounds away, and that a fused sum with -1 would show."""
    a = np.zeros((SIZE, SIZE), np.float32)
    b = np.zeros_like(a)
    a[:, 0], a[:, 1] = -1, 1 + 2.0**-12
    b[0], b[1] = 1, 1 + 2.0**-12
    found = {}
    for fused in (False, True):
        out = np.zeros_like(a)
        sums_of_products[(1,)](a, b, out, SIZE, enable_fp_fusion=fused)
        found[fused] = out
    assert (found[False] == 2.0**-11).all()
    assert (abs(found[True] - (2.0**-11 + 2.0**-24)) <= 2.0**-24).all()
