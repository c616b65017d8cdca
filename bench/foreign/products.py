"""Products as others tile them: strides that are never specialised, batched, grouped and ragged ones, convolutions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from peers import jax, torch
from works import empty

import tilewright as tw
import tilewright.language as tl
from foreign.problem import Problem, Row, Shape, normal, steps


@tw.jit
def matmul_kernel(
    a_ptr, b_ptr, bias_ptr, out_ptr, m, n, k,
    a0: int, a1: int, b0: int, b1: int, out0: int, out1: int,
    HAS_BIAS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    blocks = tl.cdiv(n, BN)
    row = tl.program_id(0) // blocks * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(0) % blocks * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        left, right = start + tl.arange(0, BK)[None, :], start + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + row * a0 + left * a1, (row < m) & (left < k), 0.0)
        b = tl.load(b_ptr + right * b0 + column * b1, (right < k) & (column < n), 0.0)
        total += tl.dot(a, b, allow_tf32=False)
    if HAS_BIAS:
        total += tl.load(bias_ptr + column, column < n)
    tl.store(out_ptr + row * out0 + column * out1, total.to(out_ptr.dtype.element_ty), (row < m) & (column < n))


@tw.jit
def batched_kernel(a_ptr, b_ptr, out_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    batch = tl.program_id(2)
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    a_ptr, b_ptr, out_ptr = a_ptr + batch * m * k, b_ptr + batch * k * n, out_ptr + batch * m * n
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(tl.cdiv(k, BK)):
        left, right = start * BK + tl.arange(0, BK)[None, :], start * BK + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + row * k + left, (row < m) & (left < k), 0.0)
        b = tl.load(b_ptr + right * n + column, (right < k) & (column < n), 0.0)
        total += tl.dot(a, b, allow_tf32=False)
    tl.store(out_ptr + row * n + column, total, (row < m) & (column < n))


@tw.jit
def grouped_kernel(
    a_ptr, b_ptr, out_ptr, block_group_ptr, block_start_ptr, ends_ptr, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    """Each block of rows belongs to one group, which has a right matrix of its own."""
    group = tl.load(block_group_ptr + tl.program_id(0))
    row = tl.load(block_start_ptr + tl.program_id(0)) + tl.arange(0, BM)[:, None]
    inside = row < tl.load(ends_ptr + group)
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        left, right = start + tl.arange(0, BK)[None, :], start + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + row * k + left, inside & (left < k), 0.0)
        b = tl.load(b_ptr + group * k * n + right * n + column, (right < k) & (column < n), 0.0)
        total = tl.dot(a, b, total, allow_tf32=False)
    tl.store(out_ptr + row * n + column, total, inside & (column < n))


@tw.jit
def outer_kernel(x_ptr, y_ptr, out_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    product = tl.load(x_ptr + row, row < m) * tl.load(y_ptr + column, column < n)
    tl.store(out_ptr + row * n + column, product, (row < m) & (column < n))


@tw.jit
def convolution_kernel(
    x_ptr, weight_ptr, out_ptr,
    images, height, width, out_height, out_width, channels, features,
    x0: int, x1: int, x2: int, x3: int, w0: int, w1: int, w2: int, w3: int, o0: int, o1: int, o2: int, o3: int,
    KY: tl.constexpr, KX: tl.constexpr, PAD: tl.constexpr,
    BLOCK: tl.constexpr, BC: tl.constexpr, BF: tl.constexpr,
):
    """A program has BLOCK pixels of all images and BF features; channels come by BC."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image, oy, ox = pixel // (out_height * out_width), pixel // out_width % out_height, pixel % out_width
    feature = tl.program_id(1) * BF + tl.arange(0, BF)
    total = tl.zeros((BLOCK, BF), tl.float32)
    blocks = tl.cdiv(channels, BC)
    for step in range(KY * KX * blocks):
        channel = step % blocks * BC + tl.arange(0, BC)
        ky, kx = step // blocks // KX, step // blocks % KX
        y, x = oy - PAD + ky, ox - PAD + kx
        is_inside = (image < images) & (y >= 0) & (y < height) & (x >= 0) & (x < width)
        place = (image * x0 + y * x2 + x * x3)[:, None] + (channel * x1)[None, :]
        taken = tl.load(x_ptr + place, is_inside[:, None] & (channel < channels)[None, :], 0.0)
        factors = weight_ptr + (channel * w1)[:, None] + (feature * w0)[None, :] + ky * w2 + kx * w3
        weight = tl.load(factors, (channel < channels)[:, None] & (feature < features)[None, :], 0.0)
        total += tl.dot(taken, weight, allow_tf32=False)
    place = (image * o0 + oy * o2 + ox * o3)[:, None] + (feature * o1)[None, :]
    tl.store(out_ptr + place, total, (image < images)[:, None] & (feature < features)[None, :])


