"""The memory of the interpreters: views, byte phases, bounds, masks."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.memory import Memory, OutOfBoundsError, buffer_of
from tilewright.ir.core import Op

assert tilewright.dialects  # its import declares the ops
ANY_OP = Op.create("tt.load")


def test_views_are_bounded_by_their_own_extent() -> None:
    whole = np.arange(100, dtype=np.int32)
    view = whole[40:10:-2]
    buffer = buffer_of("x", view)
    assert (buffer.start - buffer.low, buffer.high - buffer.low) == (28 * 4, 29 * 4)
    memory = Memory([buffer])
    addresses = np.array([buffer.start, buffer.start - 8])
    np.testing.assert_array_equal(memory.read(addresses, np.dtype("i4"), None, ANY_OP), view[:2])
    with pytest.raises(OutOfBoundsError, match="element 1 of 29"):
        memory.read(np.int64(buffer.start + 4), np.dtype("i4"), None, ANY_OP)


def test_masked_lanes_touch_nothing() -> None:
    x = np.arange(4, dtype=np.int16)
    memory = Memory([buffer_of("x", x)])
    addresses, mask = x.ctypes.data + 2 * np.arange(-2, 6), np.array([0, 0, 1, 1, 1, 1, 0, 0], np.bool_)
    np.testing.assert_array_equal(memory.read(addresses, x.dtype, mask, ANY_OP), [0, 0, 0, 1, 2, 3, 0, 0])
    memory.write(addresses, np.full(8, 7, np.int16), mask, ANY_OP)
    np.testing.assert_array_equal(x, 7)
    memory.read(np.array([0, 0]), x.dtype, np.zeros(2, np.bool_), ANY_OP)


def test_lanes_may_point_into_several_buffers_and_between_elements() -> None:
    x, y = np.arange(4, dtype=np.uint8), np.array([0x01020304, 0x05060708], np.uint32)
    memory = Memory([buffer_of("x", x), buffer_of("y", y)])
    addresses = np.array([x.ctypes.data + 1, y.ctypes.data + 3, x.ctypes.data + 2, y.ctypes.data])
    found = memory.read(addresses, np.dtype("u2"), None, ANY_OP)
    np.testing.assert_array_equal(found, [0x0201, 0x0801, 0x0302, 0x0304])


def test_empty_arrays_have_no_elements() -> None:
    x = np.zeros((3, 0), np.float32)
    with pytest.raises(OutOfBoundsError, match="element 0 of 0"):
        Memory([buffer_of("x", x)]).read(np.int64(x.ctypes.data), x.dtype, None, ANY_OP)
