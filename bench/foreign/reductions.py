"""Sums along each axis, matrix × vector, softmax and norms: also in tiles of 25 times the row, and one per program."""

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
def sum_rows_kernel(x_ptr, out_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        inside = (row < rows)[:, None] & (column < columns)
        total += tl.load(x_ptr + row[:, None] * columns + column, inside, 0.0)
    tl.store(out_ptr + row, tl.sum(total, 1), row < rows)


@tw.jit
def sum_columns_kernel(x_ptr, out_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, rows, BM):
        row = start + tl.arange(0, BM)[:, None]
        inside = (row < rows) & (column < columns)[None, :]
        total += tl.load(x_ptr + row * columns + column[None, :], inside, 0.0)
    tl.store(out_ptr + column, tl.sum(total, 0), column < columns)


@tw.jit
def sum_middle_kernel(x_ptr, out_ptr, s1, s2, B1: tl.constexpr, B2: tl.constexpr):
    i, k = tl.program_id(0), tl.program_id(1) * B2 + tl.arange(0, B2)[None, :]
    total = tl.zeros((B1, B2), tl.float32)
    for start in range(0, s1, B1):
        j = start + tl.arange(0, B1)[:, None]
        total += tl.load(x_ptr + (i * s1 + j) * s2 + k, (j < s1) & (k < s2), 0.0)
    tl.store(out_ptr + i * s2 + k, tl.sum(total, 0)[None, :], k < s2)


@tw.jit
def partial_sums_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + at, at < n, 0.0), 0))


@tw.jit
def argmax_kernel(x_ptr, out_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    best = tl.full((BM,), float("-inf"), tl.float32)
    place = tl.zeros((BM,), tl.int64)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        inside = (row < rows)[:, None] & (column < columns)
        x = tl.load(x_ptr + row[:, None] * columns + column, inside, float("-inf"))
        found, at = tl.max(x, 1, return_indices=True)
        place = tl.where(found > best, start + at, place)
        best = tl.maximum(best, found)
    tl.store(out_ptr + row, place, row < rows)


@tw.jit
def matrix_vector_kernel(
    a_ptr, x_ptr, out_ptr, rows, columns, a0: int, a1: int, x0: int, out0: int, BM: tl.constexpr, BN: tl.constexpr
):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        a = tl.load(a_ptr + row * a0 + column * a1, (row < rows) & (column < columns), 0.0).to(tl.float32)
        total += a * tl.load(x_ptr + column * x0, column < columns, 0.0).to(tl.float32)
    tl.store(out_ptr + row * out0, tl.sum(total, 1)[:, None], row < rows)


@tw.jit
def softmax_kernel(x_ptr, out_ptr, columns, LOG: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, column < columns, float("-inf"))
    x -= tl.max(x, 0)
    total = tl.sum(tl.exp(x), 0)
    result = x - tl.log(total) if LOG else tl.exp(x) / total
    tl.store(out_ptr + row * columns + column, result, column < columns)


@tw.jit
def softmax_inner_kernel(x_ptr, out_ptr, rows, columns, inner, LOG: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Along the middle of three axes: a program has some rows and one place of the inner axis."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.arange(0, BN)[None, :]
    at = row * columns * inner + column * inner + tl.program_id(1)
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + at, inside, float("-inf")).to(tl.float32)
    x = x - tl.max(x, 1)[:, None]
    total = tl.sum(tl.exp(x), 1)[:, None]
    tl.store(out_ptr + at, x - tl.log(total) if LOG else tl.exp(x) / total, inside)


@tw.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, scale_ptr, rows, columns, eps, BM: tl.constexpr, BN: tl.constexpr
):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.arange(0, BN)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column, inside, 0.0)
    mean = tl.sum(x, 1)[:, None] / columns
    centred = tl.where(inside, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 1)[:, None] / columns + eps)
    weight, bias = tl.load(weight_ptr + column, column < columns), tl.load(bias_ptr + column, column < columns)
    tl.store(out_ptr + row * columns + column, centred * scale * weight + bias, inside)
    tl.store(mean_ptr + row, mean, row < rows)
    tl.store(scale_ptr + row, scale, row < rows)


