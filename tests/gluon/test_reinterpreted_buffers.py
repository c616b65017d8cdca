"""Shared memory seen as buffers of other types and shapes: their places, what is refused, and their barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import gluon
from tilewright.gluon import language as gl

PLAIN, SWIZZLED = gl.SwizzledSharedLayout(1, 1, 1, [1, 0]), gl.SwizzledSharedLayout(4, 1, 8, [1, 0])


@gluon.jit
def indices(ROWS: gl.constexpr, COLUMNS: gl.constexpr, layout: gl.constexpr):
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, layout))[:, None]
    return rows * COLUMNS + gl.arange(0, COLUMNS, gl.SliceLayout(0, layout))[None, :]


@gluon.jit
def through_a_part(
    x,
    y,
    out,
    START: gl.constexpr,
    PART: gl.constexpr,
    AXIS: gl.constexpr,
    ROWS: gl.constexpr,
    WHOLE: gl.constexpr,
    SEEN: gl.constexpr,
):
    """A buffer of 64 × 32 numbers of 16 bits, a part of which is stored as ROWS × 32 of 32 bits."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    across: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    buffer = gl.allocate_shared_memory(gl.int16, [64, 32], WHOLE)
    buffer.store(gl.load(x + indices(64, 32, layout)))
    seen = buffer.slice(START, PART, AXIS).reinterpret(gl.int32, [ROWS, 32], SEEN)
    seen.store(gl.load(y + indices(ROWS, 32, across)))
    gl.store(out + indices(64, 32, layout), buffer.load(layout))


def numbers(rows: int) -> list[Any]:
    x = np.arange(64 * 32, dtype=np.int16).reshape(64, 32)
    y = -1 - np.arange(rows * 32, dtype=np.int32).reshape(rows, 32)
    return [x, y, np.zeros_like(x)]


@pytest.mark.parametrize(("start", "part", "rows"), [(0, 64, 32), (0, 64, 8), (32, 32, 16), (16, 16, 4), (48, 16, 8)])
def test_a_part_in_rows_is_seen_from_its_start_on(start: int, part: int, rows: int) -> None:
    x, y, out = numbers(rows)
    with tilewright.simulate("cuda:90"):
        through_a_part[(1,)](x, y, out, start, part, 0, rows, PLAIN, PLAIN)
    x.reshape(-1)[start * 32 : start * 32 + rows * 64] = y.reshape(-1).view(np.int16)
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(("whole", "seen"), [(SWIZZLED, PLAIN), (PLAIN, SWIZZLED)])
def test_the_rows_of_a_part_are_those_of_the_swizzled_whole(whole: Any, seen: Any) -> None:
    """The part from row 32 on is whole patterns, so its bytes are those that a buffer of its size would have."""
    x, y, out = numbers(16)
    with tilewright.simulate("cuda:90"):
        through_a_part[(1,)](x, y, out, 32, 32, 0, 16, whole, seen)
    np.testing.assert_array_equal(out[:32], x[:32])
    assert sorted(out[32:].ravel()) == sorted(y.ravel().view(np.int16))
    assert (out[32:].ravel() != y.ravel().view(np.int16)).any()


@pytest.mark.parametrize(
    ("start", "part", "axis", "rows", "whole", "reason"),
    [
        (32, 32, 0, 32, PLAIN, "it has 32768 bits, and what it is made of 16384 in a row"),
        (0, 64, 0, 64, PLAIN, "it has 65536 bits, and what it is made of 32768 in a row"),
        (16, 16, 1, 8, PLAIN, "it has 8192 bits, and what it is made of 256 in a row"),
        (8, 8, 0, 2, gl.SwizzledSharedLayout(4, 2, 8, [1, 0]), "cannot be cut inside the swizzling pattern|in a row"),
    ],
)
def test_what_is_not_in_a_row_is_refused(start: int, part: int, axis: int, rows: int, whole: Any, reason: str) -> None:
    with tilewright.simulate("cuda:90"), pytest.raises(tilewright.CompilationError, match=reason) as caught:
        through_a_part[(1,)](*numbers(rows), start, part, axis, rows, whole, PLAIN)
    assert "test_reinterpreted_buffers.py" in str(caught.value)


