"""Programs that several blocks of a cluster compute together: elements go from block to block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import compiled, run

import tilewright
import tilewright.language as tl
from tilewright.support.diagnostics import Unsupported

N = 64


@tilewright.jit
def transpose(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(y + at, tl.trans(tl.load(x + at)))


@tilewright.jit
def columns(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tile = tl.load(x + at).to(tl.float32)
    tl.store(y + at, tile / tl.sum(tile, axis=0)[None, :])


@tilewright.jit
def product(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(z + at, tl.dot(tl.load(x + at), tl.load(y + at)))


def numbers() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(1, 5, (N, N)).astype(np.float16)


def test_a_transposition_between_blocks() -> None:
    x = numbers()
    _, y = run(transpose, (1,), x, np.zeros_like(x), N=N, capability=90, num_ctas=4)
    assert (y == x.T).all()
    ptx = compiled(transpose, (x, x), N=N, capability=90, num_ctas=4).asm["ptx"]
    assert "ld.shared::cluster" in ptx
    assert ptx.count("barrier.cluster.arrive.aligned") == ptx.count("barrier.cluster.wait.aligned") >= 2


def test_a_sum_over_blocks() -> None:
    x = numbers()
    _, y = run(columns, (1,), x, np.zeros((N, N), np.float32), N=N, capability=90, num_ctas=2)
    assert np.allclose(y, x.astype(np.float32) / x.astype(np.float32).sum(0))


def test_factors_of_other_blocks() -> None:
    x = numbers()
    _, _, z = run(product, (1,), x, x.T.copy(), np.zeros((N, N), np.float32), N=N, capability=90, num_ctas=2)
    assert (z == x.astype(np.float32) @ x.T.astype(np.float32)).all()


@tilewright.jit
def long_product(x, y, z, K, N: tl.constexpr, M: tl.constexpr, cast: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 32)
    sum = tl.zeros((M, N), tl.float32)
    for start in range(0, K, 32):
        left = tl.load(x + i[:, None] * K + start + k[None, :])
        right = tl.load(y + (start + k)[:, None] * N + j[None, :])
        if cast:
            right = right + right
        sum = tl.dot(left, right, sum)
    tl.store(z + i[:, None] * N + j[None, :], sum)


@pytest.mark.slow
@pytest.mark.parametrize("capability", [90, 120])
def test_every_block_copies_the_factors_that_it_needs(capability: int) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (128, 64)).astype(np.float16)
    y = np.random.default_rng(1).integers(-3, 4, (64, 64)).astype(np.float16)
    out = np.zeros((128, 64), np.float32)
    *_, z = run(long_product, (1,), x, y, out, 64, N=64, M=128, cast=False, capability=capability, num_ctas=2)
    assert (z == x.astype(np.float32) @ y.astype(np.float32)).all()


def test_factors_that_other_blocks_have_are_refused() -> None:
    x, y, out = np.zeros((128, 64), np.float16), np.zeros((64, 64), np.float16), np.zeros((128, 64), np.float32)
    with pytest.raises(Unsupported, match="factors that other blocks have"):
        compiled(long_product, (x, y, out, 64), N=64, M=128, cast=True, capability=90, num_ctas=2)


@tilewright.jit
def sums(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.cumsum(tl.load(x + i), 0))


def test_what_blocks_cannot_do_together_is_refused() -> None:
    x = np.zeros(N, np.int32)
    with pytest.raises(Unsupported, match=r"tt\.scan with num_ctas > 1 is not supported(.|\n)*num_ctas=1"):
        compiled(sums, (x, x), N=N, capability=90, num_ctas=2)
