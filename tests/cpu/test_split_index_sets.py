"""Rows that are put together from two arrays: a loop for each, where a selection goes from one to the other."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here
from tilewright.backends.cpu.loop_facts import SPLITS
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.cpu.split_index_sets import split_index_sets
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.scf import For
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.ir.printer import print_op

LEVELS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
INF, NAN = float("inf"), float("nan")


@tw.jit
def joined(x, y, out, n, left, right, B: tl.constexpr, OTHER: tl.constexpr = 0.0):
    i = tl.program_id(0) * B + tl.arange(0, B)
    row, column = i // (left + right), i % (left + right)
    first = tl.load(x + row * left + column, (i < n) & (column < left), OTHER)
    second = tl.load(y + row * right + column - left, (i < n) & (column >= left), OTHER)
    tl.store(out + i, tl.where(column < left, first, second), i < n)


@tw.jit
def other_way_round(x, y, out, n, left, right, B: tl.constexpr, OTHER: tl.constexpr = 0.0):
    """The same with the comparisons turned round, and computed with."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    row, column = i // (left + right), i % (left + right)
    first = tl.load(x + row * left + column, (i < n) & (left > column), OTHER)
    second = tl.load(y + row * right + column - left, (i < n) & (left <= column), OTHER)
    tl.store(out + i, tl.where(column >= left, second + 0, first + 0), i < n)


@tw.jit
def holes(x, y, out, n, left, right, B: tl.constexpr, OTHER: tl.constexpr = 0.0):
    """The masks leave out every third column, where the default shows; three stores, of which one is for one side."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    row, column = i // (left + right), i % (left + right)
    some = (i < n) & (column % 3 != 0)
    first = tl.load(x + row * left + column, some & (column < left), OTHER)
    second = tl.load(y + row * right + column - left, some & (column >= left), OTHER)
    tl.store(out + i, tl.where(column < left, first, second), i < n)
    tl.store(out + n + i, first, (i < n) & (column < left))
    tl.store(out + n + i, second, (i < n) & (column >= left))


@tw.jit
def number_behind(x, y, out, n, left, right, B: tl.constexpr):
    """Each row of `x` and then, over and over, its number of `y`, which is there for whole rows only."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    row, column = i // (left + right), i % (left + right)
    first = tl.load(x + row * left + column, (i < n) & (column < left))
    second = tl.load(y + row, (i < n) & (column >= left))
    tl.store(out + i, tl.where(column < left, first, second), i < n)


def expected_of(kernel: Any, x: np.ndarray, y: np.ndarray, n: int, left: int, right: int, other: float) -> np.ndarray:
    """The output of the kernel."""
    i = np.arange(n)
    row, column = i // (left + right), i % (left + right)
    is_first = column < left
    values = np.where(
        is_first, x[np.where(is_first, row * left + column, 0)], y[np.where(is_first, 0, row * right + column - left)]
    )
    if kernel is not holes:
        return values
    shown = np.where(column % 3 != 0, values, values.dtype.type(other))
    return np.concatenate([shown, shown])


def arrays(n: int, left: int, right: int, dtype: Any, end: int) -> list[np.ndarray]:
    """The two inputs, without an element that the kernel does not read, next to guarded pages."""
    whole, rest = divmod(n, left + right)
    sizes = whole * left + min(rest, left), whole * right + max(rest - left, 0)
    return [between_guards(max(size, 1), dtype)[end] for size in sizes]


KERNELS = [joined, other_way_round, holes]
WIDTHS = [(1, 1), (3, 5), (16, 16), (20, 4), (64, 64), (100, 60), (33, 200), (300, 1)]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("widths", WIDTHS)
def test_results(kernel: Any, widths: tuple[int, int]) -> None:
    """No element beyond the arrays is touched, wherever the last row ends. Each dtype has all levels."""
    rng, number = np.random.default_rng(widths), WIDTHS.index(widths)
    level = LEVELS[(number + KERNELS.index(kernel)) % len(LEVELS)]
    first_half = number < len(WIDTHS) // 2
    dtype, other = (np.float64, -INF) if kernel is not holes else (np.float32, NAN) if first_half else (np.int16, 7)
    for n in (1, widths[0], sum(widths), 3 * sum(widths) + widths[0], *rng.integers(1, 1200, 3)):
        for end in (0, 1):
            x, y = arrays(int(n), *widths, dtype, end)
            out = between_guards(int(n) * (2 if kernel is holes else 1), dtype)[end]
            with tw.knobs.tilewright.scope():
                tw.knobs.tilewright.cpu = level
                kernel[(tw.cdiv(n, 128),)](x, y, out, int(n), *widths, B=128, OTHER=other)
            np.testing.assert_array_equal(out, expected_of(kernel, x, y, int(n), *widths, other))


