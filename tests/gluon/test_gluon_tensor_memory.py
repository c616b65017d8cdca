"""Buffers in the tensor memory of sm_100: the layouts in which warps have them, and buffers seen as others."""

from __future__ import annotations

import numpy as np
import pytest
from gluon_assembly import assembled_text

import tilewright
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
)
from tilewright.language.gluon.nvidia.blackwell.tensor_memory import tensor_memory_descriptor_type

RANDOM = np.random.default_rng(5)
ROWS_OF_EIGHT = [[1, 0], [2, 0], [4, 0], [8, 0]]


def columns(*steps: int) -> list[list[int]]:
    return [[0, step] for step in steps]


def split_layout(element: gl.dtype, shape: list[int], block: list[int], warps: int) -> gl.DistributedLinearLayout:
    kind = tensor_memory_descriptor_type(element, shape, TensorMemoryLayout(block, col_stride=1), shape)
    return kind.get_reg_layout(num_warps=warps, instr_variant="32x32b_splitn")


def test_a_half_of_the_registers_for_each_half_of_the_columns() -> None:
    """The steps are those of Triton 3.9.0."""
    found = split_layout(gl.float16, [64, 128], [64, 64], 4)
    assert found.reg_bases == columns(1, 2, 4, 8, 16, 64)
    assert found.lane_bases == [*ROWS_OF_EIGHT, [0, 32]]
    found = split_layout(gl.float32, [128, 128], [128, 128], 4)
    assert found.reg_bases == columns(1, 2, 4, 8, 16, 32, 64)
    found = split_layout(gl.float32, [128, 128], [128, 128], 8)
    assert found.reg_bases == columns(1, 2, 4, 8, 16, 64)
    assert found.warp_bases == [[32, 0], [64, 0], [0, 32]]
    found = split_layout(gl.float32, [64, 128], [64, 64], 8)
    assert found.reg_bases == columns(1, 2, 4, 8, 64)
    assert (found.lane_bases[-1], found.warp_bases[-1]) == ([0, 16], [0, 32])
    found = split_layout(gl.float32, [64, 2], [64, 2], 4)
    assert (found.reg_bases, found.lane_bases[-1]) == (columns(1), [0, 0])


@gluon.jit
def layout_for(WARPS: gl.constexpr):
    buffer = allocate_tensor_memory(gl.float32, (128, 128), layout=TensorMemoryLayout((128, 128), col_stride=1))
    layout: gl.constexpr = buffer.get_reg_layout(num_warps=WARPS)
    buffer.store(gl.zeros((128, 128), gl.float32, layout=layout))


@pytest.mark.quick
@pytest.mark.parametrize("warps", [2, 6, 12])
def test_the_number_of_warps_is_a_power_of_two(warps: int) -> None:
    with tilewright.simulate("cuda:100"), pytest.raises(tilewright.CompilationError, match="a power of two and >= 4"):
        layout_for[(1,)](WARPS=warps)


@gluon.jit
def split_too_far(M: gl.constexpr, N: gl.constexpr, DTYPE: gl.constexpr):
    buffer = allocate_tensor_memory(DTYPE, (M, N), layout=TensorMemoryLayout((M, N), col_stride=1))
    layout: gl.constexpr = buffer.get_reg_layout(instr_variant="32x32b_splitn")
    buffer.store(gl.zeros((M, N), DTYPE, layout=layout))


@pytest.mark.parametrize(("element", "shape"), [(gl.float16, [64, 4]), (gl.float32, [128, 1])])
def test_too_few_registers_to_split(element: gl.dtype, shape: list[int]) -> None:
    with tilewright.simulate("cuda:100"), pytest.raises(tilewright.CompilationError, match="splitn") as caught:
        split_too_far[(1,)](M=shape[0], N=shape[1], DTYPE=element)
    assert "buffer.get_reg_layout" in str(caught.value)


