"""Scaled products in tensor memory with few columns or few terms."""

from __future__ import annotations

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
    packed = k // 2 if kind == "e2m1" else k
    mask = 0xFF if kind == "e2m1" else 0xB7  # numbers of a size, none infinite
    a, b = (RANDOM.integers(0, 256, (rows, packed), np.uint8) & np.uint8(mask) for rows in (m, n))
    of_a, of_b = (RANDOM.integers(124, 130, (rows, k // 32), np.uint8) for rows in (m, n))
    out = np.zeros((m, n), np.float32)
    scaled[(1,)](a, b, of_a, of_b, out, M=m, N=n, K=k, KIND=kind)
    arguments = [a, b, of_a, of_b, np.zeros((m, n), np.float32)]
    kernel = compiled(scaled, arguments, capability=100, M=m, N=n, K=k, KIND=kind)
    np.testing.assert_allclose(launch(kernel, (1,), arguments)[4], out, rtol=1e-5, atol=1e-5 * np.abs(out).max())
    assert ("block_scale" in kernel.asm["ptx"]) is by_one_instruction
