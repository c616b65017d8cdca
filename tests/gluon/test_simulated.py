"""Kernels of Gluon on simulated GPUs: results against NumPy's, and what the simulator says of mistakes."""

from __future__ import annotations

from typing import Any

import gluon_programs as programs
import numpy as np
import pytest
from descriptors import Tensor, aligned, described

import tilewright
from tilewright import gluon
from tilewright.compat.gluon import TensorDescriptor
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.hopper import (
    async_copy,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from tilewright.support.diagnostics import Unsupported

RANDOM = np.random.default_rng(7)


def random(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    found = aligned(shape, dtype)
    found[...] = RANDOM.standard_normal(shape)
    return found


@pytest.mark.parametrize("target", ["cuda:80", "cuda:90", "cuda:100", "cuda:120"])
@pytest.mark.parametrize("n", [1, 511, 512, 1000])
def test_copy(target: str, n: int) -> None:
    x, out = random((1024,), np.float32), aligned((1024,), np.float32)
    with tilewright.simulate(target):
        programs.copy[(2,)](x, out, n, BLOCK=512)
    np.testing.assert_array_equal(out, np.where(np.arange(1024) < n, x, 0))


def test_rows_are_summed() -> None:
    x, out = random((64, 32), np.float32), aligned((64,), np.float32)
    with tilewright.simulate("cuda:90"):
        programs.row_sums[(1,)](x, out, 32, M=64, N=32)
    np.testing.assert_allclose(out, x.sum(1), rtol=1e-4, atol=1e-5)


def test_automatic_layouts() -> None:
    x, out = random((64, 32), np.float32), aligned((64, 32), np.float32)
    with tilewright.simulate("cuda:90"):
        programs.automatic[(1,)](x, out, M=64, N=32)
    np.testing.assert_allclose(out, ((x * 2 + 1) * 2 + 1) * 2 + 1, rtol=1e-5)


def test_coalesced_layouts() -> None:
    x, out = random((1000,), np.float32), aligned((1000,), np.float32)
    with tilewright.simulate("cuda:90"):
        kernel = programs.coalesced[(2,)](x, out, 1000, BLOCK=512)
    np.testing.assert_allclose(out, np.exp(x) + 1, rtol=1e-4)
    assert "sizePerThread = [4]" in kernel.asm["ttgir"]


def test_shared_memory_transposes() -> None:
    x, out = random((64, 32), np.float32), aligned((32, 64), np.float32)
    with tilewright.simulate("cuda:80"):
        programs.transpose[(1,)](x, out, M=64, N=32)
    np.testing.assert_array_equal(out, x.T)


def test_asynchronous_copies() -> None:
    x, out = random((1000,), np.float32), aligned((1000,), np.float32)
    with tilewright.simulate("cuda:80"):
        kernel = programs.pipelined_copy[(1,)](x, out, 1000, BLOCK=128, STAGES=3)
    np.testing.assert_array_equal(out, x * 2)
    assert "cp.async" in kernel.asm["ptx"]


def test_product_by_warps() -> None:
    a, b, c = random((64, 32), np.float16), random((32, 64), np.float16), aligned((64, 64), np.float32)
    with tilewright.simulate("cuda:80"):
        kernel = programs.product_by_warps[(1,)](a, b, c, M=64, N=64, K=32)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2, atol=1e-2)
    assert "mma.sync" in kernel.asm["ptx"]


@pytest.mark.parametrize("rows", [64, 100])
def test_blocks_move_by_descriptors(rows: int) -> None:
    x, out = random((rows, 128), np.float16), aligned((rows, 128), np.float16)
    with tilewright.simulate("cuda:90"):
        programs.copy_blocks[(2, 2)](x, out, rows, 128, ROWS=64, COLUMNS=64, LAYOUT=programs.ROWS)
    np.testing.assert_array_equal(out, x * 2)


def test_product_by_groups() -> None:
    a, b, c = random((64, 128), np.float16), random((128, 64), np.float16), aligned((64, 64), np.float16)
    with tilewright.simulate("cuda:90"):
        arguments = [described(array, [64, 64], programs.ROWS) for array in (a, b, c)]
        kernel = programs.product_by_groups[(1, 1)](*arguments, 128, BLOCK=64)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-2, atol=5e-2)
    assert "wgmma" in kernel.asm["ptx"]


