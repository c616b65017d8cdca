"""Elements that only move: chosen rows, gather and scatter, joined arrays, copies and transposes in tiles."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from peers import jax, torch
from works import empty

import tilewright as tw
import tilewright.language as tl
from foreign.problem import MATRICES, RNG, Problem, Row, normal, whole


@tw.jit
def select_flat_kernel(x_ptr, index_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    row, column = at // columns, at % columns
    chosen = tl.load(index_ptr + row, inside)
    tl.store(out_ptr + at, tl.load(x_ptr + chosen * columns + column, inside), inside)


@tw.jit
def select_tile_kernel(x_ptr, index_ptr, out_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    chosen = tl.load(index_ptr + row, row < rows)[:, None]
    inside = (row < rows)[:, None] & (column < columns)
    tl.store(out_ptr + row[:, None] * columns + column, tl.load(x_ptr + chosen * columns + column, inside), inside)


@tw.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n, columns, x0: int, x1: int, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    place = tl.load(index_ptr + at, inside)
    tl.store(out_ptr + at, tl.load(x_ptr + at // columns * x0 + place * x1, inside), inside)


@tw.jit
def scatter_kernel(x_ptr, index_ptr, out_ptr, n, columns, out0: int, out1: int, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    place = tl.load(index_ptr + at, inside)
    tl.store(out_ptr + at // columns * out0 + place * out1, tl.load(x_ptr + at, inside), inside)


@tw.jit
def permute_kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out_ptr + tl.load(index_ptr + at, inside), tl.load(x_ptr + at, inside), inside)


@tw.jit
def join_kernel(x_ptr, y_ptr, out_ptr, n, x_columns, y_columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = x_columns + y_columns
    row, column = at // columns, at % columns
    first = (at < n) & (column < x_columns)
    second = (at < n) & (column >= x_columns)
    x = tl.load(x_ptr + row * x_columns + column, first, 0.0)
    y = tl.load(y_ptr + row * y_columns + column - x_columns, second, 0.0)
    tl.store(out_ptr + at, tl.where(column < x_columns, x, y), at < n)


@tw.jit
def append_kernel(x_ptr, out_ptr, n, columns, offset, width, BLOCK: tl.constexpr):
    """One launch per array: its elements go to their columns of the joined one."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out_ptr + at // columns * width + offset + at % columns, tl.load(x_ptr + at, inside), inside)


@tw.jit
def scale_kernel(x_ptr, out_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (row < rows) & (column < columns)
    tl.store(out_ptr + row * columns + column, 2 * tl.load(x_ptr + row * columns + column, inside), inside)


@tw.jit
def transpose_kernel(x_ptr, out_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (row < rows) & (column < columns)
    tl.store(out_ptr + column * rows + row, tl.load(x_ptr + row * columns + column, inside), inside)


@tw.jit
def upper_kernel(x_ptr, out_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    inside_row = row < rows
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        inside = inside_row & (column < columns)
        x = tl.load(x_ptr + row * columns + column, inside)
        tl.store(out_ptr + row * columns + column, tl.where(column >= row, x, 0.0), inside)


SELECT: dict[str, Any] = {
    "numpy": lambda x, index, out: np.take(x, index, 0, out=out, mode="clip"),
    "torch": lambda x, index, out: torch.index_select(x, 0, index, out=out),
    "jax": lambda x, index: jax.numpy.take(x, index, 0, mode="clip"),
}


def select_flat(rows: int, columns: int) -> Problem:
    x, index, n = normal(rows, columns), whole(0, rows, rows), rows * columns

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(n, 1024),)
        return select_flat_kernel[grid](x, index, out, n, columns, BLOCK=1024, num_threads=threads)

    return Problem(launch, empty(rows, columns), (x, index), lambda x, index: x[index], SELECT)


def select_tile(tile: tuple[int, int], rows: int, columns: int) -> Problem:
    x, index = normal(rows, columns), whole(0, rows, rows)

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(rows, tile[0]), tw.cdiv(columns, tile[1]))
        return select_tile_kernel[grid](x, index, out, rows, columns, *tile, num_threads=threads)

    return Problem(launch, empty(rows, columns), (x, index), lambda x, index: x[index], SELECT)


def gather(rows: int, columns: int) -> Problem:
    x, index, n = normal(rows, columns), whole(0, columns, rows, columns), rows * columns

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(n, 1024),)
        return gather_kernel[grid](x, index, out, n, columns, columns, 1, BLOCK=1024, num_threads=threads)

    return Problem(launch, empty(rows, columns), (x, index), partial(np.take_along_axis, axis=1), {
        "numpy": lambda x, index, out: np.take_along_axis(x, index, 1),
        "torch": lambda x, index, out: torch.gather(x, 1, index, out=out),
        "jax": lambda x, index: jax.numpy.take_along_axis(x, index, 1, mode="clip"),
    })


def put_along_rows(x: np.ndarray, index: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    out = np.empty_like(x) if out is None else out
    np.put_along_axis(out, index, x, 1)
    return out


def scatter(rows: int, columns: int) -> Problem:
    """Each row is permuted."""
    x, n = normal(rows, columns), rows * columns
    index = np.ascontiguousarray(np.resize(RNG.permuted(np.tile(np.arange(columns), (16, 1)), axis=1), x.shape))

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(n, 1024),)
        return scatter_kernel[grid](x, index, out, n, columns, columns, 1, BLOCK=1024, num_threads=threads)

    return Problem(launch, empty(rows, columns), (x, index), put_along_rows, {
        "numpy": put_along_rows,
        "torch": lambda x, index, out: out.scatter_(1, index, x),
        "jax": lambda x, index: jax.numpy.put_along_axis(x, index, x, 1, inplace=False, mode="clip"),
    })


