"""Tiles in tensor memory that come transposed from shared memory or go there, on a simulated sm_100."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl


@tw.jit
def transposed(a, b, c, k, TURNED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [BM, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [BN, k], [k, 1], [BN, BK])
    total = tl.zeros((BM, BN), tl.float32)
    for depth in range(0, k, BK):
        total = tl.dot(left.load([0, depth]), right.load([0, depth]).T, total)
    if TURNED:
        out = tl.make_tensor_descriptor(c, [BN, BM], [BM, 1], [BN, BM])
        out.store([0, 0], (total * 2).T.to(tl.float16))
    else:
        out = tl.make_tensor_descriptor(c, [BM, BN], [BN, 1], [BM, BN])
        out.store([0, 0], (total * 2).to(tl.float16))


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("turned", [False, True])
def test_transposed_sums_are_stored_as_matrices(turned: bool, warps: int) -> None:
    """Each number went to shared memory alone, 64 stores of 2 bytes in each of 128 threads."""
    random = np.random.default_rng(9)
    a, b = (random.integers(-3, 4, (rows, 128)).astype(np.float16) for rows in (128, 64))
    arguments = [a, b, np.zeros((64, 128) if turned else (128, 64), np.float16), 128]
    kernel = compiled(transposed, arguments, capability=100, TURNED=turned, BM=128, BN=64, BK=64, num_warps=warps)
    expected = 2 * (a.astype(np.float32) @ b.T.astype(np.float32))
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected.T if turned else expected)
    ptx = kernel.asm["ptx"]
    assert "st.shared.b16" not in ptx
    assert ptx.count("stmatrix.sync.aligned.m8n8.x4.trans") == (32 // warps if turned else 0)


@tw.jit
def doubled(a, b, c, k, TURNED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A product whose left factor threads compute, of a tile of its rows or of its columns."""
    right = tl.make_tensor_descriptor(b, [BN, k], [k, 1], [BN, BK])
    total = tl.zeros((BM, BN), tl.float32)
    if TURNED:
        left = tl.make_tensor_descriptor(a, [k, BM], [BM, 1], [BK, BM])
    else:
        left = tl.make_tensor_descriptor(a, [BM, k], [k, 1], [BM, BK])
    for depth in range(0, k, BK):
        factor = left.load([depth, 0]).T * 2 if TURNED else left.load([0, depth]) * 2
        total = tl.dot(factor, right.load([0, depth]).T, total)
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(c + at, total)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("turned", [False, True])
def test_transposed_factors_are_loaded_as_matrices(turned: bool, warps: int) -> None:
    """Each number came from shared memory alone."""
    random = np.random.default_rng(10)
    a, b = (random.integers(-3, 4, (rows, 128)).astype(np.float16) for rows in (128, 64))
    arguments = [a.T.copy() if turned else a, b, np.zeros((128, 64), np.float32), 128]
    kernel = compiled(doubled, arguments, capability=100, TURNED=turned, BM=128, BN=64, BK=64, num_warps=warps)
    expected = 2 * (a.astype(np.float32) @ b.T.astype(np.float32))
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)
    ptx = kernel.asm["ptx"]
    assert "ld.shared.b16" not in ptx
    assert ("ldmatrix.sync.aligned.m8n8.x4.trans" in ptx) == turned
