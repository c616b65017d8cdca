"""Matrix product of any shapes, strides and element types. `python examples/matmul.py`

Programs go through the result in bands of GROUP tile rows, column by column inside a band, so that neighbouring
programs share tiles of A and B in the caches:

    0 3 6
    1 4 7      GROUP = 3
    2 5 8

Rows and columns past the end wrap around: what they compute is never stored, and so only K needs a mask.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, dtype_name, empty_like, largest_error, require, strides

import tilewright as tw
import tilewright.language as tl

ACCUMULATORS = {"int8": tl.int32, "float64": tl.float64}
"""Element types that are not accumulated in fp32."""


@tw.jit
def tile_of_program(program, m_tiles, n_tiles, GROUP: tl.constexpr):
    """Row and column of the tile that a program computes."""
    per_band = GROUP * n_tiles
    band = program // per_band
    height = tl.minimum(m_tiles - band * GROUP, GROUP)
    inside = program % per_band
    return band * GROUP + inside % height, inside // height


@tw.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr,
    M, N, K,
    a_row, a_column,
    b_row, b_column,
    c_row, c_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, ACCUMULATOR: tl.constexpr,
):
    tile_m, tile_n = tile_of_program(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP)
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    steps = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows % M)[:, None] * a_row + steps[None, :] * a_column
    b_ptrs = b_ptr + steps[:, None] * b_row + (columns % N)[None, :] * b_column
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACCUMULATOR)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=steps[None, :] < K - k, other=0)
        b = tl.load(b_ptrs, mask=steps[:, None] < K - k, other=0)
        acc = tl.dot(a, b, acc, input_precision="ieee", out_dtype=ACCUMULATOR)
        a_ptrs += BLOCK_K * a_column
        b_ptrs += BLOCK_K * b_row
    c_ptrs = c_ptr + rows[:, None] * c_row + columns[None, :] * c_column
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))


def matmul(
    a: Array,
    b: Array,
    *,
    out: Array | None = None,
    tile: tuple[int, int, int] = (64, 64, 32),
    group: int = 8,
    **options: Any,
) -> Array:
    """`a @ b`.

    Args:
        a, b: matrices of one element type (fp64, fp32, fp16, bf16 or int8) with any strides.
        out: where the product goes; by default a new matrix of that type, of int32 for int8.
        tile: rows and columns of the result per program, and the step along K; powers of two, 16 or more.
        group: tile rows per band.
        options: compile and launch options, such as `num_threads`.
    """
    require(a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0], "matmul wants an M×K and a K×N matrix")
    require(a.dtype == b.dtype, "matmul wants two matrices of one element type")
    (m, k), n = a.shape, b.shape[1]
    name = dtype_name(a)
    if out is None:
        out = empty_like(a, (m, n), "int32" if name == "int8" else None)
    block_m, block_n, block_k = tile
    matmul_kernel[(tw.cdiv(m, block_m) * tw.cdiv(n, block_n),)](
        a, b, out, m, n, k, *strides(a), *strides(b), *strides(out),
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=group,
        ACCUMULATOR=ACCUMULATORS.get(name, tl.float32), **options,
    )
    return out


def main() -> None:
    rng = np.random.default_rng(0)
    for dtype, tolerance in (("float32", 1e-4), ("float64", 1e-12), ("float16", 0.1), ("int8", 0.0)):
        a, b = (rng.standard_normal(shape) * 4 for shape in ((301, 127), (127, 203)))
        a, b = a.astype(dtype), b.astype(dtype)
        error = largest_error(matmul(a, b), a.astype(np.float64) @ b.astype(np.float64))
        print(f"matmul, {a.shape[0]}×{a.shape[1]}×{b.shape[1]} {dtype}: largest error {error:.1e}")
        assert error <= tolerance * 16


if __name__ == "__main__":
    main()
