"""Loops with products in tensor memory, drawn at random, on a simulated sm_100 beside NumPy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl

Array = np.ndarray[Any, Any]
CHOICES: dict[str, tuple[Any, ...]] = {
    "BY": ("descriptor", "pointer"),
    "LEFT": ("loaded", "changed", "kept"),
    "RIGHT": ("loaded", "changed", "kept"),
    "SUM": ("goes on", "anew", "every other"),
    "CHANGED": ("no", "before", "behind"),
    "READ": ("no", "rows", "branch"),
    "SECOND": ("no", "of the sum", "beside"),
    "BM": (64, 128),
    "BN": (32, 64),
    "num_stages": (1, 2, 3, 4),
    "num_warps": (4, 8),
}


@tw.jit
def loop(
    a,
    b,
    c,
    d,
    rows,
    parts,
    K,
    BY: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    SUM: tl.constexpr,
    CHANGED: tl.constexpr,
    READ: tl.constexpr,
    SECOND: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    left = tl.make_tensor_descriptor(a, [BM, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [BN, K], [K, 1], [BN, BK])
    i, j, k0 = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    at = i[:, None] * BN + j[None, :]
    zeros = tl.zeros((BM, BN), tl.float32)
    total, other, sums = zeros, tl.zeros((BM, BN), tl.float32), tl.zeros((BM,), tl.float32)
    first_x = tl.load(a + i[:, None] * K + k0[None, :])
    first_y = tl.load(b + j[None, :] * K + k0[:, None])
    weights = tl.load(b + j[None, :] * K + tl.arange(0, BN)[:, None])
    for k in range(0, K, BK):
        x = left.load([0, k]) if BY == "descriptor" else tl.load(a + i[:, None] * K + (k + k0)[None, :])
        y = right.load([0, k]).T if BY == "descriptor" else tl.load(b + j[None, :] * K + (k + k0)[:, None])
        x = x + 1 if LEFT == "changed" else x if LEFT == "loaded" else first_x
        y = y * 2 if RIGHT == "changed" else y if RIGHT == "loaded" else first_y
        if CHANGED == "before":
            total = total * 0.5
        if SUM == "anew":
            total = tl.dot(x, y)
        elif SUM == "every other":
            total = tl.dot(x, y, tl.where(k % (2 * BK) == 0, zeros, total))
        else:
            total = tl.dot(x, y, total)
        if SECOND == "of the sum":
            other = tl.dot((total * 0.125).to(tl.float16), weights, other)
        elif SECOND == "beside":
            other = tl.dot(x, y, other)
        if READ == "rows":
            sums += tl.sum(total, 1)
        elif READ == "branch" and k % (2 * BK) == BK:
            tl.store(parts + k // BK * BM * BN + at, total)
        if CHANGED == "behind":
            total = total + 1
    tl.store(c + at, total)
    tl.store(d + at, other)
    tl.store(rows + i, sums)


def expected(a: Array, b: Array, bk: int, drawn: dict[str, Any]) -> list[Array]:
    """The results of the loop: the sum, the other one, sums of rows, and the parts that branches store."""
    (m, k), (n, _) = a.shape, b.shape
    total, other, rows = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32), np.zeros(m, np.float32)
    parts = np.zeros((k // bk, m, n), np.float32)
    for step, start in enumerate(range(0, k, bk)):
        x, y = (values[:, start : start + bk] for values in (a, b))
        x = x + 1 if drawn["LEFT"] == "changed" else x if drawn["LEFT"] == "loaded" else a[:, :bk]
        y = y * 2 if drawn["RIGHT"] == "changed" else y if drawn["RIGHT"] == "loaded" else b[:, :bk]
        product = x.astype(np.float32) @ y.astype(np.float32).T
        if drawn["CHANGED"] == "before":
            total = total * np.float32(0.5)
        is_new = drawn["SUM"] == "anew" or (drawn["SUM"] == "every other" and step % 2 == 0)
        total = product if is_new else total + product
        if drawn["SECOND"] == "of the sum":
            other = other + (total * np.float32(0.125)).astype(np.float16).astype(np.float32) @ b[:, :n].T.astype(
                np.float32
            )
        elif drawn["SECOND"] == "beside":
            other = other + product
        if drawn["READ"] == "rows":
            rows = rows + total.sum(1)
        elif drawn["READ"] == "branch" and step % 2:
            parts[step] = total
        if drawn["CHANGED"] == "behind":
            total = total + 1
    return [total, other, rows, parts]


def check(seed: int) -> None:
    """Run a loop that `seed` draws for several numbers of steps."""
    chosen = random.Random(seed)
    drawn = {name: chosen.choice(values) for name, values in CHOICES.items()}
    bk, kernel = 64, None
    for steps in (1, 2, 5):
        numbers = np.random.default_rng(seed + steps)
        m, n, k = drawn["BM"], drawn["BN"], steps * bk
        a, b = (numbers.integers(-2, 3, (size, k)).astype(np.float16) for size in (m, n))
        outs = [np.zeros((m, n), np.float32), np.zeros((m, n), np.float32), np.zeros(m, np.float32)]
        arguments = [a, b, *outs, np.zeros((steps, m, n), np.float32), k]
        kernel = kernel or compiled(loop, arguments, capability=100, BK=bk, **drawn)
        results = launch(kernel, (1,), arguments)[2:6]
        for result, wanted in zip(results, expected(a, b, bk, drawn), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=2e-3, atol=0.5, err_msg=f"{drawn}, {steps} steps")


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 1, 2, 3])
def test_drawn_loops(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 44))
def test_more_drawn_loops(seed: int) -> None:
    check(seed)
