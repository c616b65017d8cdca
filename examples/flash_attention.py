"""Attention in one pass over keys and values, with a running softmax. `python examples/flash_attention.py`

A program holds BLOCK_M queries. It walks over blocks of keys, and keeps per query the largest score so far, the sum of
exponentials relative to it, and the weighted sum of values; when a larger score appears, both sums are scaled down.
Scores are multiplied by log2(e), so that exp2 does for exp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, empty_like, largest_error, require, strides

import tilewright as tw
import tilewright.language as tl


@tw.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr,
    scale,
    q_head, q_row, k_head, k_row, v_head, v_row, out_head, out_row,
    queries, keys,
    HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):
    head = tl.program_id(1)
    start_m = tl.program_id(0) * BLOCK_M
    rows = start_m + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    features = tl.arange(0, HEAD)
    k_ptr += head * k_head
    v_ptr += head * v_head
    is_query = rows[:, None] < queries
    q = tl.load(q_ptr + head * q_head + rows[:, None] * q_row + features[None, :], mask=is_query, other=0.0)
    q = (q * (scale * 1.4426950408889634)).to(q_ptr.dtype.element_ty)
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), tl.float32)
    end = tl.minimum(start_m + BLOCK_M, keys) if CAUSAL else keys
    for start in range(0, end, BLOCK_N):
        at = start + columns
        is_key = at[:, None] < keys
        k = tl.load(k_ptr + at[:, None] * k_row + features[None, :], mask=is_key, other=0.0)
        scores = tl.dot(q, tl.trans(k))
        visible = at[None, :] < keys
        if CAUSAL:
            visible = visible & (rows[:, None] >= at[None, :])
        scores = tl.where(visible, scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - larger[:, None])
        shrink = tl.exp2(largest - larger)
        total = total * shrink + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + at[:, None] * v_row + features[None, :], mask=is_key, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None])
        largest = larger
    out_ptrs = out_ptr + head * out_head + rows[:, None] * out_row + features[None, :]
    tl.store(out_ptrs, acc / total[:, None], mask=is_query)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    out: Array | None = None,
    tile: tuple[int, int] = (64, 64),
    **options: Any,
) -> Array:
    """Scaled dot-product attention.

    Args:
        q, k, v: heads × positions × features, contiguous along the features, which are 16, 32, 64 …
        is_causal: query i sees keys 0 to i.
        scale: of the scores; by default 1/√features.
        out: where the result goes; by default a new array.
        tile: queries per program and keys per step.
        options: compile and launch options, such as `num_threads`.
    """
    fits = q.ndim == k.ndim == 3 and k.shape == v.shape and q.shape[::2] == k.shape[::2]
    require(fits, "attention wants heads × positions × features")
    require(all(strides(array)[2] == 1 for array in (q, k, v)), "attention wants contiguous features")
    heads, queries, features = q.shape
    out = empty_like(q) if out is None else out
    block_m, block_n = tile
    attention_kernel[(tw.cdiv(queries, block_m), heads)](
        q, k, v, out, features**-0.5 if scale is None else scale,
        *strides(q)[:2], *strides(k)[:2], *strides(v)[:2], *strides(out)[:2], queries, k.shape[1],
        HEAD=features, BLOCK_M=block_m, BLOCK_N=block_n, CAUSAL=is_causal, **options,
    )
    return out


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, is_causal: bool = False) -> np.ndarray:
    """The same with NumPy."""
    scores = q @ k.transpose(0, 2, 1) * q.shape[2] ** -0.5
    if is_causal:
        scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True) @ v)


def main() -> None:
    rng = np.random.default_rng(0)
    for features in (32, 64, 128):
        for is_causal in (False, True):
            q, k, v = rng.standard_normal((3, 4, 333, features)).astype(np.float32)
            expected = reference(*(array.astype(np.float64) for array in (q, k, v)), is_causal=is_causal)
            error = largest_error(attention(q, k, v, is_causal=is_causal), expected)
            kind = "causal" if is_causal else "full"
            print(f"{kind} attention, 4 heads of 333×{features}: largest error {error:.1e}")
            assert error < 1e-5


if __name__ == "__main__":
    main()
