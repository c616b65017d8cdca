"""Rows of products that no store shows: they are left out, unless somebody sees them in another way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guarded_memory import small_integers

import tilewright as tw
import tilewright.language as tl

WHOLE = 5
"""The content of memory that must not be written."""


@tw.jit
def product(
    a, b, c, M, K, N: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
    IS_SHOWN: tl.constexpr = False, OTHER: tl.constexpr = 0, TRANSPOSED: tl.constexpr = False,
):
    """IS_SHOWN: rows behind M are stored, too."""
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((BM, N), tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32)
    for start in range(0, K, BK):
        step = start + k
        if TRANSPOSED:
            left = tl.load(a + step[:, None] * M + m[None, :], (step < K)[:, None] & (m < M)[None, :], OTHER).trans()
        else:
            left = tl.load(a + m[:, None] * K + step[None, :], (m < M)[:, None] & (step < K)[None, :], OTHER)
        right = tl.load(b + step[:, None] * N + n[None, :], (step < K)[:, None], 0)
        total = tl.dot(left, right, total, input_precision="ieee")
    place = c + m[:, None] * N + n[None, :]
    if IS_SHOWN:
        tl.store(place, total * 2)
    else:
        tl.store(place, total * 2, mask=(m < M)[:, None])


@tw.jit
def changing_mask(a, b, c, N: tl.constexpr):
    """Each turn adds a product to all rows, and stores one row more than the turn before."""
    n = tl.arange(0, N)
    at = n[:, None] * N + n[None, :]
    left, right, total = tl.load(a + at), tl.load(b + at), tl.zeros((N, N), tl.float32)
    for turn in range(1, N + 1):
        total = tl.dot(left, right, total, input_precision="ieee")
        tl.store(c + at, total, mask=(n < turn)[:, None])


@tw.jit
def seen_otherwise(a, b, c, d, M, HOW: tl.constexpr, N: tl.constexpr):
    n = tl.arange(0, N)
    at = n[:, None] * N + n[None, :]
    total = tl.dot(tl.load(a + at), tl.load(b + at), input_precision="ieee")
    inside = (n < M)[:, None]
    if HOW == "gap":
        inside = ((n < M) | (n > M + 2))[:, None]
    if HOW == "behind":
        inside = (n >= M)[:, None]
    if HOW == "sixteens":
        inside = (n - (n & 16) < M)[:, None]
    if HOW == "product":
        tl.store(d + at, tl.dot(total + 1.0, tl.load(b + at), input_precision="ieee"))
    if HOW == "sum":
        tl.store(d + n, tl.sum(total, 0))
    if HOW == "twice":
        tl.store(d + at, total)
    if HOW == "transposed":
        tl.store(d + at, total.trans(), mask=inside)
    tl.store(c + at, total, mask=inside)


def run(a: np.ndarray, b: np.ndarray, **how: Any) -> np.ndarray:
    rows, depth = a.shape
    block = how.pop("BM", 16)
    programs = rows // block + 1  # the last one may have no row at all
    out = np.full((programs * block, b.shape[1]), WHOLE, np.int32 if a.dtype == np.int8 else np.float32)
    held = np.ascontiguousarray(a.T) if how.get("TRANSPOSED") else a
    product[(programs,)](held, b, out, rows, depth, N=b.shape[1], BM=block, BK=16, **how)
    return out


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 15, 16, 17, 33])
def test_every_number_of_rows(rows: int, dtype: Any, end: int, transposed: bool) -> None:
    a, b = small_integers(rows, 32, dtype, end), small_integers(32, 64, dtype, end)
    found = run(a, b, TRANSPOSED=transposed)
    np.testing.assert_array_equal(found[:rows], 2 * (a.astype(np.float64) @ b.astype(np.float64)))
    assert (found[rows:] == WHOLE).all()


@pytest.mark.parametrize("block", [1, 4, 32, 128])
@pytest.mark.parametrize("depth", [1, 16, 21])
def test_blocks_of_rows(block: int, depth: int) -> None:
    for rows in (1, 3, block, block + 1):
        a, b = small_integers(rows, depth, np.float32, 1), small_integers(depth, 64, np.float32, 1)
        found = run(a, b, BM=block)
        np.testing.assert_array_equal(found[:rows], 2 * (a @ b))
        assert (found[rows:] == WHOLE).all()


def test_infinities_and_nans_in_rows_that_are_seen() -> None:
    a, b = small_integers(5, 32, np.float32, 1), small_integers(32, 64, np.float32, 1)
    a[4, 3], a[0, 1], b[7, 9], b[8, 10] = np.inf, np.nan, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        wanted = 2 * np.einsum("mk,kn->mn", a, b)
    np.testing.assert_array_equal(run(a, b)[:5], wanted)


def test_rows_that_are_stored_hold_zero_times_infinity() -> None:
    a, b = small_integers(5, 32, np.float32, 1), small_integers(32, 64, np.float32, 1)
    b[7, 9] = np.inf
    found = run(a, b, IS_SHOWN=True)
    assert np.isnan(found[5:, 9]).all()
    assert not found[5:, :9].any()


def test_rows_that_are_stored_hold_what_stands_for_them() -> None:
    a, b = small_integers(5, 32, np.float32, 1), small_integers(32, 64, np.float32, 1)
    found = run(a, b, IS_SHOWN=True, OTHER=3)
    np.testing.assert_array_equal(found[5:], np.broadcast_to(6 * b.sum(0), (11, 64)))


def test_a_mask_that_changes_while_the_sum_lives() -> None:
    a, b = small_integers(64, 64, np.float32, 1), small_integers(64, 64, np.float32, 1)
    c = np.zeros((64, 64), np.float32)
    changing_mask[(1,)](a, b, c, N=64)  # more rows than a block has
    np.testing.assert_array_equal(c, 64 * (a @ b))


@pytest.mark.parametrize("how", ["gap", "behind", "sixteens", "product", "sum", "twice", "transposed"])
@pytest.mark.parametrize("rows", [0, 1, 9])
def test_rows_that_are_seen_in_another_way(how: str, rows: int) -> None:
    a, b = small_integers(64, 64, np.float32, 1), small_integers(64, 64, np.float32, 1)
    c, d = np.zeros((2, 64, 64), np.float32)
    for seen in (0, 64):  # one of them leaves NaN in all of the scratch memory
        seen_otherwise[(1,)](np.full_like(a, np.nan), b, c, d, seen, HOW=how, N=64)
    c[:], d[:] = WHOLE, WHOLE
    seen_otherwise[(1,)](a, b, c, d, rows, HOW=how, N=64)
    row, wanted = np.arange(64), a @ b
    masks = {"gap": (row < rows) | (row > rows + 2), "behind": row >= rows, "sixteens": row - (row & 16) < rows}
    inside = masks.get(how, row < rows)
    np.testing.assert_array_equal(c, np.where(inside[:, None], wanted, WHOLE))
    if how == "product":
        np.testing.assert_array_equal(d, (wanted + 1) @ b)
    if how == "sum":
        np.testing.assert_array_equal(d[0], wanted.sum(0))
    if how == "twice":
        np.testing.assert_array_equal(d, wanted)
    if how == "transposed":
        np.testing.assert_array_equal(d, np.where(inside[:, None], wanted.T, WHOLE))


@pytest.mark.parametrize("is_shown", [False, True])
def test_the_loop_over_rows_ends_where_the_mask_of_the_store_ends(is_shown: bool) -> None:
    types = {"a": "*fp32", "b": "*fp32", "c": "*fp32", "M": "i32", "K": "i32"}
    given = {"N": 64, "BM": 32, "BK": 16, "IS_SHOWN": is_shown, "OTHER": 0, "TRANSPOSED": False}
    source = tw.ASTSource(product, types | dict.fromkeys(given, "constexpr"), given)
    text = tw.compile(source, target=tw.GPUTarget("cpu", "znver4", 0)).asm["loops"]
    blocks = text.count("arith.divui")  # rows divided by the rows of a block
    assert blocks == (0 if is_shown else 1)
