"""int8 and int4: quantise, dequantise, and products with scales."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from peers import jax, torch
from works import empty

import tilewright as tw
import tilewright.language as tl
from foreign.problem import MATRICES, Problem, Row, normal, whole
from tilewright.language.extra import libdevice

GROUP = 64
"""Weights along K that share a scale and a zero point."""


@tw.jit
def quantise_rows_kernel(x_ptr, out_ptr, scale_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, column < columns, 0.0)
    largest = tl.max(tl.abs(x), 0)
    tl.store(out_ptr + row * columns + column, libdevice.rint(x * (127.0 / largest)).to(tl.int8), column < columns)
    tl.store(scale_ptr + row, largest / 127.0)


@tw.jit
def dequantise_int8_kernel(x_ptr, scale_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr + at // columns, at < n)
    tl.store(out_ptr + at, tl.load(x_ptr + at, at < n).to(tl.float32) * scale, at < n)


@tw.jit
def dequantise_int4_kernel(x_ptr, scale_ptr, out_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Two numbers per byte, the first in the low bits, and a scale for each GROUP."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    packed = tl.load(x_ptr + at, at < n // 2)
    scale = tl.load(scale_ptr + at * 2 // GROUP, at < n // 2)
    low, high = ((packed & 15).to(tl.float32) - 8) * scale, ((packed >> 4).to(tl.float32) - 8) * scale
    place = tl.program_id(0) * BLOCK * 2 + tl.arange(0, BLOCK * 2)
    tl.store(out_ptr + place, tl.interleave(low, high), place < n)


@tw.jit
def codebook_kernel(x_ptr, code_ptr, scale_ptr, out_ptr, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """The same with sixteen numbers of a table, as for NF4."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    packed = tl.load(x_ptr + at // 2, at < n, 0)
    code = tl.load(code_ptr + ((packed >> (at % 2 * 4)) & 15))
    tl.store(out_ptr + at, code * tl.load(scale_ptr + at // GROUP, at < n), at < n)


@tw.jit
def int8_product_kernel(
    a_ptr, b_ptr, a_scale_ptr, b_scale_ptr, out_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.int32)
    for start in range(0, k, BK):
        left, right = start + tl.arange(0, BK)[None, :], start + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + row * k + left, (row < m) & (left < k), 0)
        b = tl.load(b_ptr + column * k + right, (right < k) & (column < n), 0)
        total += tl.dot(a, b)
    scale = tl.load(a_scale_ptr + row, row < m) * tl.load(b_scale_ptr + column, column < n)
    tl.store(out_ptr + row * n + column, total.to(tl.float32) * scale, (row < m) & (column < n))


@tw.jit
def int4_product_kernel(
    a_ptr, b_ptr, scale_ptr, zero_ptr, out_ptr, m, n, k,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    """Weights are int32 of eight numbers along K each; zero points are packed in the same way along N."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        left, right = start + tl.arange(0, BK)[None, :], start + tl.arange(0, BK)[:, None]
        a = tl.load(a_ptr + row * k + left, (row < m) & (left < k), 0.0)
        inside = (right < k) & (column < n)
        packed = tl.load(b_ptr + right // 8 * n + column, inside, 0)
        zero = (tl.load(zero_ptr + right // GROUP * (n // 8) + column // 8, inside, 0) >> (column % 8 * 4)) & 15
        scale = tl.load(scale_ptr + right // GROUP * n + column, inside, 0.0)
        b = (((packed >> (right % 8 * 4)) & 15) - zero).to(tl.float32) * scale
        total = tl.dot(a, b, total, allow_tf32=False)
    tl.store(out_ptr + row * n + column, total, (row < m) & (column < n))


def quantise_rows(rows: int, columns: int) -> Problem:
    x = normal(rows, columns)

    def launch(out: tuple[np.ndarray, np.ndarray], threads: int) -> Any:
        block = tw.next_power_of_2(columns)
        return quantise_rows_kernel[(rows,)](x, *out, columns, BLOCK=block, num_threads=threads)

    def reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        largest = np.abs(x).max(1)
        return np.rint(x * (np.float32(127) / largest)[:, None]).astype(np.int8), largest / np.float32(127)

    def with_torch(x: Any, out: Any) -> Any:
        largest = x.abs().amax(1)
        return torch.round(x * (127.0 / largest)[:, None]).to(torch.int8), largest / 127.0

    def with_jax(x: Any) -> Any:
        largest = abs(x).max(1)
        return jax.numpy.rint(x * (127.0 / largest)[:, None]).astype(jax.numpy.int8), largest / 127.0

    # a number between two may be rounded to either
    out = (np.empty((rows, columns), np.int8), empty(rows))
    return Problem(launch, out, (x,), reference, {"torch": with_torch, "jax": with_jax}, 1 / 127)


def dequantise_int8(rows: int, columns: int) -> Problem:
    x, scale, n = whole(-127, 128, rows, columns, dtype=np.int8), normal(rows), rows * columns

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(n, 1024),)
        return dequantise_int8_kernel[grid](x, scale, out, n, columns, BLOCK=1024, num_threads=threads)

    return Problem(launch, empty(rows, columns), (x, scale), lambda x, scale: x * scale[:, None], {
        "numpy": lambda x, scale, out: np.multiply(x, scale[:, None], out=out),
        "torch": lambda x, scale, out: torch.mul(x, scale[:, None], out=out),
        "jax": lambda x, scale: x * scale[:, None],
    })


def unpacked(namespace: Any, x: Any) -> Any:
    """Two numbers of each byte, side by side."""
    axis = {"dim" if namespace is torch else "axis": -1}
    return namespace.stack((x & 15, x >> 4), **axis).reshape(-1)


def dequantise_int4(rows: int, columns: int) -> Problem:
    n = rows * columns
    x, scale = whole(0, 256, n // 2, dtype=np.uint8), normal(n // GROUP)

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(n // 2, 512),)
        return dequantise_int4_kernel[grid](x, scale, out, n, GROUP=GROUP, BLOCK=512, num_threads=threads)

    def work(namespace: Any, x: Any, scale: Any, out: Any = None) -> Any:
        return ((unpacked(namespace, x) - np.float32(8)).reshape(-1, GROUP) * scale[:, None]).reshape(-1)

    return Problem(launch, empty(n), (x, scale), partial(work, np), {
        "torch": lambda x, scale, out: ((unpacked(torch, x) - 8.0).view(-1, GROUP) * scale[:, None]).view(-1),
        "jax": lambda x, scale: work(jax.numpy, x, scale),
    })


def codebook(rows: int, columns: int) -> Problem:
    n = rows * columns
    x, code, scale = whole(0, 256, n // 2, dtype=np.uint8), normal(16), normal(n // GROUP)

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(n, 1024),)
        return codebook_kernel[grid](x, code, scale, out, n, GROUP=GROUP, BLOCK=1024, num_threads=threads)

    def with_torch(x: Any, code: Any, scale: Any, out: Any) -> Any:
        found = torch.index_select(code, 0, unpacked(torch, x).int())
        return (found.view(-1, GROUP) * scale[:, None]).view(-1)

    def work(namespace: Any, x: Any, code: Any, scale: Any) -> Any:
        return (code[unpacked(namespace, x)].reshape(-1, GROUP) * scale[:, None]).reshape(-1)

    return Problem(launch, empty(n), (x, code, scale), partial(work, np), {
        "torch": with_torch,
        "jax": lambda x, code, scale: work(jax.numpy, x, code, scale),
    })


def int8_product(m: int, n: int, k: int) -> Problem:
    a, b = whole(-100, 100, m, k, dtype=np.int8), whole(-100, 100, n, k, dtype=np.int8)
    a_scale, b_scale = normal(m), normal(n)

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(m, 64), tw.cdiv(n, 64))
        return int8_product_kernel[grid](
            a, b, a_scale, b_scale, out, m, n, k, BM=64, BN=64, BK=64, num_threads=threads
        )

    def reference(a: np.ndarray, b: np.ndarray, a_scale: np.ndarray, b_scale: np.ndarray) -> np.ndarray:
        product = a.astype(np.float64) @ b.T.astype(np.float64)
        return (product * np.multiply.outer(a_scale, b_scale)).astype(np.float32)

    def with_jax(a: Any, b: Any, a_scale: Any, b_scale: Any) -> Any:
        product = jax.lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type=jax.numpy.int32)
        return product * a_scale[:, None] * b_scale

    return Problem(launch, empty(m, n), (a, b, a_scale, b_scale), reference, {
        "torch": lambda a, b, a_scale, b_scale, out: torch._int_mm(a, b.t()) * a_scale[:, None] * b_scale,
        "jax": with_jax,
    }, operations=2.0 * m * n * k, peak="int8")


def int4_product(tile: tuple[int, int, int], m: int, n: int, k: int) -> Problem:
    a, b = normal(m, k), whole(-(1 << 31), 1 << 31, k // 8, n, dtype=np.int32)
    scale, zero = normal(k // GROUP, n), whole(-(1 << 31), 1 << 31, k // GROUP, n // 8, dtype=np.int32)

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(m, tile[0]), tw.cdiv(n, tile[1]))
        return int4_product_kernel[grid](a, b, scale, zero, out, m, n, k, GROUP, *tile, num_threads=threads)

    def weights(namespace: Any, shifts: Any, b: Any, scale: Any, zero: Any) -> Any:
        numbers = ((b[:, None, :] >> shifts[None, :, None]) & 15).reshape(-1, GROUP, n)
        zeros = ((zero[:, :, None] >> shifts) & 15).reshape(-1, 1, n)
        return ((numbers - zeros) * scale[:, None, :]).reshape(k, n)

    def reference(a: np.ndarray, b: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
        return a @ weights(np, np.arange(0, 32, 4, np.int32), b, scale, zero).astype(np.float32)

    def with_torch(a: Any, b: Any, scale: Any, zero: Any, out: Any) -> Any:
        return torch.mm(a, weights(torch, torch.arange(0, 32, 4, dtype=torch.int32), b, scale, zero), out=out)

    def with_jax(a: Any, b: Any, scale: Any, zero: Any) -> Any:
        return a @ weights(jax.numpy, jax.numpy.arange(0, 32, 4), b, scale, zero)

    return Problem(launch, empty(m, n), (a, b, scale, zero), reference, {
        "torch": with_torch, "jax": with_jax
    }, 1e-4, 2.0 * m * n * k)


ROWS = (
    Row("quantise rows to int8", quantise_rows, MATRICES),
    Row("dequantise int8, //", dequantise_int8, MATRICES),
    Row("dequantise int4, interleaved", dequantise_int4, MATRICES),
    Row("dequantise int4 by a table", codebook, MATRICES),
    Row("int8 product, 64×64×64", int8_product, ((64,) * 3, (512,) * 3, (2048,) * 3)),
    Row("int4 product, 64×64×64", partial(int4_product, (64, 64, 64)),
        ((64,) * 3, (512,) * 3, (256, 4096, 4096))),
    Row("int4 product of 1 row, 16×64×64", partial(int4_product, (16, 64, 64)),
        ((1, 64, 64), (1, 1024, 1024), (1, 8192, 8192))),
)
