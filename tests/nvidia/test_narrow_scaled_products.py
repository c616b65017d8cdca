"""Scaled products with few columns or few terms, and those that the CTAs of a cluster share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl

RANDOM = np.random.default_rng(5)


@tw.jit
def scaled(a, b, of_a, of_b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, KIND: tl.constexpr):
    PACKED: tl.constexpr = K // 2 if KIND == "e2m1" else K
    rows, columns, scales = tl.arange(0, M)[:, None], tl.arange(0, N)[:, None], tl.arange(0, K // 32)[None, :]
    left = tl.load(a + rows * PACKED + tl.arange(0, PACKED)[None, :])
    right = tl.load(b + columns * PACKED + tl.arange(0, PACKED)[None, :])
    left_scale = tl.load(of_a + rows * (K // 32) + scales)
    right_scale = tl.load(of_b + columns * (K // 32) + scales)
    found = tl.dot_scaled(left, left_scale, KIND, right.T, right_scale, KIND)
    tl.store(out + rows * N + tl.arange(0, N)[None, :], found)


@pytest.mark.parametrize(
    ("m", "n", "k", "kind", "by_one_instruction"),
    [
        (128, 16, 128, "e2m1", True),
        (128, 16, 64, "e5m2", True),
        (256, 16, 32, "e5m2", True),
        (128, 16, 256, "e2m1", True),
        (128, 64, 64, "e2m1", True),
        (128, 64, 32, "e5m2", True),
        (128, 64, 32, "e2m1", False),  # such an instruction has 64 terms
    ],
)
def test_narrow_products(m: int, n: int, k: int, kind: str, by_one_instruction: bool) -> None:
    out, kernel = product(m, n, k, kind, capability=100)
    np.testing.assert_allclose(*out, rtol=1e-5, atol=1e-5 * np.abs(out[1]).max())
    assert ("block_scale" in kernel.asm["ptx"]) is by_one_instruction


def product(m: int, n: int, k: int, kind: str, **options: Any) -> tuple[tuple[np.ndarray, np.ndarray], Any]:
    """Return what a simulated GPU and the CPU compute, and the GPU's kernel."""
    packed = k // 2 if kind == "e2m1" else k
    mask = 0xFF if kind == "e2m1" else 0xB7  # numbers of a size, none infinite
    a, b = (RANDOM.integers(0, 256, (rows, packed), np.uint8) & np.uint8(mask) for rows in (m, n))
    of_a, of_b = (RANDOM.integers(124, 130, (rows, k // 32), np.uint8) for rows in (m, n))
    out = np.zeros((m, n), np.float32)
    scaled[(1,)](a, b, of_a, of_b, out, M=m, N=n, K=k, KIND=kind)
    arguments = [a, b, of_a, of_b, np.zeros((m, n), np.float32)]
    kernel = compiled(scaled, arguments, M=m, N=n, K=k, KIND=kind, **options)
    return (launch(kernel, (1,), arguments)[4], out), kernel


@pytest.mark.parametrize(
    ("m", "n", "kind", "num_ctas"),
    [(256, 16, "e5m2", 2), (256, 64, "e5m2", 2), pytest.param(512, 64, "e2m1", 4, marks=pytest.mark.slow)],
)
def test_ctas_that_divide_the_rows_have_all_columns_with_their_scales(m: int, n: int, kind: str, num_ctas: int) -> None:
    """Each had the right operand, and its scales, in part: the product was refused, with 16 columns by an assertion."""
    out, kernel = product(m, n, 64, kind, capability=100, num_ctas=num_ctas)
    np.testing.assert_allclose(*out, rtol=1e-5, atol=1e-5 * np.abs(out[1]).max())
    assert "block_scale" in kernel.asm["ptx"]


@pytest.mark.parametrize(("k", "by_one_instruction"), [(32, False), (64, True)])
def test_sm_120_scales_products_of_four_bits_with_64_terms(k: int, by_one_instruction: bool) -> None:
    """Fewer terms than an instruction has ended in a KeyError."""
    out, kernel = product(32, 8, k, "e2m1", capability=120)
    np.testing.assert_allclose(*out, rtol=1e-5, atol=1e-5 * np.abs(out[1]).max())
    assert ("block_scale" in kernel.asm["ptx"]) is by_one_instruction
