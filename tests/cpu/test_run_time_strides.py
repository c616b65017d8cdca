"""Strides that Triton does not specialise: a nest has a version for neighbours, and one for any distance."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.strides import run_time_strides
from tilewright.backends.cpu.version_strides import CODE_SIZE_BUDGET, version_strides
from tilewright.dialects.cpu import Nest
from tilewright.dialects.scf import If
from tilewright.dialects.vector import Load, MaskedLoad, MaskedStore, Store, lanes_of
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op, Region
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

Golden = Callable[[str, str], None]


@tw.jit
def scaled(x, out, x_stride: int, out_stride: int, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i * out_stride, 2 * tl.load(x + i * x_stride, i < n), i < n)


@tw.jit
def scaled_tiles(x, out, x_row: int, x_column: int, out_row: int, out_column: int, M, N, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    inside = (r < M)[:, None] & (c < N)[None, :]
    value = tl.load(x + r[:, None] * x_row + c[None, :] * x_column, inside)
    tl.store(out + r[:, None] * out_row + c[None, :] * out_column, 2 * value, inside)


@tw.jit
def row_sums(x, out, row: int, column: int, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    tl.store(out + r, tl.sum(tl.load(x + r * row + c * column, c < N, 0.0), 0))


@tw.jit
def in_steps(x, out, step, STRIDE: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.load(x + i * STRIDE + step))


STRIDES = [1, 2, 3, -1]


@pytest.mark.parametrize("x_stride", STRIDES)
@pytest.mark.parametrize("out_stride", STRIDES)
def test_every_pair_of_strides(x_stride: int, out_stride: int) -> None:
    """One stride of 1 is not enough for the version that takes all of them to be."""
    n = 205
    for dtype in (np.float32, np.int8, np.float64):
        x, out = np.arange(3 * n).astype(dtype), np.zeros(3 * n, dtype)
        source, target = (a[n * 3 - 1 :] if stride < 0 else a for a, stride in ((x, x_stride), (out, out_stride)))
        scaled[(4,)](source, target, x_stride, out_stride, n, B=64)
        wanted = np.zeros(3 * n, dtype)
        wanted[::out_stride][:n] = 2 * x[::x_stride][:n]
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("shape", [(1, 1), (33, 70), (64, 32)])
@pytest.mark.parametrize("order", ["CC", "CF", "FC", "FF"])
def test_matrices_of_either_order(shape: tuple[int, int], order: str) -> None:
    x = np.asarray(np.random.default_rng(0).standard_normal(shape), order=order[0])
    out = np.zeros(shape, order=order[1])
    steps = [stride // 8 for stride in (*x.strides, *out.strides)]
    scaled_tiles[tuple(-(-extent // 32) for extent in shape)](x, out, *steps, *shape, B=32)
    np.testing.assert_array_equal(out, 2 * x)


@pytest.mark.parametrize("shift", [-3, -1, 0, 1, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_loads_come_before_stores_that_overlap_them(shift: int, stride: int) -> None:
    memory = np.arange(300, dtype=np.float32)
    x, out = memory[50:], memory[50 + shift :]
    wanted = memory.copy()
    wanted[50 + shift :: stride][:64] = 2 * memory[50::stride][:64]
    scaled[(1,)](x, out, stride, stride, 64, B=64)
    np.testing.assert_array_equal(memory, wanted)


@pytest.mark.parametrize("column", [1, 2])
def test_reductions(column: int) -> None:
    x, out = np.random.default_rng(1).integers(-9, 9, (5, 200)).astype(np.float32), np.zeros(5, np.float32)
    row_sums[(5,)](x, out, 200, column, 100, B=128)
    np.testing.assert_array_equal(out, x[:, : 100 * column : column].sum(1))


def versions(kernel: tw.JITFunction, *arguments: object, grid: tuple[int, ...] = (1,), **options: int) -> list[str]:
    """The names of the strides that the kernel compares with 1."""
    text = kernel.warmup(*arguments, grid=grid, **options).asm["loops"]
    return re.findall(r"arith.cmpi eq, %(\w+), %c1_i32", text)


def test_only_strides_of_neighbours_are_compared_with_one() -> None:
    x = np.zeros((64, 64), np.float32)
    assert versions(scaled, x, x, 1, 1, 64, B=64) == ["x_stride", "out_stride"]
    lies_across = ["out_column", "x_row"]  # see test_transposed_loads.py
    found = versions(scaled_tiles, x, x, 64, 1, 64, 1, 64, 64, B=32)
    assert (found[:2], sorted(found[2:])) == (["x_column", "out_column"], lies_across)
    assert versions(row_sums, x, x, 64, 1, 64, B=64) == ["column"]
    assert versions(in_steps, x, x, 7, STRIDE=2, B=64) == []


def test_the_version_for_neighbours_reads_and_writes_whole_vectors() -> None:
    x = np.zeros(64, np.float32)
    module = parse_module(scaled.warmup(x, x, 1, 1, 64, B=64, grid=(1,)).asm["loops"])
    dense, spaced = next(op for op in module.walk() if isinstance(op, If)).regions
    assert has_vectors(dense, at_a_distance=False)
    assert not has_vectors(dense, at_a_distance=True)
    assert has_vectors(spaced, at_a_distance=True)


def nests_of(kernel: tw.JITFunction, *arguments: object, **constants: int) -> tuple[Op, Op]:
    """The ttcir of a kernel, before and after its nests get versions."""
    text = kernel.warmup(*arguments, grid=(1,), **constants).asm["ttcir"]
    before, after = parse_module(text), parse_module(text)
    version_strides(after)
    verify(after)
    return before, after


@pytest.mark.parametrize("column", [1, 2, 3, 0])
@pytest.mark.parametrize("kernel", [scaled, row_sums])
def test_a_nest_in_two_versions_computes_the_same(kernel: tw.JITFunction, column: int) -> None:
    """A version for 1 that ran for another stride would read other elements."""
    x = np.random.default_rng(2).integers(-9, 9, 300).astype(np.float32)
    found = []
    for module in nests_of(kernel, x, x, 7, 7, 60, B=64):
        out = np.zeros(300, np.float32)
        strides = [column, 2] if kernel is scaled else [0, column]
        run_ir(module, [x, out, *strides, 60])
        found.append(out)
    np.testing.assert_array_equal(found[1], found[0])
    assert found[0].any()


@tw.jit
def add_flat(x, y, out, n, columns, x_step: int, y_step: int, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    row, column = at // columns, at % columns
    value = tl.load(x + row * 90 + column * x_step, at < n) - tl.load(y + row * 90 + column * y_step, at < n)
    tl.store(out + at, value, at < n)


@tw.jit
def sum_of_products(x, y, out, x_step: int, y_step: int, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out, tl.sum(tl.load(x + i * x_step) * tl.load(y + i * y_step), 0))


def test_the_second_load_of_two_may_repeat_an_element() -> None:
    """Neither a store that repeats a place nor a sum has a version of its own for the stride 0."""
    x = np.zeros(64, np.float32)
    kernels = [
        add_flat.warmup(x, x, x, 60, 30, 1, 1, B=64, grid=(1,)),
        sum_of_products.warmup(x, x, x, 1, 1, B=64, grid=(1,)),
        scaled.warmup(x, x, 1, 1, 64, B=64, grid=(1,)),
    ]
    compared = [re.findall(r"arith.cmpi eq, %(\w+), %c0_i32", kernel.asm["loops"]) for kernel in kernels]
    assert compared == [["y_step"], [], []]


@pytest.mark.parametrize("steps", [(1, 1), (1, 0), (0, 1), (0, 0), (2, 0), (1, 2), (-1, 0)])
@pytest.mark.parametrize(("n", "columns"), [(300, 30), (205, 45), (64, 1), (300, 20)])
def test_strides_of_broadcast_operands(steps: tuple[int, int], n: int, columns: int) -> None:
    """A version that took one stride for the other, or 2 for 0, would read other elements."""
    x, y = np.random.default_rng(3).standard_normal((2, 30_000)).astype(np.float32)
    x[::7], y[::5] = np.nan, -0.0
    first, second = x[200:], y[200:]
    at, out = np.arange(n), np.full(n + 8, 7, np.float32)
    places = [at // columns * 90 + at % columns * step for step in steps]
    add_flat[(-(-n // 64),)](first, second, out, n, columns, *steps, B=64)
    wanted = x[places[0] + 200] - y[places[1] + 200]
    np.testing.assert_array_equal(out[:n].view(np.int32) & 0x7FFFFFFF, wanted.view(np.int32) & 0x7FFFFFFF)
    assert (out[n:] == 7).all()


def test_golden(golden: Golden) -> None:
    """Three nests that differ in the two strides of a column alone."""
    x = np.zeros(64, np.float32)
    golden(print_op(nests_of(add_flat, x, x, x, 60, 30, 7, 7, B=64)[1]), "cpu/version_strides.ttcir")


@pytest.mark.parametrize("steps", [(1, 1), (1, 0), (0, 1), (3, 0)])
def test_a_nest_in_three_versions_computes_the_same(steps: tuple[int, int]) -> None:
    x = np.random.default_rng(4).integers(-9, 9, 3000).astype(np.float32)
    found = []
    for module in nests_of(add_flat, x, x, x, 60, 30, 7, 7, B=64):
        out = np.zeros(64, np.float32)
        run_ir(module, [x, x, out, 60, 30, *steps])
        found.append(out)
    np.testing.assert_array_equal(found[1], found[0])
    assert steps == (1, 1) or found[0].any()


@tw.jit
def many_sums(x, out, stride: int, SUMS: tl.constexpr):
    values = tl.load(x + tl.arange(0, 16) * stride)
    for k in tl.static_range(SUMS):
        tl.store(out + k, tl.sum(values * k, 0))


@pytest.mark.parametrize(("sums", "written"), [(2, 2), (CODE_SIZE_BUDGET, 1)])
def test_nests_of_crowded_places_are_written_once(sums: int, written: int) -> None:
    x = np.zeros(64, np.float32)
    before, after = ([op for op in m.walk() if isinstance(op, Nest)] for m in nests_of(many_sums, x, x, 7, SUMS=sums))
    spaced = sum(bool(run_time_strides(nest)) for nest in before)
    assert len(after) - len(before) == spaced * (written - 1)
    assert spaced > 0
    assert all(nest.optimize_size == (written == 1) for nest in after)


def has_vectors(region: Region, *, at_a_distance: bool) -> bool:
    """Whether a chunk of lanes moves from or to memory, of neighbours or of elements at a distance."""
    moves = [op for op in region.walk() if isinstance(op, (Load, MaskedLoad, Store, MaskedStore))]
    values = [(op.result if isinstance(op, (Load, MaskedLoad)) else op.value, op.stride) for op in moves]
    return any(lanes_of(value.type) > 1 and (stride is not None) == at_a_distance for value, stride in values)


SPACED = """tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {
  %c16 = arith.constant 16 : i32
  %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
  %stride = tt.splat %c16 : i32 -> tensor<16xi32>
  %place = arith.muli %i, %stride : tensor<16xi32>
  %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %p = tt.addptr %xs, %place : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %v = tt.load %p : tensor<16x!tt.ptr<f32>>
  %outs = tt.splat %out : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %q = tt.addptr %outs, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  tt.store %q, %v : tensor<16x!tt.ptr<f32>>
  tt.return
}"""


def test_a_number_that_no_pass_has_folded_is_no_stride_of_the_launch(tmp_path: Path) -> None:
    """Its constant stood behind the comparison with 1, which code could not be written for."""
    path = tmp_path / "kernel.ttir"
    path.write_text(SPACED)
    x, out = np.arange(256, dtype=np.float32), np.zeros(16, np.float32)
    compiled = tw.compile(str(path))
    assert not run_time_strides(parse_module(compiled.asm["ttcir"]))
    compiled[(1,)](x, out, 0)
    np.testing.assert_array_equal(out, x[::16])