@pytest.mark.parametrize("columns", [(16, 16), (40, 20), (100, 7), (5, 300)])
@pytest.mark.parametrize("end", [0, 1])
def test_a_number_is_read_only_where_a_row_gets_to_it(columns: tuple[int, int], end: int) -> None:
    left, right = columns
    for n in (left, left + 1, 2 * (left + right) + left, 3 * (left + right), 4 * (left + right) - right):
        whole, rest = divmod(n, left + right)
        x = between_guards(whole * left + min(rest, left), np.float32)[end]
        y = between_guards(max(whole + (rest > left), 1), np.float32)[end]
        out = between_guards(n, np.float32)[end]
        number_behind[(tw.cdiv(n, 256),)](x, y, out, n, left, right, B=256)
        row, column = np.divmod(np.arange(n), left + right)
        wanted = [x[r * left + c] if c < left else y[r] for r, c in zip(row, column, strict=True)]
        np.testing.assert_array_equal(out, np.array(wanted, np.float32))


@tw.jit
def joined_tiles(x, y, out, rows, left, right, BM: tl.constexpr, B: tl.constexpr):
    """The same by tiles whose columns begin at zero: nothing is divided."""
    row, column = tl.program_id(0) * BM + tl.arange(0, BM)[:, None], tl.arange(0, B)[None, :]
    inside = (row < rows) & (column < left + right)
    first = tl.load(x + row * left + column, inside & (column < left), 0.0)
    second = tl.load(y + row * right + column - left, inside & (column >= left), 0.0)
    tl.store(out + row * (left + right) + column, tl.where(column < left, first, second), inside)


@pytest.mark.parametrize(("kernel", "is_split"), [(joined, True), (joined_tiles, False)])
def test_rows_that_are_split_have_no_version_for_whole_tiles(kernel: Any, is_split: bool) -> None:
    """The tile would be of one array, and load from the other one under a mask that is off."""
    constants = {} if is_split else {"BM": 4}
    x, y, out = np.arange(4 * 40, dtype=np.float32), -np.arange(4 * 24, dtype=np.float32), np.zeros(256, np.float32)
    compiled = kernel[(2 if is_split else 1,)](x, y, out, 256 if is_split else 4, 40, 24, B=128, **constants)
    np.testing.assert_array_equal(out, expected_of(joined, x, y, 256, 40, 24, 0))
    loops = [op for op in parse_module(compiled.asm["loops"]).walk() if op.name == "scf.for"]
    names = [{op.name for op in loop.body} for loop in loops]
    assert any({"vector.load", "vector.maskedload"} <= found for found in names) != is_split


@tw.jit
def far_out(x, y, out, start, left, right, B: tl.constexpr):
    """Columns of places that may wrap in 32 bits, and so have negative remainders."""
    lane = tl.arange(0, B)
    column = (start + lane) % (left + right)
    first = tl.load(x + column, column < left)
    second = tl.load(y + column, column >= left)
    tl.store(out + lane, tl.where(column < left, first, second))


@pytest.mark.parametrize("start", [-(2**31), -100, -3, 0, 5, 2**31 - 200, 2**31 - 64, 2**31 - 1])
@pytest.mark.parametrize("widths", [(20, 30), (64, 64), (-5, 80), (90, -10), (-100, 40), (2**30, 2**30 - 1)])
def test_places_that_wrap_and_odd_widths(start: int, widths: tuple[int, int]) -> None:
    """A split is where the columns say, or there is none."""
    i = (start + np.arange(64) + 2**31) % 2**32 - 2**31
    divisor = sum(widths)
    column = i - np.trunc(i / divisor).astype(np.int64) * divisor
    if np.abs(column).max() > 1 << 20:
        return  # there is no memory for that
    x, y = np.arange(2 << 20, dtype=np.int32), -np.arange(2 << 20, dtype=np.int32)
    out = np.zeros(64, np.int32)
    far_out[(1,)](x[1 << 20 :], y[1 << 20 :], out, start, *widths, B=64)
    np.testing.assert_array_equal(out, np.where(column < widths[0], 1, -1) * (column + (1 << 20)))


