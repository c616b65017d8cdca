"""Memory and buffers that are changed while a kernel still needs what was there before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree, jit, random_numbers

import tilewright.language as tl


def floats(*shape: int, seed: int = 0) -> Any:
    return random_numbers(np.float32, shape, seed)


@jit
def add_transposed(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    places = x + i[:, None] * B + i[None, :]
    tile = tl.load(places)
    for _ in range(n):
        tile = tile * 0.5 + tl.trans(tile)
    tl.store(places, tile)


def test_carried_tile_and_its_transpose() -> None:
    agree(add_transposed, floats(32, 32), 3, B=32)


@jit
def add_flipped(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tile = tl.load(x + i)
    for _ in range(n):
        tile = tile + tl.flip(tile) * 2
    tl.store(x + i, tile)


def test_carried_tile_and_itself_reversed() -> None:
    agree(add_flipped, floats(32), 3, B=32)


@jit
def symmetric(x, B: tl.constexpr):
    i = tl.arange(0, B)
    places = x + i[:, None] * B + i[None, :]
    tile = tl.load(places)
    tl.store(places, tile + tl.trans(tile))


@jit
def symmetric_by_pointers(x, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.store(x + i * B + j, tl.load(x + i * B + j) + tl.load(x + i + j * B))


@pytest.mark.parametrize("kernel", [symmetric, symmetric_by_pointers])
def test_transposing_in_place(kernel: Any) -> None:
    x = floats(32, 32)
    np.testing.assert_array_equal(agree(kernel, x, B=32)[0], x + x.T)


@jit
def reverse(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + (B - 1 - i)))


@jit
def store_reversed(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + (B - 1 - i), tl.load(x + i))


@pytest.mark.parametrize("kernel", [reverse, store_reversed])
def test_reversing(kernel: Any) -> None:
    x = floats(64)
    np.testing.assert_array_equal(agree(kernel, x, floats(64, seed=1), B=64)[1], x[::-1])
    np.testing.assert_array_equal(agree(kernel, x, x, B=64)[1], x[::-1])


@jit
def load_then_loop(x, y, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tile = tl.load(x + i)
    for step in range(n):
        tl.store(y + i, tl.load(y + i) + step + 1)
    tl.store(out + i, tile)


@jit
def load_then_branch(x, y, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tile = tl.load(x + i)
    if n > 0:
        tl.store(y, 1.5)
    tl.store(out + i, tile)


@pytest.mark.parametrize("kernel", [load_then_loop, load_then_branch])
def test_loads_before_regions_that_store(kernel: Any) -> None:
    x = floats(64)
    np.testing.assert_array_equal(agree(kernel, x, x, floats(64, seed=2), 3, B=64)[2], x)


DISTANCES = (0, 1, 5, 8, 16, 33, 64, 1000, -1, -3, -16, -40)


@jit
def centre_rows(x, sums, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    places = x + i[:, None] * N + j[None, :]
    tile = tl.load(places)
    total = tl.sum(tile, 1)
    tl.store(sums + i, total, mask=total > 0)
    tl.store(places, tile - total[:, None])


@pytest.mark.parametrize("distance", DISTANCES)
def test_row_results_over_the_rows(distance: int) -> None:
    whole = floats(2000)
    agree(centre_rows, whole[200:], whole[200 + distance :], M=8, N=32)


@jit
def masked_by_loads(x, chosen, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tile, wanted = tl.load(x + i), tl.load(chosen + i) > 0
    tl.store(out + i, tile)
    tl.store(out + 1 + i, tile * 2, mask=wanted)


@pytest.mark.parametrize("distance", DISTANCES)
def test_masks_that_are_overwritten(distance: int) -> None:
    whole = floats(2000)
    agree(masked_by_loads, floats(64, seed=3), whole[200:], whole[200 + distance :], B=64)


@jit
def lower_triangle(x, out, n, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.store(out + i * B + j, tl.load(x + i * B + j) + 1, mask=(i >= j) & (j < n) & (i >= 2))


@pytest.mark.parametrize("distance", [*DISTANCES, 240, 255])
@pytest.mark.parametrize("n", [0, 3, 13, 99])
def test_masks_of_both_axes(distance: int, n: int) -> None:
    whole = floats(3000)
    agree(lower_triangle, whole[800:], whole[800 + distance :], n, B=16)


@jit
def one_address_and_many(x, places, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tile, place = tl.load(x + i), tl.load(places + i)
    tl.store(out + tl.zeros([B], tl.int32), tile)
    tl.store(out + i, tile + 1)
    tl.store(out + place, tile + 2)
    tl.store(out + B + i, tile + tl.load(x + i))
    tl.store(out + place, tl.load(out + B - 1 - i))


@pytest.mark.parametrize("distance", [0, 1, 70, 300, -1, -70])
def test_stores_of_every_kind_after_each_other(distance: int) -> None:
    whole, places = floats(2000), np.random.default_rng(0).integers(0, 128, 64).astype(np.int32)
    agree(one_address_and_many, whole[800:], places, whole[800 + distance :], B=64)


@jit
def load_then_count(x, counts, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tile = tl.load(x + i)
    tl.atomic_add(counts + i // 2, 1)
    tl.store(out + i, tile)


def test_loads_before_atomics() -> None:
    x = np.arange(64, dtype=np.int32)
    np.testing.assert_array_equal(agree(load_then_count, x, x, np.zeros_like(x), B=64)[2], x)


@jit
def stored_and_used_again(x, out):
    i = tl.arange(0, 8)
    t = tl.load(x + i)
    t = tl.where(t > 1.0, t, t * 0.5 + 2)
    t = t * 0.5 + tl.max(t)
    tl.store(x + 17 + i, t)  # nothing that is loaded later
    t = t + tl.sum(t) * 0.125
    t = tl.where(t > 1.0, t, t * 0.5 + 2)
    tl.store(out, tl.sum(t))
    tl.store(out + 1, tl.max(t))


def test_a_value_kept_for_later_is_stored_when_it_is_there() -> None:
    agree(stored_and_used_again, random_numbers(np.float32, 32, 3), np.zeros(2, np.float32))
