"""Scaled products in tensor memory whose operands and scales come by descriptor, as in libraries of mixed precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl

M, TERMS = 256, 512
RANDOM = np.random.default_rng(9)


@tw.jit
def multiplied(
    x,
    w,
    scales,
    rows,
    out,
    n_experts,
    KT: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    X_KIND: tl.constexpr,
    W_KIND: tl.constexpr,
    SCALES: tl.constexpr,
):
    """Rows of `x` that an index chooses, by tiles of `w` in an order of their own: (expert, step, row, column)."""
    M: tl.constexpr = 256
    PX: tl.constexpr = K // 2 if X_KIND == "e2m1" else K
    PW: tl.constexpr = K // 2 if W_KIND == "e2m1" else K
    steps: tl.constexpr = KT // K
    chosen = tl.make_tensor_descriptor(x, [64, steps * PX], [steps * PX, 1], [1, PX])
    tiles = tl.make_tensor_descriptor(w, [n_experts, steps, M, PW], [steps * M * PW, M * PW, PW, 1], [1, 1, M, PW])
    blocks = tl.make_tensor_descriptor(
        scales, [1, 2, KT // 128, 2, 256], [KT * 8, KT * 4, 512, 256, 1], [1, 2, K // 128, 2, 256]
    )
    numbers = tl.load(rows + tl.arange(0, N))
    total = tl.zeros((M, N), tl.float32)
    for step in tl.range(steps, num_stages=3):
        left = tiles.load([0, step, 0, 0]).reshape((M, PW))
        right = chosen.gather(numbers, step * PX)
        if SCALES:
            scale = blocks.load([0, 0, step * (K // 128), 0, 0])
            scale = scale.reshape((2, K // 128, 32, 4, 4)).trans((0, 3, 2, 1, 4)).reshape((M, K // 32))
        else:
            scale = tl.full((M, K // 32), 128, tl.uint8)
        ones = tl.full((N, K // 32), 127, tl.uint8)
        total = tl.dot_scaled(left, scale, W_KIND, right.T, ones, X_KIND, total)
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], total)


def operand(rows: int, kind: str) -> np.ndarray:
    if kind == "e2m1":
        return RANDOM.integers(0, 256, (rows, TERMS // 2), np.uint8)
    return (RANDOM.integers(0, 256, (rows, TERMS), np.uint8) & np.uint8(0xB7)).view(ml_dtypes.float8_e4m3fn)


@pytest.mark.parametrize("scales", [False, True])
@pytest.mark.parametrize(("x_kind", "w_kind"), [("e4m3", "e2m1"), ("e2m1", "e4m3"), ("e2m1", "e2m1")])
def test_operands_and_scales_by_descriptor(x_kind: str, w_kind: str, scales: bool) -> None:
    """Each operand of four bits beside one of eight has gaps in shared memory, which only the last dimension counts."""
    given: list[Any] = [
        operand(64, x_kind),
        operand(M, w_kind),
        RANDOM.integers(124, 130, M * TERMS // 32, np.uint8),
        RANDOM.integers(0, 64, 16, np.int32),
        np.zeros((M, 16), np.float32),
        1,
    ]
    constants = {"KT": TERMS, "N": 16, "K": 128, "X_KIND": x_kind, "W_KIND": w_kind, "SCALES": scales}
    kernel = compiled(multiplied, given, capability=100, **constants)
    found = launch(kernel, (1,), given)[4]
    multiplied[(1,)](*given, **constants)  # on this CPU
    np.testing.assert_allclose(found, given[4], rtol=1e-5, atol=1e-5 * np.abs(given[4]).max())
    assert kernel.asm["ptx"].count("tile::gather4") >= 4
    assert ("tcgen05.cp" in kernel.asm["ptx"]) is scales  # past the registers
