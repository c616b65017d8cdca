"""A load sees every store before it, and stores land in program order, whatever the addresses and masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree, jit

import tilewright.language as tl

NUMBERS = np.arange(300, dtype=np.float32)
SMALL = (np.arange(64) % 7 + 1).astype(np.float32)


@jit
def half(i):
    return i // 2


@jit
def neighbour(i):
    return tl.where(i < 2, i, i - 1)


@jit
def before(i):
    return tl.maximum(i - 1, 0)


@jit
def flipped(i):
    return i ^ 32


@jit
def folded(i):
    return i % 48


@jit
def load_then_store(q, at, INDEX: tl.constexpr):
    i = tl.arange(0, 64)
    where = tl.load(at + i).to(tl.int32) if INDEX is None else INDEX(i)
    value = tl.load(q + where)
    tl.store(q + i + 7, 0.0)
    tl.store(q + 100 + i, value)


@pytest.mark.parametrize("index", [half, neighbour, before, flipped, folded, None], ids=str)
def test_a_load_at_any_address_is_not_overtaken_by_a_store(index: Any) -> None:
    agree(load_then_store, NUMBERS, SMALL, INDEX=index)


@jit
def shift_under_masks(q, x, FIRST: tl.constexpr):
    i = tl.arange(0, 64)
    held = tl.load(q + i)
    tl.store(q + i, tl.load(x + i), mask=i < FIRST)
    tl.store(q + i + FIRST, held)


@pytest.mark.parametrize("first", [0, 1, 15, 16, 63, 64])
def test_a_store_shortened_by_its_mask_says_nothing_of_other_stores(first: int) -> None:
    agree(shift_under_masks, NUMBERS, SMALL, FIRST=first)


@jit
def sum_then_values(y, x, FIRST: tl.constexpr):
    i = tl.arange(0, 64)
    value = tl.load(x + i)
    tl.store(y + i, tl.zeros((64,), tl.float32) + tl.sum(value, 0))
    tl.store(y + i, value, mask=i >= FIRST)


@pytest.mark.parametrize("first", [0, 32, 64])
def test_stores_to_one_place_keep_their_order_behind_a_reduction(first: int) -> None:
    agree(sum_then_values, NUMBERS, SMALL, FIRST=first)


@jit
def rows_then_values(y, x):
    i, j = tl.arange(0, 8)[:, None], tl.arange(0, 8)[None, :]
    value = tl.load(x + i * 8 + j)
    tl.store(y + i * 8 + j, value - tl.max(value, 1)[:, None])
    tl.store(y + i * 8 + j, value, mask=j > i)


def test_stores_to_one_place_keep_their_order_behind_a_reduction_of_rows() -> None:
    agree(rows_then_values, NUMBERS, SMALL)


@jit
def at_a_sum(q, x, KIND: tl.constexpr):
    i = tl.arange(0, 8)
    total = tl.sum(tl.load(x + i), 0).to(tl.int32)
    if KIND == "store":
        tl.store(q + total + i, 1.0)
    elif KIND == "masked store":
        tl.store(q + i, 1.0, mask=i < total - 26)
    elif KIND == "load":
        value = tl.load(q + total + i)
        tl.store(q + total + i + 1, 0.0)
        tl.store(q + i, value)
    else:
        value = tl.load(q + i, mask=i < total - 26, other=5.0)
        tl.store(q + i + 2, 0.0)
        tl.store(q + i + 50, value)


@pytest.mark.parametrize("kind", ["store", "masked store", "load", "masked load"])
def test_addresses_and_masks_that_a_reduction_gives(kind: str) -> None:
    agree(at_a_sum, NUMBERS, SMALL, KIND=kind)


@jit
def kept_in_another_shape(q, x):
    """`later` does not fit the loops that its maximum is in, and its memory is stored to before it is used."""
    i, j = tl.arange(0, 8)[:, None], tl.arange(0, 16)[None, :]
    tile = tl.load(x + tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :])
    highest = tl.max(tile, 1)
    later = tl.exp(highest[:, None] - tl.load(q + i * 16 + j))
    tl.store(q + i * 16 + j + 3, tl.sum(later, 1)[:, None] + j * 0)
    tl.store(q + 150 + j * 8 + i, later)


def test_a_value_that_is_needed_after_its_memory_has_changed() -> None:
    agree(kept_in_another_shape, NUMBERS / 64, SMALL)


@jit
def read_again(p, y, KIND: tl.constexpr):
    """The sum of the loaded values is ready when all were read, so adding it means to read them again."""
    i = tl.arange(0, 64)
    if KIND == "block":
        block = tl.make_block_ptr(p, [64], [1], [0], [64], [0])
        value = tl.load(block)
        tl.store(block, i.to(tl.float32))
    elif KIND == "descriptor":
        tensor = tl.make_tensor_descriptor(p, [64], [1], [64])
        value = tensor.load([0])
        tensor.store([0], i.to(tl.float32))
    else:
        value = tl.load(p + i)
        tl.store(p + i, i.to(tl.float32))
    if KIND == "twice":
        total = tl.sum(value - tl.min(value, 0), 0)
    else:
        total = tl.min(value, 0)
    tl.store(y + i, value + total)


@pytest.mark.parametrize("kind", ["plain", "block", "descriptor", "twice"])
def test_a_load_that_is_read_again_behind_a_store(kind: str) -> None:
    agree(read_again, NUMBERS + 3, SMALL, KIND=kind)


@jit
def rows_read_again(p, y):
    i, j = tl.arange(0, 8)[:, None], tl.arange(0, 8)[None, :]
    value = tl.load(p + i * 8 + j)
    tl.store(p + i * 8 + j + 3, j.to(tl.float32) + i)
    tl.store(y + i * 8 + j, value - tl.max(value, 1)[:, None])


def test_rows_that_are_read_again_behind_a_store() -> None:
    agree(rows_read_again, NUMBERS + 3, SMALL)


@jit
def carried_and_read_again(p, y, n):
    i = tl.arange(0, 16)
    old, other = tl.load(p + i), tl.load(p + 16 + i)
    for _ in range(n):
        new = old * 2
        total = tl.sum(other - tl.max(old, 0), 0)
        other = other + old * total
        old = new
    tl.store(y + i, old)
    tl.store(y + 16 + i, other)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_carried_tile_is_replaced_after_its_last_use(n: int) -> None:
    agree(carried_and_read_again, NUMBERS, SMALL, n)


@jit
def sum_of_repeated_rows(p, y):
    rows, columns = tl.arange(0, 8)[:, None], tl.arange(0, 8)
    tl.store(y, tl.sum(tl.load(p + (columns * 0 + rows))))


def test_a_sum_over_columns_at_one_address() -> None:
    """Each chunk of the flattened tile is one number, another one than the chunk before."""
    agree(sum_of_repeated_rows, NUMBERS, SMALL)


@jit
def unpacked(q, distance, SHAPE: tl.constexpr):
    """Pairs of elements are made of each one, perhaps where they come from."""
    i = tl.arange(0, SHAPE)
    low = tl.load(q + 64 + i // 2)
    high = tl.load(q + 64 + (i ^ 1), mask=i % 3 > 0, other=-1.0)
    tl.store(q + 64 + distance + i, low + high)


@pytest.mark.parametrize("distance", [-64, -63, -1, 0, 1, 31, 32, 33, 63, 64, 100])
def test_a_store_shares_loops_with_loads_at_any_known_index(distance: int) -> None:
    agree(unpacked, NUMBERS, distance, SHAPE=64)
