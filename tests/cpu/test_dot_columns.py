"""Columns of products that no store shows: they are left out, and B need not have them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from guarded_memory import between_guards, small_integers

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.dialects.scf import For
from tilewright.dialects.vector import Prefetch
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.parser import parse_module

WHOLE = 5
"""The content of memory that must not be written."""


@tw.jit
def product(
    a, b, c, N, K, b_row: int, b_step: int,
    M: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr = "",
):
    m, n, k = tl.arange(0, M), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((M, BN), tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32)
    OTHER: tl.constexpr = 3 if HOW == "no zeros" else 0
    for start in range(0, K, BK):
        step = start + k
        left = tl.load(a + m[:, None] * K + step[None, :], (step < K)[None, :], 0)
        right = tl.load(b + step[:, None] * b_row + n[None, :] * b_step, (step < K)[:, None] & (n < N)[None, :], OTHER)
        total = tl.dot(left, right, total, input_precision="ieee")
    place = c + m[:, None] * (tl.num_programs(0) * BN) + n[None, :]
    inside = (n < N)[None, :]
    if HOW == "gap":
        inside = ((n < N - 2) | (n == N - 1))[None, :]
    if HOW == "shown" or HOW == "no zeros":
        tl.store(place, total * 2)
    else:
        tl.store(place, total * 2, mask=inside)


@tw.jit
def few_rows(
    a, b, c, M, N, K, b_row: int, b_step: int,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    m, n, k = tl.arange(0, BM)[:, None], tl.program_id(0) * BN + tl.arange(0, BN)[None, :], tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        step = start + k
        left = tl.load(a + m * K + step[None, :], (m < M) & (step < K)[None, :], 0)
        right = tl.load(b + step[:, None] * b_row + n * b_step, (step < K)[:, None] & (n < N), 0)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + m * N + n, total, (m < M) & (n < N))


@tw.jit
def widened(a, b, c, M, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :], tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + m * K + start + k[None, :], m < M, 0)
        right = tl.load(b + (start + k)[:, None] * BN + n).to(tl.float32)
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + m * BN + n, total, m < M)


@tw.jit
def seen_otherwise(a, b, c, d, N, HOW: tl.constexpr, BN: tl.constexpr):
    n = tl.arange(0, BN)
    at = n[:, None] * BN + n[None, :]
    total = tl.dot(tl.load(a + at), tl.load(b + at), input_precision="ieee")
    if HOW == "sum":
        tl.store(d + n, tl.sum(total, 1))
    if HOW == "transposed":
        tl.store(d + at, total.trans(), mask=(n < N)[None, :])
    if HOW == "both":
        tl.store(d + at, total + total.trans(), mask=(n < N)[None, :])
    if HOW == "turned":
        tl.store(d + at, total.trans(), mask=(n < N - 3)[:, None])
    if HOW == "rows":
        tl.store(d + at, total, mask=(n < N)[:, None])
    tl.store(c + at, total, mask=(n < N)[None, :])


def run(a: np.ndarray, b: np.ndarray, width: int, **how: Any) -> np.ndarray:
    (rows, depth), columns = a.shape, b.shape[1]
    programs = columns // width + 1  # the last one may have no column at all
    out = np.full((rows, programs * width), WHOLE, np.int32 if a.dtype == np.int8 else np.float32)
    steps = (stride // b.itemsize for stride in b.strides)
    product[(programs,)](a, b, out, columns, depth, *steps, M=rows, BN=width, BK=16, **how)
    return out


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("columns", [1, 7, 15, 16, 17, 31, 32, 33, 48, 49, 63])
def test_every_number_of_columns(columns: int, width: int, dtype: Any, end: int) -> None:
    a, b = small_integers(16, 32, dtype, end), small_integers(32, columns, dtype, end)
    found = run(a, b, width)
    np.testing.assert_array_equal(found[:, :columns], 2 * (a.astype(np.float64) @ b.astype(np.float64)))
    assert (found[:, columns:] == WHOLE).all()


@pytest.mark.parametrize("rows", [1, 4, 8, 32])
@pytest.mark.parametrize("columns", [3, 16, 37])
@pytest.mark.parametrize("order", ["F", "every other one"])
def test_columns_that_lie_apart(rows: int, columns: int, order: str) -> None:
    a, b = small_integers(rows, 21, np.float32, 1), small_integers(columns, 21, np.float32, 1).T
    if order == "every other one":
        b = between_guards(2 * 21 * columns - 1, np.float32)[1]
        b[:] = np.arange(b.size) % 7
        b = np.lib.stride_tricks.as_strided(b, (21, columns), (8 * columns, 8))
    found = run(a, b, 32)
    np.testing.assert_array_equal(found[:, :columns], 2 * (a @ b))
    assert (found[:, columns:] == WHOLE).all()


@pytest.mark.parametrize("how", ["shown", "gap", "no zeros"])
def test_columns_that_are_stored_hold_what_they_should(how: str) -> None:
    a, b = small_integers(16, 32, np.float32, 1), small_integers(32, 13, np.float32, 1)
    wanted = np.full((16, 32), 6 * a.sum(1, keepdims=True) if how == "no zeros" else 0.0)
    wanted[:, :13] = 2 * (a @ b)
    if how == "gap":
        wanted[:, 13:] = wanted[:, 11] = WHOLE
    np.testing.assert_array_equal(run(a, b, 32, HOW=how), wanted)


@pytest.mark.parametrize("how", ["sum", "transposed", "rows", "both", "turned"])
@pytest.mark.parametrize("columns", [0, 1, 9, 17])
def test_columns_that_are_seen_in_another_way(how: str, columns: int) -> None:
    a, b = small_integers(32, 32, np.float32, 1), small_integers(32, 32, np.float32, 1)
    c, d = np.zeros((2, 32, 32), np.float32)
    for seen in (0, 32):  # one of them leaves NaN in all of the scratch memory
        seen_otherwise[(1,)](np.full_like(a, np.nan), b, c, d, seen, HOW=how, BN=32)
    c[:], d[:] = WHOLE, WHOLE
    seen_otherwise[(1,)](a, b, c, d, columns, HOW=how, BN=32)
    wanted, inside = a @ b, np.arange(32) < columns
    np.testing.assert_array_equal(c, np.where(inside, wanted, WHOLE))
    if how == "sum":
        np.testing.assert_array_equal(d[0], wanted.sum(1))
    if how == "transposed":
        np.testing.assert_array_equal(d, np.where(inside, wanted.T, WHOLE))
    if how == "rows":
        np.testing.assert_array_equal(d, np.where(inside[:, None], wanted, WHOLE))
    if how == "both":
        np.testing.assert_array_equal(d, np.where(inside, wanted + wanted.T, WHOLE))
    if how == "turned":
        np.testing.assert_array_equal(d, np.where(np.arange(32)[:, None] < columns - 3, wanted.T, WHOLE))


@pytest.mark.parametrize("columns", [5, 16, 64, 80, 128])
@pytest.mark.parametrize(
    ("rows", "block"),
    [*((rows, 16) for rows in (0, 1, 2, 3, 9)), *((rows, 64) for rows in (0, 3, 4, 5, 36, 37, 61, 64))],
)
@pytest.mark.parametrize("is_across", [False, True])
def test_few_rows(rows: int, block: int, columns: int, is_across: bool) -> None:
    a, b = small_integers(rows or 1, 21, np.float32, 1), small_integers(21, columns, np.float32, 1)
    b = np.copy(b, "F") if is_across else b
    c = np.full((block, columns), WHOLE, np.float32)
    steps = (stride // b.itemsize for stride in b.strides)
    few_rows[(columns // 64 + 1,)](a, b, c, rows, columns, 21, *steps, BM=block, BN=64, BK=16)
    np.testing.assert_array_equal(c[:rows], (a @ b)[:rows])
    assert (c[rows:] == WHOLE).all()


def loops_of(width: int, how: str, kernel: Any = product, **given: int | None) -> str:
    """The vector loops of a kernel; what is None, the launch tells."""
    types = dict.fromkeys("abc", "*fp32") | dict.fromkeys(("M", "N", "K", "b_row", "b_step"), "i32")
    wanted: dict[str, Any] = {"b_step": 1, "BN": width, "BK": 16} | given
    wanted = {"M": 32, "HOW": how} | wanted if kernel is product else wanted
    chosen = {name: value for name, value in wanted.items() if value is not None}
    source = tw.ASTSource(kernel, types | dict.fromkeys(chosen, "constexpr"), chosen)
    return str(tw.compile(source, target=tw.GPUTarget("cpu", "znver4", 0)).asm["loops"])


@pytest.mark.parametrize(("width", "how", "bodies"), [
    (32, "", 2), (32, "shown", 1), (32, "gap", 1), (64, "", 2), (64, "shown", 1), (128, "", 1),
])
def test_one_vector_of_columns_has_a_body_of_its_own(width: int, how: str, bodies: int) -> None:
    text = loops_of(width, how)
    assert len(re.findall(r":(?:18|10) = scf.for", text)) == bodies  # two pointers, 16 or 8 sums


def packing_in(text: str) -> str:
    """The text between the micro-kernel's workspace and its first multiply-add."""
    return text.partition("tensor<2048xi8>")[2].partition("vector.fma")[0]


