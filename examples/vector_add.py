"""Add two vectors: the smallest useful kernel. `python examples/vector_add.py`

Each program adds one block; the mask keeps the last block inside the vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, empty_like, largest_error, require

import tilewright as tw
import tilewright.language as tl


@tw.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


def add(x: Array, y: Array, *, out: Array | None = None, block: int = 1024, **options: Any) -> Array:
    """`x + y` for two vectors of one length.

    Args:
        x, y: contiguous vectors.
        out: where the sum goes; by default a new vector.
        block: elements per program, a power of two.
        options: compile and launch options, such as `num_threads`.
    """
    require(tuple(x.shape) == tuple(y.shape) and x.ndim == 1, "add wants two vectors of one length")
    out = empty_like(x) if out is None else out
    n = x.shape[0]
    add_kernel[(tw.cdiv(n, block),)](x, y, out, n, BLOCK=block, **options)
    return out


def main() -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 98_765)).astype(np.float32)
    error = largest_error(add(x, y), x + y)
    print(f"vector add, {x.size} elements: largest error {error}")
    assert error == 0.0


if __name__ == "__main__":
    main()
