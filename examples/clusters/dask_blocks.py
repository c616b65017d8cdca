"""A kernel and a vectorized function on arrays in blocks, by Dask: `python dask_blocks.py [ADDRESS OF A SCHEDULER]`."""

from __future__ import annotations

import sys

import dask.array as da
import numpy as np
from distributed import Client

import tilewright as tw
import tilewright.language as tl


@tw.jit
def smooth(x_ptr, out_ptr, rows, columns, stride, BLOCK: tl.constexpr):
    """The mean of each element and its four neighbours; x has one more element on each side."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    inside = at < columns
    middle = x_ptr + (row + 1) * stride + at + 1
    across = tl.load(middle - 1, mask=inside) + tl.load(middle, mask=inside) + tl.load(middle + 1, mask=inside)
    along = tl.load(middle - stride, mask=inside) + tl.load(middle + stride, mask=inside)
    tl.store(out_ptr + row * columns + at, (across + along) / 5, mask=inside)


@tw.vectorize
def contrast(a, b):
    return (a - b) / (a + b) if a + b != 0 else 0.0


def smoothed(x: da.Array) -> da.Array:
    """Lazily: a block is launched when it is computed, with one element of its neighbours on each side."""
    return tw.map_blocks(
        smooth,
        x,
        tw.OUT,
        lambda block: block.out.shape[0],
        lambda block: block.out.shape[1],
        lambda block: block.inputs[0].shape[1],
        grid=lambda meta: (meta["rows"],),
        depth=1,
        boundary="nearest",
        BLOCK=512,
    )


def main() -> None:
    here = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with Client(*sys.argv[1:2]) if len(sys.argv) > 1 else Client(**here):
        x = da.from_array(np.arange(600 * 400, dtype=np.float32).reshape(600, 400) % 7, chunks=(200, 200))
        result = contrast(x, smoothed(x))
        print(result.shape, result.dtype, result.numblocks)
        print(round(float(abs(result).mean().compute()), 4))


if __name__ == "__main__":
    main()
