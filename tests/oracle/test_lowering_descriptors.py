"""Tensor descriptors made in kernels: blocks beyond every edge, rows by index, combinations in memory, refusals."""

from __future__ import annotations

from typing import Any

import agreement
import ml_dtypes
import numpy as np
import pytest
from agreement import agree, jit, quick_first

import tilewright.language as tl
from tilewright.support.diagnostics import CompilationError

bf16 = ml_dtypes.bfloat16
DTYPES = (np.float32, np.float16, bf16, ml_dtypes.float8_e5m2, np.int8, np.uint16, np.int32, np.int64)


def counted(shape: tuple[int, ...], dtype: Any) -> Any:
    """Small whole numbers, which every type has."""
    return (np.arange(np.prod(shape)) % 13 - 4).astype(np.int8).astype(dtype).reshape(shape)


def window(x: Any, start: tuple[int, ...], extent: tuple[int, ...], padding: float) -> Any:
    """The block of `x` that begins at `start`, which may lie anywhere, with `padding` outside of `x`."""
    places = np.meshgrid(*(np.arange(s, s + n) for s, n in zip(start, extent, strict=True)), indexing="ij")
    inside = np.all([(p >= 0) & (p < n) for p, n in zip(places, x.shape, strict=True)], axis=0)
    clipped = tuple(np.clip(p, 0, n - 1) for p, n in zip(places, x.shape, strict=True))
    return np.where(inside, x[clipped], np.float64(padding).astype(x.dtype) if x.dtype.kind in "fV" else 0)


def column(wanted: int, dtype: Any) -> int:
    """The place along the innermost axis at which a block begins: any, but for a GPU one of whole 16 bytes."""
    step = 16 // np.dtype(dtype).itemsize if agreement.GPU else 1
    return wanted // step * step


def place_to_store(wanted: tuple[int, int], dtype: Any) -> tuple[int, int]:
    """The place at which a block is stored: any, but for a GPU none in front of the tensor."""
    row, to = wanted[0], column(wanted[1], dtype)
    return (max(row, 0), max(to, 0)) if agreement.GPU else (row, to)


@jit
def moved(x, y, out, M, N, i, j, row, to, BM: tl.constexpr, BN: tl.constexpr, PADDING: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN], padding_option=PADDING)
    target = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BM, BN])
    block = source.load([i, j])
    tl.store(out + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], block)
    target.store([row, to], block)


PLACES = [(0, 0), (5, 7), (-3, -5), (8, 40), (20, 50), (-8, 0)]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("place", quick_first(PLACES, [(-3, -5)]), ids=str)
def test_blocks_at_every_edge(place: tuple[int, int], dtype: Any) -> None:
    x, shape, block = counted((12, 48), dtype), (12, 48), (8, 16)
    y, out = np.zeros(shape, dtype), np.ones(block, dtype)
    to, place = place_to_store((place[0] + 1, place[1] - 2), dtype), (place[0], column(place[1], dtype))
    _, y, out = agree(moved, x, y, out, *shape, *place, *to, BM=8, BN=16, PADDING="zero")[:3]
    expected = window(x, place, block, 0)
    np.testing.assert_array_equal(out, expected)
    stored, at = np.zeros((60, 100), dtype), (to[0] + 12, to[1] + 20)
    stored[at[0] : at[0] + 8, at[1] : at[1] + 16] = expected
    np.testing.assert_array_equal(y, stored[12:24, 20:68])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, bf16, np.float64], ids=lambda dtype: np.dtype(dtype).name)
def test_padding_with_nan(dtype: Any) -> None:
    x, out = counted((12, 48), dtype), np.ones((8, 16), dtype)
    out = agree(moved, x, np.zeros_like(x), out, 12, 48, 9, 40, 10, column(38, dtype), BM=8, BN=16, PADDING="nan")[2]
    np.testing.assert_array_equal(out.astype(np.float64), window(x, (9, 40), (8, 16), np.nan).astype(np.float64))


@jit
def deep(x, out, SHAPE: tl.constexpr, STRIDES: tl.constexpr, BLOCK: tl.constexpr, SIZE: tl.constexpr):
    source = tl.make_tensor_descriptor(x, SHAPE, STRIDES, BLOCK)
    target = tl.make_tensor_descriptor(out, SHAPE, STRIDES, BLOCK)
    pid = tl.program_id(0)
    place = (pid,) + (0,) * (len(BLOCK) - 1)
    block = source.load(place)
    flat = tl.reshape(block, (SIZE,)) * 2
    target.store(place, tl.reshape(flat, BLOCK))


@pytest.mark.parametrize("shape", [(40,), (3, 20), (3, 4, 20), (2, 3, 4, 16), (2, 2, 3, 4, 20)], ids=str)
def test_up_to_five_axes(shape: tuple[int, ...]) -> None:
    x = counted(shape, np.float32)
    block = (64,) if len(shape) == 1 else (1, *(4 for _ in shape[1:-1]), 32)
    strides = tuple(stride // 4 for stride in x.strides)
    grid = (1,) if len(shape) == 1 else (shape[0],)
    size = int(np.prod(block))
    found = agree(deep, x, np.zeros_like(x), SHAPE=shape, STRIDES=strides, BLOCK=block, SIZE=size, grid=grid)[1]
    np.testing.assert_array_equal(found, 2 * x)


@jit
def rows_by_index(x, rows, out, back, y, M, N, COUNT: tl.constexpr, BN: tl.constexpr, PADDING: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, BN], padding_option=PADDING)
    target = tl.make_tensor_descriptor(back, [M, N], [N, 1], [1, BN])
    places = tl.load(rows + tl.arange(0, COUNT))
    found = source.gather(places, y)
    tl.store(out + tl.arange(0, COUNT)[:, None] * BN + tl.arange(0, BN)[None, :], found)
    target.scatter(found, places, y)


