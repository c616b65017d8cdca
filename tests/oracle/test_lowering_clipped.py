"""Rows whose mask ends early, in tiles of any size: reductions, stores and buffers against the interpreters.

What lies beyond the mask in memory would change every result, so a lane too many shows as much as one too few.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import agree, jit, quick_first

import tilewright.language as tl

TILE = 256
BOUNDS = (-(1 << 31), -3, 0, 1, 15, 16, 17, 33, TILE - 1, TILE, TILE + 1, (1 << 31) - 1)
INF = float("inf")
NAN = float("nan")
ROWS = 3


def rows(dtype: Any = np.float32, *, tile: int = TILE) -> np.ndarray[Any, Any]:
    """Small integers, which any order sums up exactly."""
    return np.random.default_rng(7).integers(-3, 4, (ROWS, tile)).astype(dtype)


@jit
def negated_sum(a, b):
    """Adds one for each pair: -1 with -1 is -1, and no other number comes back."""
    return a + b + 1


@jit
def product(a, b):
    return a * b


@jit
def first_larger(a, b):
    return tl.where(a >= b, a, b)


@jit
def either_bits(a, b):
    return a | b


@jit
def folded(x, out, n, KIND: tl.constexpr, OTHER: tl.constexpr, TILE: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, TILE)
    if OTHER == "none":
        values = tl.load(x + row * TILE + column, mask=column < n)
    else:
        values = tl.load(x + row * TILE + column, mask=column < n, other=OTHER)
    if KIND == "sum":
        result = tl.sum(values, 0)
    elif KIND == "max":
        result = tl.max(values, 0)
    elif KIND == "min":
        result = tl.min(values, 0)
    elif KIND == "xor":
        result = tl.xor_sum(values, 0)
    elif KIND == "argmax":
        result = tl.argmax(values, 0)
    elif KIND == "argmin":
        result = tl.argmin(values, 0)
    elif KIND == "product":
        result = tl.reduce(values, 0, product)
    elif KIND == "negated":
        result = tl.reduce(values, 0, negated_sum)
    elif KIND == "either":
        result = tl.reduce(values, 0, either_bits)
    else:
        result = tl.reduce(values, 0, first_larger)
    tl.store(out + row, result)


def check_folded(kind: str, other: Any, n: int, dtype: Any = np.float32, result: Any = None) -> None:
    x = np.where(rows() == 0, 2, rows() * 0 + 1).astype(dtype) if kind == "product" else rows(dtype)
    out = np.zeros(ROWS, dtype if result is None else result)
    agree(folded, x, out, n, grid=(ROWS,), KIND=kind, OTHER=other, TILE=TILE)


@pytest.mark.parametrize("n", BOUNDS)
@pytest.mark.parametrize(
    ("kind", "other"),
    [
        ("sum", 0.0),
        ("sum", 1.0),
        ("sum", "none"),
        ("max", -INF),
        ("argmax", -INF),
        *((("sum", -0.0), ("sum", INF), ("sum", NAN), ("max", INF), ("max", 2.0), ("max", NAN), ("max", "none"))),
        *(("min", other) for other in (INF, -INF, 0.0)),
        *(("product", other) for other in (1.0, 0.0, -1.0, -INF)),
        *((("argmin", INF), ("argmax", INF), ("own", -INF), ("own", 5.0))),
    ],
)
def test_bounds_of_floats(kind: str, other: Any, n: int) -> None:
    check_folded(kind, other, n, result=np.int32 if kind.startswith("arg") else None)


@pytest.mark.parametrize("n", [0, 1, 33, TILE - 1, TILE])
@pytest.mark.parametrize(
    ("kind", "other"),
    [
        *(("xor", other) for other in (0, 5)),
        *(("negated", other) for other in (-1, 0, 2)),
        *((("either", 4), ("sum", 0), ("sum", 3), ("product", 1), ("product", 0), ("product", -1), ("max", -9))),
    ],
)
def test_bounds_of_integers(kind: str, other: int, n: int) -> None:
    check_folded(kind, other, n, np.int32)


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize(
    "dtype",
    quick_first((np.int8, np.int16, np.int64, np.uint8, np.float16, ml_dtypes.bfloat16, np.float64), (np.int64,)),
)
def test_types(dtype: Any, kind: str) -> None:
    wide = np.dtype(dtype).kind in "iu" and np.dtype(dtype).itemsize < 4 and kind == "sum"
    result = (np.uint32 if np.dtype(dtype).kind == "u" else np.int32) if wide else dtype
    for n in (0, 17, 64, TILE):
        check_folded(kind, 0, n, dtype, result)
        check_folded(kind, 1, n, dtype, result)


@jit
def moments_together(mean_a, spread_a, weight_a, mean_b, spread_b, weight_b):
    weight = weight_a + weight_b
    share = tl.where(weight == 0.0, 0.0, weight_b / weight)
    distance = mean_b - mean_a
    spread = spread_a + spread_b + distance * distance * weight_a * share
    return mean_a + distance * share, spread, weight


@jit
def moments(x, out, n, TILE: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, TILE)
    inside = column < n
    values = tl.load(x + row * TILE + column, mask=inside, other=0.0)
    counted = inside.to(tl.float32)
    mean, spread, weight = tl.reduce((values, values * 0.0, counted), 0, moments_together)
    tl.store(out + row * 3, mean)
    tl.store(out + row * 3 + 1, spread)
    tl.store(out + row * 3 + 2, weight)


@jit
def softmax(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, TILE)
    values = tl.load(x + row * TILE + column, mask=column < n, other=-float("inf"))
    parts = tl.exp(values - tl.max(values, 0))
    if WHOLE:
        tl.store(out + row * TILE + column, parts / tl.sum(parts, 0))
    else:
        tl.store(out + row * TILE + column, parts / tl.sum(parts, 0), mask=column < n)


@jit
def softmax_backwards(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    """An expensive value is stored at another lane than that where it was computed."""
    row, column = tl.program_id(0), tl.arange(0, TILE)
    values = tl.load(x + row * TILE + column, mask=column < n, other=-float("inf"))
    parts = tl.exp(values - tl.max(values, 0))
    parts = tl.flip(parts / tl.sum(parts, 0)) if WHOLE else tl.gather(parts, column ^ 255, 0) / tl.sum(parts, 0)
    tl.store(out + row * TILE + column, parts, mask=column < n)


@jit
def normed_activation(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    """A value that is expensive, under a sum, then under a sum that selects, then in the result."""
    row, column = tl.program_id(0), tl.arange(0, TILE)
    inside = column < n
    values = tl.load(x + row * TILE + column, mask=inside, other=0.0)
    values = values * tl.sigmoid(values)
    mean = tl.sum(values, 0) / n
    spread = tl.sum(tl.where(inside, (values - mean) * (values - mean), 0.0), 0) / n
    result = (values - mean) / tl.sqrt(spread + 1e-5)
    if WHOLE:
        tl.store(out + row * TILE + column, result)
    else:
        tl.store(out + row * TILE + column, result, mask=inside)


@jit
def two_bounds(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, TILE)
    left = tl.load(x + row * TILE + column, mask=column < n, other=0.0)
    right = tl.load(x + row * TILE + column, mask=column < 2 * n - 5, other=left)
    right = tl.load(x + row * TILE + column, mask=column < n // 2, other=right)
    total = tl.sum(left * 2 + right, 0)
    least = tl.min(tl.maximum(left, right), 0)
    if WHOLE:
        least += tl.sum(tl.where(column < n + 20, 1.0, 0.0), 0)
    tl.store(out + row * TILE + column, tl.exp(right - total) + least, mask=(column < n) & (column < 100))


@jit
def loaded_mask(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    """A mask that memory says does not end anywhere; with a range beside it, it does."""
    row, column = tl.program_id(0), tl.arange(0, TILE)
    chosen = tl.load(x + column) > 0
    if not WHOLE:
        chosen = chosen & (column < n)
    values = tl.load(x + row * TILE + column, mask=chosen, other=0.0)
    tl.store(out + row * TILE + column, values - tl.sum(values, 0) + tl.max(values, 0), mask=chosen)


@jit
def other_per_lane(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, TILE)
    values = tl.load(x + row * TILE + column, mask=column < n, other=(column * 2).to(tl.float32))
    shown = tl.max(values, 0) + tl.min(values, 0)
    tl.store(out + row * TILE + column, values + shown, mask=column < (TILE if WHOLE else n))


@jit
def positions(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    """Sums that depend on where the lanes are, beyond the mask too."""
    row, column = tl.program_id(0), tl.arange(0, TILE)
    inside = column < n
    values = tl.load(x + row * TILE + column, mask=inside, other=0.0)
    weighed = tl.sum(values * column if WHOLE else values + column, 0)
    tl.store(out + row * TILE + column, values + weighed + tl.max(tl.where(inside, column, -1), 0), mask=inside)


@jit
def other_of_the_row(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    """Values beyond the mask are known at run time only: a maximum may end early, a sum may not."""
    row, column = tl.program_id(0), tl.arange(0, TILE)
    beyond = tl.load(x + row)
    values = tl.load(x + row * TILE + column, mask=column < n, other=beyond)
    tl.store(out + row * 2, tl.max(values, 0))
    tl.store(out + row * 2 + 1, tl.sum(values if WHOLE else values - beyond, 0))


@jit
def indirect(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    """A load at an address that another one gives, and a bound that memory gives."""
    row, column = tl.program_id(0), tl.arange(0, TILE)
    length = tl.minimum(tl.abs(tl.load(x + row)).to(tl.int32) * 11, n)
    places = tl.load(x + row * TILE + column, mask=column < length, other=0.0).to(tl.int32) + 3
    values = tl.load(x + places, mask=column < (length + 9 if WHOLE else length), other=0.0)
    tl.store(out + row, tl.sum(values, 0) + tl.max(places, 0))


@jit
def in_a_loop(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    """Chunks of a row; behind its end whole chunks are masked off."""
    row, column = tl.program_id(0), tl.arange(0, 64)
    top, total = -float("inf"), 0.0
    for start in range(0, TILE, 64):
        values = tl.load(x + row * TILE + start + column, mask=start + column < n, other=-float("inf"))
        new = tl.maximum(top, tl.max(values, 0))
        parts = tl.sum(tl.exp(values - new), 0)
        total = total * tl.exp(top - new) + (parts if WHOLE else tl.where(new == -float("inf"), 0.0, parts))
        top = new
    tl.store(out + row * 2, top)
    tl.store(out + row * 2 + 1, total)


@jit
def bounds_per_row(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    """A tile whose rows end at different lanes, some of them off altogether."""
    row, column = tl.arange(0, 4), tl.arange(0, TILE // 2)
    ends = tl.load(x + row, mask=row < 3, other=1.0).to(tl.int32) * 7 + n
    inside = (row[:, None] < 3) & (column[None, :] < (ends[:, None] if WHOLE else n))
    places = row[:, None] * (TILE // 2) + column[None, :]
    tile = tl.load(x + places, mask=inside, other=0.0)
    mean = tl.sum(tile, 1) / 8
    centred = tl.where(inside, tile - mean[:, None], 0.0)
    tl.store(out + places, centred * tl.sum(centred * centred, 1)[:, None] + tl.max(tile, 1)[:, None], mask=inside)


@jit
def whole_tile(x, out, n, WHOLE: tl.constexpr, TILE: tl.constexpr):
    """A store of all lanes in the phase of a sum under a mask, and one of what is loaded under the mask."""
    row, column = tl.program_id(0), tl.arange(0, TILE)
    values = tl.load(x + row * TILE + column, mask=column < n, other=0.0)
    tl.store(out + row * TILE + column, values + 7)
    if WHOLE:
        tl.store(out + row * TILE, tl.sum(values, 0))


MASKED = {
    kernel.__name__: kernel
    for kernel in (
        *(softmax, softmax_backwards, normed_activation, two_bounds, loaded_mask, other_per_lane, positions),
        *(other_of_the_row, indirect, in_a_loop, bounds_per_row, whole_tile),
    )
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", MASKED)
def test_rows(name: str, *, whole: bool) -> None:
    for n in (0, 1, 15, 16, 17, 40, 128, TILE - 1, TILE, TILE + 3):
        kernel, x = MASKED[name], rows()
        out = np.full((ROWS, TILE), -8, np.float32)
        agree(kernel, x, out, n, grid=(1 if name == "bounds_per_row" else ROWS,), WHOLE=whole, TILE=TILE, rtol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 16, 40, TILE - 1, TILE])
def test_moments(n: int) -> None:
    agree(moments, rows(), np.zeros((ROWS, 3), np.float32), n, grid=(ROWS,), TILE=TILE, rtol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 16, 40])
@pytest.mark.parametrize("special", [NAN, INF, -INF, -0.0])
def test_special_values(special: float, n: int) -> None:
    """Infinities and NaN in front of the end spread as they do in whole rows; sums of -0.0 keep their sign."""
    x = np.full((ROWS, TILE), special, np.float32)
    x[1, 1:] = 1.0
    agree(softmax, x, np.full((ROWS, TILE), -8, np.float32), n, grid=(ROWS,), WHOLE=True, TILE=TILE)
    for other in (0.0, -0.0):
        out = np.ones(ROWS, np.float32)
        found = agree(folded, x, out, n, grid=(ROWS,), KIND="sum", OTHER=other, TILE=TILE)[1]
        if special == 0:
            assert bool(np.signbit(found[0])) == bool(np.signbit(other))


@jit
def signs_of_nan(x, out, n, OTHER: tl.constexpr, TILE: tl.constexpr):
    lane = tl.arange(0, TILE)
    values = tl.load(x + lane, mask=lane < n, other=OTHER)
    values = values - values if float("inf") == OTHER else -values
    tl.store(out, tl.sum((values.to(tl.int32, bitcast=True) < 0).to(tl.int32), 0))


@pytest.mark.parametrize("other", [INF, NAN])
def test_the_bits_of_nan_beyond_a_mask_count(other: float) -> None:
    x = rows(tile=4 * TILE)
    agree(signs_of_nan, x, np.zeros(1, np.int32), 40, OTHER=other, TILE=4 * TILE)


@jit
def compared_in_64_bits(x, out, n, lower: int, FURTHER: tl.constexpr, TILE: tl.constexpr):
    lane = tl.arange(0, TILE).to(tl.int64)
    tl.store(out, tl.sum(tl.load(x + lane, mask=lane <= n, other=0), 0))
    tl.store(out + 1, tl.sum(tl.load(x + lane, mask=lane + FURTHER < n, other=0), 0))
    tl.store(out + 2, tl.sum(tl.load(x + lane, mask=n >= lane - FURTHER, other=0), 0))
    tl.store(out + 3, tl.sum(tl.load(x + lane, mask=lane + lower < n, other=0), 0))


@pytest.mark.parametrize("n", [-(1 << 63), -(1 << 63) + 3, -(1 << 62), 0, 40, (1 << 62) + 1, (1 << 63) - 1])
def test_bounds_at_the_ends_of_64_bits(n: int) -> None:
    """How far a bound is from the first lane does not wrap."""
    for lower in (5, -5):
        agree(compared_in_64_bits, rows(np.int32), np.zeros(4, np.int32), n, lower, FURTHER=7, TILE=TILE)