@pytest.mark.parametrize(("rows", "how", "is_packed"), [(128, "", True), (128, "shown", True), (64, "", False)])
def test_b_is_packed_only_where_it_is_read_often_from_rows_that_collide(rows: int, how: str, is_packed: bool) -> None:
    """16 rows of fp32 that lie a multiple of 2048 bytes apart are eight on one set of 64 lines."""
    packing = packing_in(loops_of(32, how, M=rows))
    assert bool(packing) == is_packed
    assert (":3 = scf.if" in packing) == is_packed
    assert ("%c2047_i64" in packing) == is_packed


@pytest.mark.parametrize("apart", [128, 500, 512, 1020, 1024, 1028])
@pytest.mark.parametrize("columns", [13, 32])
@code_on("x86-64-v3")
def test_rows_collide_or_not(apart: int, columns: int) -> None:
    a, wide = small_integers(128, 21, np.float32, 1), small_integers(21, apart, np.float32, 0)
    out = np.full((128, 32), WHOLE, np.float32)
    product[(1,)](a, wide, out, columns, 21, apart, 1, M=128, BN=32, BK=16)
    np.testing.assert_array_equal(out[:, :columns], 2 * (a @ wide[:, :columns]))
    assert (out[:, columns:] == WHOLE).all()


def test_columns_that_turn_out_to_be_neighbours_are_packed_in_vectors() -> None:
    packing = packing_in(loops_of(32, "", M=64, b_step=None)).partition(":3 = scf.if")[2]
    assert re.findall(r"arith.cmpi eq, %\S+, %c(\d)_i64", packing) == ["1", "2", "1"]  # and whether rows are
    first = packing[packing.index("arith.cmpi eq") :].partition("arith.cmpi eq, ")[2].partition("} else {")[0]
    assert "-> vector<16xf32>" in first


