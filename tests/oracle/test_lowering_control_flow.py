"""Loops and branches that carry tiles, as machine code."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, jit, random_numbers

import tilewright.language as tl


@jit
def count_until(x, out, n):
    i = 0
    total = 0.0
    while i < n:
        value = tl.load(x + i)
        if value > 0:
            total += value
        else:
            total -= 1.0
        i += 1
    tl.store(out, total)


@pytest.mark.parametrize("n", [0, 1, 37])
def test_while(n: int) -> None:
    agree(count_until, random_numbers(np.float32, 37, 1), np.zeros(1, np.float32), n)


@jit
def tiles_in_branches(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tile = tl.load(x + i)
    for step in range(n):
        if step % 2 == 0:
            tile = tile + tl.sum(tile)
        else:
            tile = tile * 0.5
    tl.store(out + i, tile)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_branches_with_tiles(n: int) -> None:
    x = random_numbers(np.float32, 64, 2)
    agree(tiles_in_branches, x, np.zeros_like(x), n, B=64, rtol=1e-4)


@jit
def tiles_in_while(x, out, limit, B: tl.constexpr):
    i = tl.arange(0, B)
    tile = tl.load(x + i)
    steps = 0
    while (tl.max(tile, 0) < limit) & (steps < 50):
        tile = tile * 1.5 + tl.where(i % 2 == 0, 1.0, 0.0)
        steps += 1
    tl.store(out + i, tile)
    tl.store(out + B, steps)


def test_while_with_tiles() -> None:
    x = np.abs(random_numbers(np.float32, 32, 3))
    agree(tiles_in_while, x, np.zeros(33, np.float32), 1000.0, B=32, rtol=1e-5)


@jit
def nested(x, out, n, m, R: tl.constexpr, C: tl.constexpr):
    rows, columns = tl.arange(0, R), tl.arange(0, C)
    offsets = rows[:, None] * C + columns[None, :]
    total = tl.zeros((R, C), tl.float32)
    for i in range(n):
        row = tl.zeros((R,), tl.float32)
        for j in range(i, m):
            tile = tl.load(x + offsets) * (i - j)
            row += tl.sum(tile, 1)
            if j > 2:
                total += tile
        total += row[:, None]
    tl.store(out + offsets, total)


@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (3, 5), (1, 1)])
def test_nested_loops(n: int, m: int) -> None:
    x = np.round(random_numbers(np.float32, (8, 16), 4))
    agree(nested, x, np.zeros_like(x), n, m, R=8, C=16)


@jit
def swapping(x, y, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    for _ in range(n):
        a, b = b, a + 1
    tl.store(out + i, a)
    tl.store(out + B + i, b)


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_tiles_that_change_places(n: int) -> None:
    x, y = (random_numbers(np.int32, 64, seed) for seed in (5, 6))
    agree(swapping, x, y, np.zeros(128, np.int32), n, B=64)


@jit
def rotating(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    b = a * 2
    c = a * 3
    for _ in range(n):
        a, b, c = b, c, a + tl.sum(b) * 0
    tl.store(out + i, a)
    tl.store(out + B + i, b)
    tl.store(out + 2 * B + i, c)


@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_three_tiles_that_change_places(n: int) -> None:
    agree(rotating, random_numbers(np.int32, 32, 7), np.zeros(96, np.int32), n, B=32)


@jit
def moving_pointers(x, out, n, B: tl.constexpr):
    source = x + tl.arange(0, B)
    target = out + tl.arange(0, B)
    for step in range(n):
        tl.store(target, tl.load(source) + step)
        source += B
        if step % 2 == 1:
            target += 2 * B


@pytest.mark.parametrize("n", [0, 1, 4])
def test_pointers_that_move(n: int) -> None:
    agree(moving_pointers, random_numbers(np.float32, 32 * 4, 8), np.zeros(32 * 6, np.float32), n, B=32)


@jit
def in_place(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    for _ in range(n):
        tile = tl.load(x + i)
        tl.store(x + i + 1, tile + 1)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_memory_that_a_loop_carries(n: int) -> None:
    agree(in_place, random_numbers(np.int32, 80, 9), n, B=64)


@jit
def early(x, out, n, B: tl.constexpr):
    program = tl.program_id(0)
    if program * B >= n:
        return
    i = program * B + tl.arange(0, B)
    tile = tl.load(x + i, mask=i < n, other=0.0)
    if tl.sum(tile) > 0:
        tl.store(out + i, tile, mask=i < n)
        return
    tl.store(out + i, -tile * 2, mask=i < n)


@pytest.mark.parametrize("n", [1, 32, 70])
def test_early_returns(n: int) -> None:
    x = random_numbers(np.float32, n, 10)
    agree(early, x, np.zeros_like(x), n, B=16, grid=(8,))


@jit
def grids(out, n, B: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i = ((z * tl.num_programs(1) + y) * tl.num_programs(0) + x) * B + tl.arange(0, B)
    tl.store(out + i, x * 100 + y * 10 + z + n)


def test_three_grid_axes() -> None:
    agree(grids, np.zeros(3 * 4 * 5 * 8, np.int32), 7, B=8, grid=(3, 4, 5))


@jit
def negative_steps(x, out, n):
    total = 0
    for i in range(n, 0, -3):
        total = total * 3 + tl.load(x + i)
    tl.store(out, total)


@pytest.mark.parametrize("n", [0, 1, 2, 9, 10])
def test_loops_that_count_down(n: int) -> None:
    agree(negative_steps, np.arange(20, dtype=np.int32), np.zeros(1, np.int32), n)


@jit
def gather_in_a_branch(x, out, n, N: tl.constexpr):
    lanes = tl.arange(0, N)
    whole = lanes[:, None] * N + lanes[None, :]
    tile = tl.load(x + whole)
    if n < 0:
        tile = tl.flip(tile, 1) + 1
    else:
        tile = tile * 2
    tl.store(out + whole, tile)


@pytest.mark.parametrize("n", [-3, 3])
def test_gather_in_a_branch(n: int) -> None:
    x = random_numbers(np.float32, (16, 16), 11)
    agree(gather_in_a_branch, x, np.zeros_like(x), n, N=16)


@jit
def used_in_front_of_its_copy(x, out, n, TILE: tl.constexpr):
    """The powers go to a buffer for the branch, and the first store, which stands in front of that, reads it."""
    row, lane = tl.arange(0, 2)[:, None], tl.arange(0, TILE)[None, :]
    powers = tl.exp(tl.load(x + row * TILE + lane))
    tl.store(out + row * TILE + lane, powers - tl.sum(powers, 1, keep_dims=True))
    if n > 2:
        tl.store(out + row, tl.max(powers, 1, keep_dims=True))


def test_a_value_that_is_kept_for_a_branch_is_read_behind_its_write():
    for n in (2, 3):
        agree(used_in_front_of_its_copy, random_numbers(np.float32, 128), np.zeros(128, np.float32), n, TILE=64)


@jit
def carried_beside_its_sum(x, out, AHEAD: tl.constexpr):
    """Each turn changes a tile that is kept in a buffer, and stores what needs it, its sum, and what it was before."""
    row, lane = tl.arange(0, 8)[:, None], tl.arange(0, 16)[None, :]
    tile = tl.load(x + row * 16 + lane)
    for turn in range(2):
        before = tile
        tile = before // 2
        kept = before if AHEAD else tile
        tl.store(out + turn * 128 + row * 16 + lane, kept - tile + tile * tl.sum(tile, 1, keep_dims=True))


@pytest.mark.parametrize("ahead", [True, False])
def test_a_carried_tile_is_not_written_before_a_store_has_read_the_last_one(ahead: bool) -> None:
    """The write of the new tile cannot be over before the store's phase, so it is no row that this phase reads."""
    x = np.arange(128, dtype=np.int32) * 7 % 50
    agree(carried_beside_its_sum, x, np.zeros(256, np.int32), AHEAD=ahead)


@jit
def doubled_in_turns_and_behind(x, out, m):
    """The values behind the loop come from its results alone, and differ from chunk to chunk of a row."""
    row, lane = tl.arange(0, 8)[:, None], tl.arange(0, 32)[None, :]
    tile = tl.load(x + row + lane)
    for _ in range(3):
        tile = tl.where(row + lane < m, tile, tile + tile)
    tl.store(out + row, tl.min(tl.where((row + lane) % 2 == 0, tile, tile + tile), 1, keep_dims=True))


def test_chunks_of_rows_in_turns_of_a_loop_have_values_of_their_own() -> None:
    """Two rows go through the loop together, in front of a choice between versions of what comes behind it."""
    for place in (10, 17, 25, 31):
        x = np.ones(64, np.int8)
        x[place] = -3
        agree(doubled_in_turns_and_behind, x, np.zeros(8, np.int8), 9)
