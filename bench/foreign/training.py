"""Parts of training: dropout, gated functions, rms_norm, cross entropy, steps of optimisers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from peers import jax, torch
from works import empty

import tilewright as tw
import tilewright.language as tl
from foreign.pointwise import gelu_erf_reference
from foreign.problem import MATRICES, Problem, Row, Shape, normal, whole
from foreign.reductions import NARROW, log_softmax_reference

KEEP = 0.75
"""The probability that dropout keeps a number."""


@tw.jit
def dropout_kernel(x_ptr, out_ptr, n, keep, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, at < n)
    tl.store(out_ptr + at, tl.where(tl.rand(seed, at) < keep, x / keep, 0.0), at < n)


@tw.jit
def gate(x, IS_GELU: tl.constexpr):
    if IS_GELU:
        return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    return x * tl.sigmoid(x)


@tw.jit
def gated_rows_kernel(a_ptr, b_ptr, out_ptr, step, columns, IS_GELU: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = column < columns
    a, b = tl.load(a_ptr + row * step + column, inside, 0), tl.load(b_ptr + row * step + column, inside, 0)
    tl.store(out_ptr + row * step + column, gate(a, IS_GELU) * b, inside)


@tw.jit
def gated_halves_kernel(x_ptr, out_ptr, x0: int, out0: int, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    """Both factors stand in one row; addresses are computed pointers under a mask."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (row < rows) & (column < columns)
    a_ptrs = x_ptr + row * x0 + column
    a, b = tl.load(a_ptrs, inside, 0), tl.load(a_ptrs + columns, inside, 0)
    tl.store(out_ptr + row * out0 + column, gate(a, False) * b, inside)


@tw.jit
def rms_norm_kernel(x_ptr, weight_ptr, out_ptr, scale_ptr, columns, eps, BLOCK: tl.constexpr):
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, inside, 0.0)
    scale = tl.rsqrt(tl.sum(x * x, 0) / columns + eps)
    tl.store(scale_ptr + row, scale)
    tl.store(out_ptr + row * columns + column, x * scale * tl.load(weight_ptr + column, inside, 0.0), inside)


