"""Tiles whose first axis lies along memory are turned, and compute what they did."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import run_here
from tilewright.backends.cpu.transpose_tiles import transpose_tiles
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

ROWS, COLUMNS = 37, 96
CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")


def sums(x, out, places, rows, columns, X: tl.constexpr, R: tl.constexpr):
    """Sums over the rows of a matrix, carried as tiles."""
    j, r = tl.program_id(0) * X + tl.arange(0, X)[:, None], tl.arange(0, R)[None, :]
    total = tl.full([X, R], 0, tl.float32)
    for first in range(0, rows, R):
        is_row = (first + r < rows) & (j < columns)
        tile = tl.load(x + (first + r) * columns + j, is_row, other=0)
        total = tl.where(is_row, total + tile, total)
    tl.store(out + j, tl.sum(total, 1)[:, None], j < columns)


def weighted(x, out, places, rows, columns, X: tl.constexpr, R: tl.constexpr):
    """Sums of rows with a weight each, whose tile lies along the axis of the rows."""
    j, r = tl.program_id(0) * X + tl.arange(0, X)[:, None], tl.arange(0, R)[None, :]
    total = tl.full([X, R], 0, tl.float32)
    for first in range(0, rows, R):
        is_row = (first + r < rows) & (j < columns)
        weight = tl.load(x + first + r, first + r < rows, other=0)
        total += tl.load(x + (first + r) * columns + j, is_row, other=0) * weight
    tl.store(out + j, tl.sum(total, 1)[:, None], j < columns)


def places_of_maxima(x, out, places, rows, columns, X: tl.constexpr, R: tl.constexpr):
    """The first place of the greatest number of each column, by pointers that move."""
    j, r = tl.program_id(0) * X + tl.arange(0, X)[:, None], tl.arange(0, R)[None, :]
    best, place = tl.full([X, 1], float("-inf"), tl.float32), tl.zeros([X, 1], tl.int32)
    pointers = x + j + r * columns
    for first in range(0, rows, R):
        tile = tl.load(pointers, mask=(j < columns) & (first + r < rows), other=float("-inf"))
        value, at = tl.max(tile, 1, return_indices=True)
        is_better = value[:, None] > best
        best, place = tl.where(is_better, value[:, None], best), tl.where(is_better, first + at[:, None], place)
        pointers += R * columns
    tl.store(out + j, best, j < columns)
    tl.store(places + j, place, j < columns)


def running(x, out, places, rows, columns, X: tl.constexpr, R: tl.constexpr):
    """Sums of all rows down to each, in a branch."""
    j, r = tl.program_id(0) * X + tl.arange(0, X)[:, None], tl.arange(0, R)[None, :]
    before = tl.zeros([X], tl.float32)
    first = 0
    while first < rows:
        inside = (j < columns) & (first + r < rows)
        tile = tl.load(x + (first + r) * columns + j, inside, other=0)
        if first % (2 * R) == 0:
            tile = tile * 2
        tl.store(out + (first + r) * columns + j, tl.cumsum(tile, 1) + before[:, None], inside)
        before += tl.sum(tile, 1)
        first += R


def random_numbers(x, out, places, rows, columns, X: tl.constexpr, R: tl.constexpr):
    j, r = tl.program_id(0) * X + tl.arange(0, X)[:, None], tl.arange(0, R)[None, :]
    drawn = tl.rand(7, r * columns + j)
    tl.store(out + r * columns + j, tl.where(drawn > 0.5, drawn, 1), (j < columns) & (r < rows))


def sums_of_images(x, out, places, rows, columns, X: tl.constexpr, R: tl.constexpr):
    """Sums over the rows of three parts of a matrix, in tiles of three axes."""
    y, j, r = tl.arange(0, 4)[:, None, None], tl.arange(0, X)[None, :, None], tl.arange(0, R)[None, None, :]
    j += tl.program_id(0) * X
    part = rows // 3
    total = tl.full([4, X, R], 0, tl.float32)
    for first in range(0, part, R):
        inside = (first + r < part) & (j < columns) & (y < 3)
        tile = tl.load(x + (y * part + first + r) * columns + j, inside, other=0)
        total = tl.where(inside, total + tile * (y + 1), total)
    tl.store(out + y * columns + j, tl.sum(total, 2)[:, :, None], (j < columns) & (y < 3))


def sums_of_two_axes(x, out, places, rows, columns, X: tl.constexpr, R: tl.constexpr):
    """Sums over two axes of three, as torch has them: their tile is reshaped, and axes of one element come last."""
    j, r = tl.program_id(0) * X + tl.arange(0, X)[:, None, None], tl.arange(0, R)[None, None, :]
    y = tl.arange(0, 4)[None, :, None]
    inside = (r < rows // 4) & (j < columns) & (y < 4)
    tile = tl.load(x + (y * (rows // 4) + r) * columns + j, inside, other=0)
    both = tl.reshape(tl.where(inside, tile, 0), [X, 4 * R])
    place = tl.reshape(tl.broadcast_to(y * R + r, [X, 4, R]), [X, 4 * R])
    tl.store(out + j, tl.sum(both, 1)[:, None, None] / 2, j < columns)
    _, last = tl.reduce((both, place), 1, greater)
    tl.store(places + j, last[:, None, None], j < columns)


@tw.jit
def greater(a, i, b, j):
    is_first = (a > b) | ((a == b) & (i < j))
    return tl.where(is_first, a, b), tl.where(is_first, i, j)


def run(kernel: Callable[..., None], x: np.ndarray, tile: tuple[int, int]) -> tuple[list[np.ndarray], str]:
    """Run a kernel on `x`: the arrays that it stores to, and its text as `ttcir`."""
    out, places = np.full_like(x, -5), np.full(COLUMNS, -5, np.int32)
    grid = (tw.cdiv(COLUMNS, tile[0]),)
    compiled = tw.jit(kernel)[grid](x, out, places, ROWS, COLUMNS, X=tile[0], R=tile[1])
    return [out, places], compiled.asm["ttcir"]


KERNELS = (sums, weighted, sums_of_images, sums_of_two_axes, places_of_maxima, running, random_numbers)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("tile", [(8, 4), (64, 16), (16, 64), (32, 1)])
@pytest.mark.parametrize("cpu", CPUS)
def test_turned_tiles_compute_the_same(
    kernel: Callable[..., None], tile: tuple[int, int], cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(sum(tile))
    x = rng.integers(-9, 9, (ROWS, COLUMNS)).astype(np.float32)
    x[5, 7], x[9, 8] = np.inf, -np.inf
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    found, text = run(kernel, x, tile)
    monkeypatch.setattr("tilewright.backends.cpu.pipeline.transpose_tiles", lambda module: False)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    expected, before = run(kernel, x, tile)
    for array, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(array, wanted)
    first, last = tile
    turned = f"tensor<{'4x' if kernel in (sums_of_images, sums_of_two_axes) else ''}{last}x{first}x"
    assert turned in text
    assert turned not in before


def product(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tile = tl.load(x + i + j * N)
    tl.store(out + i + j * N, tl.dot(tile, tile))


def by_rows(x, out, N: tl.constexpr):
    """One of two tiles lies along the last axis."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i * N + j, tl.load(x + i + j * N))