@gluon.jit
def through_halves(x, out, M: gl.constexpr, N: gl.constexpr, BLOCK_N: gl.constexpr):
    """Halves of the columns change places; what one thread has of them stays with it."""
    layout: gl.constexpr = TensorMemoryLayout((M, BLOCK_N), col_stride=1)
    first = allocate_tensor_memory(x.dtype.element_ty, (M, N), layout=layout)
    second = allocate_tensor_memory(x.dtype.element_ty, (M, N), layout=layout)
    halves: gl.constexpr = first.get_reg_layout(instr_variant="32x32b_splitn")
    rows: gl.constexpr = first.get_reg_layout()
    places = gl.arange(0, M)[:, None] * N + gl.arange(0, N)[None, :]
    first.store(gl.load(x + gl.set_auto_layout(places, rows)))
    a, b = first.load(halves).reshape((M, 2, N // 2)).permute(0, 2, 1).split()
    turned = gl.join(b, a).permute(0, 2, 1).reshape((M, N))
    second.store(gl.convert_layout(turned, halves, assert_trivial=True))
    same = gl.join(a, b).permute(0, 2, 1).reshape((M, N))
    first.store(gl.convert_layout(same, halves, assert_trivial=True))
    gl.store(out + gl.set_auto_layout(places, rows), second.load(rows))
    gl.store(out + M * N + gl.set_auto_layout(places, rows), first.load(rows))


@pytest.mark.parametrize("element", [np.float16, np.float32])
@pytest.mark.parametrize(("shape", "block", "warps"), [((64, 128), 64, 4), ((128, 64), 64, 4), ((128, 64), 64, 8)])
def test_halves_of_columns_change_places(element: type, shape: tuple[int, int], block: int, warps: int) -> None:
    x, out = RANDOM.standard_normal(shape).astype(element), np.zeros((2, *shape), element)
    with tilewright.simulate("cuda:100"):
        kernel = through_halves[(1,)](x, out, M=shape[0], N=shape[1], BLOCK_N=block, num_warps=warps)
    np.testing.assert_array_equal(out[0], np.roll(x, shape[1] // 2, axis=1))
    np.testing.assert_array_equal(out[1], x)
    text = assembled_text(kernel, 100)
    assert ("16x32bx2" in text) == (shape[0] == 64)


@gluon.jit
def scales_seen_as_bytes(x, out, ROWS: gl.constexpr, COLUMNS: gl.constexpr, WIDTH: gl.constexpr):
    """Every four warps have a copy of the scales."""
    scales = allocate_tensor_memory(gl.uint8, [ROWS, COLUMNS], TensorMemoryScalesLayout())
    layout: gl.constexpr = scales.get_reg_layout()
    places = gl.arange(0, ROWS)[:, None] * COLUMNS + gl.arange(0, COLUMNS)[None, :]
    scales.store(gl.load(x + gl.set_auto_layout(places, layout)))
    seen = scales.reinterpret(shape=[128, WIDTH], layout=TensorMemoryLayout([128, WIDTH], col_stride=1))
    rows: gl.constexpr = seen.get_reg_layout()
    places = gl.arange(0, 128)[:, None] * WIDTH + gl.arange(0, WIDTH)[None, :]
    gl.store(out + gl.set_auto_layout(places, rows), seen.load(rows))


@pytest.mark.parametrize("rows", [64, 128])
def test_scales_seen_as_bytes(rows: int) -> None:
    x, out = RANDOM.integers(0, 256, (rows, 16)).astype(np.uint8), np.zeros((128, rows // 2), np.uint8)
    with tilewright.simulate("cuda:100"):
        kernel = scales_seen_as_bytes[(1,)](x, out, ROWS=rows, COLUMNS=16, WIDTH=rows // 2)
    pieces = x.reshape(rows // 32, 32, 4, 4).transpose(1, 2, 0, 3)  # four columns of all rows, then the next four
    np.testing.assert_array_equal(out, np.tile(pieces.reshape(32, -1), (4, 1)))
    assembled_text(kernel, 100)


def test_reinterpret_to_a_larger_size_is_refused_with_its_line() -> None:
    message = "it has 65536 bits, and what it is made of 32768 in a row"
    with tilewright.simulate("cuda:100"), pytest.raises(tilewright.CompilationError, match=message) as caught:
        scales_seen_as_bytes[(1,)](np.zeros(1024, np.uint8), np.zeros(1024, np.uint8), ROWS=64, COLUMNS=16, WIDTH=64)
    assert "scales.reinterpret(shape" in str(caught.value)


@gluon.jit
def columns_one_by_one(x, out, M: gl.constexpr, N: gl.constexpr, LAYOUT: gl.constexpr, PART: gl.constexpr):
    """Columns that are stored in parts and loaded as a whole, with 1 added, and the other way round."""
    across: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [gl.num_warps(), 1], [1, 0])
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, across))[:, None]
    columns = gl.arange(0, PART, layout=gl.SliceLayout(0, across))[None, :]
    memory = allocate_tensor_memory(gl.float32, [M, N], LAYOUT)
    for start in gl.static_range(0, N, PART):
        part = memory.slice(start, PART)
        part.store(gl.convert_layout(gl.load(x + rows * N + start + columns), part.get_reg_layout()))
    memory.store(memory.load(memory.get_reg_layout()) + 1)
    for start in gl.static_range(0, N, PART):
        part = memory.slice(start, PART)
        gl.store(out + rows * N + start + columns, gl.convert_layout(part.load(part.get_reg_layout()), across))


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(("m", "block"), [(128, [128, 64]), (256, [128, 64]), (256, [128, 32]), (256, [64, 64])])
def test_parts_of_columns_with_further_blocks_of_rows(m: int, block: list[int], warps: int) -> None:
    """A second block of rows was looked for behind the part, where other columns of the first one lie."""
    x = np.arange(m * 64, dtype=np.float32).reshape(m, 64)
    out = np.zeros_like(x)
    layout = TensorMemoryLayout(block, col_stride=1)
    with tilewright.simulate("cuda:100"):
        columns_one_by_one[(1,)](x, out, M=m, N=64, LAYOUT=layout, PART=16, num_warps=warps)
    np.testing.assert_array_equal(out, x + 1)
