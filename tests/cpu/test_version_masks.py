"""Tiles that are wholly inside have loops without masks; the others keep theirs."""

from __future__ import annotations

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.pipeline import cpu_passes, loop_passes
from tilewright.backends.cpu.version_masks import version_masks
from tilewright.backends.llvm.machine import host_target
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.verifier import verify

TARGET = host_target()


@tw.jit
def interleaved(x_ptr, out_ptr, M, N, x0: int, x1: int, out0: int, BM: tl.constexpr, BN: tl.constexpr):
    blocks = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * blocks, tl.num_programs(0)):
        m = tile // blocks * BM + tl.arange(0, BM)[:, None]
        n = tile % blocks * BN + tl.arange(0, BN)[None, :]
        inside = (m < M) & (n < N)
        x = tl.load(x_ptr + m * x0 + n * x1, inside, other=5.0)
        tl.store(out_ptr + m * out0 + n, tl.where(inside, x + 1, 9.0), inside)


@tw.jit
def triangle(x_ptr, out_ptr, M, N, x0: int, x1: int, out0: int, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    tl.store(out_ptr + m * out0 + n, tl.load(x_ptr + m * x0 + n * x1, m < M), (m < M) & (n >= m))


@tw.jit
def chosen(x_ptr, out_ptr, M, N, x0: int, x1: int, out0: int, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    x = tl.load(x_ptr + m * x0 + n * x1)
    tl.store(out_ptr + m * out0 + n, x, x > 0)


@tw.jit
def one_row(x_ptr, out_ptr, M, N, x0: int, x1: int, out0: int, BM: tl.constexpr, BN: tl.constexpr):
    n = tl.arange(0, BN)
    row = tl.program_id(0)
    tl.store(out_ptr + row * out0 + n, tl.load(x_ptr + row * x0 + n * x1, n < N), n < N)


@tw.jit
def summed(x_ptr, out_ptr, M, N, x0: int, x1: int, out0: int, BM: tl.constexpr, BN: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    x = tl.load(x_ptr + m[:, None] * x0 + n[None, :] * x1, (n < N)[None, :], other=0.0)
    tl.store(out_ptr + m, tl.sum(x, 1), m < M)


def behind_the_pass(kernel):
    """The kernel's module behind `version_masks`, and whether that found anything."""
    x = np.zeros(16, np.float32)
    module = parse_module(kernel.warmup(x, x, 40, 60, 60, 1, 60, BM=16, BN=16, grid=(1,)).asm["ttir"])
    names = [step.name for step in loop_passes(TARGET)]
    run_passes(module, (*cpu_passes(TARGET), *loop_passes(TARGET)[: names.index("version_masks")]))
    found = version_masks(module, TARGET)
    verify(module)
    return module, found


def test_where_it_applies():
    assert behind_the_pass(interleaved)[1]


@pytest.mark.parametrize("kernel", [triangle, chosen, one_row, summed])
def test_where_it_does_not(kernel):
    assert not behind_the_pass(kernel)[1]


@pytest.mark.parametrize(("m", "n"), [(64, 128), (50, 203), (3, 5), (16, 16), (0, 40), (40, 0)])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_interleaved_tiles(m, n, num_threads):
    x = np.random.default_rng(n).standard_normal((m, 2 * n)).astype(np.float32)
    for step in (1, 2):
        out = np.full((m + 1, n + 3), 77, np.float32)
        places = (x.shape[1], step, out.shape[1])
        interleaved[(5,)](x, out, m, n, *places, BM=16, BN=16, num_threads=num_threads)
        np.testing.assert_array_equal(out[:m, :n], x[:, : step * n : step] + 1)
        assert (out[m:] == 77).all()
        assert (out[:, n:] == 77).all()


@pytest.mark.parametrize(
    ("x_at", "out_at", "x0", "out0"), [(0, 0, 64, 64), (0, 1, 64, 64), (16, 0, 64, 64), (0, 0, 64, 80)]
)
def test_memory_that_is_shared(x_at, out_at, x0, out0):
    memory = np.random.default_rng(1).standard_normal(1 << 12).astype(np.float32)
    wanted = memory.copy()
    ttir = interleaved.warmup(memory, memory, 32, 64, x0, 1, out0, BM=16, BN=16, grid=(1,)).asm["ttir"]
    run_ir(parse_module(ttir), [wanted[x_at:], wanted[out_at:], 32, 64, x0, 1, out0], (1,))
    interleaved[(1,)](memory[x_at:], memory[out_at:], 32, 64, x0, 1, out0, BM=16, BN=16, num_threads=1)
    np.testing.assert_array_equal(memory, wanted)


def test_lanes_that_are_masked_off_touch_nothing():
    for x, out in zip(between_guards(60 * 100, np.float32), between_guards(6000, np.float32), strict=True):
        interleaved[(4,)](x, out, 60, 100, 100, 1, 100, BM=16, BN=16, num_threads=1)
        np.testing.assert_array_equal(out, x + 1)


def test_the_pass_keeps_the_meaning():
    x = np.random.default_rng(2).standard_normal((40, 60)).astype(np.float32)
    module, _ = behind_the_pass(interleaved)
    out = np.zeros((40, 60), np.float32)
    run_ir(module, [x, out, 40, 60, 60, 1, 60], (3,))
    np.testing.assert_array_equal(out, x + 1)
