"""Kernels of Gluon in which the CTAs of a cluster work together, on simulated GPUs."""

from __future__ import annotations

from typing import Any

import gluon_programs as programs
import numpy as np
import pytest
from descriptors import aligned, described
from gluon_assembly import assembled_text

import tilewright
from tilewright import gluon
from tilewright.dialects.ttng_barriers import ClusterBarrier
from tilewright.gluon import language as gl
from tilewright.ir.parser import parse_module
from tilewright.language.gluon.nvidia.hopper import async_store, mbarrier
from tilewright.transforms.gpu.cluster_barriers import cluster_barriers

RANDOM = np.random.default_rng(11)


def whole(shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers, whose products are exact."""
    found = aligned(shape, np.float16)
    found[...] = RANDOM.integers(-3, 4, shape)
    return found


def copied(**options: Any) -> Any:
    a, b = whole((128, 64)), aligned((128, 64), np.float16)
    blocks = [described(array, [128, 64], programs.SAME) for array in (a, b)]
    with tilewright.simulate("cuda:90"):
        kernel = programs.copy_to_all[(1,)](*blocks, num_ctas=2, **options)
    np.testing.assert_array_equal(a, b)
    return kernel


def multiplied(**options: Any) -> Any:
    a, b, c = whole((512, 128)), whole((128, 128)), aligned((512, 128), np.float16)
    x, y = described(a, [512, 64], programs.LEFT), described(b, [64, 128], programs.RIGHT)
    total = described(c, [512, 128], programs.LEFT)
    with tilewright.simulate("cuda:100"):
        kernel = programs.product_by_pairs[(1,)](
            x, y, total, 128, BLOCK=64, TOTAL=programs.TOTAL, num_ctas=4, **options
        )
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
    return kernel


def test_one_copy_for_all_ctas() -> None:
    text = copied().asm["ptx"]
    assert text.count(".multicast::cluster") == 1
    assert "fence.mbarrier_init.release.cluster" in text


def test_pairs_of_ctas_multiply() -> None:
    text = multiplied().asm["ptx"]
    assert text.count("tcgen05.mma.cta_group::2") == 4
    assert "tcgen05.alloc.cta_group::2" in text
    assert "mbarrier.arrive.expect_tx.shared::cluster" in text


@gluon.jit
def moved_between_ctas(x, out, N: gl.constexpr):
    """Each CTA has half of the rows in registers, and half of the columns in memory."""
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    columns: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    memory: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[0, 1]])
    row, column = gl.arange(0, N, layout=gl.SliceLayout(1, rows)), gl.arange(0, N, layout=gl.SliceLayout(0, rows))
    buffer = gl.allocate_shared_memory(gl.float32, [N, N], memory)
    for _ in range(2):
        buffer.store(gl.load(x + row[:, None] * N + column[None, :]))
    tile = buffer.load(columns)
    row, column = gl.arange(0, N, layout=gl.SliceLayout(1, columns)), gl.arange(0, N, layout=gl.SliceLayout(0, columns))
    gl.store(out + row[:, None] * N + column[None, :], tile)


def test_stores_to_the_memory_of_other_ctas() -> None:
    x, out = aligned((64, 64), np.float32), aligned((64, 64), np.float32)
    x[...] = RANDOM.standard_normal(x.shape)
    with tilewright.simulate("cuda:90"):
        kernel = moved_between_ctas[(1,)](x, out, N=64, num_ctas=2)
    np.testing.assert_array_equal(out, x)
    assert "st.shared::cluster" in kernel.asm["ptx"]


@gluon.jit
def sent_between_ctas(x, out, N: gl.constexpr, WAITS: gl.constexpr):
    """As above, while the program goes on; each CTA has a barrier that counts what the other one sends."""
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    columns: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    memory: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[0, 1]])
    row, column = gl.arange(0, N, layout=gl.SliceLayout(1, rows)), gl.arange(0, N, layout=gl.SliceLayout(0, rows))
    buffer = gl.allocate_shared_memory(x.dtype.element_ty, [N, N], memory)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, buffer.nbytes_per_cta)
    async_store(buffer, gl.load(x + row[:, None] * N + column[None, :]), bar)
    if WAITS:
        mbarrier.wait(bar, 0)
    tile = buffer.load(columns)
    row, column = gl.arange(0, N, layout=gl.SliceLayout(1, columns)), gl.arange(0, N, layout=gl.SliceLayout(0, columns))
    gl.store(out + row[:, None] * N + column[None, :], tile)


@pytest.mark.parametrize("element", [np.float32, np.float16, np.float64])
def test_asynchronous_stores_to_other_ctas(element: type) -> None:
    x, out = aligned((64, 64), element), aligned((64, 64), element)
    x[...] = RANDOM.standard_normal(x.shape)
    with tilewright.simulate("cuda:90"):
        kernel = sent_between_ctas[(1,)](x, out, N=64, WAITS=True, num_ctas=2)
        np.testing.assert_array_equal(out, x)
        assert "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes" in kernel.asm["ptx"]
        with pytest.raises(tilewright.SimulationError):
            sent_between_ctas[(1,)](x, out, N=64, WAITS=False, num_ctas=2)


@gluon.jit
def turned(x, out, N: gl.constexpr, BY: gl.constexpr):
    """A conversion for which the CTAs need each other's elements, as often as the program says."""
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [gl.num_warps(), 1], [1, 0], cga_layout=[[1, 0]])
    columns: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [gl.num_warps(), 1], [1, 0], cga_layout=[[0, 1]])
    row, column = gl.arange(0, N, layout=gl.SliceLayout(1, rows)), gl.arange(0, N, layout=gl.SliceLayout(0, rows))
    tile = gl.load(x + row[:, None] * N + column[None, :])
    for _ in range(BY):
        tile = gl.convert_layout(gl.convert_layout(tile, columns) + 1, rows)
    gl.store(out + row[:, None] * N + column[None, :], tile)


