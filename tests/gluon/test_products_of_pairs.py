"""Products of pairs of CTAs in tensor memory: with 64 rows in each, and with scales."""

from __future__ import annotations

import ml_dtypes
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
    tcgen05_commit,
    tcgen05_mma,
    tcgen05_mma_scaled,
)
from tilewright.language.gluon.nvidia.hopper import fence_async_shared, mbarrier
from tilewright.support.diagnostics import Unsupported

RANDOM = np.random.default_rng(3)


@gluon.jit
def loaded(x, ROWS: gl.constexpr, COLUMNS: gl.constexpr, layout: gl.constexpr):
    places = gl.arange(0, ROWS)[:, None] * COLUMNS + gl.arange(0, COLUMNS)[None, :]
    return gl.load(x + gl.set_auto_layout(places, layout))


@gluon.jit
def product(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr, ACROSS: gl.constexpr, BLOCK_N: gl.constexpr):
    """Each CTA has half of the rows, and half of the columns of the right operand; added twice."""
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    columns: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    left: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2, transposed=ACROSS, cga_layout=[[1, 0]])
    right: gl.constexpr = gl.NVMMASharedLayout.get_default_for([K, N], gl.float16, cga_layout=[[0, 1]])
    total: gl.constexpr = TensorMemoryLayout([M // 2, BLOCK_N], col_stride=1, cga_layout=[[1, 0]], two_ctas=True)
    x = gl.allocate_shared_memory(gl.float16, [M, K], left, loaded(a, M, K, rows))
    y = gl.allocate_shared_memory(gl.float16, [K, N], right, loaded(b, K, N, columns))
    fence_async_shared(cluster=True)
    gl.barrier(cluster=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    sums = allocate_tensor_memory(gl.float32, [M, N], total)
    tcgen05_mma(x, y, sums, use_acc=False)
    tcgen05_mma(x, y, sums, use_acc=True)
    tcgen05_commit(done)
    mbarrier.wait(done, 0, deps=[x, y])
    mbarrier.invalidate(done)
    tile = sums.load()
    gl.store(c + gl.arange(0, M)[:, None] * N + gl.arange(0, N)[None, :], tile)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(128, 64), (128, 256), (256, 64)])
def test_rows_of_a_pair(rows: int, columns: int, across: bool) -> None:
    a, b = (RANDOM.integers(-3, 4, shape).astype(np.float16) for shape in ((rows, 64), (64, columns)))
    c = np.zeros((rows, columns), np.float32)
    with tilewright.simulate("cuda:100"):
        kernel = product[(1,)](a, b, c, M=rows, N=columns, K=64, ACROSS=across, BLOCK_N=columns, num_ctas=2)
    np.testing.assert_array_equal(c, 2 * a.astype(np.float32) @ b.astype(np.float32))
    assert "tcgen05.mma.cta_group::2" in assembled_text(kernel, 100)


def test_several_blocks_of_columns_are_refused() -> None:
    """Each CTA's half of the right operand has columns of the first block only, or of the second."""
    a, b, c = np.zeros((256, 64), np.float16), np.zeros((64, 128), np.float16), np.zeros((256, 128), np.float32)
    with tilewright.simulate("cuda:100"), pytest.raises(Unsupported, match="several blocks of 64 columns") as caught:
        product[(1,)](a, b, c, M=256, N=128, K=64, ACROSS=False, BLOCK_N=64, num_ctas=2)
    assert "tcgen05_mma(x, y, sums" in str(caught.value)


@gluon.jit
def from_tensor_memory(c):
    cga: gl.constexpr = [[1, 0]]
    half: gl.constexpr = TensorMemoryLayout([64, 64], col_stride=1, cga_layout=cga, two_ctas=True)
    right: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16, cga_layout=[[0, 1]])
    x, sums = allocate_tensor_memory(gl.float16, [128, 64], half), allocate_tensor_memory(gl.float32, [128, 64], half)
    x.store(gl.zeros([128, 64], gl.float16, layout=x.get_reg_layout()))
    y = gl.allocate_shared_memory(gl.float16, [64, 64], right)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    tcgen05_mma(x, y, sums, use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0)


def test_left_operands_of_64_rows_come_from_shared_memory() -> None:
    message = "64 rows in each and its left operand in tensor memory"
    with tilewright.simulate("cuda:100"), pytest.raises(Unsupported, match=message) as caught:
        from_tensor_memory[(1,)](np.zeros(1, np.float32), num_ctas=2)
    assert "tcgen05_mma(x, y, sums" in str(caught.value)


@gluon.jit
def scaled_product(a, b, c, of_rows, of_columns, N: gl.constexpr, K: gl.constexpr):
    """Each CTA has the scales of its rows, and those of all columns."""
    M: gl.constexpr = 256
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    columns: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    left: gl.constexpr = gl.NVMMASharedLayout(128, 8, 2, cga_layout=[[1, 0]])
    right: gl.constexpr = gl.NVMMASharedLayout.get_default_for([K, N], gl.float8e5, cga_layout=[[0, 1]])
    total: gl.constexpr = TensorMemoryLayout([128, N], col_stride=1, cga_layout=[[1, 0]], two_ctas=True)
    x = gl.allocate_shared_memory(gl.float8e5, [M, K], left, loaded(a, M, K, rows))
    y = gl.allocate_shared_memory(gl.float8e5, [K, N], right, loaded(b, K, N, columns))
    fence_async_shared(cluster=True)
    first = allocate_tensor_memory(gl.uint8, [M, K // 32], TensorMemoryScalesLayout(cga_layout=[[1, 0]]))
    second = allocate_tensor_memory(gl.uint8, [N, K // 32], TensorMemoryScalesLayout(cga_layout=[[0, 0]]))
    first.store(loaded(of_rows, M, K // 32, first.get_reg_layout()))
    second.store(loaded(of_columns, N, K // 32, second.get_reg_layout()))
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    sums = allocate_tensor_memory(gl.float32, [M, N], total)
    tcgen05_mma_scaled(x, y, sums, first, second, "e5m2", "e5m2", use_acc=False, mbarriers=[done])
    mbarrier.wait(done, 0, deps=[x, y])
    mbarrier.invalidate(done)
    tile = sums.load()
    gl.store(c + gl.arange(0, M)[:, None] * N + gl.arange(0, N)[None, :], tile)


@pytest.mark.spared
@pytest.mark.parametrize("columns", [64, 128])
def test_each_cta_of_a_pair_has_the_scales_of_its_rows(columns: int) -> None:
    a = RANDOM.integers(-3, 4, (256, 128)).astype(ml_dtypes.float8_e5m2)
    b = RANDOM.integers(-3, 4, (128, columns)).astype(ml_dtypes.float8_e5m2)
    of_rows, of_columns = (RANDOM.integers(124, 131, (count, 4)).astype(np.uint8) for count in (256, columns))
    c = np.zeros((256, columns), np.float32)
    with tilewright.simulate("cuda:100"):
        kernel = scaled_product[(1,)](a, b, c, of_rows, of_columns, N=columns, K=128, num_ctas=2)
    left = a.astype(np.float32) * np.repeat(2.0 ** (of_rows.astype(int) - 127), 32, axis=1)
    right = b.astype(np.float32) * np.repeat(2.0 ** (of_columns.astype(int) - 127), 32, axis=1).T
    np.testing.assert_allclose(c, left @ right, rtol=1e-6)
    assert "tcgen05.mma.cta_group::2.kind::mxf8f6f4" in assembled_text(kernel, 100)