@tw.jit
def var_mean_kernel(x_ptr, var_ptr, mean_ptr, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    total, squares = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    for start in range(0, columns, BN):
        column = start + tl.arange(0, BN)[None, :]
        x = tl.load(x_ptr + row * columns + column, (row < rows) & (column < columns), 0.0)
        total += x
        squares += x * x
    mean = tl.sum(total, 1)[:, None] / columns
    variance = (tl.sum(squares, 1)[:, None] - columns * mean * mean) / (columns - 1)
    tl.store(mean_ptr + row, mean, row < rows)
    tl.store(var_ptr + row, variance, row < rows)


def sum_over(axis: int) -> dict[str, Any]:
    return {
        "numpy": lambda x, out: np.sum(x, axis, out=out),
        "torch": lambda x, out: torch.sum(x, axis, out=out),
        "jax": lambda x: x.sum(axis),
    }


def sum_rows(tile: tuple[int, int], rows: int, columns: int) -> Problem:
    x = normal(rows, columns)

    def launch(out: np.ndarray, threads: int) -> Any:
        return sum_rows_kernel[(tw.cdiv(rows, tile[0]),)](x, out, rows, columns, *tile, num_threads=threads)

    return Problem(launch, empty(rows), (x,), partial(np.sum, axis=1), sum_over(1))


def sum_columns(tile: tuple[int, int], rows: int, columns: int) -> Problem:
    x = normal(rows, columns)

    def launch(out: np.ndarray, threads: int) -> Any:
        return sum_columns_kernel[(tw.cdiv(columns, tile[1]),)](x, out, rows, columns, *tile, num_threads=threads)

    return Problem(launch, empty(columns), (x,), partial(np.sum, axis=0), sum_over(0), 1e-4)


def sum_middle(rows: int, columns: int) -> Problem:
    x = normal(rows // 8, columns // 2, 16)

    def launch(out: np.ndarray, threads: int) -> Any:
        return sum_middle_kernel[(rows // 8, 1)](x, out, *x.shape[1:], B1=64, B2=32, num_threads=threads)

    return Problem(launch, empty(rows // 8, 16), (x,), partial(np.sum, axis=1), sum_over(1))


def sum_all(rows: int, columns: int) -> Problem:
    """Two launches, the first of as many programs as the square root of the number of elements."""
    x, n = normal(rows * columns), rows * columns
    block = tw.next_power_of_2(round(n**0.5))
    parts = tw.cdiv(n, block)

    def launch(out: tuple[np.ndarray, np.ndarray], threads: int) -> None:
        total, sums = out
        partial_sums_kernel[(parts,)](x, sums, n, BLOCK=block, num_threads=threads)
        partial_sums_kernel[(1,)](sums, total, parts, BLOCK=tw.next_power_of_2(parts), num_threads=threads)

    sums = empty(parts)
    return Problem(lambda out, threads: launch((out, sums), threads), empty(1), (x,), lambda x: x.sum(keepdims=True), {
        "numpy": lambda x, out: np.sum(x, 0, out=out, keepdims=True),
        "torch": lambda x, out: torch.sum(x, 0, keepdim=True, out=out),
        "jax": lambda x: x.sum(keepdims=True),
    }, 1e-3)


def argmax(rows: int, columns: int) -> Problem:
    x = normal(rows, columns)

    def launch(out: np.ndarray, threads: int) -> Any:
        return argmax_kernel[(tw.cdiv(rows, 8),)](x, out, rows, columns, BM=8, BN=128, num_threads=threads)

    return Problem(launch, np.empty(rows, np.int64), (x,), partial(np.argmax, axis=1), {
        "numpy": lambda x, out: np.argmax(x, 1, out=out),
        "torch": lambda x, out: torch.argmax(x, 1, out=out),
        "jax": lambda x: jax.numpy.argmax(x, 1),
    }, 0.0)


def matrix_vector(tile: tuple[int, int], rows: int, columns: int) -> Problem:
    a, x = normal(rows, columns), normal(columns)

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(rows, tile[0]),)
        return matrix_vector_kernel[grid](a, x, out, rows, columns, columns, 1, 1, 1, *tile, num_threads=threads)

    return Problem(launch, empty(rows), (a, x), np.matmul, {
        "numpy": lambda a, x, out: np.matmul(a, x, out=out),
        "torch": lambda a, x, out: torch.mv(a, x, out=out),
        "jax": lambda a, x: a @ x,
    })


def log_softmax_reference(x: np.ndarray, axis: int = 1) -> np.ndarray:
    x = x - x.max(axis, keepdims=True)
    return np.asarray(x - np.log(np.exp(x).sum(axis, keepdims=True)))


def softmax_reference(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(log_softmax_reference(x)))


def softmax_peers(axis: int, *, is_log: bool) -> dict[str, Any]:
    name = "log_softmax" if is_log else "softmax"
    return {
        "torch": lambda x, out: getattr(torch, name)(x, axis, out=out),
        "jax": lambda x: getattr(jax.nn, name)(x, axis),
    }


def softmax(block: int, is_log: bool, rows: int, columns: int) -> Problem:
    """`block`: extent of the tile, if not as of the row."""
    x, block = normal(rows, columns), block or tw.next_power_of_2(columns)

    def launch(out: np.ndarray, threads: int) -> Any:
        return softmax_kernel[(rows,)](x, out, columns, LOG=is_log, BLOCK=block, num_threads=threads)

    reference = log_softmax_reference if is_log else softmax_reference
    return Problem(launch, empty(rows, columns), (x,), reference, softmax_peers(1, is_log=is_log))


def log_softmax_inner(rows: int, columns: int) -> Problem:
    x = normal(rows, columns // 8, 8)
    tile = (8, tw.next_power_of_2(columns // 8))

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(rows, 8), 8)
        return softmax_inner_kernel[grid](x, out, rows, columns // 8, 8, True, *tile, num_threads=threads)

    return Problem(launch, empty(*x.shape), (x,), log_softmax_reference, softmax_peers(1, is_log=True))


def layer_norm(tile: tuple[int, int], rows: int, columns: int) -> Problem:
    x, weight, bias = normal(rows, columns), normal(columns), normal(columns)

    def launch(out: tuple[np.ndarray, ...], threads: int) -> Any:
        grid = (tw.cdiv(rows, tile[0]),)
        return layer_norm_kernel[grid](x, weight, bias, *out, rows, columns, 1e-5, *tile, num_threads=threads)

    def reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, ...]:
        mean, scale = x.mean(1, keepdims=True), 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return (x - mean) * scale * weight + bias, mean, scale

    def jax_norm(x: Any, weight: Any, bias: Any) -> Any:
        mean, scale = x.mean(1, keepdims=True), jax.lax.rsqrt(x.var(1, keepdims=True) + 1e-5)
        return (x - mean) * scale * weight + bias, mean, scale

    out = (empty(rows, columns), empty(rows, 1), empty(rows, 1))
    return Problem(launch, out, (x, weight, bias), reference, {
        "torch": lambda x, weight, bias, out: torch.native_layer_norm(x, [columns], weight, bias, 1e-5),
        "jax": jax_norm,
    }, 1e-4)


def var_mean(rows: int, columns: int) -> Problem:
    x = normal(rows, columns)

    def launch(out: tuple[np.ndarray, np.ndarray], threads: int) -> Any:
        return var_mean_kernel[(tw.cdiv(rows, 4),)](x, *out, rows, columns, BM=4, BN=256, num_threads=threads)

    return Problem(launch, (empty(rows), empty(rows)), (x,), lambda x: (x.var(1, ddof=1), x.mean(1)), {
        "numpy": lambda x, out: (np.var(x, 1, ddof=1), np.mean(x, 1)),
        "torch": lambda x, out: torch.var_mean(x, 1),
        "jax": lambda x: (x.var(1, ddof=1), x.mean(1)),
    }, 1e-4)


NARROW: tuple[Shape, Shape, Shape] = (48, 40), (4096, 40), (400_000, 40)
"""Rows far shorter than tiles."""

ROWS = tuple(Row(name, make, MATRICES) for name, make in {
    "sum along rows, 4×1024": partial(sum_rows, (4, 1024)),
    "sum along rows, 32×64": partial(sum_rows, (32, 64)),
    "sum along columns, 32×32": partial(sum_columns, (32, 32)),
    "sum along columns, 8×128": partial(sum_columns, (8, 128)),
    "sum along a middle axis, 64×32": sum_middle,
    "sum of all, √n programs": sum_all,
    "argmax along rows, 8×128": argmax,
    "matrix × vector, 32×64": partial(matrix_vector, (32, 64)),
    "matrix × vector, 64×16": partial(matrix_vector, (64, 16)),
    "softmax": partial(softmax, 0, False),
    "log_softmax": partial(softmax, 0, True),
    "log_softmax along a middle axis": log_softmax_inner,
    "var_mean, 4×256": var_mean,
}.items()) + tuple(Row(name, make, NARROW) for name, make in {
    "softmax of 40 in 1024": partial(softmax, 1024, False),
    "log_softmax of 40 in 8192": partial(softmax, 8192, True),
    "layer norm of 40 in 1×1024": partial(layer_norm, (1, 1024)),
    "layer norm of 40 in 4×1024": partial(layer_norm, (4, 1024)),
    "sum along 40 in 8×1024": partial(sum_rows, (8, 1024)),
}.items())
