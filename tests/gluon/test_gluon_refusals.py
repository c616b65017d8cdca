"""Programs that Gluon refuses by name, with the line and what to do instead."""

from __future__ import annotations

import shlex

import numpy as np
import pytest

import tilewright
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.language.gluon.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_commit,
    tcgen05_mma,
)
from tilewright.language.gluon.nvidia.hopper import async_copy, cluster, fence_async_shared, mbarrier, tma
from tilewright.tools.main import main


@gluon.jit
def sum_of_two_layouts(out, OTHER: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 2], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, 16, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 32, layout=gl.SliceLayout(0, OTHER))[None, :]
    gl.store(out + rows, rows + columns)


@pytest.mark.quick
def test_the_message_about_two_layouts_has_the_command_that_draws_both(capsys: pytest.CaptureFixture[str]) -> None:
    other = gl.BlockedLayout([1, 1], [1, 32], [1, 4], [1, 0])
    with tilewright.simulate("cuda:90"), pytest.raises(tilewright.CompilationError) as caught:
        sum_of_two_layouts[(1,)](np.zeros(16, np.int32), OTHER=other)
    text = str(caught.value)
    assert "gl.store(out + rows, rows + columns)" in text
    (command,) = [line for line in text.splitlines() if line.startswith("  tilewright layout ")]
    assert main(shlex.split(command)[1:]) == 0
    drawn = capsys.readouterr().out
    assert "warpsPerCTA = [4, 1]" in drawn
    assert "warpsPerCTA = [1, 4]" in drawn
    assert "conversion: values go through shared memory" in drawn


@gluon.jit
def told_to_all(x, LAYOUT: gl.constexpr, BARRIER: gl.constexpr):
    source = tma.make_tensor_descriptor(x, [64, 32], [32, 1], [64, 32], LAYOUT)
    buffer = gl.allocate_shared_memory(gl.float32, [64, 32], LAYOUT)
    bar = gl.allocate_shared_memory(gl.int64, [1], BARRIER)
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, source.nbytes_per_cta)
    tma.async_load(source, [0, 0], bar, buffer)
    mbarrier.wait(bar, 0)


@pytest.mark.quick
@pytest.mark.parametrize("steps", [[[0]], [[0], [0]], [[0], [1]], [[1], [0]]])
def test_copies_do_not_tell_barriers_of_other_groups_of_ctas(steps: list[list[int]]) -> None:
    """No product of this program is one of pairs."""
    cga = [[1 << bit, 0] for bit in range(len(steps))]
    layout, barrier = gl.NVMMASharedLayout(0, 32, 2, cga_layout=cga), mbarrier.MBarrierLayout(cga_layout=steps)
    own = [[1 << bit] for bit in range(len(steps))]
    with tilewright.simulate("cuda:100"), pytest.raises(tilewright.CompilationError) as caught:
        told_to_all[(1,)](np.zeros((64, 32), np.float32), LAYOUT=layout, BARRIER=barrier, num_ctas=1 << len(steps))
    assert caught.value.diagnostic.headline.startswith(f"TMA barrier cga_layout must be {own}, got {steps}")
    assert "tma.async_load(source" in str(caught.value)


@gluon.jit
def comes(out, WAITS: gl.constexpr):
    if WAITS:
        cluster.wait()
    else:
        cluster.arrive()


@gluon.jit
def meets(out):
    cluster.arrive()
    cluster.wait()
    gl.store(out, 1.0)


def test_halves_of_barriers_may_stand_in_the_kernel_itself() -> None:
    out = np.zeros(1, np.float32)
    with tilewright.simulate("cuda:90"):
        meets[(1,)](out, num_ctas=2)
    assert out == 1


@gluon.jit
def idles(out, WAITS: gl.constexpr):
    gl.store(out, 1.0)


@gluon.jit
def comes_alone(out, WAITS: gl.constexpr, FIRST: gl.constexpr):
    if FIRST:
        gl.warp_specialize([(comes, (out, WAITS)), (idles, (out, WAITS))], [4])
    else:
        gl.warp_specialize([(idles, (out, WAITS)), (comes, (out, WAITS))], [4])


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("waits", "name"), [(True, "wait"), (False, "arrive")])
def test_halves_of_meetings_are_for_all_warps(waits: bool, name: str, first: bool) -> None:
    with tilewright.simulate("cuda:90"), pytest.raises(tilewright.CompilationError) as caught:
        comes_alone[(1,)](np.zeros(1, np.float32), WAITS=waits, FIRST=first, num_ctas=2)
    assert caught.value.diagnostic.headline.startswith(f"cluster.{name} in warp_specialize is not supported")
    assert f"cluster.{name}()" in str(caught.value)


