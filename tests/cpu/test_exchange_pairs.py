"""Reductions of pairs that are given back to both: partners are gathered, and what is no such reduction stays one."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl


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


GATHERED = ["", "right", "left", "choice", "powers", "max"]
REDUCED = ["row", "difference", "columns", "moved"]


@pytest.mark.parametrize("how", [*GATHERED, *REDUCED])
@pytest.mark.parametrize(("rows", "distance"), [(32, 1), (8, 4), (2, 8), (4, 16), (1, 64)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_both_of_a_pair_get_what_they_make_together(dtype: type, rows: int, distance: int, how: str) -> None:
    x = np.random.default_rng(rows).integers(-5, 5, (rows, 2, distance)).astype(dtype)
    out = np.zeros_like(x)
    kernel = paired[(1,)](x, out, rows, distance, how)
    np.testing.assert_allclose(out, paired_in_numpy(x, how).astype(dtype), rtol=1e-5, atol=1 if how == "powers" else 0)
    if distance > 1 and rows > 1:  # else others are reductions of pairs, too
        is_gathered = '"tt.reduce"' not in str(kernel.asm["ttcir"])
        assert is_gathered == (how in GATHERED)


def test_infinities_meet_zeros() -> None:
    """The result of a sum with a product by zero is no business of the pass: inf * 0 is NaN for both."""
    x = np.array([1, np.inf, -0.0, 0.0, 2, 3, np.nan, 4] * 8, np.float32).reshape(16, 2, 2)
    out = np.zeros_like(x)
    paired[(1,)](x, out, 16, 2, "left")
    with np.errstate(invalid="ignore"):
        expected = paired_in_numpy(x, "left").astype(np.float32)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out[out == 0]), np.signbit(expected[out == 0]))
