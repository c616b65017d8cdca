"""Sums of flat loops over tiles stay in tensor memory until a tile is done, also where the loop is divided."""

from __future__ import annotations

import re

import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl


@tw.jit
def tiles_and_largest(
    a, b, c, order, largest, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIAL: tl.constexpr
):
    """A product tile by tile in the order of a table, in halves of its columns, and the largest number of each tile."""
    left = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN // 2])
    across = tl.cdiv(n, BN)
    for tile in tl.range(0, tl.cdiv(m, BM) * across, flatten=True, num_stages=2, warp_specialize=SPECIAL):
        place = tl.load(order + tile)
        row, column = place // across * BM, place % across * BN
        total = tl.zeros((BM, BN), tl.float32)
        for depth in tl.range(0, k, BK):
            total = tl.dot(left.load([row, depth]), right.load([column, depth]).T, total)
        tl.store(largest + tile, tl.max(total))
        halves = tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1))
        first, second = tl.split(halves)
        out.store([row, column], first.to(tl.float16))
        out.store([row, column + BN // 2], second.to(tl.float16))


@pytest.mark.parametrize("special", [False, True])
def test_sums_are_loaded_where_a_tile_is_done(special: bool) -> None:
    """No step takes the sum of such a loop to registers and back; with `warp_specialize` the loop is divided."""
    random = np.random.default_rng(4)
    m, n, k = 256, 256, 64
    a, b = (random.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    order = np.array([2, 0, 3, 1], np.int32)
    arguments = [a, b, np.zeros((m, n), np.float16), order, np.zeros(4, np.float32), m, n, k]
    options = {"BM": 128, "BN": 128, "BK": 32, "SPECIAL": special, "num_warps": 4}
    kernel = compiled(tiles_and_largest, arguments, capability=100, **options)
    found = launch(kernel, (1,), arguments)
    product = a.astype(np.float32) @ b.T.astype(np.float32)
    np.testing.assert_array_equal(found[2], product.astype(np.float16))
    np.testing.assert_array_equal(found[4], product.reshape(2, 128, 2, 128).max((1, 3)).ravel()[order])
    text = kernel.asm["ttgir"]
    assert ("ttg.warp_specialize" in text) == special
    (place,) = re.findall(r"ttng.tmem_alloc :.*\n", text)
    assert "128x128xf32" in place
    if not special:
        behind_the_branch = text[text.index("ttng.tc_gen5_mma") :]
        assert behind_the_branch.index("scf.if") < behind_the_branch.index("ttng.tmem_load")
    assert "ttng.tmem_store" not in text


@tw.jit
def cleared(
    a,
    b,
    parts,
    rest,
    k,
    EVERY: tl.constexpr,
    BEHIND: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """Sums of some steps each, which are stored in a branch and cleared there, or before the next one."""
    left = tl.make_tensor_descriptor(a, [BM, k], [k, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [BN, k], [k, 1], [BN, BK])
    at = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(k, BK)):
        if not BEHIND and step % EVERY == 0:
            total = tl.zeros((BM, BN), tl.float32)
            tl.store(parts + step // EVERY * BM * BN + at, total)
        total = tl.dot(left.load([0, step * BK]), right.load([0, step * BK]).T, total)
        if step % EVERY == EVERY - 1:
            tl.store(parts + step // EVERY * BM * BN + at, total)
            if BEHIND:
                total = tl.zeros((BM, BN), tl.float32)
    tl.store(rest + at, total)


@pytest.mark.parametrize("steps", [0, 4, 5])
@pytest.mark.parametrize("behind", [False, True])
def test_sums_that_a_step_clears_stay_in_memory(behind: bool, steps: int) -> None:
    """The last of four steps clears the sum behind its product, and what the loop gives is clear."""
    random = np.random.default_rng(5)
    k, every = 64 * steps, 2
    a, b = (random.integers(-3, 4, (rows, max(k, 64))).astype(np.float16) for rows in (128, 64))
    arguments = [a, b, np.zeros((3, 128, 64), np.float32), np.full((128, 64), 7, np.float32), k]
    options = {"EVERY": every, "BEHIND": behind, "BM": 128, "BN": 64, "BK": 64, "num_stages": 3}
    kernel = compiled(cleared, arguments, capability=100, **options)
    products = [
        a[:, i * 64 : i * 64 + 64].astype(np.float32) @ b[:, i * 64 : i * 64 + 64].astype(np.float32).T
        for i in range(steps)
    ]
    parts, rest = np.zeros((3, 128, 64), np.float32), np.zeros((128, 64), np.float32)
    for step, product in enumerate(products):
        rest = product if step % every == 0 else rest + product
        if step % every == every - 1:
            parts[step // every] = rest
            rest = np.zeros_like(rest) if behind else rest
    found = launch(kernel, (1,), arguments)
    np.testing.assert_array_equal(found[2], parts)
    np.testing.assert_array_equal(found[3], rest)
    text = kernel.asm["ttgir"]
    loop = text[text.index("scf.for") : text.index("tt.return")]
    assert "ttng.tc_gen5_mma" in loop
    assert "ttng.tmem_store" not in loop
    assert ("ttng.tmem_store" in text) != behind  # nobody sees the first zeros that a flag stands for