@pytest.mark.parametrize(("rows", "wanted"), [(16, [1]), (32, [4]), (64, [4])])
def test_tiles_have_a_body_for_single_rows_or_for_half_a_block(rows: int, wanted: list[int]) -> None:
    text = loops_of(64, "", few_rows, BM=rows)
    bodies = re.findall(r":6 = scf.for.*?scf.yield", text, re.DOTALL)  # two pointers, four sums
    assert [body.count("vector.broadcast") for body in bodies] == wanted  # words of A


def test_half_a_block_needs_rows_that_end_early() -> None:
    assert not re.findall(r":6 = scf.for", loops_of(64, "", M=64))
    assert not re.findall(r":6 = scf.for", loops_of(64, "shown", M=64))


@pytest.mark.parametrize("rows", [0, 3, 4, 5, 12, 20, 21])
def test_loops_of_half_a_block(rows: int) -> None:
    """The interpreter runs what the micro-kernel becomes."""
    module = parse_module(loops_of(32, "", few_rows, BM=32))
    a, b = small_integers(rows or 1, 16, np.float32, 1), small_integers(16, 20, np.float32, 1)
    c = np.full((32, 20), WHOLE, np.float32)
    run_ir(module, [a.reshape(-1), b.reshape(-1), c.reshape(-1), rows, 20, 16, 20], (1,))
    np.testing.assert_array_equal(c[:rows], (a @ b)[:rows])
    assert (c[rows:] == WHOLE).all()


def test_every_block_of_columns_asks_for_the_next_tiles() -> None:
    """A tile of which one vector of columns counts is all that there is of some products."""
    a, c = np.zeros((64, 64), np.float32), np.zeros((64, 32), np.float32)
    text = product.warmup(a, a, c, 16, 64, 64, 1, M=64, BN=32, BK=32, grid=(1,)).asm["loops"]
    sums = [op for op in parse_module(text).ops_of(For) if any(inner.name == "vector.fma" for inner in op.body)]
    around = [list(op.parent.walk()) for op in sums if isinstance(op.parent, For)]
    assert len(around) >= 2, "blocks of two vectors, and of one"
    assert all(any(isinstance(op, Prefetch) for op in ops) for ops in around)


@pytest.mark.parametrize(("columns", "lines"), [(32, 2), (64, 4), (128, 0)])
def test_single_rows_ask_for_as_much_of_the_next_b_as_they_have_time_for(columns: int, lines: int) -> None:
    text = loops_of(columns, "", few_rows, BM=16)
    bodies = [list(op.body) for op in parse_module(text).ops_of(For)]
    single = [body for body in bodies if sum(op.name == "vector.fma" for op in body) == columns // 16]
    assert single
    assert all(sum(isinstance(op, Prefetch) for op in body) == lines for body in single)
    blocks = [body for body in bodies if sum(op.name == "vector.fma" for op in body) > 8]
    assert blocks
    assert not any(isinstance(op, Prefetch) for body in blocks for op in body), "they fetch in front of their loops"


def test_single_rows_ask_for_no_b_that_is_computed() -> None:
    """Its buffer has nothing behind it."""
    a = np.zeros((16, 64), np.float32)
    b = np.zeros((64, 64), np.int8)
    text = widened.warmup(a, b, a, 1, 64, BM=16, BN=64, BK=16, grid=(1,)).asm["loops"]
    single = [op.body for op in parse_module(text).ops_of(For) if sum(o.name == "vector.fma" for o in op.body) == 4]
    assert single
    assert not any(isinstance(op, Prefetch) for body in single for op in body)