MATMUL: dict[str, Any] = {
    "numpy": lambda a, b, out: np.matmul(a, b, out=out),
    "torch": lambda a, b, out: torch.matmul(a, b, out=out),
    "jax": lambda a, b: a @ b,
}


def matmul(tile: tuple[int, int, int], m: int, n: int, k: int, is_transposed: bool = False) -> Problem:
    a, b, out = normal(m, k), normal(n, k).T if is_transposed else normal(k, n), empty(m, n)
    grid = (tw.cdiv(m, tile[0]) * tw.cdiv(n, tile[1]),)
    wide = [*steps(a, b, out)]

    def launch(out: np.ndarray, threads: int) -> Any:
        return matmul_kernel[grid](a, b, out, out, m, n, k, *wide, False, *tile, num_threads=threads)

    return Problem(launch, out, (a, b), np.matmul, MATMUL, operations=2.0 * m * n * k)


def linear(m: int, n: int, k: int) -> Problem:
    """x @ weight.T + bias."""
    x, weight, bias = normal(m, k), normal(n, k), normal(n)
    out, grid = empty(m, n), (tw.cdiv(m, 64) * tw.cdiv(n, 64),)
    wide = [*steps(x, weight.T, out)]

    def launch(out: np.ndarray, threads: int) -> Any:
        return matmul_kernel[grid](x, weight, bias, out, m, n, k, *wide, True, 64, 64, 32, num_threads=threads)

    return Problem(launch, out, (x, weight, bias), lambda x, weight, bias: x @ weight.T + bias, {
        "torch": lambda x, weight, bias, out: torch.addmm(bias, x, weight.t(), out=out),
        "jax": lambda x, weight, bias: x @ weight.T + bias,
    }, operations=2.0 * m * n * k)


def half(m: int, n: int, k: int) -> Problem:
    """fp16 in, fp16 out."""
    a, b, out = normal(m, k).astype(np.float16), normal(k, n).astype(np.float16), np.empty((m, n), np.float16)
    grid, wide = (tw.cdiv(m, 64) * tw.cdiv(n, 64),), [*steps(a, b, out)]

    def launch(out: np.ndarray, threads: int) -> Any:
        return matmul_kernel[grid](a, b, out, out, m, n, k, *wide, False, 64, 64, 32, num_threads=threads)

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.matmul(a.astype(np.float32), b.astype(np.float32))

    return Problem(launch, out, (a, b), reference, {
        "torch": MATMUL["torch"],
        "jax": MATMUL["jax"],
    }, 1e-2, 2.0 * m * n * k)


def batched(tile: tuple[int, int, int], batches: int, m: int, n: int, k: int) -> Problem:
    a, b, out = normal(batches, m, k), normal(batches, k, n), empty(batches, m, n)
    grid = (tw.cdiv(m, tile[0]), tw.cdiv(n, tile[1]), batches)

    def launch(out: np.ndarray, threads: int) -> Any:
        return batched_kernel[grid](a, b, out, m, n, k, *tile, num_threads=threads)

    return Problem(launch, out, (a, b), np.matmul, MATMUL, operations=2.0 * batches * m * n * k)


