"""Atomic scatters in shared memory, on simulated GPUs."""

from __future__ import annotations

import numpy as np
import pytest
from gluon_assembly import assembled_text

import tilewright
from tilewright import gluon
from tilewright.gluon import language as gl
from tilewright.support.diagnostics import Unsupported

RANDOM = np.random.default_rng(7)


@gluon.jit
def counted_and_told(indices, values, old, out, KEEPS: gl.constexpr, SMALL: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    places = gl.arange(0, 128, layout=layout)
    buffer = gl.allocate_shared_memory(out.dtype.element_ty, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    buffer.store(gl.zeros([128], out.dtype.element_ty, layout=layout))
    own = gl.arange(0, SMALL, layout=layout)
    found = buffer.atomic_scatter_add(gl.load(values + own), gl.load(indices + own), axis=0, mask=own % 3 != 0)
    if KEEPS:
        gl.store(old + own, found)
    gl.store(out + places, buffer.load(layout))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float16])
@pytest.mark.parametrize("count", [16, 32, 128, 512])
def test_atomic_scatters_add_once(dtype: type, count: int) -> None:
    indices = RANDOM.integers(0, 128, count).astype(np.int32)
    values = RANDOM.integers(1, 9, count).astype(dtype)
    old, out, right = np.zeros(count, dtype), np.zeros(128, dtype), np.zeros(128, dtype)
    mask = np.arange(count) % 3 != 0
    np.add.at(right, indices[mask], values[mask])
    with tilewright.simulate("cuda:90"):
        kernel = counted_and_told[(1,)](indices, values, old, out, KEEPS=True, SMALL=count)
        np.testing.assert_array_equal(out, right)
    assembled_text(kernel, 90)
    assert not old[~mask].any()
    for place in range(128):  # in some order, each found what those before it had added
        own = mask & (indices == place)
        sums = sorted(zip(old[own], values[own], strict=True))
        assert [total for total, _ in sums] == list(np.cumsum([0, *(value for _, value in sums[:-1])]))[: len(sums)]


@gluon.jit
def added_to_rows(values, old, out, N: gl.constexpr, M: gl.constexpr):
    """Values that all lanes of a row have, at places that all rows have."""
    layout: gl.constexpr = gl.BlockedLayout([1, 1], [8, 4], [4, 1], [1, 0])
    row, column = gl.arange(0, N, layout=gl.SliceLayout(1, layout)), gl.arange(0, M, layout=gl.SliceLayout(0, layout))
    places = row[:, None] * M + column[None, :]
    buffer = gl.allocate_shared_memory(gl.float32, [N, M], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    buffer.store(gl.zeros([N, M], gl.float32, layout=layout))
    for _ in range(2):
        found = buffer.atomic_scatter_add(gl.load(values + row)[:, None], column[None, :], 1, (row > 2)[:, None])
        gl.store(old + places, found)
    gl.store(out + places, buffer.load(layout))


def test_what_several_threads_have_is_added_once() -> None:
    """The sixteen rows are those of two warps, which the others have, too; the second time all find the first sums."""
    values = np.arange(1, 17, dtype=np.float32)
    old, out = np.full((16, 32), 7, np.float32), np.zeros((16, 32), np.float32)
    with tilewright.simulate("cuda:90"):
        kernel = added_to_rows[(1,)](values, old, out, N=16, M=32)
    once = np.broadcast_to(np.where(np.arange(16) > 2, values, 0)[:, None], (16, 32))
    np.testing.assert_array_equal(out, 2 * once)
    np.testing.assert_array_equal(old, once)
    assembled_text(kernel, 90)


@gluon.jit
def added_by_ctas(out, SIZE: gl.constexpr):
    """Both CTAs have the tile and the buffer; each of them stores a half of its own copy."""
    same: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga_layout=[[0]])
    halves: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga_layout=[[1]])
    memory: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=[[0]])
    place = gl.arange(0, SIZE, layout=same)
    buffer = gl.allocate_shared_memory(gl.int32, [SIZE], memory)
    buffer.store(place)
    found = buffer.atomic_scatter_add(place, place, axis=0)
    own = gl.arange(0, SIZE, layout=halves)
    gl.store(out + own, buffer.load(halves) + gl.convert_layout(found, halves))


def test_each_cta_adds_to_its_own_buffer() -> None:
    out = np.zeros(256, np.int32)
    with tilewright.simulate("cuda:90"):
        added_by_ctas[(1,)](out, SIZE=256, num_ctas=2)
    np.testing.assert_array_equal(out, 3 * np.arange(256))


@gluon.jit
def exchanged(values, out):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    place = gl.arange(0, 128, layout=layout)
    buffer = gl.allocate_shared_memory(gl.float16, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    gl.store(out + place, buffer.atomic_scatter_xchg(gl.load(values + place), place, axis=0))


def test_elements_of_16_bits_are_only_added() -> None:
    halves = np.zeros(128, np.float16)
    with tilewright.simulate("cuda:90"), pytest.raises(Unsupported, match="of elements with 16 bits") as caught:
        exchanged[(1,)](halves, halves)
    assert "buffer.atomic_scatter_xchg" in str(caught.value)
