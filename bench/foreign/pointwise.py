"""Functions of each element: strides that are never specialised, interleaved tiles, broadcasting by // and %."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from peers import jax, torch
from works import empty, error_function

import tilewright as tw
import tilewright.language as tl
from foreign.problem import MATRICES, NORMAL, Problem, Row, Shape, normal, steps, whole
from tilewright.language.extra import libdevice

WORKERS = 64
"""Max programs that share interleaved tiles."""


@tw.jit
def add_1d_kernel(x_ptr, y_ptr, out_ptr, x_step: int, y_step: int, out_step: int, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x_ptr + at * x_step, inside) + tl.load(y_ptr + at * y_step, inside)
    tl.store(out_ptr + at * out_step, total, inside)


@tw.jit
def add_2d_kernel(
    x_ptr, y_ptr, out_ptr,
    x0: int, x1: int, y0: int, y1: int, out0: int, out1: int,
    rows, columns, BM: tl.constexpr, BN: tl.constexpr,
):
    blocks = tl.cdiv(columns, BN)
    tile = tl.program_id(0)
    row = tile // blocks * BM + tl.arange(0, BM)[:, None]
    column = tile % blocks * BN + tl.arange(0, BN)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * x0 + column * x1, inside)
    y = tl.load(y_ptr + row * y0 + column * y1, inside)
    tl.store(out_ptr + row * out0 + column * out1, x + y, inside)


@tw.jit
def add_2d_interleaved_kernel(
    x_ptr, y_ptr, out_ptr,
    x0: int, x1: int, y0: int, y1: int, out0: int, out1: int,
    rows, columns, BM: tl.constexpr, BN: tl.constexpr,
):
    blocks = tl.cdiv(columns, BN)
    for tile in range(tl.program_id(0), tl.cdiv(rows, BM) * blocks, tl.num_programs(0)):
        row = tile // blocks * BM + tl.arange(0, BM)[:, None]
        column = tile % blocks * BN + tl.arange(0, BN)[None, :]
        inside = (row < rows) & (column < columns)
        x = tl.load(x_ptr + row * x0 + column * x1, inside)
        y = tl.load(y_ptr + row * y0 + column * y1, inside)
        tl.store(out_ptr + row * out0 + column * out1, x + y, inside)


@tw.jit
def add_3d_kernel(
    x_ptr, y_ptr, out_ptr,
    x0: int, x1: int, x2: int, y0: int, y1: int, y2: int, out0: int, out1: int, out2: int,
    s0, s1, s2, B0: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr,
):
    tiles1, tiles2 = tl.cdiv(s1, B1), tl.cdiv(s2, B2)
    tile = tl.program_id(0)
    i = tile // (tiles1 * tiles2) * B0 + tl.arange(0, B0)[:, None, None]
    j = tile // tiles2 % tiles1 * B1 + tl.arange(0, B1)[None, :, None]
    k = tile % tiles2 * B2 + tl.arange(0, B2)[None, None, :]
    inside = (i < s0) & (j < s1) & (k < s2)
    x = tl.load(x_ptr + i * x0 + j * x1 + k * x2, inside)
    y = tl.load(y_ptr + i * y0 + j * y1 + k * y2, inside)
    tl.store(out_ptr + i * out0 + j * out1 + k * out2, x + y, inside)


@tw.jit
def add_4d_kernel(
    x_ptr, y_ptr, out_ptr,
    x0: int, x1: int, x2: int, x3: int, y0: int, y1: int, y2: int, y3: int,
    out0: int, out1: int, out2: int, out3: int,
    s0, s1, s2, s3, B0: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, B3: tl.constexpr,
):
    tiles1, tiles2, tiles3 = tl.cdiv(s1, B1), tl.cdiv(s2, B2), tl.cdiv(s3, B3)
    tile = tl.program_id(0)
    i = tile // (tiles1 * tiles2 * tiles3) * B0 + tl.arange(0, B0)[:, None, None, None]
    j = tile // (tiles2 * tiles3) % tiles1 * B1 + tl.arange(0, B1)[None, :, None, None]
    k = tile // tiles3 % tiles2 * B2 + tl.arange(0, B2)[None, None, :, None]
    m = tile % tiles3 * B3 + tl.arange(0, B3)[None, None, None, :]
    inside = (i < s0) & (j < s1) & (k < s2) & (m < s3)
    x = tl.load(x_ptr + i * x0 + j * x1 + k * x2 + m * x3, inside)
    y = tl.load(y_ptr + i * y0 + j * y1 + k * y2 + m * y3, inside)
    tl.store(out_ptr + i * out0 + j * out1 + k * out2 + m * out3, x + y, inside)


@tw.jit
def add_flat_2d_kernel(
    x_ptr, y_ptr, out_ptr, n, columns, x0: int, x1: int, y0: int, y1: int, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    row, column = at // columns, at % columns
    x = tl.load(x_ptr + row * x0 + column * x1, inside)
    y = tl.load(y_ptr + row * y0 + column * y1, inside)
    tl.store(out_ptr + at, x + y, inside)


@tw.jit
def add_flat_4d_kernel(
    x_ptr, y_ptr, out_ptr, n, s1, s2, s3,
    x0: int, x1: int, x2: int, x3: int, y0: int, y1: int, y2: int, y3: int, BLOCK: tl.constexpr,
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    m, rest = at % s3, at // s3
    k, rest = rest % s2, rest // s2
    j, i = rest % s1, rest // s1
    x = tl.load(x_ptr + i * x0 + j * x1 + k * x2 + m * x3, inside)
    y = tl.load(y_ptr + i * y0 + j * y1 + k * y2 + m * y3, inside)
    tl.store(out_ptr + at, x + y, inside)


@tw.jit
def add_bias_kernel(x_ptr, bias_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, inside) + tl.load(bias_ptr + at % columns, inside), inside)


@tw.jit
def unary_kernel(x_ptr, out_ptr, x_step: int, out_step: int, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), tl.num_programs(0)):
        at = tile * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(out_ptr + at * out_step, FUNCTION(tl.load(x_ptr + at * x_step, inside)), inside)


@tw.jit
def masked_fill_kernel(x_ptr, mask_ptr, out_ptr, value, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    fill = tl.load(mask_ptr + at, inside).to(tl.int1)
    tl.store(out_ptr + at, tl.load(x_ptr + at, inside), inside & ~fill)
    tl.store(out_ptr + at, value, inside & fill)


@tw.jit
def absolute(x):
    return tl.abs(x)


@tw.jit
def exponential(x):
    return tl.exp(x.to(tl.float32))


@tw.jit
def gelu_erf(x):
    return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))


@tw.jit
def gelu_pow(x):
    return 0.5 * x * (1 + libdevice.tanh(0.7978845608028654 * (x + 0.044715 * libdevice.pow(x, 3.0))))


@tw.jit
def square(x):
    return libdevice.pow(x, 2.0)


@tw.jit
def root(x):
    return libdevice.pow(x, 0.5)


ADD: dict[str, Callable[..., Any]] = {
    "numpy": lambda x, y, out: np.add(x, y, out=out),
    "torch": lambda x, y, out: torch.add(x, y, out=out),
    "jax": lambda x, y: x + y,
}


def addition(launch: Callable[[Any, int], Any], x: np.ndarray, y: np.ndarray, out: np.ndarray) -> Problem:
    return Problem(launch, out, (x, y), np.add, ADD)


def add_1d(rows: int, columns: int) -> Problem:
    n = rows * columns
    x, y, out = normal(n), normal(n), empty(n)
    return addition(
        lambda out, threads: add_1d_kernel[(tw.cdiv(n, 1024),)](x, y, out, 1, 1, 1, n, BLOCK=1024, num_threads=threads),
        x, y, out,
    )


def add_tiles(kernel: Any, tile: Shape, x: np.ndarray, y: np.ndarray, workers: int = 1 << 30) -> Problem:
    """A kernel that takes strides, extents and the extents of tiles."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    out = empty(*shape)
    wide = [*steps(np.broadcast_to(x, shape), np.broadcast_to(y, shape), out), *shape, *tile]
    programs = int(np.prod([tw.cdiv(size, step) for size, step in zip(shape, tile, strict=True)]))
    grid = (min(programs, workers),)
    return addition(lambda out, threads: kernel[grid](x, y, out, *wide, num_threads=threads), x, y, out)