def permute(rows: int, columns: int) -> Problem:
    n = rows * columns
    x, index = normal(n), RNG.permutation(n)

    def reference(x: np.ndarray, index: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        out = np.empty_like(x) if out is None else out
        out[index] = x
        return out

    def launch(out: np.ndarray, threads: int) -> Any:
        return permute_kernel[(tw.cdiv(n, 1024),)](x, index, out, n, BLOCK=1024, num_threads=threads)

    return Problem(launch, empty(n), (x, index), reference, {
        "numpy": reference,
        "torch": lambda x, index, out: out.scatter_(0, index, x),
        "jax": lambda x, index: x.at[index].set(x, mode="promise_in_bounds"),
    })


JOIN: dict[str, Any] = {
    "numpy": lambda x, y, out: np.concatenate((x, y), 1, out=out),
    "torch": lambda x, y, out: torch.cat((x, y), 1, out=out),
    "jax": lambda x, y: jax.numpy.concatenate((x, y), 1),
}


def join_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.concatenate((x, y), 1)


def join(rows: int, columns: int) -> Problem:
    x, y = normal(rows, columns // 2), normal(rows, columns // 4)
    out = empty(rows, columns // 2 + columns // 4)
    n, widths = out.size, (columns // 2, columns // 4)

    def launch(out: np.ndarray, threads: int) -> Any:
        return join_kernel[(tw.cdiv(n, 1024),)](x, y, out, n, *widths, BLOCK=1024, num_threads=threads)

    return Problem(launch, out, (x, y), join_reference, JOIN)


def append(rows: int, columns: int) -> Problem:
    x, y = normal(rows, columns // 2), normal(rows, columns // 4)
    out = empty(rows, columns // 2 + columns // 4)

    def launch(out: np.ndarray, threads: int) -> None:
        offset = 0
        for part in (x, y):
            n, width = part.size, part.shape[1]
            grid = (tw.cdiv(n, 1024),)
            append_kernel[grid](part, out, n, width, offset, out.shape[1], BLOCK=1024, num_threads=threads)
            offset += width

    return Problem(launch, out, (x, y), join_reference, JOIN)


def tiled(kernel: Any, tile: int, rows: int, columns: int) -> Problem:
    """A copy with a factor, or a transposed one, in square tiles."""
    x = normal(rows, columns)
    is_transposed = kernel is transpose_kernel
    out = empty(columns, rows) if is_transposed else empty(rows, columns)
    grid = (tw.cdiv(rows, tile), tw.cdiv(columns, tile))

    def numpy_transpose(x: np.ndarray, out: np.ndarray) -> np.ndarray:
        np.copyto(out, x.T)
        return out

    def launch(out: np.ndarray, threads: int) -> Any:
        return kernel[grid](x, out, rows, columns, BM=tile, BN=tile, num_threads=threads)

    if is_transposed:
        return Problem(launch, out, (x,), np.transpose, {
            "numpy": numpy_transpose,
            "torch": lambda x, out: out.copy_(x.t()),
            "jax": lambda x: x.T.copy(),
        })
    return Problem(launch, out, (x,), lambda x: x * 2, {
        "numpy": lambda x, out: np.multiply(x, np.float32(2), out=out),
        "torch": lambda x, out: torch.mul(x, 2, out=out),
        "jax": lambda x: x * 2,
    })


def upper(rows: int, columns: int) -> Problem:
    x = normal(rows, columns)

    def launch(out: np.ndarray, threads: int) -> Any:
        return upper_kernel[(tw.cdiv(rows, 8),)](x, out, rows, columns, BM=8, BN=128, num_threads=threads)

    return Problem(launch, empty(rows, columns), (x,), np.triu, {
        "numpy": lambda x, out: np.triu(x),
        "torch": lambda x, out: torch.triu(x, out=out),
        "jax": lambda x: jax.numpy.triu(x),
    })


ROWS = tuple(Row(name, make, MATRICES) for name, make in {
    "index_select, // and %": select_flat,
    "index_select, 64×64": partial(select_tile, (64, 64)),
    "index_select, 1×256, rows first": partial(select_tile, (1, 256)),
    "embedding, 1×1024": partial(select_tile, (1, 1024)),
    "gather along rows": gather,
    "scatter along rows": scatter,
    "scatter, any order": permute,
    "cat of columns, // and %": join,
    "cat of columns, launch for each": append,
    "scale, 16×16": partial(tiled, scale_kernel, 16),
    "scale, 32×32": partial(tiled, scale_kernel, 32),
    "scale, 64×64": partial(tiled, scale_kernel, 64),
    "scale, 128×128": partial(tiled, scale_kernel, 128),
    "transpose, 16×16": partial(tiled, transpose_kernel, 16),
    "transpose, 32×32": partial(tiled, transpose_kernel, 32),
    "transpose, 64×64": partial(tiled, transpose_kernel, 64),
    "transpose, 128×128": partial(tiled, transpose_kernel, 128),
    "triu, 8×128": upper,
}.items())
