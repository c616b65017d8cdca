"""Loads that lie across the others of their nest are transposed in squares, also where only the launch tells which."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.blocked_transpose import blocked_transpose
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import Nest
from tilewright.dialects.tt_memory import Load
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify


@tw.jit
def add_strided(
    x_ptr, y_ptr, out_ptr,
    x0: int, x1: int, y0: int, y1: int, o0: int, o1: int, M, N, BM: tl.constexpr, BN: tl.constexpr,
):
    """out = 2 x + y, all at distances that are never specialised."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (m < M) & (n < N)
    x = tl.load(x_ptr + m * x0 + n * x1, inside)
    y = tl.load(y_ptr + m * y0 + n * y1, inside)
    tl.store(out_ptr + m * o0 + n * o1, 2 * x + y, inside)


@tw.jit
def add_turned(x_ptr, y_ptr, bias_ptr, out_ptr, M, N, OUT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """out = 2 x + y + bias, where y is [N, M]; out is [N, M] where OUT says so."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (m < M) & (n < N)
    value = 2 * tl.load(x_ptr + m * N + n, inside) + tl.load(y_ptr + n * M + m, inside) + tl.load(bias_ptr + m, m < M)
    if OUT:
        tl.store(out_ptr + n * M + m, value, inside)
    else:
        tl.store(out_ptr + m * N + n, value, inside)


@tw.jit
def add_three(x_ptr, y_ptr, z_ptr, out_ptr, x1: int, y0: int, y1: int, z1: int, N: tl.constexpr):
    m, n = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x, z = tl.load(x_ptr + m * N + n * x1), tl.load(z_ptr + m * N + n * z1)
    tl.store(out_ptr + m * N + n, x + tl.load(y_ptr + m * y0 + n * y1) + z)


def matrix(shape: tuple[int, int], dtype: type, turned: bool) -> np.ndarray:
    rng = np.random.default_rng(shape[0])
    made = rng.integers(-20, 20, shape[::-1] if turned else shape).astype(dtype)
    return made.T if turned else made


def steps(*arrays: np.ndarray) -> list[int]:
    return [step // array.itemsize for array in arrays for step in array.strides]


@pytest.mark.parametrize("dtypes", [(np.float32, np.float32), (np.float16, np.float32), (np.int8, np.float64)])
@pytest.mark.parametrize("turned", [*product((False, True), repeat=3)])
def test_any_operand_lies_across(turned: tuple[bool, ...], dtypes: tuple[type, type]) -> None:
    shape = 50, 70
    x, y, out = (
        matrix(shape, dtype, lies) for dtype, lies in zip((*dtypes, dtypes[1]), turned, strict=True)
    )
    add_strided[(2, 3)](x, y, out, *steps(x, y, out), *shape, BM=32, BN=32)
    np.testing.assert_array_equal(out, 2 * x.astype(dtypes[1]) + y)


@pytest.mark.parametrize("out_turned", [False, True])
@pytest.mark.parametrize("shape", [(32, 64), (33, 47), (64, 16)])
def test_what_the_program_says_lies_across(shape: tuple[int, int], out_turned: bool) -> None:
    (m, n), bias = shape, np.arange(shape[0], dtype=np.float32)
    x, y = matrix(shape, np.float32, False), matrix(shape, np.float32, True)
    out = np.zeros(shape[::-1] if out_turned else shape, np.float32)
    add_turned[(tw.cdiv(m, 32), tw.cdiv(n, 16))](x, y, bias, out, m, n, OUT=out_turned, BM=32, BN=16)
    np.testing.assert_array_equal(out.T if out_turned else out, 2 * x + y + bias[:, None])


def test_an_operand_over_itself_is_added_as_the_interpreter_does() -> None:
    """x += x.T in place: what is stored is not to be loaded again."""
    memory = np.arange(32 * 32, dtype=np.float32)
    x = memory.reshape(32, 32)
    expected = 2 * x + x.T
    add_strided[(1, 1)](x, x.T, x, *steps(x, x.T, x), 32, 32, BM=32, BN=32)
    np.testing.assert_array_equal(x, expected)


def versions_of(kernel: Callable[..., object], *arguments: object, **constants: object) -> tuple[Op, Op, list[Nest]]:
    """ttcir before and after, and the nests by squares."""
    text = kernel.warmup(*arguments, grid=(1, 1), **constants).asm["ttcir"]
    before, after = parse_module(text), parse_module(text)
    blocked_transpose(after, host_target("x86-64-v3"))
    verify(after)
    return before, after, [op for op in after.walk() if isinstance(op, Nest) and op.square]


def transposed_loads(nest: Nest) -> list[int]:
    loads = [op for op in nest.body if isinstance(op, Load)]
    return [number for number, load in enumerate(loads) if "cpu.transposed" in load.attributes]


X = np.zeros(256, np.float32)


def test_each_load_has_a_version_in_which_it_alone_lies_across() -> None:
    *_, squares = versions_of(add_strided, X, X, X, 16, 1, 16, 1, 16, 1, 16, 16, BM=16, BN=16)
    assert [transposed_loads(nest) for nest in squares] == [[0], [1]]
    assert all(nest.square == 8 for nest in squares)
    *_, squares = versions_of(add_three, X, X, X, X, 1, 1, 16, 1, N=16)
    assert not squares  # the third load would make three


def test_squares_read_whole_vectors_across() -> None:
    """One number at a time comes only for what is beside the squares."""
    kernel = add_turned.warmup(X, X, X, X, 16, 16, OUT=False, BM=16, BN=16, grid=(1, 1))
    assert kernel.asm["llir"].count("= load float,") < 100


@pytest.mark.parametrize("out_turned", [False, True])
def test_what_disagrees_with_the_store_is_transposed(out_turned: bool) -> None:
    *_, squares = versions_of(add_turned, X, X, X, X, 16, 16, OUT=out_turned, BM=16, BN=16)
    assert [transposed_loads(nest) for nest in squares] == [[0] if out_turned else [1]]


@pytest.mark.parametrize(("m", "n"), [(16, 16), (16, 9), (3, 16)])
@pytest.mark.parametrize("turned", [*product((False, True), repeat=3)])
def test_the_versions_compute_the_same(turned: tuple[bool, ...], m: int, n: int) -> None:
    """A version that ran where a mask is off would store outside of the matrix, or what no mask lets through."""
    before, after, _ = versions_of(add_strided, X, X, X, 17, 1, 17, 1, 17, 1, 17, 17, BM=16, BN=16)
    loops = parse_module(print_op(before))
    run_passes(loops, loop_passes(host_target("x86-64-v3")))
    x, y = (np.arange(m * n, dtype=np.float32) + 100 * number for number in range(2))
    distances = [step for lies in turned for step in ((1, m) if lies else (n, 1))]
    found = []
    for module in (before, after, loops):
        out = np.zeros(m * n, np.float32)
        run_ir(module, [x, y, out, *distances, m, n], (1, 1))
        found.append(out)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert found[0].any()


@pytest.mark.parametrize("shift", [0, 4])
def test_operands_that_overlap_the_result_go_row_by_row(shift: int) -> None:
    """Squares have no buffer to fall back to."""
    *modules, _ = versions_of(add_turned, X, X, X, X, 17, 17, OUT=False, BM=16, BN=16)
    found = []
    for module in modules:
        memory = np.arange(300, dtype=np.float32)
        run_ir(module, [memory[4:], memory[4:], np.ones(16, np.float32), memory[4 - shift :], 16, 16], (1, 1))
        found.append(memory)
    np.testing.assert_array_equal(*found)


def test_text_of_a_square_with_a_transposed_load(golden: Callable[[str, str], None]) -> None:
    _, module, _ = versions_of(add_turned, X, X, X, X, 16, 16, OUT=False, BM=16, BN=16)
    golden(print_op(module), "cpu/passes/transposed_loads.ttcir")
