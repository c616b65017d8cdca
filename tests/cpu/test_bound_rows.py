"""Rows that an index chooses are loaded and stored in one nest where they are apart from what is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.backends.cpu.bound_rows import bound_rows
from tilewright.backends.cpu.pipeline import cpu_passes, loop_passes
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.cpu import GuardedStore, Nest, Take, Within
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.verifier import verify

TARGET = host_target()


@tw.jit
def chosen(
    x, index, out, rows, columns, x0, BM: tl.constexpr, BN: tl.constexpr, OTHER: tl.constexpr = 0,
    VOLATILE: tl.constexpr = False,
):
    """out[row, column] = 2 x[index[row], column], by tiles."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    at = tl.load(index + row, row < rows, OTHER, volatile=VOLATILE)[:, None]
    inside = (row < rows)[:, None] & (column < columns)
    tl.store(out + row[:, None] * columns + column, 2 * tl.load(x + at * x0 + column, inside), inside)


@tw.jit
def by_offsets(
    x, index, out, rows, columns, x0, BM: tl.constexpr, BN: tl.constexpr, OTHER: tl.constexpr = 0,
    VOLATILE: tl.constexpr = False,
):
    """The same, by one offset for each element."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    at = tl.load(index + row, row < rows, OTHER, volatile=VOLATILE)
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    value = tl.load(x + (at[:, None] * x0 + column[None, :]), inside)
    tl.store(out + (row[:, None] * columns + column[None, :]), 2 * value, inside)


BOTH = pytest.mark.parametrize("kernel", [chosen, by_offsets])


def launch(
    kernel: Any, x: np.ndarray, index: np.ndarray, out: np.ndarray, shape: tuple[int, int], x0: int,
    tile: tuple[int, int] = (16, 32), **options: Any,
) -> None:
    grid = tuple(map(tw.cdiv, shape, tile))
    kernel[grid](x, index, out, *shape, x0, BM=tile[0], BN=tile[1], **options)


def program_by_program(
    memory: np.ndarray, x_at: int, index: np.ndarray, out_at: int, shape: tuple[int, int], x0: int,
    tile: tuple[int, int],
) -> None:
    """Does in `memory` what the programs do one after the other, rows of tiles first."""
    for top in range(0, shape[0], tile[0]):
        for left in range(0, shape[1], tile[1]):
            rows = np.arange(top, min(shape[0], top + tile[0]))[:, None]
            columns = np.arange(left, min(shape[1], left + tile[1]))
            memory[out_at + rows * shape[1] + columns] = 2 * memory[x_at + index[rows] * x0 + columns]


@BOTH
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int16])
@pytest.mark.parametrize("shape", [(32, 64), (50, 203), (3, 5), (1, 40), (0, 7), (7, 0)])
@pytest.mark.parametrize("tile", [(16, 32), (1, 64), (64, 16)])
def test_rows_of_another_array(kernel: Any, dtype: Any, shape: tuple[int, int], tile: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-9, 9, (60, shape[1] + 3)).astype(np.float32)
    index = rng.integers(0, 60, shape[0]).astype(dtype)
    out = np.full(shape, 77, np.float32)
    launch(kernel, x, index, out, shape, x.shape[1], tile)
    np.testing.assert_array_equal(out, 2 * x[index][:, : shape[1]])


@BOTH
@pytest.mark.parametrize("tile", [(64, 64), (16, 32), (64, 16)])
@pytest.mark.parametrize("apart", [0, 1, 64, 700, 4096, 5000])
def test_rows_of_the_memory_that_is_stored_to(kernel: Any, tile: tuple[int, int], apart: int) -> None:
    """A tile is loaded before the first of it is stored, and behind what earlier programs have stored."""
    shape, size = (64, 64), 64 * 64
    index = np.random.default_rng(apart).permutation(64)
    for x_at, out_at in ((0, apart), (apart, 0)):
        memory = np.arange(2 * size + 1000, dtype=np.float32)
        expected = memory.copy()
        program_by_program(expected, x_at, index, out_at, shape, 64, tile)
        launch(kernel, memory[x_at:], index, memory[out_at:], shape, 64, tile, num_threads=1)
        np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("tile", [(16, 16), (64, 64)])
def test_an_index_that_the_programs_change(tile: tuple[int, int]) -> None:
    """Each program sees what those before it have stored to the index."""
    shape = (64, 64)
    rng = np.random.default_rng(3)
    x = rng.integers(0, 32, (64, 64))
    memory = rng.integers(0, 64, 64 * 64)
    expected = memory.copy()
    for top in range(0, 64, tile[0]):
        for left in range(0, 64, tile[1]):
            at = expected[top : top + tile[0]].copy()
            expected.reshape(shape)[top : top + tile[0], left : left + tile[1]] = 2 * x[at, left : left + tile[1]]
    launch(chosen, x, memory, memory, shape, 64, tile, num_threads=1)
    np.testing.assert_array_equal(memory, expected)


@BOTH
@pytest.mark.parametrize("other", [0, -1, 1 << 62, -(1 << 62), (1 << 63) - 1, 1 << 60])
@pytest.mark.parametrize("is_same", [False, True])
def test_rows_that_are_masked_off_may_be_anywhere(kernel: Any, other: int, is_same: bool) -> None:
    """Their addresses wrap, and say nothing about whether the others are apart."""
    shape = (40, 32)
    _, memory = between_guards(2 * 40 * 32, np.dtype(np.float32))
    memory[:] = np.arange(memory.size)
    index = np.random.default_rng(2).permutation(40)
    x, out = memory[:1280], memory[:1280] if is_same else memory[1280:]
    expected = 2 * x.reshape(shape)[index]
    launch(kernel, x, index, out, shape, 32, (64, 32), OTHER=other, num_threads=1)
    np.testing.assert_array_equal(out.reshape(shape), expected)


def ttcir(kernel: Any, tile: tuple[int, int] = (16, 32), **options: Any) -> Op:
    x, index = np.zeros(4096, np.float32), np.zeros(64, np.int64)
    compiled = kernel.warmup(x, index, x, 40, 75, 80, BM=tile[0], BN=tile[1], grid=(1, 1), **options)
    return parse_module(compiled.asm["ttcir"])


@BOTH
@code_on("neoverse-v1")
def test_one_nest_loads_and_stores(kernel: Any) -> None:
    module = ttcir(kernel)
    assert len(module.ops_of(Nest)) == 2
    assert len(module.ops_of(Within)) == len(module.ops_of(GuardedStore)) == 1


@BOTH
def test_rows_that_are_short_or_volatile_have_no_bounds(kernel: Any) -> None:
    assert not ttcir(kernel, (16, 8)).ops_of(Within)
    assert not ttcir(kernel, VOLATILE=True).ops_of(Within)


@tw.jit
def of_two_indices(x, index, out, rows, columns, x0, BM: tl.constexpr, BN: tl.constexpr):
    row, column = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    at, place = tl.load(index + row), tl.load(index + column)
    tl.store(out + row * columns + column, tl.load(x + at * x0 + place))


@tw.jit
def of_sums(x, index, out, rows, columns, x0, BM: tl.constexpr, BN: tl.constexpr):
    row, column = tl.arange(0, BM), tl.arange(0, BN)[None, :]
    at = tl.load(index + row)[:, None]
    tl.store(out + row, tl.sum(tl.load(x + at * x0 + column), 1))


@tw.jit
def to_chosen_rows(x, index, out, rows, columns, x0, BM: tl.constexpr, BN: tl.constexpr):
    row, column = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    at = tl.load(index + row)
    tl.store(out + at * columns + column, tl.load(x + at * x0 + column))


@pytest.mark.parametrize("kernel", [of_two_indices, of_sums, to_chosen_rows])
def test_nests_that_gain_nothing_have_no_bounds(kernel: Any) -> None:
    assert not ttcir(kernel).ops_of(Within)


@BOTH
@pytest.mark.parametrize("is_same", [False, True])
@pytest.mark.parametrize("last", ["add_alias_checks", "merge_programs", "unroll_and_jam"])
def test_what_the_passes_make_of_it(kernel: Any, is_same: bool, last: str) -> None:
    x, index = np.zeros(4096, np.float32), np.zeros(64, np.int64)
    text = kernel.warmup(x, index, x, 40, 75, 80, BM=16, BN=32, grid=(1, 1)).asm["ttir"]
    module = parse_module(text)
    steps = [*cpu_passes(TARGET), *loop_passes(TARGET)]
    names = [step.name for step in steps]
    run_passes(module, steps[: names.index(last) + 1])
    verify(module)
    assert bool(module.ops_of(Take)) == (last != "add_alias_checks")
    index, out_at, memories = np.random.default_rng(4).permutation(40), 80 if is_same else 4000, []
    for one in (parse_module(text), module):
        memory = np.arange(9000.0, dtype=np.float32)
        arguments = {"x": memory, "index": index, "out": memory[out_at:], "rows": 40, "columns": 75, "x0": 80}
        run_ir(one, arguments, (3, 3))
        memories.append(memory)
    np.testing.assert_array_equal(*memories)


def test_the_pass_says_whether_it_found_any() -> None:
    x, index = np.zeros(4096, np.float32), np.zeros(64, np.int64)
    for kernel, found in ((chosen, True), (of_sums, False)):
        text = kernel.warmup(x, index, x, 40, 75, 80, BM=16, BN=32, grid=(1, 1)).asm["ttir"]
        assert bound_rows(parse_module(text)) is found
