"""Loops along rows have a version for rows that one tile holds: what is behind such a loop joins its only turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl

Array = np.ndarray[Any, Any]

ROWS, TILE = 3, 512
EDGES = [-1, 0, 1, 40, TILE - 1, TILE, TILE + 1, 2 * TILE, 2 * TILE + 7]
"""Extents of rows: no turn, one turn, and more."""


@tw.jit
def sums(x, out, rows, columns, BN: tl.constexpr):
    row = tl.arange(0, 4)
    total = tl.zeros((4, BN), tl.float32)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        total += tl.load(x + row[:, None] * columns + column, (row < rows)[:, None] & (column < columns), 0.0)
    tl.store(out + row, tl.sum(total, 1), row < rows)


@tw.jit
def sums_of_turns(x, out, rows, columns, BN: tl.constexpr):
    """The turns are counted, and pointers move."""
    row, lane = tl.arange(0, 4), tl.arange(0, BN)[None, :]
    places, total = x + row[:, None] * columns + lane, tl.zeros((4, BN), tl.float32)
    for turn in range(tl.cdiv(columns, BN)):
        total += tl.load(places, (row < rows)[:, None] & (lane < columns - turn * BN), 0.0)
        places += BN
    tl.store(out + row, tl.sum(total, 1), row < rows)


@tw.jit
def squares_about_the_mean(x, out, rows, columns, BN: tl.constexpr):
    """Two loops with the same bounds; the second one needs what the first one has added up."""
    row, lane = tl.program_id(0), tl.arange(0, BN)
    total, squares = tl.zeros((BN,), tl.float32), tl.zeros((BN,), tl.float32)
    for start in range(0, columns, BN):
        total += tl.load(x + row * columns + start + lane, start + lane < columns, 0.0)
    mean = tl.sum(total, 0) / columns
    for start in range(0, columns, BN):
        inside = start + lane < columns
        centred = tl.where(inside, tl.load(x + row * columns + start + lane, inside, 0.0) - mean, 0.0)
        squares += centred * centred
    tl.store(out + row, tl.sum(squares, 0))


@tw.jit
def sums_and_ends(x, out, rows, columns, BN: tl.constexpr):
    """Behind the loop there is a loop with other bounds, and a branch."""
    row, lane = tl.program_id(0), tl.arange(0, BN)
    total, more = tl.zeros((BN,), tl.float32), 0.0
    for start in range(0, columns, BN):
        total += tl.load(x + row * columns + start + lane, start + lane < columns, 0.0)
    for column in range(columns - 2, columns):
        if column >= 0:
            more += tl.load(x + row * columns + column)
    tl.store(out + row, tl.sum(total, 0) + more)


@tw.jit
def in_place(x, out, rows, columns, BN: tl.constexpr):
    """Later stores change what later loads see; `out` is `x`."""
    lane = tl.arange(0, BN)
    total = tl.zeros((BN,), tl.float32)
    for start in range(0, columns, BN):
        total += tl.load(x + start + lane, start + lane < columns, 0.0)
    tl.store(out + 1, tl.sum(total, 0))
    for start in range(0, columns, BN):
        inside = start + lane < columns
        tl.store(out + start + lane, tl.load(x + start + lane, inside, 0.0) + tl.load(x + 1), inside)


KERNELS = [sums, sums_of_turns, squares_about_the_mean, sums_and_ends]


def matrix(columns: int) -> Array:
    """Small whole numbers, which add up to the same in any order."""
    drawn = np.random.default_rng(columns + 7).integers(-9, 10, (ROWS, max(columns, 0)))
    return drawn.astype(np.float32)


def expected_of(kernel: Any, x: Array) -> Array:
    if kernel is squares_about_the_mean:
        return np.asarray(((x - x.mean(1, keepdims=True)) ** 2).sum(1))
    more = x[:, -2:].sum(1) if kernel is sums_and_ends else 0
    return np.asarray(x.sum(1) + more)


def versions(kernel: Any, **constants: Any) -> tuple[str, str]:
    """The text for a single turn, and that for any number of turns."""
    x, constants = matrix(40), {"BN": TILE, **constants}
    text = kernel.warmup(x, x, ROWS, 40, grid=(1,), **constants).asm["ttcir"]
    condition, branch = text.index("arith.cmpi ule"), text.rindex("\n    } else {\n")
    assert condition < text.index("scf.if", condition) < branch
    return text[condition:branch], text[branch:]


@pytest.mark.parametrize("columns", EDGES)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_sums_are_right(kernel: Any, columns: int) -> None:
    x, out = matrix(columns), np.full(ROWS, -1, np.float32)
    grid = 1 if kernel in (sums, sums_of_turns) else ROWS
    if columns > 0 or kernel is not squares_about_the_mean:
        kernel[(grid,)](x, out, ROWS, columns, BN=TILE)
        np.testing.assert_allclose(out, expected_of(kernel, x), 1e-5)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
def test_special_numbers_count(special: float) -> None:
    for columns in (40, TILE + 40):
        x, out = matrix(columns), np.empty(ROWS, np.float32)
        x[1] = special
        sums[(1,)](x, out, ROWS, columns, BN=TILE)
        np.testing.assert_array_equal(out, x.sum(1) + 0.0)
        assert not np.signbit(out[1]) or special == -np.inf or np.isnan(special)


@pytest.mark.parametrize("columns", [edge for edge in EDGES if edge > 1])
def test_memory_that_is_written_in_between_is_read_again(columns: int) -> None:
    x = np.arange(columns, dtype=np.float32) % 5
    whole = x.sum()
    found = x.copy()
    in_place[(1,)](found, found, 1, columns, BN=TILE)
    x[1] = whole
    expected = x.copy()
    expected[:TILE] += whole
    expected[TILE:] += expected[1]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("columns", [1, TILE - 1, TILE, TILE + 1])
@pytest.mark.parametrize("kernel", [sums, sums_of_turns], ids=lambda kernel: kernel.__name__)
def test_no_lane_that_is_masked_off_touches_memory(kernel: Any, columns: int) -> None:
    for x in between_guards(ROWS * columns, np.float32):
        x[:], out = 1, np.empty(ROWS, np.float32)
        kernel[(1,)](x, out, ROWS, columns, BN=TILE)
        assert (out == columns).all()


@pytest.mark.parametrize(("kernel", "loops"), [*((k, 0) for k in KERNELS[:3]), (sums_and_ends, 1), (in_place, 0)])
def test_a_single_turn_is_no_loop(kernel: Any, loops: int) -> None:
    """The values that the loop carried are in no buffer."""
    single, general = versions(kernel)
    assert single.count("scf.for") == loops
    assert general.count("scf.for") > loops
    whole_rows = f"{TILE}xf32>, 5>"
    assert single.count(whole_rows) < general.count(whole_rows)


@tw.jit
def stepping(x, out, rows, columns, step, BN: tl.constexpr):
    lane = tl.arange(0, BN)
    total = tl.zeros((BN,), tl.float32)
    for start in range(0, columns, step):
        total += tl.load(x + start + lane, start + lane < columns, 0.0)
    tl.store(out + lane, total)


@tw.jit
def long(x, out, rows, columns, BN: tl.constexpr):
    lane = tl.arange(0, BN)
    total = tl.zeros((BN,), tl.float32)
    for start in range(0, columns, BN):
        total += tl.load(x + start + lane, start + lane < columns, 0.0)
    for number in tl.static_range(70):
        total = tl.where(total > number, total * 0.5, total)
    tl.store(out + lane, total)


@tw.jit
def down_columns(x, out, rows, columns, BN: tl.constexpr):
    """Turns read rows one after the other, as they lie in memory."""
    row, lane = tl.arange(0, 8)[:, None], tl.arange(0, BN)[None, :]
    total = tl.zeros((8, BN), tl.float32)
    for start in range(0, rows, 8):
        total += tl.load(x + (start + row) * columns + lane, (start + row < rows) & (lane < columns), 0.0)
    tl.store(out + tl.arange(0, BN), tl.sum(total, 0))


@pytest.mark.parametrize(
    ("kernel", "numbers", "tile"),
    [
        (sums, (ROWS, 40), 32),
        (stepping, (ROWS, 40, 8), TILE),
        (long, (ROWS, 40), TILE),
        (down_columns, (ROWS, 40), TILE),
    ],
    ids=["rows that registers hold", "a step that the run tells", "much code", "down columns"],
)
def test_other_loops_have_one_version(kernel: Any, numbers: tuple[int, ...], tile: int) -> None:
    x = matrix(40)
    text = kernel.warmup(x, x, *numbers, BN=tile, grid=(1,)).asm["ttcir"]
    assert "arith.cmpi ule" not in text