@pytest.mark.quick
def test_the_copy_engines_patterns_begin_where_they_have_to() -> None:
    layout = gl.NVMMASharedLayout(128, 32, 2)
    x, y, out = numbers(8)
    with tilewright.simulate("cuda:90"):
        through_a_part[(1,)](x, y, out, 16, 16, 0, 8, PLAIN, layout)  # from byte 1024 on
        with pytest.raises(tilewright.CompilationError, match="begins inside of the swizzling pattern"):
            through_a_part[(1,)](*numbers(4), 8, 8, 0, 4, PLAIN, layout)  # from byte 512 on


@gluon.jit
def ring_of_three(x, out):
    """Six buffers of 16 rows, seen as three of 32."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    buffers = gl.allocate_shared_memory(gl.int32, [6, 16, 32], shared)
    for i in gl.static_range(6):
        buffers.index(i).store(gl.load(x + i * 512 + indices(16, 32, layout)))
    seen = buffers.reinterpret(gl.int32, [3, 32, 32], shared)
    for i in gl.static_range(3):
        gl.store(out + i * 1024 + indices(32, 32, layout), seen.index(i).load(layout))


def test_the_number_of_buffers_is_any() -> None:
    x, out = np.arange(3072, dtype=np.int32), np.zeros(3072, np.int32)
    with tilewright.simulate("cuda:90"):
        ring_of_three[(1,)](x, out)
    np.testing.assert_array_equal(out, x)


@gluon.jit
def parts_of_two_views(x, out):
    """Rows 32 to 63 of 16 bits are rows 16 to 31 of 32 bits."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    across: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    buffer = gl.allocate_shared_memory(gl.int16, [64, 32], shared)
    buffer.slice(32, 32, 0).store(gl.load(x + indices(32, 32, layout)))
    seen = buffer.reinterpret(gl.int32, [32, 32], shared).slice(16, 16, 0)
    gl.store(out + indices(16, 32, across), seen.load(across))


def test_a_barrier_stands_between_parts_of_two_views() -> None:
    """Their rows have different numbers, but the same bytes; without a barrier the simulator reports a race."""
    x, out = np.arange(1024, dtype=np.int16), np.zeros(512, np.int32)
    with tilewright.simulate("cuda:90"):
        parts_of_two_views[(1,)](x, out)
    np.testing.assert_array_equal(out.view(np.int16), x)


@gluon.jit
def of_two_ctas(out):
    """A buffer of which each of two CTAs has half, seen as one that each has as a whole."""
    halves: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[1, 0]])
    both: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0], cga_layout=[[0, 0]])
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=[[0, 0]])
    buffer = gl.allocate_shared_memory(gl.int32, [64, 32], halves)
    buffer.reinterpret(gl.int32, [64, 32], both).store(gl.full([64, 32], 1, gl.int32, layout))


def test_the_memory_of_one_cta_counts() -> None:
    reason = "it has 65536 bits, and what it is made of 32768 in a row"
    with tilewright.simulate("cuda:90"), pytest.raises(tilewright.CompilationError, match=reason):
        of_two_ctas[(1,)](np.zeros(1), num_ctas=2)


@gluon.jit
def as_squares(x, out, LAYOUT: gl.constexpr):
    """Rows of 64 numbers are stored, and 16 × 16 numbers read."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    buffer = gl.allocate_shared_memory(x.dtype.element_ty, [4, 64], LAYOUT, gl.load(x + indices(4, 64, layout)))
    gl.store(out + indices(16, 16, layout), buffer.reshape([16, 16]).load(layout))


@pytest.mark.parametrize("order", [[1, 0], [0, 1]])
def test_a_padded_buffer_of_another_shape_keeps_its_holes(order: list[int]) -> None:
    """It was read without them: elements were of other places, or of the holes."""
    x = np.arange(256, dtype=np.int32)
    out = np.zeros_like(x)
    with tilewright.simulate("cuda:90"):
        as_squares[(1,)](x, out, gl.PaddedSharedLayout.with_identity_for([[32, 2]], [4, 64], order))
    np.testing.assert_array_equal(out, x)
