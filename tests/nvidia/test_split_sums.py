"""Sums in tensor memory whose columns are split before they are stored, or split, changed and joined."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl

RANDOM = np.random.default_rng(7)
SHAPE = M, N, K = 128, 128, 64


@tw.jit
def halves(tile, M: tl.constexpr, N: tl.constexpr):
    return tl.split(tl.permute(tl.reshape(tile, (M, 2, N // 2)), (0, 2, 1)))


@tw.jit
def product(a, b, out, PARTS: tl.constexpr, WHOLE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, terms = tl.arange(0, M)[:, None], tl.arange(0, K)
    left = tl.load(a + rows * K + terms[None, :])
    right = tl.load(b + terms[:, None] * N + tl.arange(0, N)[None, :])
    sum = tl.dot(left, right)
    first, second = halves(sum, M, N)
    if PARTS == 2:
        places = out + rows * N + tl.arange(0, N // 2)[None, :]
        tl.store(places, first)
        tl.store(places + N // 2, second * 2)
    else:
        places = out + rows * N + tl.arange(0, N // 4)[None, :]
        q0, q1 = halves(first, M, N // 2)
        q2, q3 = halves(second, M, N // 2)
        tl.store(places, q0)
        tl.store(places + N // 4, q1)
        tl.store(places + N // 2, q2 * 2)
        tl.store(places + 3 * N // 4, q3 * 2)
    if WHOLE:
        tl.store(out + M * N + rows * N + tl.arange(0, N)[None, :], sum)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(("parts", "whole", "slices"), [(2, False, 2), (4, False, 6), (2, True, 0)])
def test_halves_and_quarters_are_loaded_alone(parts: int, whole: bool, slices: int, warps: int) -> None:
    """A sum that something else uses as a whole is loaded once, and split in registers."""
    a, b = RANDOM.standard_normal((M, K)).astype(np.float16), RANDOM.standard_normal((K, N)).astype(np.float16)
    out = np.zeros((1 + whole, M, N), np.float32)
    options = {"PARTS": parts, "WHOLE": whole, "M": M, "N": N, "K": K, "num_warps": warps}
    kernel = compiled(product, [a, b, out], capability=100, **options)
    found = launch(kernel, (1,), [a, b, out])[2]
    sums = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(found[-1], sums if whole else np.hstack([sums[:, :64], 2 * sums[:, 64:]]), atol=1e-4)
    np.testing.assert_allclose(found[0], np.hstack([sums[:, :64], 2 * sums[:, 64:]]), atol=1e-4)
    assert kernel.asm["ttgir"].count("ttng.tmem_subslice") == slices


@pytest.mark.parametrize("shape", [(128, 256), (64, 256), (256, 128)])
def test_columns_that_two_blocks_have(shape: tuple[int, int]) -> None:
    """A half of the columns may be one block's alone, so the sum is loaded as a whole."""
    m, n = shape
    a, b = RANDOM.standard_normal((m, K)).astype(np.float16), RANDOM.standard_normal((K, n)).astype(np.float16)
    out = np.zeros((m, n), np.float32)
    options = {"PARTS": 2, "WHOLE": False, "M": m, "N": n, "K": K, "num_warps": 8, "num_ctas": 2}
    kernel = compiled(product, [a, b, out], capability=100, **options)
    sums = a.astype(np.float32) @ b.astype(np.float32)
    expected = np.hstack([sums[:, : n // 2], 2 * sums[:, n // 2 :]])
    np.testing.assert_allclose(launch(kernel, (1,), [a, b, out])[2], expected, atol=1e-4)
    assert "tmem_subslice" not in kernel.asm["ttgir"]


@tw.jit
def rescaled(a, b, factors, out, steps, PARTS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """A sum of products whose halves (or quarters) are multiplied by factors of their own in front of each product."""
    rows, terms, columns = tl.arange(0, M)[:, None], tl.arange(0, K), tl.arange(0, N)[None, :]
    total = tl.zeros((M, N), tl.float32)
    for step in tl.range(0, steps):
        left = tl.load(a + step * M * K + rows * K + terms[None, :])
        right = tl.load(b + step * K * N + terms[:, None] * N + columns)
        first, second = halves(total, M, N)
        factor = tl.load(factors + step)
        if PARTS == 4:
            q0, q1 = halves(second, M, N // 2)
            second = tl.reshape(tl.permute(tl.join(q0 * factor + factor, q1 + factor), (0, 2, 1)), (M, N // 2))
        else:
            second += factor
        total = tl.reshape(tl.permute(tl.join(first * factor, second), (0, 2, 1)), (M, N))
        total = tl.dot(left, right, total)
    tl.store(out + rows * N + columns, total)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(("parts", "stores"), [(2, 2), (4, 3)])
def test_joined_halves_and_quarters_are_stored_alone(parts: int, stores: int, warps: int) -> None:
    steps = 3
    a, b = (RANDOM.integers(-2, 3, (steps, *shape)).astype(np.float16) for shape in ((M, K), (K, N)))
    factors, out = np.array([3, 2, -1], np.float32), np.zeros((M, N), np.float32)
    options = {"PARTS": parts, "M": M, "N": N, "K": K, "num_warps": warps}
    kernel = compiled(rescaled, [a, b, factors, out, steps], capability=100, **options)
    found = launch(kernel, (1,), [a, b, factors, out, steps])[3]
    total = np.zeros((M, N), np.float32)
    for left, right, factor in zip(a, b, factors, strict=True):
        total[:, : N // 2] *= factor
        if parts == 4:
            total[:, N // 2 : 3 * N // 4] *= factor
        total[:, N // 2 :] += factor
        total += left.astype(np.float32) @ right.astype(np.float32)
    np.testing.assert_array_equal(found, total)
    in_the_loop = kernel.asm["ttgir"].split("scf.for")[-1]
    assert in_the_loop.count("ttng.tmem_store") == stores
