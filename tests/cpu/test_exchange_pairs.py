"""Reductions of pairs that are given back to both: partners are gathered, and what is no such reduction stays one."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import run_here


@tw.jit
def difference(a, b):
    return a - b


@tw.jit
def paired(x_ptr, out_ptr, A: tl.constexpr, B: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, A * 2 * B)
    x = tl.reshape(tl.load(x_ptr + i), (A, 2, B))
    side, row = tl.arange(0, 2)[None, :, None], tl.arange(0, A)[:, None, None]
    if HOW == "right":
        x = x * side
    elif HOW == "left":
        x = x * (1 - side)
    elif HOW == "row":
        x = x * row
    elif HOW == "choice":
        x = tl.where(side == 0, x + 1, -x)
    elif HOW == "powers":
        x = tl.exp(x.to(tl.float32)) * (2 - side)
    if HOW == "difference":
        pair = tl.reduce(x, 1, difference)[:, None, :]
    elif HOW == "max":
        pair = tl.max(x, 1)[:, None, :]
    elif HOW == "columns":
        pair = tl.sum(x, 2)[:, :, None]
    elif HOW == "moved":
        pair = tl.reshape(tl.sum(x, 1), (A, B))[:, None, :] + x
    else:
        pair = tl.sum(x, 1)[:, None, :]
    tl.store(out_ptr + i, tl.reshape(tl.broadcast_to(pair, (A, 2, B)), (A * 2 * B,)))


def paired_in_numpy(x: np.ndarray, how: str) -> np.ndarray:
    side, row = np.arange(2)[None, :, None], np.arange(len(x))[:, None, None]
    changed = {
        "right": x * side,
        "left": x * (1 - side),
        "row": x * row,
        "choice": np.where(side == 0, x + 1, -x),
        "powers": np.exp(x.astype(np.float32)) * (2 - side),
    }.get(how, x)
    if how == "difference":
        pair = changed[:, :1] - changed[:, 1:]
    elif how == "max":
        pair = changed.max(1, keepdims=True)
    elif how == "columns":
        pair = changed.sum(2, keepdims=True)
    else:
        pair = changed.sum(1, keepdims=True)
    return np.broadcast_to(pair + (x if how == "moved" else 0), x.shape)


GATHERED = ["", "right", "left", "choice", "powers"]
REDUCED = ["row", "difference", "columns", "moved"]


@pytest.mark.parametrize("how", [*GATHERED, "max", *REDUCED])
@pytest.mark.parametrize(("rows", "distance"), [(32, 1), (8, 4), (2, 8), (4, 16), (1, 64)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_both_of_a_pair_get_what_they_make_together(dtype: type, rows: int, distance: int, how: str) -> None:
    x = np.random.default_rng(rows).integers(-5, 5, (rows, 2, distance)).astype(dtype)
    out = np.zeros_like(x)
    kernel = paired[(1,)](x, out, rows, distance, how)
    np.testing.assert_allclose(out, paired_in_numpy(x, how).astype(dtype), rtol=1e-5, atol=1 if how == "powers" else 0)
    if distance > 1 and rows > 1:  # else others are reductions of pairs, too
        is_gathered = '"tt.reduce"' not in str(kernel.asm["ttcir"])
        assert is_gathered == (how in GATHERED or (how == "max" and dtype is np.int32))


def test_infinities_meet_zeros() -> None:
    """The result of a sum with a product by zero is no business of the pass: inf * 0 is NaN for both."""
    x = np.array([1, np.inf, -0.0, 0.0, 2, 3, np.nan, 4] * 8, np.float32).reshape(16, 2, 2)
    out = np.zeros_like(x)
    paired[(1,)](x, out, 16, 2, "left")
    with np.errstate(invalid="ignore"):
        expected = paired_in_numpy(x, "left").astype(np.float32)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out[out == 0]), np.signbit(expected[out == 0]))


@pytest.mark.parametrize("cpu", run_here("x86-64-v2", "x86-64-v3", "x86-64-v4"))
def test_both_of_a_pair_get_the_same_zero(cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The larger one of 0 and -0 is either of them, but one for both."""
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    x = np.random.default_rng(0).choice(np.array([0.0, -0.0], np.float32), (8, 2, 16))
    out = np.ones_like(x)
    paired[(1,)](x, out, 8, 16, "max")
    bits = out.view(np.uint32)
    np.testing.assert_array_equal(bits[:, 0], bits[:, 1])


@tw.jit
def weighted_twice(x_ptr, out_ptr, M: tl.constexpr):
    i = tl.arange(0, 4 * M)
    numbers = tl.arange(0, 2)[:, None]
    x = tl.reshape(tl.load(x_ptr + i), (2, 2, M)) * numbers[None, :, :] * numbers[:, :, None]
    pair = tl.sum(x, 1)[:, None, :]
    tl.store(out_ptr + i, tl.reshape(tl.broadcast_to(pair, (2, 2, M)), (4 * M,)))


def test_the_same_range_along_two_axes() -> None:
    """One tells the pairs apart, the other one does not."""
    x = np.arange(1, 33, dtype=np.int32).reshape(2, 2, 8)
    out = np.zeros_like(x)
    weighted_twice[(1,)](x, out, 8)
    weights = np.array([0, 1], np.int32)
    pair = (x * weights[:, None] * weights[:, None, None]).sum(1, keepdims=True)
    np.testing.assert_array_equal(out, np.broadcast_to(pair, x.shape))


@tw.jit
def chosen_by_a_number(x_ptr, out_ptr, n, LENGTH: tl.constexpr):
    i, side = tl.arange(0, 64), tl.arange(0, 2)[None, :, None]
    x = tl.reshape(tl.load(x_ptr + i), (8, 2, 4))
    x = tl.where(n > 3, x, x * 2)
    for link in tl.static_range(LENGTH):
        x = (x * 3) ^ (x + link)
    pair = tl.sum(x * side, 1)[:, None, :]
    tl.store(out_ptr + i, tl.reshape(tl.broadcast_to(pair, (8, 2, 4)), (64,)))


@pytest.mark.parametrize("length", [0, 10, 300])
@pytest.mark.parametrize("n", [3, 4])
@code_on("neoverse-v1")
def test_chains_of_any_length_that_a_number_chooses(n: int, length: int) -> None:
    x = np.random.default_rng(3).integers(-99, 99, (8, 2, 4)).astype(np.int32)
    out = np.zeros_like(x)
    chosen_by_a_number[(1,)](x, out, n, length)
    changed = x if n > 3 else x * 2
    for link in range(length):
        changed = (changed * 3) ^ (changed + link)
    np.testing.assert_array_equal(out, np.broadcast_to(changed[:, 1:], x.shape))