@tw.jit
def cross_entropy_kernel(x_ptr, target_ptr, loss_ptr, slope_ptr, columns, rows, BLOCK: tl.constexpr):
    """The loss of one row, and its slope for the mean over all rows; two passes by blocks."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(target_ptr + row)
    largest, total = float("-inf"), 0.0
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + column, column < columns, float("-inf"))
        highest = tl.maximum(largest, tl.max(x, 0))
        total = total * tl.exp(largest - highest) + tl.sum(tl.exp(x - highest), 0)
        largest = highest
    tl.store(loss_ptr + row, largest + tl.log(total) - tl.load(x_ptr + row * columns + target))
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + column, column < columns, float("-inf"))
        slope = (tl.exp(x - largest) / total - tl.where(column == target, 1.0, 0.0)) / rows
        tl.store(slope_ptr + row * columns + column, slope, column < columns)


@tw.jit
def adam_kernel(p_ptr, m_ptr, v_ptr, g_ptr, n, rate, beta1, beta2, eps, fix1, fix2, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    p, g = tl.load(p_ptr + at, inside), tl.load(g_ptr + at, inside)
    m = beta1 * tl.load(m_ptr + at, inside) + (1 - beta1) * g
    v = beta2 * tl.load(v_ptr + at, inside) + (1 - beta2) * g * g
    p -= rate * (m / fix1) / (tl.sqrt(v / fix2) + eps)
    tl.store(p_ptr + at, p, inside)
    tl.store(m_ptr + at, m, inside)
    tl.store(v_ptr + at, v, inside)


@tw.jit
def momentum_kernel(p_ptr, m_ptr, g_ptr, n, rate, momentum, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    m = momentum * tl.load(m_ptr + at, inside) + tl.load(g_ptr + at, inside)
    tl.store(m_ptr + at, m, inside)
    tl.store(p_ptr + at, tl.load(p_ptr + at, inside) - rate * m, inside)


def philox(seed: int, count: int) -> np.ndarray:
    """The first of four words that Philox 4×32-10 draws for each counter."""
    low = np.uint64(0xFFFFFFFF)
    words = [np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in range(3))]
    keys = [np.uint64(seed), np.uint64(0)]
    for _ in range(10):
        left, right = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [
            (right >> np.uint64(32)) ^ words[1] ^ keys[0], right & low,
            (left >> np.uint64(32)) ^ words[3] ^ keys[1], left & low,
        ]
        keys = [(key + step) & low for key, step in zip(keys, map(np.uint64, (0x9E3779B9, 0xBB67AE85)), strict=True)]
    return words[0].astype(np.uint32)


def dropout(rows: int, columns: int) -> Problem:
    x, n = normal(rows * columns), rows * columns

    def launch(out: np.ndarray, threads: int) -> Any:
        return dropout_kernel[(tw.cdiv(n, 1024),)](x, out, n, KEEP, 5, BLOCK=1024, num_threads=threads)

    def reference(x: np.ndarray) -> np.ndarray:
        words = philox(5, n).view(np.int32)
        drawn = np.where(words < 0, ~words, words) * 4.6566127342e-10
        return np.where(drawn < KEEP, x / np.float32(KEEP), np.float32(0))

    return Problem(launch, empty(n), (x,), reference, {
        "torch": lambda x, out: torch.nn.functional.dropout(x, 1 - KEEP),
    }, draws=frozenset({"torch"}))


def erf_gelu(namespace: Any, x: Any) -> Any:
    return namespace.nn.gelu(x, approximate=False) if namespace is jax else namespace.nn.functional.gelu(x)


def silu_reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(a / (1 + np.exp(-a)) * b)


def swiglu(rows: int, columns: int) -> Problem:
    a, b = normal(rows, columns), normal(rows, columns)

    def launch(out: np.ndarray, threads: int) -> Any:
        block = tw.next_power_of_2(columns)
        return gated_rows_kernel[(rows,)](a, b, out, columns, columns, False, BLOCK=block, num_threads=threads)

    return Problem(launch, empty(rows, columns), (a, b), silu_reference, {
        "torch": lambda a, b, out: torch.mul(torch.nn.functional.silu(a), b, out=out),
        "jax": lambda a, b: jax.nn.silu(a) * b,
    })


def geglu(rows: int, columns: int) -> Problem:
    a, b = normal(rows, columns), normal(rows, columns)

    def launch(out: np.ndarray, threads: int) -> Any:
        block = tw.next_power_of_2(columns)
        return gated_rows_kernel[(rows,)](a, b, out, columns, columns, True, BLOCK=block, num_threads=threads)

    return Problem(launch, empty(rows, columns), (a, b), lambda a, b: gelu_erf_reference(a) * b, {
        "torch": lambda a, b, out: torch.mul(erf_gelu(torch, a), b, out=out),
        "jax": lambda a, b: erf_gelu(jax, a) * b,
    })


def silu_and_mul(rows: int, columns: int) -> Problem:
    half = columns // 2
    x = normal(rows, columns)

    def launch(out: np.ndarray, threads: int) -> Any:
        grid = (tw.cdiv(rows, 16), tw.cdiv(half, 64))
        return gated_halves_kernel[grid](x, out, columns, half, rows, half, BM=16, BN=64, num_threads=threads)

    return Problem(launch, empty(rows, half), (x,), lambda x: silu_reference(x[:, :half], x[:, half:]), {
        "torch": lambda x, out: torch.mul(torch.nn.functional.silu(x[:, :half]), x[:, half:], out=out),
        "jax": lambda x: jax.nn.silu(x[:, :half]) * x[:, half:],
    })


def rms_norm(block: int, rows: int, columns: int) -> Problem:
    x, weight, block = normal(rows, columns), normal(columns), block or tw.next_power_of_2(columns)

    def launch(out: tuple[np.ndarray, np.ndarray], threads: int) -> Any:
        return rms_norm_kernel[(rows,)](x, weight, *out, columns, 1e-6, BLOCK=block, num_threads=threads)

    def reference(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scale = 1 / np.sqrt((x * x).mean(1) + np.float32(1e-6))
        return x * scale[:, None] * weight, scale

    def with_jax(x: Any, weight: Any) -> Any:
        scale = jax.lax.rsqrt((x * x).mean(1) + 1e-6)
        return x * scale[:, None] * weight, scale

    def with_torch(x: Any, weight: Any, out: Any) -> Any:
        scale = torch.rsqrt(x.pow(2).mean(1) + 1e-6)
        return x * scale[:, None] * weight, scale

    return Problem(launch, (empty(rows, columns), empty(rows)), (x, weight), reference, {
        "torch": with_torch, "jax": with_jax,
    })


def cross_entropy(rows: int, columns: int) -> Problem:
    x, target = normal(rows, columns), whole(0, columns, rows)

    def launch(out: tuple[np.ndarray, np.ndarray], threads: int) -> Any:
        return cross_entropy_kernel[(rows,)](x, target, *out, columns, rows, BLOCK=1024, num_threads=threads)

    def reference(x: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logs = log_softmax_reference(x)
        slope, at = np.exp(logs), np.arange(rows)
        slope[at, target] -= 1
        return -logs[at, target], slope / rows

    def with_torch(x: Any, target: Any, out: Any) -> Any:
        x = x.detach().requires_grad_()
        losses = torch.nn.functional.cross_entropy(x, target, reduction="none")
        losses.mean().backward()
        return losses.detach(), x.grad

    def loss(x: Any, target: Any) -> Any:
        losses = -jax.numpy.take_along_axis(jax.nn.log_softmax(x, 1), target[:, None], 1)[:, 0]
        return losses.mean(), losses

    def with_jax(x: Any, target: Any) -> Any:
        slope, losses = jax.grad(loss, has_aux=True)(x, target)
        return losses, slope

    out = (empty(rows), empty(rows, columns))
    return Problem(launch, out, (x, target), reference, {"torch": with_torch, "jax": with_jax})


def adam(rows: int, columns: int) -> Problem:
    n = rows * columns
    start, g = (normal(n), np.zeros(n, np.float32), np.zeros(n, np.float32)), normal(n)[::-1].copy()
    rate, beta1, beta2, eps = 1e-3, 0.9, 0.999, 1e-8

    def launch(out: tuple[np.ndarray, ...], threads: int) -> Any:
        grid = (tw.cdiv(n, 1024),)
        return adam_kernel[grid](
            *out, g, n, rate, beta1, beta2, eps, 1 - beta1, 1 - beta2, BLOCK=1024, num_threads=threads
        )

    def reference(p: np.ndarray, m: np.ndarray, v: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, ...]:
        m, v = np.float32(1 - beta1) * g, np.float32(1 - beta2) * g * g
        scaled = (m / np.float32(1 - beta1)) / (np.sqrt(v / np.float32(1 - beta2)) + np.float32(eps))
        return p - np.float32(rate) * scaled, m, v

    def with_torch(_p: Any, _m: Any, _v: Any, g: Any, out: Any) -> Any:
        p, m, v = out
        torch._fused_adam_([p], [g], [m], [v], [], [torch.tensor(1.0)], lr=rate, beta1=beta1, beta2=beta2,
                           weight_decay=0.0, eps=eps, amsgrad=False, maximize=False)
        return out

    def with_jax(p: Any, m: Any, v: Any, g: Any) -> Any:
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        return p - rate * (m / (1 - beta1)) / (jax.numpy.sqrt(v / (1 - beta2)) + eps), m, v

    out = (empty(n), empty(n), empty(n))
    return Problem(launch, out, (*start, g), reference, {"torch": with_torch, "jax": with_jax}, 1e-4, start=start,
                   moved=7 * 4 * n)


def momentum(rows: int, columns: int) -> Problem:
    n = rows * columns
    start, g = (normal(n), np.ones(n, np.float32)), normal(n)[::-1].copy()
    rate, kept = 1e-3, 0.5

    def launch(out: tuple[np.ndarray, ...], threads: int) -> Any:
        return momentum_kernel[(tw.cdiv(n, 1024),)](*out, g, n, rate, kept, BLOCK=1024, num_threads=threads)

    def work(p: Any, m: Any, g: Any) -> Any:
        m = kept * m + g
        return p - rate * m, m

    def with_torch(_p: Any, _m: Any, g: Any, out: Any) -> Any:
        p, m = out
        m.mul_(kept).add_(g)
        p.add_(m, alpha=-rate)
        return out

    return Problem(launch, (empty(n), empty(n)), (*start, g), work, {"torch": with_torch, "jax": work}, start=start,
                   moved=5 * 4 * n)


VOCABULARIES: tuple[Shape, Shape, Shape] = (2, 1000), (64, 8000), (512, 32000)

ROWS = (
    Row("dropout", dropout, MATRICES),
    Row("swiglu", swiglu, MATRICES),
    Row("geglu", geglu, MATRICES),
    Row("silu_and_mul, 16×64", silu_and_mul, MATRICES),
    Row("rms_norm", partial(rms_norm, 0), MATRICES),
    Row("rms_norm of 40 in 1024", partial(rms_norm, 1024), NARROW),
    Row("cross entropy and slope", cross_entropy, VOCABULARIES),
    Row("Adam", adam, MATRICES),
    Row("SGD with momentum", momentum, MATRICES),
)