@tw.jit
def into_itself(x, y, out, n, left, right, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    row, column = i // (left + right), i % (left + right)
    first = tl.load(x + row * left + column, (i < n) & (column < left))
    second = tl.load(y + row * right + column - left, (i < n) & (column >= left))
    tl.store(out + i, tl.where(column < left, first, second), i < n)


@pytest.mark.parametrize("apart", [0, 1, 17, 64, 100])
def test_a_tile_is_loaded_before_it_is_stored(apart: int) -> None:
    """The output lies where the inputs do: the loop of the one side must not read what that of the other has stored."""
    for x_at, y_at, out_at in ((0, 300, apart), (300, apart, 0), (apart, 0, 30)):
        memory = np.arange(1000, dtype=np.float32)
        expected = memory.copy()
        expected[out_at : out_at + 256] = expected_of(joined, memory[x_at:], memory[y_at:], 256, 20, 44, 0)
        into_itself[(1,)](memory[x_at:], memory[y_at:], memory[out_at:], 256, 20, 44, B=256)
        np.testing.assert_array_equal(memory, expected)


@tw.jit
def summed(x, y, out, n, left, right, B: tl.constexpr):
    """Numbers that the loop carries from lane to lane."""
    i = tl.arange(0, B)
    row, column = i // (left + right), i % (left + right)
    first = tl.load(x + row * left + column, (i < n) & (column < left), 0.0)
    second = tl.load(y + row * right + column - left, (i < n) & (column >= left), 0.0)
    tl.store(out, tl.sum(tl.where(column < left, first, second), 0))


def test_sums_keep_one_loop() -> None:
    """Lanes are added up in one order, which two loops with ends of their own would change."""
    rng = np.random.default_rng(0)
    x, y, out = *rng.standard_normal((2, 256)).astype(np.float32), np.zeros(1, np.float32)
    compiled = summed[(1,)](x, y, out, 256, 20, 44, B=256)
    loops = [op for op in parse_module(compiled.asm["loops"]).walk() if op.name == "scf.for"]
    assert loops
    assert not any(inside.name == "scf.for" for op in loops for inside in op.walk() if inside is not op)
    np.testing.assert_allclose(out[0], expected_of(joined, x, y, 256, 20, 44, 0).astype(float).sum(), rtol=1e-4)


TEXT = """
tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %out: !tt.ptr<f32>, %few: i32, %width: i32) {{
  "cpu.nest"() <{{mode = rows, outer = array<i64>}}> ({{
    %i = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
    %w = tt.splat %width : i32 -> tensor<64xi32>
    %column = arith.remsi %i, %w : tensor<64xi32>
    %first = tt.splat %few : i32 -> tensor<64xi32>
    %other = arith.constant dense<1.0> : tensor<64xf32>
    %on = arith.cmpi {on}, %column, %first : tensor<64xi32>
    %off = arith.cmpi {off} : tensor<64xi32>
    %from_x = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %p = tt.addptr %from_x, %column : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %v = tt.load %p, %on {x_option}: tensor<64x!tt.ptr<f32>>
    %from_y = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %q = tt.addptr %from_y, %column : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %u = tt.load %q, {mask} : tensor<64x!tt.ptr<f32>>
    %z = arith.select %on, %v, {else_} : tensor<64xi1>, tensor<64xf32>
    %to = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %at = tt.addptr %to, %i : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %at, %z : tensor<64x!tt.ptr<f32>>
    "cpu.yield"() : () -> ()
  }}) : () -> ()
  tt.return
}}
"""
USUAL = {"on": "slt", "off": "sge, %column, %first", "x_option": "", "mask": "%off", "else_": "%u"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"off": "sle, %first, %column"},
        {"on": "sge", "off": "slt, %column, %first"},
        {"on": "ult", "off": "uge, %column, %first"},
    ],
)
def test_selections_that_split_rows(changes: dict[str, str]) -> None:
    module = parse_module(TEXT.format(**{**USUAL, **changes}))
    assert split_index_sets(module)
    assert print_op(module).count(SPLITS) == 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"on": "eq", "off": "ne, %column, %first"}, id="no ordering"),
        pytest.param({"off": "sgt, %column, %first"}, id="not the contrary"),
        pytest.param({"off": "uge, %column, %first"}, id="the contrary of another order"),
        pytest.param({"off": "sge, %first, %column"}, id="operands exchanged"),
        pytest.param({"off": "sge, %column, %w"}, id="another bound"),
        pytest.param({"mask": "%on"}, id="both under one mask"),
        pytest.param({"else_": "%other"}, id="a number on one side"),
        pytest.param({"x_option": "{isVolatile = true} "}, id="volatile"),
    ],
)
def test_selections_that_split_no_rows(changes: dict[str, str]) -> None:
    module = parse_module(TEXT.format(**{**USUAL, **changes}))
    before = print_op(module)
    assert not split_index_sets(module)
    assert print_op(module) == before


def test_loops_of_the_two_sides_have_no_masks() -> None:
    """Beside the whole chunks of either side there are few lanes with a mask, and the loop for what cannot be split."""
    module = parse_module(TEXT.format(**USUAL))
    run_passes(module, loop_passes(host_target("x86-64-v4")))
    loops = [op for op in module.walk() if isinstance(op, For)]
    (chunks,) = [found for op in loops if (found := [x for x in op.walk() if isinstance(x, For) and x is not op])]
    names = [[inside.name for inside in op.body] for op in chunks]
    assert len(names) == 2
    assert all(inner.count("vector.load") == inner.count("vector.store") == 1 for inner in names)
    assert not {"vector.maskedload", "vector.maskedstore", "arith.select", "arith.cmpi"} & {*chain.from_iterable(names)}
