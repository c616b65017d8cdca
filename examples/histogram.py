"""Count how often each value occurs. `python examples/histogram.py`

Each program counts in a row of its own, which `scope="cta"` says nobody else uses, and then adds the row to the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from arrays import Array, require, zeros_like

import tilewright as tw
import tilewright.language as tl


@tw.jit
def histogram_kernel(values_ptr, rows_ptr, counts_ptr, n, bins, BLOCK: tl.constexpr, STEPS: tl.constexpr):
    program = tl.program_id(0)
    row_ptr = rows_ptr + program * bins
    for step in range(STEPS):
        offsets = (program * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(values_ptr + offsets, mask=offsets < n, other=-1)
        tl.atomic_add(row_ptr + values, 1, mask=(values >= 0) & (values < bins), sem="relaxed", scope="cta")
    tl.debug_barrier()
    for first in range(0, bins, BLOCK):
        bin = first + tl.arange(0, BLOCK)
        counted = tl.load(row_ptr + bin, mask=bin < bins, other=0, volatile=True)
        tl.atomic_add(counts_ptr + bin, counted, mask=counted > 0, sem="relaxed")


def histogram(values: Array, bins: int, *, block: int = 256, steps: int = 128, **options: Any) -> Array:
    """How often 0, 1 … bins-1 occur; other values are not counted.

    Args:
        values: a contiguous vector of integers.
        bins: how many values are counted.
        block: elements per step, a power of two.
        steps: of one program.
        options: compile and launch options, such as `num_threads`.

    Returns: `bins` counts, int32.
    """
    require(values.ndim == 1, "histogram wants a vector")
    n = values.shape[0]
    programs = tw.cdiv(n, block * steps)
    rows, counts = zeros_like(values, (programs, bins), "int32"), zeros_like(values, (bins,), "int32")
    histogram_kernel[(programs,)](values, rows, counts, n, bins, BLOCK=block, STEPS=steps, **options)
    return counts


def main() -> None:
    values = np.random.default_rng(0).integers(-3, 103, 54_321, np.int32)
    counts = histogram(values, 100)
    expected = np.bincount(values[(values >= 0) & (values < 100)], minlength=100)
    print(f"histogram, {values.size} values, 100 bins: {counts.sum()} counted, most frequent {counts.argmax()}")
    assert np.array_equal(counts, expected)


if __name__ == "__main__":
    main()
