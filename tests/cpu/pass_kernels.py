"""Kernels for the tests of the CPU passes, and their TTIR."""

from __future__ import annotations

from typing import Any

import numpy as np
from networks import attended

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.pipeline import cpu_passes, loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.verifier import verify

FLOATS = np.zeros(16, np.float32)


@tw.jit
def vector_add(x, y, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@tw.jit
def softmax(x, out, stride, n, B: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, B)
    values = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    raised = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * stride + i, raised / tl.sum(raised, 0), mask=i < n)


@tw.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a_places, b_places = a + m[:, None] * K + k[None, :], b + k[:, None] * N + n[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(a_places), tl.load(b_places), total)
        a_places += BK
        b_places += BK * N
    tl.store(c + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))


@tw.jit
def flash_attention(q, k, v, out, n, B: tl.constexpr, D: tl.constexpr):
    i, d = tl.arange(0, B), tl.arange(0, D)
    query = tl.load(q + (tl.program_id(0) * B + i)[:, None] * D + d[None, :])
    tl.store(out + (tl.program_id(0) * B + i)[:, None] * D + d[None, :], attended(query, k, v, i, d, n, B, D))


CALLS: dict[str, tuple[Any, tuple[Any, ...], dict[str, int]]] = {
    "vector_add": (vector_add, (FLOATS, FLOATS, FLOATS, 100), {"B": 64}),
    "softmax": (softmax, (FLOATS, FLOATS, 100, 100), {"B": 128}),
    "matmul": (matmul, (FLOATS, FLOATS, FLOATS, 100, 100, 100), {"BM": 32, "BN": 64, "BK": 32}),
    "flash_attention": (flash_attention, (FLOATS, FLOATS, FLOATS, FLOATS, 100), {"B": 32, "D": 64}),
}


def ttir_of(name: str) -> str:
    """The optimised TTIR of one of the kernels above."""
    kernel, arguments, constants = CALLS[name]
    text = kernel.warmup(*arguments, grid=(1,), **constants).asm["ttir"]
    assert isinstance(text, str)
    return text


def loops_of(kernel: Any, arguments: tuple[Any, ...], cpu: str, **constants: Any) -> Op:
    """The module of vector loops that a kernel becomes for such a CPU."""
    target = host_target(cpu)
    module = parse_module(kernel.warmup(*arguments, grid=(1,), **constants).asm["ttir"])
    run_passes(module, (*cpu_passes(target), *loop_passes(target)))
    verify(module)
    return module
