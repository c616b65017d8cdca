"""Many matrix products at once: three-dimensional tiles, a grid of three axes. `python examples/batched_gemm.py`"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, empty_like, largest_error, require, strides

import tilewright as tw
import tilewright.language as tl


@tw.jit
def batched_kernel(
    a_ptr, b_ptr, c_ptr,
    batches, M, N, K,
    a_batch, a_row, a_column,
    b_batch, b_row, b_column,
    c_batch, c_row, c_column,
    BATCH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    batch = (tl.program_id(2) * BATCH + tl.arange(0, BATCH))[:, None, None]
    row = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M))[None, :, None]
    column = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, None, :]
    acc = tl.zeros((BATCH, BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        along_a, along_b = k[None, None, :], k[None, :, None]
        a_mask = (batch < batches) & (row < M) & (along_a < K)
        b_mask = (batch < batches) & (along_b < K) & (column < N)
        a = tl.load(a_ptr + batch * a_batch + row * a_row + along_a * a_column, mask=a_mask, other=0.0)
        b = tl.load(b_ptr + batch * b_batch + along_b * b_row + column * b_column, mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    c_ptrs = c_ptr + batch * c_batch + row * c_row + column * c_column
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(batch < batches) & (row < M) & (column < N))


def batched_matmul(a: Array, b: Array, *, tile: tuple[int, int, int, int] = (1, 64, 32, 16), **options: Any) -> Array:
    """`a[i] @ b[i]` for each i.

    Args:
        a, b: batches × M × K and batches × K × N, any strides.
        tile: batches, rows, columns per program, and the step along K.
        options: compile and launch options, such as `num_threads`.
    """
    require(a.ndim == b.ndim == 3 and a.shape[::2] == b.shape[:2], "batched_matmul wants B×M×K and B×K×N")
    (batches, m, k), n = a.shape, b.shape[2]
    out = empty_like(a, (batches, m, n))
    batch, block_m, block_n, block_k = tile
    batched_kernel[(tw.cdiv(n, block_n), tw.cdiv(m, block_m), tw.cdiv(batches, batch))](
        a, b, out, batches, m, n, k, *strides(a), *strides(b), *strides(out),
        BATCH=batch, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, **options,
    )
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 70, 45)).astype(np.float32), rng.standard_normal((5, 45, 90)).astype(np.float32)
    error = largest_error(batched_matmul(a, b), a.astype(np.float64) @ b.astype(np.float64))
    print(f"batched matmul, 5 × 70×45×90: largest error {error:.1e}")
    assert error < 1e-4


if __name__ == "__main__":
    main()
