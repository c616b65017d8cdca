"""The memory of the interpreters: views, byte phases, bounds, masks."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.memory import Memory, OutOfBoundsError, buffer_of
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module

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


@pytest.mark.parametrize(("sign", "dtype"), [("i", np.int32), ("ui", np.uint32)])
def test_extremes_of_blocks_are_those_of_their_type(sign: str, dtype: type) -> None:
    block = f"!tt.tensordesc<tensor<4x{sign}32>>"
    reduces = "".join(
        f"tt.descriptor_reduce {kind}, %o[%{place}], %v : {block}, tensor<4xi32>\n"
        for kind, place in (("max", "c0"), ("min", "c4"))
    )
    module = parse_module(
        f"""tt.func @f(%x: !tt.ptr<i32>, %out: !tt.ptr<i32>) {{
          %c0 = arith.constant 0 : i32
          %c4 = arith.constant 4 : i32
          %c8 = arith.constant 8 : i32
          %one = arith.constant 1 : i64
          %d = tt.make_tensor_descriptor %x, [%c4], [%one] : !tt.ptr<i32>, {block}
          %o = tt.make_tensor_descriptor %out, [%c8], [%one] : !tt.ptr<i32>, {block}
          %v = tt.descriptor_load %d[%c0] : {block} -> tensor<4xi32>
          {reduces}
          tt.return
        }}"""
    )
    x, out = np.array([0, 1, 2**31, 2**32 - 1], np.uint32).view(dtype), np.full(8, 7, dtype)
    run_ir(module, [x, out])
    np.testing.assert_array_equal(out, np.concatenate([np.maximum(x, 7), np.minimum(x, 7)]))


def test_rows_by_their_numbers_are_read_and_written_as_far_as_they_are_there() -> None:
    row, numbers = "!tt.tensordesc<tensor<1x8xi32>>", "!tt.tensordesc<tensor<8xi32>>"
    module = parse_module(f"""tt.func @f(%x: !tt.ptr<i32>, %rows: !tt.ptr<i32>, %out: !tt.ptr<i32>) {{
      %c0 = arith.constant 0 : i32
      %c2 = arith.constant 2 : i32
      %c4 = arith.constant 4 : i32
      %c8 = arith.constant 8 : i32
      %one = arith.constant 1 : i64
      %eight = arith.constant 8 : i64
      %d = tt.make_tensor_descriptor %x, [%c4, %c8], [%eight, %one] : !tt.ptr<i32>, {row}
      %o = tt.make_tensor_descriptor %out, [%c4, %c8], [%eight, %one] : !tt.ptr<i32>, {row}
      %n = tt.make_tensor_descriptor %rows, [%c8], [%one] : !tt.ptr<i32>, {numbers}
      %r = tt.descriptor_load %n[%c0] : {numbers} -> tensor<8xi32>
      %v = tt.descriptor_gather %d[%r, %c2] : ({row}, tensor<8xi32>, i32) -> tensor<8x8xi32>
      %w = arith.addi %v, %v : tensor<8x8xi32>
      tt.descriptor_scatter %o[%r, %c2], %w : {row}, tensor<8xi32>, i32, tensor<8x8xi32>
      tt.return
    }}""")
    x, out = np.arange(1, 33, dtype=np.int32).reshape(4, 8), np.full((4, 8), 7, np.int32)
    run_ir(module, [x, np.array([3, 0, 4, -1, 1, 5, 9, 1], np.int32), out])
    expected = np.full((4, 8), 7)
    expected[[0, 1, 3], 2:] = 2 * x[[0, 1, 3], 2:]
    np.testing.assert_array_equal(out, expected)
