"""Count how often each value occurs, with atomic additions. `python examples/histogram.py`"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, require, zeros_like

import tilewright as tw
import tilewright.language as tl


@tw.jit
def histogram_kernel(values_ptr, counts_ptr, n, bins, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(values_ptr + offsets, mask=offsets < n, other=-1)
    tl.atomic_add(counts_ptr + values, 1, mask=(values >= 0) & (values < bins))


def histogram(values: Array, bins: int, *, block: int = 1024, **options: Any) -> Array:
    """How often 0, 1 … bins-1 occur; other values are not counted.

    Args:
        values: a contiguous vector of integers.
        bins: how many values are counted.
        block: elements per program, a power of two.
        options: compile and launch options, such as `num_threads`.

    Returns: `bins` counts, int32.
    """
    require(values.ndim == 1, "histogram wants a vector")
    counts = zeros_like(values, (bins,), "int32")
    n = values.shape[0]
    histogram_kernel[(tw.cdiv(n, block),)](values, counts, n, bins, BLOCK=block, **options)
    return counts


def main() -> None:
    values = np.random.default_rng(0).integers(-3, 103, 54_321, np.int32)
    counts = histogram(values, 100)
    expected = np.bincount(values[(values >= 0) & (values < 100)], minlength=100)
    print(f"histogram, {values.size} values, 100 bins: {counts.sum()} counted, most frequent {counts.argmax()}")
    assert np.array_equal(counts, expected)


if __name__ == "__main__":
    main()
