"""Sorts, the largest k, running sums: of whole rows, of rows far shorter than tiles, and along columns."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from peers import jax, torch
from works import empty

import tilewright as tw
import tilewright.language as tl
from foreign.problem import MATRICES, Problem, Row, Shape, normal


@tw.jit
def sort_kernel(x_ptr, out_ptr, columns, step, row_step, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * row_step + column * step, inside, float("inf"))
    tl.store(out_ptr + row * row_step + column * step, tl.sort(x), inside)


@tw.jit
def compare_and_swap(x, index, FLIP: tl.constexpr, STAGE: tl.constexpr, BLOCK: tl.constexpr):
    """One step of a bitonic sort: each element, with its index, beside its partner at a distance of 2 ** STAGE."""
    shape: tl.constexpr = [BLOCK >> (STAGE + 1), 2, 1 << STAGE]
    y, places = tl.reshape(x, shape), tl.reshape(index, shape)
    is_right = tl.arange(0, 2)[None, :, None]
    left = tl.broadcast_to(tl.sum(y * (1 - is_right), 1)[:, None, :], shape)
    right = tl.broadcast_to(tl.sum(y * is_right, 1)[:, None, :], shape)
    left_place = tl.broadcast_to(tl.sum(places * (1 - is_right), 1)[:, None, :], shape)
    right_place = tl.broadcast_to(tl.sum(places * is_right, 1)[:, None, :], shape)
    left, right = tl.reshape(left, x.shape), tl.reshape(right, x.shape)
    left_place, right_place = tl.reshape(left_place, x.shape), tl.reshape(right_place, x.shape)
    is_after = (left > right) | ((left == right) & (left_place > right_place))
    swaps = is_after != (FLIP != 0)
    bits = x.to(tl.int32, bitcast=True)
    changed = left.to(tl.int32, bitcast=True) ^ right.to(tl.int32, bitcast=True)
    x = (bits ^ tl.where(swaps, changed, 0)).to(tl.float32, bitcast=True)
    return x, index ^ tl.where(swaps, left_place ^ right_place, 0)


@tw.jit
def argsort_kernel(x_ptr, out_ptr, place_ptr, columns, LOG: tl.constexpr, BLOCK: tl.constexpr):
    row, index = tl.program_id(0), tl.arange(0, BLOCK)
    inside = index < columns
    # no infinity: a product with zero has to be zero
    x = tl.load(x_ptr + row * columns + index, inside, 3.0e38)
    at = row * columns + index
    for size in tl.static_range(1, LOG + 1):
        flip = (at - row * columns) // (1 << size) % 2 if size < LOG else tl.zeros((BLOCK,), tl.int32)
        for step in tl.static_range(size):
            x, index = compare_and_swap(x, index, flip, size - 1 - step, BLOCK)
    tl.store(out_ptr + at, x, inside)
    tl.store(place_ptr + at, index.to(tl.int64), inside)


@tw.jit
def topk_kernel(x_ptr, out_ptr, columns, K: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, column < columns, float("-inf"))
    tl.store(out_ptr + row * K + tl.arange(0, K), tl.topk(x, K))


@tw.jit
def routing_kernel(x_ptr, weight_ptr, place_ptr, columns, K: tl.constexpr, BLOCK: tl.constexpr):
    """The K largest by K maxima, and their softmax: what a mixture of experts is routed by."""
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, column < columns, float("-inf"))
    x = tl.exp(x - tl.max(x, 0))
    x = x / tl.sum(x, 0)
    for k in tl.static_range(K):
        found, place = tl.max(x, 0, return_indices=True)
        tl.store(weight_ptr + row * K + k, found)
        tl.store(place_ptr + row * K + k, place)
        x = tl.where(column == place, -1.0, x)


@tw.jit
def cumsum_rows_kernel(x_ptr, out_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    before = tl.zeros((BM, 1), tl.float32)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        inside = (row < rows) & (column < columns)
        x = tl.load(x_ptr + row * columns + column, inside, 0.0)
        tl.store(out_ptr + row * columns + column, before + tl.cumsum(x, 1), inside)
        before += tl.sum(x, 1)[:, None]


@tw.jit
def cumsum_columns_kernel(x_ptr, out_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    column = tl.program_id(0) * BN + tl.arange(0, BN)[None, :]
    before = tl.zeros((1, BN), tl.float32)
    for start in range(0, rows, BM):
        row = start + tl.arange(0, BM)[:, None]
        inside = (row < rows) & (column < columns)
        x = tl.load(x_ptr + row * columns + column, inside, 0.0)
        tl.store(out_ptr + row * columns + column, before + tl.cumsum(x, 0), inside)
        before += tl.sum(x, 0)[None, :]


def sorting(axis: int, block: int, rows: int, columns: int) -> Problem:
    x = normal(rows, columns)
    count, step, lines, row_step = (columns, 1, rows, columns) if axis else (rows, columns, columns, 1)
    block = block or tw.next_power_of_2(count)

    def launch(out: np.ndarray, threads: int) -> Any:
        return sort_kernel[(lines,)](x, out, count, step, row_step, BLOCK=block, num_threads=threads)

    return Problem(launch, empty(rows, columns), (x,), partial(np.sort, axis=axis), {
        "numpy": lambda x, out: np.sort(x, axis),
        "torch": lambda x, out: torch.sort(x, axis)[0],
        "jax": lambda x: jax.numpy.sort(x, axis),
    }, 0.0)


def argsort(rows: int, columns: int) -> Problem:
    x = normal(rows, columns)
    block = tw.next_power_of_2(columns)

    def launch(out: tuple[np.ndarray, np.ndarray], threads: int) -> Any:
        log = block.bit_length() - 1
        return argsort_kernel[(rows,)](x, *out, columns, LOG=log, BLOCK=block, num_threads=threads)

    def reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places = np.argsort(x, 1, kind="stable")
        return np.take_along_axis(x, places, 1), places

    return Problem(launch, (empty(rows, columns), np.empty((rows, columns), np.int64)), (x,), reference, {
        "numpy": lambda x, out: reference(x),
        "torch": lambda x, out: torch.sort(x, dim=1, stable=True),
    }, 0.0)


def topk(k: int, rows: int, columns: int) -> Problem:
    x, block = normal(rows, columns), tw.next_power_of_2(columns)

    def launch(out: np.ndarray, threads: int) -> Any:
        return topk_kernel[(rows,)](x, out, columns, K=k, BLOCK=block, num_threads=threads)

    return Problem(launch, empty(rows, k), (x,), lambda x: -np.sort(-x, 1)[:, :k], {
        "numpy": lambda x, out: -np.sort(np.partition(-x, k, 1)[:, :k], 1),
        "torch": lambda x, out: torch.topk(x, k)[0],
        "jax": lambda x: jax.lax.top_k(x, k)[0],
    }, 0.0)


def routing(rows: int, columns: int) -> Problem:
    x, k = normal(rows, columns), 4

    def launch(out: tuple[np.ndarray, np.ndarray], threads: int) -> Any:
        return routing_kernel[(rows,)](x, *out, columns, K=k, BLOCK=128, num_threads=threads)

    def reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        powers = np.exp(x - x.max(1, keepdims=True))
        places = np.argsort(-x, 1, kind="stable")[:, :k]
        return np.take_along_axis(powers / powers.sum(1, keepdims=True), places, 1), places

    return Problem(launch, (empty(rows, k), np.empty((rows, k), np.int64)), (x,), reference, {
        "torch": lambda x, out: torch.topk(torch.softmax(x, 1), k),
        "jax": lambda x: jax.lax.top_k(jax.nn.softmax(x, 1), k),
    })


def cumsum(axis: int, tile: tuple[int, int], rows: int, columns: int) -> Problem:
    x = normal(rows, columns)
    kernel = cumsum_rows_kernel if axis else cumsum_columns_kernel
    programs = tw.cdiv(rows, tile[0]) if axis else tw.cdiv(columns, tile[1])

    def launch(out: np.ndarray, threads: int) -> Any:
        return kernel[(programs,)](x, out, rows, columns, *tile, num_threads=threads)

    return Problem(launch, empty(rows, columns), (x,), partial(np.cumsum, axis=axis), {
        "numpy": lambda x, out: np.cumsum(x, axis, out=out),
        "torch": lambda x, out: torch.cumsum(x, axis, out=out),
        "jax": lambda x: x.cumsum(axis),
    }, 1e-4)


def rows_of(columns: int, largest: int = 1 << 24) -> tuple[Shape, Shape, Shape]:
    """Rows of so many elements; sorts of very short ones end in no memory's size."""
    return (2048 // columns, columns), ((1 << 18) // columns, columns), (largest // columns, columns)


COLUMNS: tuple[Shape, Shape, Shape] = (16, 128), (256, 1024), (1024, 16384)

ROWS = (
    Row("sort of 4 in 256", partial(sorting, 1, 256), rows_of(4, 1 << 20)),
    Row("sort of 4 in 2048", partial(sorting, 1, 2048), rows_of(4, 1 << 19)),
    Row("sort of 256", partial(sorting, 1, 0), rows_of(256)),
    Row("sort of 1000 in 1024", partial(sorting, 1, 0), ((2, 1000), (256, 1000), (16384, 1000))),
    Row("sort along columns", partial(sorting, 0, 0), COLUMNS),
    Row("sort with indices, of 128", argsort, rows_of(128, 1 << 22)),
    Row("topk, 8 of 256", partial(topk, 8), rows_of(256)),
    Row("topk, 8 of 40", partial(topk, 8), ((48, 40), (4096, 40), (400_000, 40))),
    Row("topk and softmax, 4 of 64 in 128", routing, rows_of(64)),
    Row("cumsum along rows, 1×1024", partial(cumsum, 1, (1, 1024)), MATRICES),
    Row("cumsum along rows, 16×64", partial(cumsum, 1, (16, 64)), MATRICES),
    Row("cumsum along columns, 64×32", partial(cumsum, 0, (64, 32)), MATRICES),
)
