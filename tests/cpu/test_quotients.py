"""Quotients and remainders of ranges by numbers that only the launch knows: one for a tile, or for a chunk of lanes."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.dialects.arith import Division
from tilewright.dialects.scf import For, If
from tilewright.dialects.vector import lanes_of
from tilewright.ir.parser import parse_module


@tw.jit
def rows_and_columns(row_of, column_of, start, n, columns, B: tl.constexpr):
    lane = tl.program_id(0) * B + tl.arange(0, B)
    i = start + lane
    tl.store(row_of + lane, i // columns, lane < n)
    tl.store(column_of + lane, i % columns, lane < n)


@tw.jit
def with_bias(x, bias, out, n, columns, x_row: int, x_column: int, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    r, c = i // columns, i % columns
    value = tl.load(x + r * x_row + c * x_column, i < n, 5.0) + tl.load(bias + c, i < n, 7.0)
    tl.store(out + i, value, i < n)


@tw.jit
def moved(x, out, n, columns, B: tl.constexpr):
    """Stores through computed addresses."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + (i % columns) * (n // columns) + i // columns, tl.load(x + i, i < n), i < n)


@tw.jit
def sums(x, out, n, columns, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out, tl.sum(tl.where(i < n, tl.load(x + i // columns, i < n, 0) * (i % columns), 0), 0))


@tw.jit
def scaled(x, scale, out, n, columns, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, i < n) * tl.load(scale + i // columns, i < n), i < n)


@tw.jit
def sums_of_offsets(x, out, start, columns, B: tl.constexpr):
    """Adds what may wrap in 32 bits, widened, to what is read at its quotient."""
    lane = tl.arange(0, B)
    i = start + lane
    tl.store(out + lane, i.to(tl.int64) + tl.load(x + i // columns))


def quotients(start: int, count: int, divisor: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """As C divides: towards zero."""
    i = start + np.arange(count, dtype=np.int64)
    quotient = np.where(i < 0, -(-i // abs(divisor)), i // abs(divisor)) * np.sign(divisor)
    return quotient.astype(dtype), (i - quotient * divisor).astype(dtype)


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 100, 129, 1000, 2**31 - 1, -3, -64])
@pytest.mark.parametrize("start", [0, 1, 63, -1, -64, -100, 2**30, 2**31 - 200])
def test_rows_and_columns(columns: int, start: int) -> None:
    for dtype in (np.int32, np.int64):
        for n in (192, 150):
            row_of, column_of = (np.full(192, -7, dtype) for _ in range(2))
            rows_and_columns[(3,)](row_of, column_of, dtype(start), n, dtype(columns), B=64)
            rows, rest = quotients(start, n, columns, dtype)
            np.testing.assert_array_equal(row_of[:n], rows)
            np.testing.assert_array_equal(column_of[:n], rest)
            assert (row_of[n:] == -7).all()
            assert (column_of[n:] == -7).all()


@pytest.mark.parametrize("columns", [1, 5, 16, 33, 64, 100, 256, 1000])
@pytest.mark.parametrize("x_column", [1, 2])
def test_a_row_is_added_to_every_row(columns: int, x_column: int) -> None:
    rows = 1 + 700 // columns
    generator = np.random.default_rng(columns)
    memory = generator.standard_normal((rows, 2 * columns)).astype(np.float32)
    bias, n = generator.standard_normal(columns).astype(np.float32), rows * columns
    for block in (32, 256, 1024):
        out = np.zeros(n + 9, np.float32)
        with_bias[(-(-n // block),)](memory, bias, out, n, columns, 2 * columns, x_column, B=block)
        wanted = memory[:, : x_column * columns : x_column] + bias
        np.testing.assert_array_equal(out, np.append(wanted, np.zeros(9, np.float32)))


@pytest.mark.parametrize("columns", [3, 16, 40, 64])
def test_stores_through_quotients(columns: int) -> None:
    rows = 9
    x, out = np.arange(rows * columns, dtype=np.int32), np.zeros(rows * columns, np.int32)
    moved[(-(-x.size // 64),)](x, out, x.size, columns, B=64)
    np.testing.assert_array_equal(out.reshape(columns, rows), x.reshape(rows, columns).T)


@pytest.mark.parametrize("columns", [1, 5, 16, 100, 1000])
@pytest.mark.parametrize("n", [0, 1, 100, 256])
def test_reductions(columns: int, n: int) -> None:
    x, out, i = np.arange(3, 300, dtype=np.int32), np.zeros(1, np.int32), np.arange(n)
    sums[(1,)](x, out, n, columns, B=256)
    assert out[0] == (x[i // columns] * (i % columns)).sum()


@pytest.mark.parametrize("shift", [-2, 0, 1])
def test_in_place(shift: int) -> None:
    """Every load of the tile comes before its stores, whichever version a chunk takes."""
    memory = np.arange(400, dtype=np.float32)
    x, out, bias = memory[100:], memory[100 + shift :], np.arange(10, dtype=np.float32)
    wanted = memory.copy()
    wanted[100 + shift :][:64] = memory[100:164] + bias[np.arange(64) % 10]
    with_bias[(1,)](x, bias, out, 64, 10, 10, 1, B=64)
    np.testing.assert_array_equal(memory, wanted)


def test_an_offset_that_is_divided_is_read_whole() -> None:
    x = np.zeros(64, np.float32)
    text = scaled.warmup(x, x, x, 64, 10, B=64, grid=(1,)).asm["loops"]
    assert "vector.gather %scale" in text
    assert "vector.gather %x" not in text


def test_a_number_that_is_divided_may_wrap() -> None:
    start, half = 2**31 - 30, 2**30
    x, out = np.arange(8, dtype=np.int64), np.zeros(64, np.int64)
    sums_of_offsets[(1,)](x[4:], out, start, half, B=64)
    i = (start + np.arange(64) + 2**31) % 2**32 - 2**31
    np.testing.assert_array_equal(out, i + np.trunc(i / half).astype(np.int64) + 4)


def test_vectors_are_divided_behind_the_pieces_only() -> None:
    """In pieces, the quotient is one number; what their loop leaves is all that vectors are divided for."""
    x = np.zeros(64, np.float32)
    kernel = with_bias.warmup(x, x, x, 64, 10, 10, 1, B=64, grid=(1,))
    module = parse_module(kernel.asm["loops"])
    divisions = [op for op in module.walk() if isinstance(op, Division)]
    of_vectors = [op for op in divisions if lanes_of(op.result.type) > 1]
    assert len(of_vectors) == 4  # a quotient and a remainder, for strides of 1 and for others
    for op in of_vectors:
        loop = op.parent
        assert isinstance(loop, For)
        assert isinstance(loop.parent, If)
        assert loop.operands[0].op is not None
        assert loop.operands[0].op.name == "arith.select"  # from where the pieces end, or from 0 where there are none


def test_numbers_are_read_where_the_guards_hold_only() -> None:
    """A quotient that is one number is no address where the range begins below zero."""
    x = np.zeros(64, np.float32)
    module = parse_module(scaled.warmup(x, x, x, 64, 10, B=64, grid=(1,)).asm["loops"])
    loads = [op for op in module.walk() if op.name == "vector.load" and lanes_of(op.results[0].type) == 1]
    assert len(loads) == 2  # in the fast version and in a piece
    assert {type(op.parent) for op in loads} == {If, For}


@tw.jit
def interleaved(x, y, out, n, columns, B: tl.constexpr):
    i = tl.arange(0, B)
    pairs = tl.interleave(tl.load(x + i // columns, i < n, 3.0), tl.load(y + i % columns, i < n, 4.0))
    tl.store(out + tl.arange(0, 2 * B), pairs)


@pytest.mark.parametrize("columns", [1, 5, 16, 24, 100])
@pytest.mark.parametrize("n", [0, 40, 64])
def test_lanes_that_change_places(columns: int, n: int) -> None:
    x, y, out, i = *np.random.default_rng(0).standard_normal((2, 64)).astype("f4"), np.zeros(128, "f4"), np.arange(64)
    interleaved[(1,)](x, y, out, n, columns, B=64)
    np.testing.assert_array_equal(out[::2], np.where(i < n, x[i // columns], np.float32(3)))
    np.testing.assert_array_equal(out[1::2], np.where(i < n, y[i % columns], np.float32(4)))


@tw.jit
def joined(x, y, out, n, left, right, B: tl.constexpr):
    """Masks that end within a row, masks that begin there, and one that differs from row to row."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    row, column = i // (left + right), i % (left + right)
    first = tl.load(x + row * left + column, (i < n) & (column < left), 0.0)
    second = tl.load(y + row * right + column - left, (i < n) & (column >= left), 0.0)
    third = tl.load(x + row, (i < n) & (row > 2), -1.0)
    tl.store(out + i, tl.where(column < left, first, second) + third, i < n)


@pytest.mark.parametrize(("left", "right"), [(1, 1), (3, 5), (16, 16), (20, 4), (100, 60)])
def test_masks_within_rows(left: int, right: int) -> None:
    rows = 7
    x, y = (np.arange(rows * width, dtype=np.float32).reshape(rows, -1) for width in (left, right))
    for block in (32, 128, 512):
        out = np.zeros(rows * (left + right) + 9, np.float32)
        n = out.size - 9
        joined[(-(-n // block),)](x, y, out, n, left, right, B=block)
        third = np.where(np.arange(rows) > 2, np.arange(rows), -1)
        wanted = np.concatenate((x, y), 1) + third[:, None].astype(np.float32)
        np.testing.assert_array_equal(out, np.append(wanted, np.zeros(9, np.float32)))


@tw.jit
def of_tiles(x, out, n, FIXED: tl.constexpr):
    """Rows of tiles, each of which is cut up; the pieces of one row are no pieces of the next one."""
    i = tl.arange(0, 4)[:, None] * 64 + tl.arange(0, 64)
    tl.store(out + i, tl.load(x + i % n) + tl.load(x + i // FIXED) + tl.load(x + i % FIXED))


@pytest.mark.parametrize("n", [1, 5, 24, 64, 100, 256])
@pytest.mark.parametrize("fixed", [2, 24, 128])
def test_rows_of_tiles(n: int, fixed: int) -> None:
    x, out, i = np.random.default_rng(0).standard_normal(256).astype("f4"), np.zeros(256, "f4"), np.arange(256)
    of_tiles[(1,)](x, out, n, fixed)
    np.testing.assert_array_equal(out, x[i % n] + x[i // fixed] + x[i % fixed])


@pytest.mark.parametrize("x_column", [0, 1, 2, 3, -1])
@pytest.mark.parametrize("columns", [7, 64, 100])
def test_columns_at_any_distance(x_column: int, columns: int) -> None:
    rows = 5
    memory = np.random.default_rng(1).standard_normal(rows * columns * 4).astype(np.float32)
    bias, out = np.arange(columns, dtype=np.float32), np.zeros(rows * columns, np.float32)
    start, i = columns * 2, np.arange(out.size)
    with_bias[(-(-out.size // 128),)](memory[start:], bias, out, out.size, columns, columns, x_column, B=128)
    wanted = memory[start + i // columns * columns + i % columns * x_column] + bias[i % columns]
    np.testing.assert_array_equal(out, wanted)
