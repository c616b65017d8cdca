"""Sums of products of warp groups that have other names behind branches, on a simulated sm_90; and what they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl

SIZE, STEPS = 64, 3
RANDOM = np.random.default_rng(11)


@tw.jit
def two_sums(a, b, c, K, T, WAY: tl.constexpr, FLAT: tl.constexpr, SPECIAL: tl.constexpr, BM: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [BM, K], [K, 1], [BM, 64])
    right = tl.make_tensor_descriptor(b, [64, K], [K, 1], [64, 64])
    out = tl.make_tensor_descriptor(c, [BM, 64 * T], [64 * T, 1], [BM, 64])
    for tile in tl.range(tl.program_id(0), T, 1, flatten=FLAT, warp_specialize=SPECIAL and FLAT):
        total, other = tl.zeros((BM, 64), tl.float32), tl.zeros((BM, 64), tl.float32)
        kept = left.load([0, 0])
        for k in tl.range(0, K, 64, warp_specialize=SPECIAL and not FLAT):
            y = right.load([0, k]).T
            x = kept if WAY == "kept" else left.load([0, k])
            total = tl.dot(x, y, total)
            if WAY == "halved" and k % 128 == 0:
                total = total * 0.5
            if WAY == "stored":
                out.store([0, tile * 64], total.to(tl.float16))
            if WAY == "both":
                total = tl.dot(x, y, total)
            else:
                other = tl.dot(x, y, other)
        result = total + other
        if WAY == "stored":
            result -= tl.max(total, 0)[None, :]
        out.store([0, tile * 64], result.to(tl.float16))


def expected(a: Any, b: Any, way: str) -> Any:
    total, other = np.zeros((len(a), SIZE), np.float32), np.zeros((len(a), SIZE), np.float32)
    for k in range(0, SIZE * STEPS, SIZE):
        x = a[:, :SIZE] if way == "kept" else a[:, k : k + SIZE]
        product = x.astype(np.float32) @ b[:, k : k + SIZE].T.astype(np.float32)
        total += product
        total *= 0.5 if way == "halved" and k % 128 == 0 else 1
        other += product
    return (total + other - (total.max(0) if way == "stored" else 0)).astype(np.float16)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("way", ["halved", "stored", "both", "kept"])
def test_sums_behind_branches(way: str, flat: bool, special: bool, warps: int) -> None:
    a, b = (RANDOM.integers(-2, 3, (rows, SIZE * STEPS)).astype(np.float16) for rows in (128, SIZE))
    arguments = [a, b, np.zeros((128, 2 * SIZE), np.float16), SIZE * STEPS, 2]
    options = {"WAY": way, "FLAT": flat, "SPECIAL": special, "BM": 128, "num_warps": warps}
    kernel = compiled(two_sums, arguments, capability=90, **options)
    wanted = np.tile(expected(a, b, way), 2)
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], wanted)