def add_2d(tile: Shape, rows: int, columns: int) -> Problem:
    return add_tiles(add_2d_kernel, tile, normal(rows, columns), normal(rows, columns))


def add_2d_interleaved(tile: Shape, rows: int, columns: int) -> Problem:
    return add_tiles(add_2d_interleaved_kernel, tile, normal(rows, columns), normal(rows, columns), WORKERS)


def add_transposed(rows: int, columns: int) -> Problem:
    return add_tiles(add_2d_kernel, (32, 32), normal(rows, columns), normal(columns, rows).T)


def add_3d(rows: int, columns: int) -> Problem:
    return add_tiles(add_3d_kernel, (2, 8, 64), *(normal(rows // 8, 8, columns) for _ in range(2)))


def add_4d(rows: int, columns: int) -> Problem:
    return add_tiles(add_4d_kernel, (2, 2, 4, 64), *(normal(rows // 8, 2, 4, columns) for _ in range(2)))


def add_flat(kind: str, rows: int, columns: int) -> Problem:
    """`kind`: "row" adds one row to all, "column" one column."""
    x, y = normal(rows, columns), normal(1, columns) if kind == "row" else normal(rows, 1)
    out, n, wide = empty(rows, columns), rows * columns, [*steps(x, np.broadcast_to(y, x.shape))]

    def launch(out: np.ndarray, threads: int) -> Any:
        return add_flat_2d_kernel[(tw.cdiv(n, 1024),)](x, y, out, n, columns, *wide, BLOCK=1024, num_threads=threads)

    return addition(launch, x, y, out)


def add_channels(rows: int, columns: int) -> Problem:
    """A number per channel, of images in the order N, C, H, W."""
    x, y = normal(rows // 8, 8, 8, columns // 8), normal(1, 8, 1, 1)
    out, wide = empty(*x.shape), [*steps(x, np.broadcast_to(y, x.shape))]
    grid = (tw.cdiv(x.size, 1024),)

    def launch(out: np.ndarray, threads: int) -> Any:
        return add_flat_4d_kernel[grid](x, y, out, x.size, *x.shape[1:], *wide, BLOCK=1024, num_threads=threads)

    return addition(launch, x, y, out)


def add_bias(rows: int, columns: int) -> Problem:
    x, y, out = normal(rows, columns), normal(columns), empty(rows, columns)
    n = x.size

    def launch(out: np.ndarray, threads: int) -> Any:
        return add_bias_kernel[(tw.cdiv(n, 1024),)](x, y, out, n, columns, BLOCK=1024, num_threads=threads)

    return addition(launch, x, y, out)


def unary(
    function: Any, reference: Callable[[np.ndarray], np.ndarray], peers: dict[str, Any], rows: int, columns: int
) -> Problem:
    """`function` of each element; numbers are positive where roots are taken."""
    x, n = normal(rows * columns), rows * columns
    if function is root:
        np.abs(x, out=x)
    grid = (min(tw.cdiv(n, 512), WORKERS),)

    def launch(out: np.ndarray, threads: int) -> Any:
        return unary_kernel[grid](x, out, 1, 1, n, FUNCTION=function, BLOCK=512, num_threads=threads)

    return Problem(launch, empty(n), (x,), reference, peers)


def gelu(approximate: str) -> dict[str, Any]:
    return {
        "torch": lambda x, out: torch._C._nn.gelu(x, approximate=approximate, out=out),
        "jax": lambda x: jax.nn.gelu(x, approximate=approximate == "tanh"),
    }


def gelu_tanh_reference(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))))


def gelu_erf_reference(x: np.ndarray) -> np.ndarray:
    """Each of the numbers that larger arrays repeat is computed once."""
    once = x.reshape(-1)[: NORMAL.size].astype(np.float64)
    return np.resize(0.5 * once * (1 + error_function(once / 2**0.5)), x.shape)


def power(exponent: float) -> dict[str, Any]:
    return {
        "numpy": lambda x, out: np.power(x, np.float32(exponent), out=out),
        "torch": lambda x, out: torch.pow(x, exponent, out=out),
        "jax": lambda x: jax.numpy.power(x, exponent),
    }


def same(name: str) -> dict[str, Any]:
    """A function that all have under one name."""
    return {
        "numpy": lambda x, out: getattr(np, name)(x, out=out),
        "torch": lambda x, out: getattr(torch, name)(x, out=out),
        "jax": lambda x: getattr(jax.numpy, name)(x),
    }


def masked_fill(rows: int, columns: int) -> Problem:
    x, mask, n = normal(rows, columns), whole(0, 2, rows, columns, dtype=np.uint8).view(np.bool_), rows * columns

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(n, 1024),)
        return masked_fill_kernel[grid](x, mask.view(np.uint8), out, -1.5, n, BLOCK=1024, num_threads=threads)

    return Problem(launch, empty(rows, columns), (x, mask), lambda x, mask: np.where(mask, np.float32(-1.5), x), {
        "numpy": lambda x, mask, out: np.where(mask, np.float32(-1.5), x),
        "torch": lambda x, mask, out: torch.masked_fill(x, mask, -1.5),
        "jax": lambda x, mask: jax.numpy.where(mask, -1.5, x),
    })


ROWS = tuple(Row(name, make, MATRICES) for name, make in {
    "add, 1-D steps": add_1d,
    "add, 2-D steps, 1×512": partial(add_2d, (1, 512)),
    "add, 2-D steps, 32×64": partial(add_2d, (32, 64)),
    "add, 2-D steps, 16×16": partial(add_2d, (16, 16)),
    "add, 2-D steps, 1×512, interleaved": partial(add_2d_interleaved, (1, 512)),
    "add, 2-D steps, 32×64, interleaved": partial(add_2d_interleaved, (32, 64)),
    "add, 2-D steps, one transposed": add_transposed,
    "add, 3-D steps": add_3d,
    "add, 4-D steps": add_4d,
    "add a row, // and %": partial(add_flat, "row"),
    "add a column, // and %": partial(add_flat, "column"),
    "add to channels, // and %": add_channels,
    "add a row, %": add_bias,
    "abs, interleaved": partial(unary, absolute, np.abs, same("abs")),
    "exp, interleaved": partial(unary, exponential, np.exp, same("exp")),
    "gelu erf, interleaved": partial(unary, gelu_erf, gelu_erf_reference, gelu("none")),
    "gelu tanh by pow, interleaved": partial(unary, gelu_pow, gelu_tanh_reference, gelu("tanh")),
    "pow(x, 2.0)": partial(unary, square, np.square, power(2.0)),
    "pow(x, 0.5)": partial(unary, root, np.sqrt, power(0.5)),
    "masked fill by two stores": masked_fill,
}.items())
