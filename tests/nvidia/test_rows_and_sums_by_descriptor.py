"""Rows by their numbers, and sums in memory, through descriptors of the tile language: the copy engine moves them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from simulated import compiled, launch

import tilewright as tw
import tilewright.language as tl
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module

ROWS = np.array([3, 19, 0, 25, 7, -1, 18, 1], np.int32)
"""Numbers of rows of a tensor of 20; two of them are of none."""


def interpreted(kernel: Any, arguments: list[Any], grid: tuple[int, ...] = (1,)) -> list[Any]:
    """The arguments as they are when the TTIR of `kernel` has run."""
    copies = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
    run_ir(parse_module(str(kernel.asm["ttir"])), copies, grid)
    return copies


@tw.jit
def moved(x, rows, out, back, y, M, N, BN: tl.constexpr, PADDING: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [1, BN], padding_option=PADDING)
    target = tl.make_tensor_descriptor(back, [M, N], [N, 1], [1, BN])
    places = tl.load(rows + tl.arange(0, 8))
    found = source.gather(places, y)
    tl.store(out + tl.arange(0, 8)[:, None] * BN + tl.arange(0, BN)[None, :], found)
    target.scatter(found, places, y)


@pytest.mark.parametrize("capability", [90, 100, 120])
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8], ids=lambda it: np.dtype(it).name
)
@pytest.mark.parametrize(
    ("y", "kind", "padding"), [(0, np.int32, "zero"), (16, np.int16, "zero"), (16, np.int32, "nan")]
)
def test_rows_by_their_numbers(y: int, kind: Any, padding: str, dtype: Any, capability: int) -> None:
    if padding == "nan" and dtype is np.int8:
        padding = "zero"
    x = (np.arange(20 * 48) % 97 - 40).reshape(20, 48).astype(dtype)
    arguments = [x, ROWS.astype(kind), np.ones((8, 32), dtype), np.zeros_like(x), y, 20, 48]
    kernel = compiled(moved, arguments, capability=capability, BN=32, PADDING=padding)
    for out, back in (launch(kernel, (1,), arguments)[2:4], interpreted(kernel, arguments)[2:4]):
        check_rows(x, y, padding, out, back)
    assert ("async_tma_gather" in kernel.asm["ttgir"]) is (capability >= 100)
    assert "async_tma_scatter" not in kernel.asm["ttgir"], "there may be rows in front of the tensor"


def check_rows(x: Any, y: int, padding: str, out: Any, back: Any) -> None:
    """Check that `out` has the rows of `x`, from column `y` on, and `back` those of them that there are."""
    inside = (ROWS >= 0) & (ROWS < 20)
    expected = np.full((8, 32), np.nan if padding == "nan" else 0).astype(x.dtype)
    expected[inside, :] = x[ROWS[inside], y : y + 32]
    np.testing.assert_array_equal(out.astype(np.float32), expected.astype(np.float32))
    kept = np.zeros_like(x)
    kept[ROWS[inside], y : y + 32] = expected[inside]
    np.testing.assert_array_equal(back, kept)


@tw.jit
def combined(x, y, M, N, KIND: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    target = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BM, BN])
    i = tl.program_id(0) * BM
    tile = source.load([i, 0])
    if KIND == "add":
        target.atomic_add([i, 0], tile)
    elif KIND == "min":
        target.atomic_min([i, 0], tile)
    elif KIND == "max":
        target.atomic_max([i, 0], tile)
    elif KIND == "and":
        target.atomic_and([i, 0], tile)
    elif KIND == "or":
        target.atomic_or([i, 0], tile)
    else:
        target.atomic_xor([i, 0], tile)


COMBINED = {
    "add": (np.add, "float32 float16 int32 uint64"),
    "min": (np.minimum, "float16 int32 uint32 int64"),
    "max": (np.maximum, "float16 int32 uint32 int64"),
    "and": (np.bitwise_and, "int32 uint64"),
    "or": (np.bitwise_or, "uint32 int64"),
    "xor": (np.bitwise_xor, "int32 int64"),
}


@pytest.mark.parametrize(
    ("operation", "dtype"), [(name, dtype) for name, (_, dtypes) in COMBINED.items() for dtype in dtypes.split()]
)
def test_blocks_are_combined_in_memory(operation: str, dtype: str) -> None:
    random = np.random.default_rng(4)
    signed = not dtype.startswith("u")
    x, y = (random.integers(-50 if signed else 0, 50, (20, 24)).astype(dtype) for _ in range(2))
    kernel = compiled(combined, [x, y, 20, 24], capability=90, KIND=operation, BM=16, BN=32)
    for found in (launch(kernel, (2,), [x, y, 20, 24])[1], interpreted(kernel, [x, y, 20, 24], (2,))[1]):
        np.testing.assert_array_equal(found, COMBINED[operation][0](y, x))
    assert "async_tma_reduce" in kernel.asm["ttgir"]
    assert "atomic_rmw" not in kernel.asm["ttgir"]