def test_product_in_tensor_memory() -> None:
    a, b, c = random((128, 128), np.float16), random((128, 128), np.float16), aligned((128, 128), np.float16)
    with tilewright.simulate("cuda:100"):
        blocks = ([128, 64], [64, 128], [128, 128])
        arguments = [described(array, block, programs.ROWS) for array, block in zip((a, b, c), blocks, strict=True)]
        kernel = programs.product_in_tensor_memory[(1,)](*arguments, 128, BLOCK=64)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=2e-2, atol=1e-1)
    assert "tcgen05.mma" in kernel.asm["ptx"]


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_warps_have_code_of_their_own(count: int) -> None:
    x, out = random((1024,), np.float32), aligned((1024,), np.float32)
    with tilewright.simulate("cuda:90"):
        kernel = programs.specialized[(1,)](described(x, [128], programs.LINE), out, count, BLOCK=128, STAGES=2)
    np.testing.assert_array_equal(out, np.where(np.arange(1024) < 128 * count, x + 1, 0))
    assert kernel.metadata.num_warps == 8


@gluon.jit
def fill(out, start, value):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    gl.store(out + start + gl.arange(0, 64, layout=layout), value + gl.num_warps())


@gluon.jit
def summed(x, y):
    return x + y, x - y


@gluon.jit
def several_groups(out, x, y, turns):
    for i in range(turns):
        a, b = gl.warp_specialize(
            [(summed, (x, y)), (fill, (out, i * 256, 10.0)), (fill, (out, i * 256 + 64, 20.0))], [1, 4]
        )
        gl.store(out + i * 256 + 128, a + i)
        gl.store(out + i * 256 + 129, b + i)
    if turns > 1:
        gl.warp_specialize([(fill, (out, 1024, 30.0)), (fill, (out, 1088, 40.0))], [2])


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_groups_of_several_sizes_in_loops_and_branches(turns: int) -> None:
    out, expected = aligned((1152,), np.float32), np.zeros(1152, np.float32)
    with tilewright.simulate("cuda:90"):
        kernel = several_groups[(1,)](out, 5.0, 3.0, turns)
    for i in range(turns):
        expected[i * 256 : i * 256 + 64], expected[i * 256 + 64 : i * 256 + 128] = 11, 24
        expected[i * 256 + 128], expected[i * 256 + 129] = 8 + i, 2 + i
    if turns > 1:
        expected[1024:1088], expected[1088:] = 34, 42
    np.testing.assert_array_equal(out, expected)
    assert kernel.metadata.num_warps == 9


@gluon.jit
def load_operands(a, b, x, y, full, empty, steps, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    for step in range(steps):
        slot, phase = step % STAGES, step // STAGES & 1
        mbarrier.wait(empty.index(slot), phase ^ 1)
        mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [0, step * BLOCK], full.index(slot), x.index(slot))
        tma.async_load(b, [step * BLOCK, 0], full.index(slot), y.index(slot))


@gluon.jit
def multiply_operands(c, x, y, full, empty, steps, STAGES: gl.constexpr, WAITS: gl.constexpr):
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    total = gl.zeros([64, 64], gl.float32, layout=sums)
    for step in range(steps):
        slot, phase = step % STAGES, step // STAGES & 1
        if WAITS:
            mbarrier.wait(full.index(slot), phase)
        running = warpgroup_mma(x.index(slot), y.index(slot), total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(running,))
        mbarrier.arrive(empty.index(slot), count=1)
    i = gl.arange(0, 64, layout=gl.SliceLayout(1, sums))
    j = gl.arange(0, 64, layout=gl.SliceLayout(0, sums))
    gl.store(c + i[:, None] * 64 + j[None, :], total)


@gluon.jit
def specialized_product(a, b, c, steps, STAGES: gl.constexpr, WAITS: gl.constexpr):
    x = gl.allocate_shared_memory(gl.float16, [STAGES, 64, 64], a.layout)
    y = gl.allocate_shared_memory(gl.float16, [STAGES, 64, 64], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    gl.warp_specialize(
        [
            (multiply_operands, (c, x, y, full, empty, steps, STAGES, WAITS)),
            (load_operands, (a, b, x, y, full, empty, steps, 64, STAGES)),
        ],
        [1],
        [24],
    )


def test_a_product_whose_operands_other_warps_load() -> None:
    a, b, c = random((64, 256), np.float16), random((256, 64), np.float16), aligned((64, 64), np.float32)
    arguments = [described(array, [64, 64], programs.ROWS) for array in (a, b)]
    with tilewright.simulate("cuda:90"):
        specialized_product[(1,)](*arguments, c, 4, STAGES=2, WAITS=True)
        np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2, atol=1e-2)
        with pytest.raises(tilewright.SimulationError):
            specialized_product[(1,)](*arguments, c, 4, STAGES=2, WAITS=False)


@gluon.jit
def with_a_tile(out, tile):
    gl.store(out + tile, 1.0)


@gluon.jit
def captures_a_tile(out):
    tile = gl.arange(0, 128, layout=gl.BlockedLayout([1], [32], [4], [0]))
    gl.warp_specialize([(fill, (out, 0, 1.0)), (with_a_tile, (out, tile))], [4])