def reshaped(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + tl.arange(0, N * N), tl.reshape(tl.load(x + i + j * N), [N * N]))


def of_three_axes(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tile = tl.load(x + i + j * N)
    tl.store(out + i + j * N, tl.sum(tile[:, :, None] * tl.arange(0, 2)[None, None, :], 2))


def added(x, out, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.atomic_add(out + i + j * N, tl.load(x + i + j * N))


def of_packs(x, out, N: tl.constexpr):
    """Packs are neighbours along the last axis."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tile = tl.load(x + i + j * N).to(tl.float16)
    packed = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tile], tl.float16, is_pure=True, pack=2)
    tl.store(out + i + j * N, packed.to(tl.float32))


def of_short_columns(x, out, N: tl.constexpr):
    i, j = tl.arange(0, 4)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i + j * 4, tl.load(x + i + j * 4) + 1)


def on_diagonals(x, out, N: tl.constexpr):
    """Elements of one diagonal have one place, where the last one stays."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out + i + 2 * j, tl.load(x + i + j * N))


def by_index(x, out, N: tl.constexpr):
    """Two columns may have one place."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)
    place = tl.load(x + j).to(tl.int32)
    tl.store(out + i + place[None, :], tl.load(x + i + j[None, :] * N))


def across_two(x, out, N: tl.constexpr):
    """The tile that is left has two axes, of which the last would be the first."""
    i, j, k = tl.arange(0, 4)[:, None, None], tl.arange(0, N)[None, :, None], tl.arange(0, 4)[None, None, :]
    summed = tl.sum(tl.load(x + i * 4 * N + k * N + j), 0)
    tl.store(out + tl.arange(0, N)[:, None] + tl.arange(0, 4)[None, :] * N, summed)


def merged(x, out, N: tl.constexpr):
    """The reshaped tile is more than a sum."""
    j, y, r = tl.arange(0, N)[:, None, None], tl.arange(0, 4)[None, :, None], tl.arange(0, 4)[None, None, :]
    both = tl.reshape(tl.load(x + j + (y * 4 + r) * N), [N, 16])
    tl.store(out + tl.arange(0, N)[:, None] + tl.arange(0, 16)[None, :] * N, both * 2)


def merged_running(x, out, N: tl.constexpr):
    """The reshaped tile is added up step by step."""
    j, y, r = tl.arange(0, N)[:, None, None], tl.arange(0, 4)[None, :, None], tl.arange(0, 4)[None, None, :]
    both = tl.cumsum(tl.reshape(tl.load(x + j + (y * 4 + r) * N), [N, 16]), 1)
    tl.store(out + tl.arange(0, N)[:, None] + tl.arange(0, 16)[None, :] * N, both)


def merged_with_first(x, out, N: tl.constexpr):
    """The axis that lies along memory is part of the merged one."""
    j, y, r = tl.arange(0, N)[:, None, None], tl.arange(0, 4)[None, :, None], tl.arange(0, 4)[None, None, :]
    tl.store(out + tl.arange(0, 4), tl.sum(tl.reshape(tl.load(x + j + (y * 4 + r) * N), [N * 4, 4]), 0))


def merged_with_others(x, out, N: tl.constexpr):
    """A tile that is reduced together with the reshaped one is no such tile."""
    j, y, r = tl.arange(0, N)[:, None, None], tl.arange(0, 4)[None, :, None], tl.arange(0, 4)[None, None, :]
    both = tl.reshape(tl.load(x + j + (y * 4 + r) * N), [N, 16])
    place = tl.broadcast_to(tl.arange(0, 16)[None, :], [N, 16])
    most, last = tl.reduce((both, place), 1, greater)
    tl.store(out + tl.arange(0, N), most + last)


OTHERS = (product, by_rows, reshaped, of_three_axes, added, of_packs, of_short_columns, across_two, on_diagonals)


@pytest.mark.parametrize(
    "kernel",
    [*OTHERS, by_index, merged, merged_running, merged_with_first, merged_with_others],
    ids=lambda k: k.__name__,
)
@code_on("znver5")
def test_other_kernels_keep_their_tiles(kernel: Callable[..., None]) -> None:
    x = np.arange(256, dtype=np.float32)
    ttir = tw.jit(kernel).warmup(x, x, N=16, grid=(1,)).asm["ttir"]
    assert transpose_tiles(parse_module(ttir)) is False


def hinted(x, out):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 4)[None, :]
    places = tl.max_contiguous(i + j * 16, [16, 1])
    tl.store(out + tl.arange(0, 4), tl.sum(tl.load(x + places), 0))


def test_hints_and_axes_change_with_the_tiles() -> None:
    x, out = np.arange(64, dtype=np.float32), np.zeros(4, np.float32)
    ttir = tw.jit(hinted).warmup(x, out, grid=(1,)).asm["ttir"]
    assert "tt.contiguity = dense<[16, 1]>" in ttir
    module = parse_module(ttir)
    assert transpose_tiles(module)
    verify(module)
    text = print_op(module)
    assert "tt.contiguity = dense<[1, 16]>" in text
    assert "axis = 1 : i32}> (" in text
    run_ir(module, [x, out], (1, 1))
    np.testing.assert_array_equal(out, x.reshape(4, 16).sum(1))
    assert transpose_tiles(module) is False, "they lie along the last axis now"
