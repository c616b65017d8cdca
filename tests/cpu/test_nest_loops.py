"""Nests as vector loops: what the ops that they become compute, interpreted and as native code, and their text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loop_native import block_of, compiled

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.choose_widths import choose_widths
from tilewright.backends.cpu.loop_builder import BYTES
from tilewright.backends.cpu.lower_nests import lower_nests
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.cpu.redirect_stores import redirect_stores
from tilewright.backends.cpu.version_loops import version_loops
from tilewright.backends.llvm.machine import Target, host_target
from tilewright.dialects.cpu import Alloc, Nest, tile_of
from tilewright.dialects.tt_program import ProgramId
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.attributes import Keyword, Number
from tilewright.ir.builder import ConstantPool
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import i32, i64
from tilewright.ir.verifier import verify

TARGETS = [host_target(name) for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "neoverse-v1", "neoverse-v2")]
N = 64


@tw.jit
def masked(x, out, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + index, mask=index < n, other=-1.0)
    tl.store(out + index, tl.where(index < n, value * 2, 3.0))
    tl.store(out + BLOCK + index, value, mask=index < n)


@tw.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    row = tl.load(x + index, mask=index < n, other=-float("inf"))
    above = tl.exp(row - tl.max(row))
    tl.store(out + index, above / tl.sum(above), mask=index < n)


@tw.jit
def gathered(x, out, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    place = (index * index) % 61
    tl.store(out + index, tl.load(x + place, mask=place < n, other=7.0))
    tl.store(out + BLOCK + place, tl.load(x + place))


@tw.jit
def wrapped(x, out, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK) + 5
    tl.store(out + index - 5, tl.load(x + index % n))


@tw.jit
def spaced(x, out, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK // 4)
    tl.store(out + index, tl.load(x + index * n))
    tl.store(out + BLOCK + index * 3, tl.load(x + index * 3 + 1))


@tw.jit
def turned(x, out, n, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, 16)[:, None], tl.arange(0, 4)[None, :]
    tile = tl.load(x + rows * 4 + columns)
    tl.store(out + columns * 16 + rows, tile + n)
    tl.store(out + BLOCK + tl.arange(0, 4), tl.sum(tile, axis=0))


@tw.jit
def scanned(x, out, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    row = tl.load(x + index)
    tl.store(out + index, tl.cumsum(row))
    tl.store(out + BLOCK + index, tl.cumsum(row, reverse=True), mask=index > n)


@tw.jit
def shifted(x, out, n, BLOCK: tl.constexpr):
    """A store to what a later load of the nest reads: it goes through a buffer."""
    index = tl.arange(0, BLOCK // 2)
    row = tl.load(x + index)
    tl.store(x + index + n, row + 1)
    tl.store(out + index, row)


@tw.jit
def paired(x, out, n, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK // 2)
    row = tl.load(x + index)
    is_large = row > n
    tl.store(out + tl.arange(0, BLOCK), tl.interleave(row, is_large.to(tl.float32)))
    tl.atomic_add(out + BLOCK + index // 8, row, mask=is_large)


def of_masked(x: Any, out: Any, n: int) -> None:
    out[:N] = np.where(np.arange(N) < n, x[:N] * 2, 3)
    out[N : N + n] = x[:n]


def of_softmax(x: Any, out: Any, n: int) -> None:
    above = np.exp(x[:n] - x[:n].max(initial=-np.inf))
    out[:n] = above / above.sum()


def of_gathered(x: Any, out: Any, n: int) -> None:
    place = np.arange(N) ** 2 % 61
    out[:N] = np.where(place < n, x[place], 7)
    out[N + place] = x[place]


def of_wrapped(x: Any, out: Any, n: int) -> None:
    out[:N] = x[(np.arange(N) + 5) % n]


def of_spaced(x: Any, out: Any, n: int) -> None:
    out[: N // 4] = x[np.arange(N // 4) * n]
    out[N : N + N // 4 * 3 : 3] = x[1 : 1 + N // 4 * 3 : 3]


def of_turned(x: Any, out: Any, n: int) -> None:
    out[:N] = x[:N].reshape(16, 4).T.ravel() + n
    out[N : N + 4] = x[:N].reshape(16, 4).sum(axis=0)


def of_scanned(x: Any, out: Any, n: int) -> None:
    out[:N] = np.cumsum(x[:N])
    out[N + n + 1 :] = np.cumsum(x[N - 1 :: -1])[::-1][n + 1 :]


def of_shifted(x: Any, out: Any, n: int) -> None:
    out[: N // 2] = x[: N // 2]
    x[n : n + N // 2] = x[: N // 2] + 1


def of_paired(x: Any, out: Any, n: int) -> None:
    row = x[: N // 2]
    out[:N] = np.stack([row, row > n], axis=-1).ravel()
    out[N : N + 4] += np.where(row > n, row, 0).reshape(4, 8).sum(axis=1)


CASES = [
    *((masked, of_masked, n) for n in (0, 5, N)),
    *((softmax, of_softmax, n) for n in (5, N)),
    *((gathered, of_gathered, n) for n in (9, 61)),
    *((wrapped, of_wrapped, n) for n in (11, 67, 2 * N)),
    *((spaced, of_spaced, n) for n in (0, 1, 2, 3)),
    (turned, of_turned, 3),
    *((scanned, of_scanned, n) for n in (-1, 9)),
    *((shifted, of_shifted, n) for n in (0, 1, 3, N // 2)),
    (paired, of_paired, 20),
]


def lowered(kernel: Any, target: Target) -> Op:
    """The loops of a kernel for program 0, with its buffers on the stack."""
    array = np.zeros(2 * N, np.float32)
    module = parse_module(kernel.warmup(array, array, 2, BLOCK=N, grid=(1,)).asm["ttcir"])
    body = block_of(module)
    for op in [op for op in body if isinstance(op, ProgramId)]:
        op.replace([ConstantPool(body).value(0, i32)])
    for op in [op for op in body if isinstance(op, Nest)]:
        op.attributes["runs"] = Keyword("program")
    choose_widths(module, target)
    redirect_stores(module)
    version_loops(module)
    lower_nests(module)
    for op in [op for op in body if isinstance(op, Alloc)]:
        tile = tile_of(op.result.type)
        size = Number(tile.numel * max(8, tile.bits) // 8, i64)
        attributes = {"size": size, "alignment": Number(64, i64)}
        op.replace(body.insert(Op.create("vector.alloca", (), (BYTES,), attributes), op).results)
    verify(module)
    text = print_op(module)
    assert print_op(parse_module(text)) == text
    return module


def in_a_grid_of_one(module: Op) -> None:
    """Let the number of programs be known."""
    body = block_of(module)
    for op in [op for op in body if op.name == "tt.get_num_programs"]:
        op.result.replace_by(ConstantPool(body).value(1, op.result.type))
        op.erase()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.cpu)
@pytest.mark.parametrize(("kernel", "expected", "n"), CASES, ids=[f"{case[0].__name__}-{case[2]}" for case in CASES])
def test_loops_compute_what_the_kernel_says(kernel: Any, expected: Callable[..., None], n: int, target: Target) -> None:
    module = lowered(kernel, target)
    x = np.random.default_rng(5).permutation(4 * N).astype(np.float32)[: 2 * N]
    wanted = [x.copy(), np.full(2 * N, -5.0, np.float32)]
    given, native = ([array.copy() for array in wanted] for _ in range(2))
    expected(*wanted, n)
    for step in (None, *loop_passes(target)[4:]):
        if step is not None:
            step.function(module)
        verify(module)
        interpreted = [array.copy() for array in given]
        run_ir(module, [*interpreted, n])
        for found, array in zip(interpreted, wanted, strict=True):
            np.testing.assert_allclose(found, array, rtol=1e-6)
    if target.runs_here():
        in_a_grid_of_one(module)
        compiled(module, target)(*(array.ctypes.data for array in native), n)
        for found, array in zip(native, wanted, strict=True):
            np.testing.assert_allclose(found, array, rtol=1e-6)


def test_texts(golden: Callable[[str, str], None]) -> None:
    """The loops of a nest with two versions, of one whose stores may overlap its loads, and of a transposed one."""
    target = host_target("x86-64-v3")
    golden("\n".join(print_op(lowered(kernel, target)) for kernel in (masked, shifted, turned)), "cpu/nest_loops.ttir")
