"""Rows of tiles in tensor memory that a program reduces, with eight warps, on a simulated sm_100."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl


@tw.jit
def shares(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Softmax of the rows of a product."""
    left = tl.make_tensor_descriptor(a, [BM, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [BN, k], [k, 1], [BN, BK])
    total = tl.zeros((BM, BN), tl.float32)
    for depth in range(0, k, BK):
        total = tl.dot(left.load([0, depth]), right.load([0, depth]).T, total)
    total = tl.exp(total - tl.max(total, 1)[:, None])
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    tl.store(c + at, total / tl.sum(total, 1)[:, None])


@pytest.mark.parametrize(("warps", "whole"), [(4, False), (8, True)])
def test_rows_are_reduced_in_warps(warps: int, whole: bool) -> None:
    """With eight warps, halves of the rows met in shared memory; four warps have whole rows anyway."""
    random = np.random.default_rng(6)
    a, b = (random.integers(-2, 3, (rows, 128)).astype(np.float16) / 4 for rows in (128, 64))
    arguments = [a, b, np.zeros((128, 64), np.float32), 128]
    kernel = compiled(shares, arguments, capability=100, BM=128, BN=64, BK=64, num_warps=warps)
    scores = a.astype(np.float64) @ b.T.astype(np.float64)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    found = launch(kernel, (1,), arguments)[2]
    np.testing.assert_allclose(found, weights / weights.sum(1, keepdims=True), rtol=1e-5)
    assert ("16x32bx2" in kernel.asm["ptx"]) == whole
    assert kernel.asm["ptx"].count("shfl.sync.bfly") == (2 if whole else 0)


@tw.jit
def attention(q, k, v, out, n, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    keys = tl.make_tensor_descriptor(k, [n, D], [D, 1], [BN, D])
    values = tl.make_tensor_descriptor(v, [n, D], [D, 1], [BN, D])
    query = tl.make_tensor_descriptor(q, [BM, D], [D, 1], [BM, D]).load([0, 0])
    largest = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for first in range(0, n, BN):
        scores = tl.dot(query, keys.load([first, 0]).T)
        following = tl.maximum(largest, tl.max(scores, 1))
        shares = tl.exp2(scores - following[:, None])
        factor = tl.exp2(largest - following)
        weight = weight * factor + tl.sum(shares, 1)
        total = tl.dot(shares.to(tl.float16), values.load([first, 0]), total * factor[:, None])
        largest = following
    at = tl.arange(0, BM)[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out + at, total / weight[:, None])


def test_sums_of_attention_are_by_rows_as_its_scores_are() -> None:
    """The factors of the sums come in the layout of the scores: nothing is converted between them."""
    random = np.random.default_rng(7)
    q, k, v = (random.integers(-2, 3, (rows, 64)).astype(np.float16) / 4 for rows in (128, 192, 192))
    arguments = [q, k, v, np.zeros((128, 64), np.float32), 192]
    kernel = compiled(attention, arguments, capability=100, BM=128, BN=64, D=64, num_warps=8)
    scores = q.astype(np.float64) @ k.T.astype(np.float64)
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(launch(kernel, (1,), arguments)[3], expected, atol=1e-3)
    ptx = kernel.asm["ptx"]
    assert "16x32bx2" in ptx
    assert "32x32b" not in ptx.replace("16x32bx2", "")
    loop = kernel.asm["ttgir"].partition("scf.for")[2]
    assert "ttg.convert_layout" not in loop.partition("\n    }")[0]