@gluon.jit
def turned_by_groups(x, out, N: gl.constexpr, WARPS: gl.constexpr):
    size: gl.constexpr = N * N
    gl.warp_specialize(
        [
            (turned, (x, out, N, 1)),
            (turned, (x + size, out + size, N, 3)),
            (turned, (x + 2 * size, out + 2 * size, N, 2)),
        ],
        [WARPS, 2],
    )


@pytest.mark.parametrize(("warps", "ctas"), [(4, 2), (1, 2), (8, 2)])
def test_groups_of_warps_meet_those_of_other_ctas(warps: int, ctas: int) -> None:
    """Each group at its own pace: they meet two, six and four times and more."""
    x, out = aligned((3, 32, 32), np.float32), aligned((3, 32, 32), np.float32)
    x[...] = RANDOM.integers(-50, 50, x.shape)
    with tilewright.simulate("cuda:90"):
        kernel = turned_by_groups[(2,)](x, out, N=32, WARPS=warps, num_ctas=ctas)
    np.testing.assert_array_equal(out, x + np.array([1, 3, 2])[:, None, None])
    text = assembled_text(kernel, 90)
    assert text.count("mbarrier.init.shared::cta.b64") == 3
    assert "mbarrier.arrive.release.cluster.shared::cluster.b64" in text


@gluon.jit
def told(flags, out, offset, MEETS: gl.constexpr):
    """Each CTA writes numbers to global memory, and reads those of the other one."""
    mine: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0], cga_layout=[[1]])
    size: gl.constexpr = 64 * gl.num_warps()
    place = gl.arange(0, size, layout=mine)
    gl.store(flags + offset + place, place)
    if MEETS:
        gl.barrier(cluster=True)
    gl.store(out + offset + place, gl.load(flags + offset + (place ^ size // 2)))


@gluon.jit
def told_by_groups(flags, out, MEETS: gl.constexpr):
    gl.warp_specialize([(told, (flags, out, 0, MEETS)), (told, (flags, out, 256, MEETS))], [4])


def test_meetings_of_groups_order_what_ctas_write() -> None:
    flags, out = aligned((512,), np.int32), aligned((512,), np.int32)
    with tilewright.simulate("cuda:90"):
        kernel = told_by_groups[(1,)](flags, out, MEETS=True, num_ctas=2)
    np.testing.assert_array_equal(out, np.tile(np.arange(256) ^ 128, 2))
    assert kernel.asm["ptx"].count("mbarrier.arrive.release.cluster.shared::cluster.b64") == 2


@gluon.jit
def sent_twice(x, out, N: gl.constexpr):
    """Two buffers, one after the other at one place, into which each CTA has the other one store."""
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    columns: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    memory: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[0, 1]])
    row, column = gl.arange(0, N, layout=gl.SliceLayout(1, rows)), gl.arange(0, N, layout=gl.SliceLayout(0, rows))
    tile = gl.load(x + row[:, None] * N + column[None, :])
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    for phase in gl.static_range(2):
        buffer = gl.allocate_shared_memory(gl.float32, [N, N], memory)
        mbarrier.expect(bar, buffer.nbytes_per_cta)
        async_store(buffer, tile, bar)
        mbarrier.wait(bar, phase)
        tile = gl.convert_layout(buffer.load(columns), rows)
    gl.store(out + row[:, None] * N + column[None, :], tile)


def test_ctas_meet_before_memory_that_others_stored_to_is_used_otherwise() -> None:
    x, out = aligned((64, 64), np.float32), aligned((64, 64), np.float32)
    x[...] = RANDOM.standard_normal(x.shape)
    with tilewright.simulate("cuda:90"):
        kernel = sent_twice[(1,)](x, out, N=64, num_ctas=2)
    np.testing.assert_array_equal(out, x)
    module = parse_module(kernel.asm["ttgir"])
    assert cluster_barriers(module)
    seen = ("ttng.async_shared_store", "ttg.local_load", "ttg.convert_layout", "ttng.cluster_barrier", "tt.return")
    order = [op for op in module.walk() if op.name in seen and not (isinstance(op, ClusterBarrier) and op.relaxed)]
    sent = ["ttng.async_shared_store", "ttg.local_load", "ttng.cluster_barrier", "ttg.convert_layout"]
    assert [op.name for op in order] == [*sent, "ttng.cluster_barrier", *sent, "tt.return"]
