"""Scalars of straight-line code become lanes of packed instructions, where that is the same computation."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch, run

import tilewright as tw
import tilewright.language as tl

RANDOM = np.random.default_rng(11)


def small(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Numbers whose products and sums are exact."""
    return RANDOM.integers(-8, 9, shape).astype(dtype)


def count(text: str, opcode: str) -> int:
    return len(re.findall(rf"^\s+{re.escape(opcode)}\s", text, re.MULTILINE))


@tw.jit
def polynomial(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    value = tl.load(x + i).to(tl.float32)
    tl.store(out + i, (value + 1.5) * value - 0.5)


@pytest.mark.parametrize(("capability", "packed"), [(80, 0), (90, 0), (100, 2)])
def test_devices_with_arithmetic_on_pairs_use_it(capability: int, packed: int) -> None:
    x, out = small((512,), np.float16), np.zeros(512, np.float16)
    kernel = compiled(polynomial, [x, out], capability=capability, B=512)
    x, out = launch(kernel, (1,), [x, out])
    np.testing.assert_array_equal(out, (x + 1.5) * x - 0.5)
    text = str(kernel.asm["ptx"])
    assert (count(text, "add.f32x2"), count(text, "fma.rn.f32x2")) == (packed, packed)
    assert (count(text, "add.f32"), count(text, "fma.rn.f32")) == (4 - 2 * packed, 4 - 2 * packed)


def test_what_is_not_to_be_fused_is_not_fused_in_pairs() -> None:
    x, out = small((512,), np.float16), np.zeros(512, np.float16)
    text = str(compiled(polynomial, [x, out], capability=100, B=512, enable_fp_fusion=False).asm["ptx"])
    assert count(text, "mul.rn.f32x2") == 2
    assert "fma" not in text


@tw.jit
def product(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, k, i = tl.arange(0, BM), tl.arange(0, BK), tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.int32)
    for start in range(0, n, BK):
        left = tl.load(a + m[:, None] * n + (start + k)[None, :])
        right = tl.load(b + i[None, :] * n + (start + k)[:, None])
        total = tl.dot(left, right, total)
    tl.store(c + m[:, None] * BN + i[None, :], total)


def test_loops_of_products_hand_on_words_instead_of_bytes() -> None:
    a, b, c = small((64, 128), np.int8), small((64, 128), np.int8), np.zeros((64, 64), np.int32)
    kernel = compiled(product, [a, b, c, 128], capability=80, num_stages=2, BM=64, BN=64, BK=64)
    *_, found = launch(kernel, (1,), [a, b, c, 128])
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32).T)
    assert count(str(kernel.asm["ptx"]), "prmt.b32") == 0


@tw.jit
def in_order(x, out):
    tl.store(out, tl.load(x) + tl.load(x + 1) + tl.load(x + 2) + tl.load(x + 3))


@pytest.mark.parametrize("capability", [80, 100])
def test_sums_keep_their_order(capability: int) -> None:
    """By pairs it would be 2."""
    x = np.array([1e8, 1, -1e8, 1], np.float32)
    _, out = run(in_order, (1,), x, np.zeros(1, np.float32), capability=capability)
    assert out[0] == 1


@tw.jit
def scaled_by_squares(x, out, B: tl.constexpr):
    value = tl.load(x + tl.arange(0, B)).to(tl.float32)
    tl.store(out + tl.arange(0, B), value * tl.sum(value * value))


def test_pairs_of_squares_are_fused_into_their_sum() -> None:
    x = small((1024,), np.float16)
    kernel = compiled(scaled_by_squares, [x, np.zeros(1, np.float32)], capability=100, B=1024)
    x, out = launch(kernel, (1,), [x, np.zeros(1024, np.float32)])
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(out, wide * (wide * wide).sum())
    text = str(kernel.asm["ptx"])
    assert (count(text, "mul.f32x2") >= 2, count(text, "fma.rn.f32x2")) == (True, 2)


@tw.jit
def weighted_exponentials(x, out, B: tl.constexpr):
    value = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.sum(tl.exp(value)))


def test_exponentials_are_not_put_into_pairs() -> None:
    x = small((1024,), np.float32)
    text = str(compiled(weighted_exponentials, [x, x[:1]], capability=100, B=1024).asm["ptx"])
    assert count(text, "add.f32x2") <= 2  # of the parts of warps