@gluon.jit
def half_of_a_swizzle(out, SHARED: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    buffer = gl.allocate_shared_memory(gl.float16, [8, 64], SHARED)
    part = buffer.slice(0, 4, 0)
    part.store(gl.zeros(part.shape, gl.float16, layout=layout))


@pytest.mark.quick
def test_rules_of_ops_are_told_where_the_program_breaks_them() -> None:
    """They ended in errors of the verifier, as mistakes of passes do."""
    layout = gl.NVMMASharedLayout(128, 16, 2)
    with tilewright.simulate("cuda:90"), pytest.raises(tilewright.CompilationError) as caught:
        half_of_a_swizzle[(1,)](np.zeros(1, np.float32), SHARED=layout)
    assert caught.value.diagnostic.headline.startswith("`ttg.memdesc_subslice` cannot be used like this")
    assert "axis 0 cannot be cut inside the swizzling pattern" in str(caught.value)
    assert "buffer.slice(0, 4, 0)" in str(caught.value)


@gluon.jit
def left_in_tensor_memory(a, b, out, ROWS: gl.constexpr, STRIDE: gl.constexpr):
    """A product of 128 × 64 and 64 × 64 whose left factor lies in tensor memory in blocks of `ROWS` rows."""
    across: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(128, 16, 2)
    rows = gl.arange(0, 128, layout=gl.SliceLayout(1, across))[:, None]
    depths = gl.arange(0, 64, layout=gl.SliceLayout(1, across))[:, None]
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, across))[None, :]
    left = allocate_tensor_memory(gl.float16, [128, 64], TensorMemoryLayout([ROWS, 64], col_stride=STRIDE))
    left.store(gl.convert_layout(gl.load(a + rows * 64 + columns), left.get_reg_layout()))
    right = gl.allocate_shared_memory(gl.float16, [64, 64], shared, gl.load(b + depths * 64 + columns))
    fence_async_shared()
    total = allocate_tensor_memory(gl.float32, [128, 64], TensorMemoryLayout([128, 64], col_stride=1))
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    tcgen05_mma(left, right, total, use_acc=False)
    tcgen05_commit(bar)
    mbarrier.wait(bar, 0)
    mbarrier.invalidate(bar)
    gl.store(out + rows * 64 + columns, gl.convert_layout(total.load(total.get_reg_layout()), across))


@pytest.mark.parametrize(
    ("rows", "stride", "problem"),
    [
        (128, 1, ""),
        (128, 2, "the left operand in tensor memory must have a column stride of 1, not 2"),
        (64, 1, "left operand and sum lie in blocks of 64 and 128 rows"),
    ],
)
def test_left_factors_lie_in_tensor_memory_as_they_are_read(rows: int, stride: int, problem: str) -> None:
    """Others gave wrong numbers, or addressed tensor memory that was not allocated."""
    random = np.random.default_rng(2)
    a, b = (random.integers(-3, 4, (extent, 64)).astype(np.float16) for extent in (128, 64))
    out = np.zeros((128, 64), np.float32)
    with tilewright.simulate("cuda:100"):
        if problem:
            with pytest.raises(tilewright.CompilationError) as caught:
                left_in_tensor_memory[(1,)](a, b, out, ROWS=rows, STRIDE=stride)
            assert problem in str(caught.value)
            assert "tcgen05_mma(left, right, total, use_acc=False)" in str(caught.value)
        else:
            left_in_tensor_memory[(1,)](a, b, out, ROWS=rows, STRIDE=stride)
            np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


@gluon.jit
def copied_around_holes(x, out, PADDING: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.PaddedSharedLayout.with_identity_for([[16, PADDING]], [32, 64], [1, 0])
    rows = gl.arange(0, 32, layout=gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))[None, :]
    buffer = gl.allocate_shared_memory(gl.float16, [32, 64], shared)
    async_copy.async_copy_global_to_shared(buffer, x + rows * 64 + columns)
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.store(out + rows * 64 + columns, buffer.load(layout))


@pytest.mark.parametrize(("padding", "size"), [(8, 16), (2, 4), (1, 0)])
def test_copies_that_run_on_are_as_large_as_holes_allow(padding: int, size: int) -> None:
    """They had 16 bytes, wherever the holes were: behind one of 4 bytes they were misaligned."""
    x = np.arange(32 * 64, dtype=np.float16).reshape(32, 64)
    out = np.zeros_like(x)
    with tilewright.simulate("cuda:80"):
        if size:
            kernel = copied_around_holes[(1,)](x, out, PADDING=padding)
            np.testing.assert_array_equal(out, x)
            assert f", 0x{size:x};" in kernel.asm["ptx"] or f", {size};" in kernel.asm["ptx"]
        else:
            with pytest.raises(tilewright.CompilationError) as caught:
                copied_around_holes[(1,)](x, out, PADDING=padding)
            assert "one copy moves 4 bytes or more, and here 2" in str(caught.value)


@gluon.jit
def beside_memory_that_is_taken_up(out, SIZE: gl.constexpr):
    bar = mbarrier.allocate_mbarrier()
    taken = gl.allocate_shared_memory(gl.int64, [SIZE], bar.layout)
    gl.store(out, 1.0)
    taken._keep_alive()


def test_a_buffer_that_only_takes_up_memory_has_any_extent() -> None:
    """Triton's test of cluster launch control allocates one, so that one CTA runs on a multiprocessor."""
    out = np.zeros(1, np.float32)
    with tilewright.simulate("cuda:100"):
        kernel = beside_memory_that_is_taken_up[(1,)](out, SIZE=29024)
    assert out[0] == 1
    assert 29024 * 8 <= kernel.metadata.shared < 29024 * 8 + 64


@gluon.jit
def part_of_a_part(out, SHARED: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    turned = gl.allocate_shared_memory(gl.int32, [16, 32], SHARED).permute((1, 0))
    part = turned.slice(16, 16, 0)
    part = part.slice(12, 4, 1)
    part.store(gl.zeros(part.shape, gl.int32, layout=layout))


@pytest.mark.quick
def test_parts_of_parts_are_cut_as_the_whole_lies() -> None:
    """The second cut was looked at as if the first part lay alone, and refused behind the passes."""
    with tilewright.simulate("cuda:80"), pytest.raises(tilewright.CompilationError) as caught:
        part_of_a_part[(1,)](np.zeros(1, np.int32), SHARED=gl.NVMMASharedLayout(128, 32, 2))
    assert "axis 1 cannot be cut inside the swizzling pattern" in str(caught.value)
    assert "part.slice(12, 4, 1)" in str(caught.value)
