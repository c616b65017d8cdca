"""Softmax of each row of a matrix, fused: each row is read once and written once. `python examples/softmax.py`"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, empty_like, largest_error, require, strides

import tilewright as tw
import tilewright.language as tl


@tw.jit
def softmax_kernel(out_ptr, x_ptr, out_row_stride, x_row_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * x_row_stride + column, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, axis=0))
    result = powers / tl.sum(powers, axis=0)
    tl.store(out_ptr + row * out_row_stride + column, result, mask=inside)


def softmax(x: Array, *, out: Array | None = None, **options: Any) -> Array:
    """Softmax along the last axis.

    Args:
        x: a matrix whose rows are contiguous; a row must fit into one block.
        out: where the result goes; by default a new matrix.
        options: compile and launch options, such as `num_threads`.
    """
    require(x.ndim == 2, "softmax wants a matrix")
    rows, columns = x.shape
    out = empty_like(x) if out is None else out
    if rows == 0 or columns == 0:
        return out
    require(columns == 1 or strides(x)[1] == strides(out)[1] == 1, "softmax wants contiguous rows")
    block = tw.next_power_of_2(columns)
    softmax_kernel[(rows,)](out, x, strides(out)[0], strides(x)[0], columns, BLOCK=block, **options)
    return out


def reference(x: np.ndarray) -> np.ndarray:
    """The same with NumPy."""
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def main() -> None:
    x = np.random.default_rng(0).standard_normal((1823, 781)).astype(np.float32)
    error = largest_error(softmax(x), reference(x.astype(np.float64)))
    print(f"softmax, {x.shape[0]} rows of {x.shape[1]}: largest error {error:.1e}")
    assert error < 1e-6


if __name__ == "__main__":
    main()
