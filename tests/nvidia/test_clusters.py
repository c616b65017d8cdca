"""Programs that several blocks of a cluster compute together: elements go from block to block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import compiled, run

import tilewright
import tilewright.language as tl

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


@pytest.mark.parametrize("blocks", [2, 4])
def test_a_transposition_between_blocks(blocks: int) -> None:
    x = numbers()
    _, y = run(transpose, (1,), x, np.zeros_like(x), N=N, capability=90, num_ctas=blocks)
    assert (y == x.T).all()
    ptx = compiled(transpose, (x, x), N=N, capability=90, num_ctas=blocks).asm["ptx"]
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