@pytest.mark.parametrize("kind", [np.int32, np.int16])
@pytest.mark.parametrize("dtype", quick_first(DTYPES, [np.float32, np.int8]), ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("y", [0, 20, -4])
def test_rows_by_index(y: int, dtype: Any, kind: Any) -> None:
    x = counted((20, 48), dtype)
    rows = np.array([3, 19, 0, 25, 7, -1, 18, 1], kind)  # two of them are no rows of x
    out, back = np.ones((8, 32), dtype), np.zeros_like(x)
    out, back = agree(rows_by_index, x, rows, out, back, y, 20, 48, COUNT=8, BN=32, PADDING="zero")[2:4]
    expected = np.concatenate([window(x, (int(row), y), (1, 32), 0) for row in rows])
    np.testing.assert_array_equal(out, expected)
    kept = np.zeros_like(x)
    for row in rows[(rows >= 0) & (rows < 20)]:
        kept[row, max(0, y) : y + 32] = x[row, max(0, y) : y + 32]
    np.testing.assert_array_equal(back, kept)


def test_rows_that_are_not_there_are_nan() -> None:
    x, rows = counted((4, 32), np.float32), np.array([0, 9, 3, -2, 1, 4, 2, 0], np.int32)
    out = agree(
        rows_by_index, x, rows, np.ones((8, 32), np.float32), np.zeros_like(x), 8, 4, 32, COUNT=8, BN=32, PADDING="nan"
    )[2]
    outside = (rows < 0) | (rows >= 4)
    assert np.isnan(out[outside]).all()
    assert np.isnan(out[:, 24:]).all()
    np.testing.assert_array_equal(out[~outside, :24], x[rows[~outside], 8:])


@jit
def combined(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr, KIND: tl.constexpr):
    target = tl.make_tensor_descriptor(out, [M, N], [N, 1], [BM, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    value = tl.load(x + (i + tl.arange(0, BM))[:, None] * (2 * BN) + j + tl.arange(0, BN)[None, :])
    if KIND == "add":
        target.atomic_add([i, j], value)
    elif KIND == "min":
        target.atomic_min([i, j], value)
    elif KIND == "max":
        target.atomic_max([i, j], value)
    elif KIND == "and":
        target.atomic_and([i, j], value)
    elif KIND == "or":
        target.atomic_or([i, j], value)
    else:
        target.atomic_xor([i, j], value)


FUNCTIONS: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
WHOLE = (np.int32, np.uint32, np.int64, np.uint64)
SUMMED = (np.int32, np.uint32, np.uint64, np.float32, np.float16, bf16)
CASES = [("add", dtype) for dtype in SUMMED] + [(kind, dtype) for kind in FUNCTIONS if kind != "add" for dtype in WHOLE]


@pytest.mark.parametrize(("kind", "dtype"), CASES, ids=lambda case: case if isinstance(case, str) else case.__name__)
def test_blocks_combined_in_memory(kind: str, dtype: Any) -> None:
    x, out = counted((16, 32), dtype), counted((13, 28), dtype)[::-1].copy()
    found = agree(combined, x, out, 13, 28, BM=8, BN=16, KIND=kind, grid=(2, 2))[1]
    np.testing.assert_array_equal(found, FUNCTIONS[kind](out, x[:13, :28]))


@jit
def refused(x, y, MODE: tl.constexpr):
    block = tl.make_tensor_descriptor(x, [8, 8], [8, 1], [8, 8])
    row = tl.make_tensor_descriptor(x, [8, 8], [8, 1], [1, 8])
    rows = tl.arange(0, 8)
    if MODE == "stride":
        tl.make_tensor_descriptor(x, [8, 8], [8, 2], [8, 8])
    elif MODE == "six axes":
        tl.make_tensor_descriptor(x, [8, 8, 8, 8, 8, 8], [8, 8, 8, 8, 8, 1], [1, 1, 1, 1, 1, 8])
    elif MODE == "nan":
        tl.make_tensor_descriptor(y, [8, 8], [8, 1], [8, 8], padding_option="nan")
    elif MODE == "offsets":
        block.load([0])
    elif MODE == "value":
        block.store([0, 0], tl.zeros((4, 16), tl.float32))
    elif MODE == "rows of blocks":
        block.gather(rows, 0)
    elif MODE == "few rows":
        row.gather(tl.arange(0, 4), 0)
    elif MODE == "long rows":
        row.gather(rows.to(tl.int64), 0)
    elif MODE == "columns":
        row.scatter(tl.zeros((8, 8), tl.float32), rows[:, None], 0)
    elif MODE == "sums":
        tl.make_tensor_descriptor(y, [8, 8], [8, 1], [8, 8]).atomic_add([0, 0], tl.zeros((8, 8), tl.int64))
    else:
        block.atomic_max([0, 0], tl.zeros((8, 8), tl.float32))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("stride", r"does not accept strides\[-1\] = 2"),
        ("six axes", "6 axes"),
        ("nan", "int64 has no NaN"),
        ("offsets", "1 values"),
        ("value", r"`store` does not accept a value of shape = \(4, 16\)"),
        ("rows of blocks", "`gather` does not accept a descriptor of blocks"),
        ("few rows", "8 rows or more, of 8 fp32 or more"),
        ("long rows", "`gather` does not accept x_offsets"),
        ("columns", "`scatter` does not accept x_offsets"),
        ("sums", "`descriptor.atomic_add` does not accept dtype = int64"),
        ("largest", "`descriptor.atomic_max` does not accept dtype = fp32"),
    ],
)
def test_what_is_refused(mode: str, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        refused[(1,)](np.zeros((8, 8), np.float32), np.zeros((8, 8), np.int64), MODE=mode)
