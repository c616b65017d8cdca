"""Dropout that stores no mask: the random numbers come back from the seed. `python examples/dropout.py`

Element i is kept or dropped by the i-th number of a counter-based generator (Philox), so the backward pass draws the
same numbers again instead of reading a mask from memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, empty_like, require

import tilewright as tw
import tilewright.language as tl


@tw.jit
def dropout_kernel(x_ptr, out_ptr, n, probability, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    is_kept = tl.rand(seed, offsets) > probability
    tl.store(out_ptr + offsets, tl.where(is_kept, x / (1 - probability), 0.0), mask=inside)


def dropout(x: Array, probability: float, seed: int, *, block: int = 1024, **options: Any) -> Array:
    """`x` with each element zeroed with `probability`, the others scaled so that the mean stays.

    Args:
        x: a contiguous vector.
        probability: in [0, 1).
        seed: equal seeds drop equal elements.
        block: elements per program, a power of two.
        options: compile and launch options, such as `num_threads`.
    """
    require(x.ndim == 1 and 0 <= probability < 1, "dropout wants a vector and a probability below 1")
    out = empty_like(x)
    n = x.shape[0]
    dropout_kernel[(tw.cdiv(n, block),)](x, out, n, float(probability), seed, BLOCK=block, **options)
    return out


def main() -> None:
    x = np.ones(100_003, np.float32)
    first, again, other = dropout(x, 0.3, 7), dropout(x, 0.3, 7), dropout(x, 0.3, 8)
    print(f"dropout 0.3 of {x.size}: {np.mean(first == 0):.3f} dropped, mean {first.mean():.3f}")
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert abs(np.mean(first == 0) - 0.3) < 0.01


if __name__ == "__main__":
    main()