def test_tiles_are_not_captured() -> None:
    out = aligned((128,), np.float32)
    with tilewright.simulate("cuda:90"), pytest.raises(Unsupported, match="capturing"):
        captures_a_tile[(1,)](out)


@gluon.jit
def without_wait(x, out, BLOCK: gl.constexpr, WAITS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.arange(0, BLOCK, layout=layout)
    buffer = gl.allocate_shared_memory(gl.float32, [BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    async_copy.async_load(buffer, x + offsets)
    async_copy.commit_group()
    if WAITS:
        async_copy.wait_group(0)
        gl.barrier()
    gl.store(out + offsets, buffer.load(layout))


def test_a_missing_wait_is_reported() -> None:
    x, out = random((128,), np.float32), aligned((128,), np.float32)
    with tilewright.simulate("cuda:80"):
        without_wait[(1,)](x, out, BLOCK=128, WAITS=True)
        np.testing.assert_array_equal(out, x)
        with pytest.raises(Exception, match="without_wait"):
            without_wait[(1,)](x, out, BLOCK=128, WAITS=False)


@gluon.jit
def square(x):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    i = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    j = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    return gl.load(x + i[:, None] * 64 + j[None, :])


@gluon.jit
def without_fence(x, out, FENCES: gl.constexpr, LAYOUT: gl.constexpr):
    target = tma.make_tensor_descriptor(out, [64, 64], [64, 1], [64, 64], LAYOUT)
    buffer = gl.allocate_shared_memory(gl.float16, [64, 64], LAYOUT)
    buffer.store(square(x))
    if FENCES:
        fence_async_shared()
    tma.async_store(target, [0, 0], buffer)
    tma.store_wait(0)


@gluon.jit
def without_fence_in_a_loop(x, out, steps, LAYOUT: gl.constexpr):
    target = tma.make_tensor_descriptor(out, [64, 64], [64, 1], [64, 64], LAYOUT)
    buffer = gl.allocate_shared_memory(gl.float16, [64, 64], LAYOUT)
    buffer.store(square(x))
    for step in range(steps):
        tma.async_store(target, [0, 0], buffer)
        tma.store_wait(0, read_only=False)
        buffer.store(square(x) + step.to(gl.float16))


def fences(kernel: Any) -> int:
    return kernel.asm["ptx"].count("fence.proxy.async")


def test_a_missing_fence_is_reported_or_put_there() -> None:
    x, out = random((64, 64), np.float16), aligned((64, 64), np.float16)
    with tilewright.simulate("cuda:90"):
        kernel = without_fence[(1,)](x, out, FENCES=True, LAYOUT=programs.ROWS)
        np.testing.assert_array_equal(out, x)
        assert fences(kernel) == 1
        out[:] = 0
        kernel = without_fence[(1,)](x, out, FENCES=False, LAYOUT=programs.ROWS)
        np.testing.assert_array_equal(out, x)
        assert fences(kernel) == 1
        with pytest.raises(tilewright.SimulationError, match=r"no fence\.proxy\.async"):
            without_fence[(1,)](x, out, FENCES=False, LAYOUT=programs.ROWS, insert_fences=False)


def test_fences_follow_stores_around_loops() -> None:
    x, out = random((64, 64), np.float16), aligned((64, 64), np.float16)
    with tilewright.simulate("cuda:90"):
        without_fence_in_a_loop[(1,)](x, out, 3, LAYOUT=programs.ROWS)
        np.testing.assert_array_equal(out, x + np.float16(1))
        with pytest.raises(tilewright.SimulationError, match=r"no fence\.proxy\.async"):
            without_fence_in_a_loop[(1,)](x, out, 3, LAYOUT=programs.ROWS, insert_fences=False)


@gluon.jit
def never_arrives(out):
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=2)
    mbarrier.arrive(bar, count=1)
    mbarrier.wait(bar, 0)
    gl.store(out, 1.0)


def test_a_wait_without_end_is_reported() -> None:
    out = aligned((1,), np.float32)
    with tilewright.simulate("cuda:90"), pytest.raises(Exception, match="never_arrives"):
        never_arrives[(1,)](out)


def test_cpus_have_no_gluon() -> None:
    x, out = random((512,), np.float32), aligned((512,), np.float32)
    with pytest.raises(Unsupported, match="Gluon"):
        programs.copy[(1,)](x, out, 512, BLOCK=512)


def test_layouts_are_a_part_of_the_key() -> None:
    x, out = random((64, 64), np.float16), aligned((64, 64), np.float16)
    texts = set()
    with tilewright.simulate("cuda:90"):
        for width in (128, 64, 32):
            columns, layout = width // 2, gl.NVMMASharedLayout(width, 16, 2)
            grid = (1, 64 // columns)
            kernel = programs.copy_blocks[grid](x, out, 64, 64, ROWS=64, COLUMNS=columns, LAYOUT=layout)
            texts.add(kernel.asm["ttgir"])
            np.testing.assert_array_equal(out, x * 2)
            out[...] = 0
    assert len(texts) == 3


@gluon.jit
def with_own_warps(out, num_warps: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [num_warps], [0])
    gl.store(out + gl.arange(0, 64, layout=layout), gl.num_warps() + 0.0)


def test_a_parameter_called_num_warps_is_the_option_too() -> None:
    out = aligned((64,), np.float32)
    with tilewright.simulate("cuda:90"):
        kernel = with_own_warps[(1,)](out, num_warps=2)
    np.testing.assert_array_equal(out, 2)
    assert kernel.metadata.num_warps == 2


@gluon.jit
def moved_and_rounded(source, target):
    buffer = gl.allocate_shared_memory(gl.float32, [16, 16], source.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load(source, [0, 0], bar, buffer)
    mbarrier.wait(bar, 0)
    tma.async_store(target, [0, 0], buffer)
    tma.store_wait(0)


def test_descriptors_round_to_tf32() -> None:
    x, out = random((16, 16), np.float32), aligned((16, 16), np.float32)
    x[0, :6] = np.inf, -np.inf, np.nan, -0.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11
    layout = gl.NVMMASharedLayout(swizzle_byte_width=32, element_bitwidth=32)
    source = TensorDescriptor.from_tensor(Tensor(x), [16, 16], layout, round_f32_to_tf32=True)
    with tilewright.simulate("cuda:90"):
        moved_and_rounded[(1,)](source, described(out, [16, 16], layout))
    bits = x.view(np.uint32)
    assert not (out.view(np.uint32) & 0x1FFF)[np.isfinite(x)].any()
    finite = np.isfinite(x)
    assert np.all(np.abs(out[finite] - x[finite]) <= np.abs(x[finite]) * 2.0**-11)
    np.testing.assert_array_equal(out.view(np.uint32)[0, :3], bits[0, :3])
    np.testing.assert_array_equal(out[0, 3:6], np.array([-0.0, 1, 1 + 2.0**-9], np.float32))


@gluon.jit
def doubled_elsewhere(source, bar, out, n):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    mbarrier.wait(bar, 0)
    gl.store(out + gl.arange(0, 128, layout=layout), source.load(layout) * 2 + n)


@gluon.jit
def filled_at_once(source, bar, out, n):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    own = gl.allocate_shared_memory(gl.float32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    own.store(gl.full([128], 5.0, gl.float32, layout=layout))
    source.store(own.load(layout))
    mbarrier.arrive(bar, count=1)


@gluon.jit
def captures(out, n):
    source = gl.allocate_shared_memory(gl.float32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    n = n + gl.program_id(0)
    gl.warp_specialize([(filled_at_once, (source, bar, out, n)), (doubled_elsewhere, (source, bar, out, n))], [1], [24])


def test_buffers_of_partitions_are_beside_what_partitions_capture() -> None:
    """The first partition stores to its own buffer while the other one may still read what it captured."""
    out = aligned((128,), np.float32)
    with tilewright.simulate("cuda:90"):
        captures[(1,)](out, 7)
    np.testing.assert_array_equal(out, np.full(128, 17, np.float32))


@gluon.jit
def quarter(x, out, ROW: gl.constexpr, COLUMN: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    i = gl.arange(0, 32, layout=gl.SliceLayout(1, layout))[:, None]
    j = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    buffer = gl.allocate_shared_memory(gl.float32, [32, 64], shared, gl.load(x + i * 64 + j))
    part = buffer.slice(ROW, 16).slice(COLUMN, 32, dim=1)
    i = gl.arange(0, 16, layout=gl.SliceLayout(1, layout))[:, None]
    j = gl.arange(0, 32, layout=gl.SliceLayout(0, layout))[None, :]
    gl.store(out + i * 32 + j, part.load(layout))


@pytest.mark.parametrize(("row", "column"), [(0, 32), (16, 0)])
def test_a_slice_of_a_buffer(row: int, column: int) -> None:
    x, out = random((32, 64), np.float32), aligned((16, 32), np.float32)
    with tilewright.simulate("cuda:90"):
        quarter[(1,)](x, out, ROW=row, COLUMN=column)
    np.testing.assert_array_equal(out, x[row : row + 16, column : column + 32])


@gluon.jit
def with_tiles_that_nobody_uses(out, n):
    for step in range(n):
        rows = step * 64
        rows += gl.arange(0, 64)
    gl.store(out, rows_of(gl.arange(0, 32)))


@gluon.jit
def rows_of(tile):
    return tile.shape[0]


def test_tiles_that_nobody_uses_need_no_layout() -> None:
    out = aligned((1,), np.int32)
    with tilewright.simulate("cuda:90"):
        with_tiles_that_nobody_uses[(1,)](out, 3)
    assert out[0] == 32