def grouped(groups: int, rows: int, n: int, k: int) -> Problem:
    """`rows` are those of all groups; their sizes are ragged."""
    weights = np.arange(1, groups + 1) ** 2
    ends = (np.cumsum(weights) * rows // weights.sum()).astype(np.int32)
    starts = np.concatenate(([0], ends[:-1])).astype(np.int32)
    blocks = [(g, at) for g in range(groups) for at in range(starts[g], ends[g], 32)]
    block_groups, block_starts = (np.array(column, np.int32) for column in zip(*blocks, strict=True))
    a, b, sizes = normal(rows, k), normal(groups, k, n), ends - starts
    grid = (len(blocks), tw.cdiv(n, 64))

    def launch(out: np.ndarray, threads: int) -> Any:
        return grouped_kernel[grid](
            a, b, out, block_groups, block_starts, ends, n, k, BM=32, BN=64, BK=32, num_threads=threads
        )

    def each(product: Any, a: Any, b: Any, out: Any) -> Any:
        for g in range(groups):
            product(a[starts[g] : ends[g]], b[g], out=out[starts[g] : ends[g]])
        return out

    return Problem(launch, empty(rows, n), (a, b, sizes), lambda a, b, sizes: each(np.matmul, a, b, empty(rows, n)), {
        "numpy": lambda a, b, sizes, out: each(np.matmul, a, b, out),
        "torch": lambda a, b, sizes, out: each(torch.mm, a, b, out),
        "jax": lambda a, b, sizes: jax.lax.ragged_dot(a, b, sizes),
    }, operations=2.0 * rows * n * k)


def outer(m: int, n: int) -> Problem:
    x, y = normal(m), normal(n)

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(m, 32), tw.cdiv(n, 32))
        return outer_kernel[grid](x, y, out, m, n, BM=32, BN=32, num_threads=threads)

    return Problem(launch, empty(m, n), (x, y), np.outer, {
        "numpy": lambda x, y, out: np.outer(x, y, out=out),
        "torch": lambda x, y, out: torch.outer(x, y, out=out),
        "jax": lambda x, y: jax.numpy.outer(x, y),
    })


def convolution(images: int, channels: int, features: int, side: int) -> Problem:
    """3×3, padded, in the order N, C, H, W."""
    x, weight = normal(images, channels, side, side), normal(features, channels, 3, 3)
    out = empty(images, features, side, side)
    pixels, wide = images * side * side, [*steps(x, weight, out)]

    def launch(out: np.ndarray, threads: int) -> Any:
        return convolution_kernel[(tw.cdiv(pixels, 128), tw.cdiv(features, 32))](
            x, weight, out, images, side, side, side, side, channels, features, *wide,
            KY=3, KX=3, PAD=1, BLOCK=128, BC=32, BF=32, num_threads=threads,
        )

    def reference(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        return np.asarray(np.einsum("nchwyx,fcyx->nfhw", views, weight, optimize=True))

    return Problem(launch, out, (x, weight), reference, {
        "torch": lambda x, weight, out: torch.conv2d(x, weight, padding=1),
        "jax": lambda x, weight: jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME"),
    }, operations=18.0 * pixels * channels * features)


SQUARES: tuple[Shape, Shape, Shape] = (48,) * 3, (512,) * 3, (2048,) * 3

ROWS = (
    Row("mm, 64×64×32", partial(matmul, (64, 64, 32)), SQUARES),
    Row("mm, 128×128×32", partial(matmul, (128, 128, 32)), SQUARES),
    Row("mm, 32×32×32", partial(matmul, (32, 32, 32)), SQUARES),
    Row("mm of 16 columns, 64×32×32", partial(matmul, (64, 32, 32)), ((64, 16, 64), (2048, 16, 512), (8192, 16, 2048))),
    Row("mm of 1 row, 16×64×64", partial(matmul, (16, 64, 64)), ((1, 64, 64), (1, 1024, 1024), (1, 4096, 4096))),
    Row("linear, 64×64×32", linear, ((8, 64, 64), (64, 768, 768), (256, 4096, 4096))),
    Row("mm fp16, 64×64×32", half, ((64,) * 3, (256,) * 3, (768,) * 3)),
    Row("bmm 100×80×90, 64×64×32", partial(batched, (64, 64, 32)),
        ((1, 48, 40, 44), (20, 100, 80, 90), (1000, 100, 80, 90))),
    Row("bmm 16×16×16, 32×32×32", partial(batched, (32, 32, 32)),
        ((8, 16, 16, 16), (512, 16, 16, 16), (40_000, 16, 16, 16))),
    Row("grouped mm, ragged, 32×64×32", grouped, ((4, 64, 32, 32), (8, 512, 256, 256), (16, 4096, 1024, 1024))),
    Row("outer product, 32×32", outer, ((32, 128), (512, 512), (4096, 4096))),
    Row("conv2d of 3 channels, by 32", convolution, ((1, 3, 16, 16), (4, 3, 16, 64), (32, 3, 16, 224))),
    Row("conv2d of 16 channels, by 32", convolution, ((1, 16, 16, 8), (4, 16, 16, 64), (16, 16, 16, 224))),
)
