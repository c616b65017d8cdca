"""A whole kernel as vector loops: `asm["loops"]` is text that is parsed, verified and run, and computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.loop_builder import known
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import CpuDot, Matmul, Nest
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

N = 32


@tw.jit
def softmax(x, y, n, N: tl.constexpr):
    i = tl.arange(0, N)
    row = tl.program_id(0) * N
    values = tl.load(x + row + i, mask=i < n, other=-float("inf"))
    top = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row + i, top / tl.sum(top, axis=0), mask=i < n)


@tw.jit
def product(x, y, n, N: tl.constexpr):
    i, k = tl.arange(0, N), tl.arange(0, 16)
    sums = tl.zeros((N, N), tl.float32)
    for start in range(0, n, 16):
        left = tl.load(x + i[:, None] * N + start + k[None, :])
        right = tl.load(x + (start + k)[:, None] * N + i[None, :])
        sums = tl.dot(left, right, sums)
    tl.store(y + i[:, None] * N + i[None, :], sums)


@tw.jit(noinline=True)
def clear(y, first, N: tl.constexpr):
    tl.store(y + first + tl.arange(0, N), tl.zeros((N,), tl.float32))


@tw.jit
def searched(x, y, n, N: tl.constexpr):
    """Calls, a branch, and a loop whose end depends on what is stored."""
    i = tl.arange(0, N)
    clear(y, tl.program_id(0) * N, N)
    place = tl.program_id(0) * N
    while tl.load(x + place) < 0.5:
        if tl.load(x + place) < 0.25:
            tl.store(y + tl.program_id(0) * N + i, tl.load(x + i) + n)
        place += 1


@tw.jit
def overlapping(x, y, n, N: tl.constexpr):
    """Stores that may meet what is loaded."""
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + i, tl.load(x + i) + tl.load(y + (i + n) % (3 * N)))


def arrays() -> list[Any]:
    x = np.random.default_rng(3).random(N * N, np.float32)
    x[N - 1 :: N] = 1.0
    return [x, np.full(N * N, -1.0, np.float32)]


@pytest.mark.parametrize(
    ("kernel", "grid", "n"), [(softmax, 3, 21), (product, 1, N), (searched, 3, 7), (overlapping, 3, 5)]
)
def test_the_loops_of_a_kernel_are_text_that_computes_the_same(kernel: Any, grid: int, n: int) -> None:
    native, interpreted = arrays(), arrays()
    text = kernel[(grid,)](*native, n, N=N, num_threads=1).asm["loops"]
    module = parse_module(text)
    verify(module)
    assert print_op(module) == text
    assert not any(isinstance(op, (Nest, CpuDot)) for op in module.walk())
    run_ir(module, [*interpreted, n], (grid,))
    np.testing.assert_allclose(interpreted[1], native[1], rtol=2e-6, atol=1e-6)
    assert (interpreted[0] == native[0]).all()


@pytest.mark.spared
def test_a_product_is_one_op_before_it_is_loops() -> None:
    """Every pass from ttcir on keeps what the kernel computes, accumulating in a loop over k."""
    x, y = arrays()
    module, seen = parse_module(product.warmup(x, y, N, N=N, grid=(1,)).asm["ttcir"]), []
    wanted = arrays()
    run_ir(module, [*wanted, N], (1,))
    for step in loop_passes(host_target()):
        step.function(module)
        verify(module)
        found = arrays()
        run_ir(module, [*found, N], (1,))
        np.testing.assert_allclose(found[1], wanted[1], rtol=2e-6, atol=1e-6)
        seen.append(any(isinstance(op, Matmul) for op in module.walk()))
    names = [step.name for step in loop_passes(host_target())]
    having = [name for name, has in zip(names, seen, strict=True) if has]
    assert having == names[names.index("copy_elision") : names.index("expand_dots")]


def test_loops_are_made_on_request_only() -> None:
    x, y = arrays()
    asm = softmax.warmup(x, y, 3, N=N, grid=(1,)).asm
    assert "loops" not in list(asm)
    assert f"vector<{host_target().lanes(32)}xf32>" in asm["loops"]


def with_zeros(kernel: Any) -> list[str]:
    """The integer arithmetic in the loops of a kernel that has a known zero among its operands."""
    names = ("arith.addi", "arith.subi", "arith.muli", "arith.extsi")
    ops = parse_module(str(kernel.asm["loops"])).walk()
    return [op.name for op in ops if op.name in names and any(known(value) == 0 for value in op.operands)]


@tw.jit
def one_row(out, n, m):
    row, lane = tl.arange(0, 1)[:, None], tl.arange(0, 16)[None, :]
    tl.store(out + row * n + lane, row * n + (row - m) + lane)


def test_nothing_is_computed_of_the_number_of_the_first_row() -> None:
    x = np.zeros((N, N), np.float32)
    assert with_zeros(product.warmup(x, x, N, N=N, grid=(1,))) == []


def test_differences_from_zero_are_computed() -> None:
    out = np.zeros((1, 16), np.int32)
    kernel = one_row[(1,)](out, 16, 7)
    assert (out == np.arange(16) - 7).all()
    assert with_zeros(kernel) == ["arith.subi"]
