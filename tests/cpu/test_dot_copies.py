"""Operands that lie in memory in no order: they are copied as far as the product reads, along what lies apart."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from guarded_memory import small_integers

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on


@tw.jit
def gathered(
    places, a, b, c, d, K, a_row: int, a_step: int,
    M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr = "",
):
    """Rows of A lie where `places` says; those at -1 are all zeros."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    place = tl.load(places + m)
    total = tl.zeros((M, N), tl.float32)
    for turn in range(tl.cdiv(K, BK)):
        start = turn % 1000 * BK  # so that addresses are computed in each turn
        inside = start + k < K
        others = (start + k < K - 3) if HOW == "two ends" else inside
        if HOW == "gap":
            inside = others = (start + k < 2) | (start + k > 4) & (start + k < K)
        OTHER: tl.constexpr = 3 if HOW == "no zeros" else 0
        at = a + (place[:, None] + turn // 1000) * a_row + (start + k)[None, :] * a_step
        left = tl.load(at, (place >= 0)[:, None] & inside[None, :], OTHER)
        right = tl.load(b + (start + k)[:, None] * N + n[None, :], mask=others[:, None], other=OTHER)
        total = tl.dot(left, right, total, input_precision="ieee")
        if HOW == "seen":
            tl.store(d + m[:, None] * BK + k[None, :], left)
    tl.store(c + m[:, None] * N + n[None, :], total)


def run(depth: int, *, is_far: bool, end: int = 1, **how: Any) -> tuple[np.ndarray, ...]:
    """A as the product sees it, B, and what the kernel stores of C and A; `is_far`: A has its columns far apart."""
    places = np.random.default_rng(depth).integers(-1, 20, 32).astype(np.int32)
    a = small_integers(depth, 20, np.float32, end).T if is_far else small_integers(20, depth, np.float32, end)
    b, c, d = small_integers(depth, 32, np.float32, end), np.zeros((32, 32), np.float32), np.zeros((32, 16), np.float32)
    steps = (stride // a.itemsize for stride in a.strides)
    gathered[(1,)](places, a, b, c, d, depth, *steps, M=32, N=32, BK=16, **how)
    return np.where((places >= 0)[:, None], a[places], np.float32(0)), b, c, d


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 15, 16, 17, 37])
def test_every_depth(depth: int, is_far: bool, end: int) -> None:
    a, b, c, _ = run(depth, is_far=is_far, end=end)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.parametrize("is_far", [False, True])
def test_the_whole_tile_where_it_is_seen(is_far: bool) -> None:
    a, b, c, d = run(5, is_far=is_far, HOW="seen")
    np.testing.assert_array_equal(c, a @ b)
    np.testing.assert_array_equal(d, np.pad(a, ((0, 0), (0, 11))))


@pytest.mark.parametrize("is_far", [False, True])
def test_masks_that_do_not_end_both_operands(is_far: bool) -> None:
    a, b, c, _ = run(9, is_far=is_far, HOW="two ends")
    b[-3:] = 0
    np.testing.assert_array_equal(c, a @ b)
    a, b, c, _ = run(9, is_far=is_far, HOW="gap")
    kept = [0, 1, 5, 6, 7, 8]
    np.testing.assert_array_equal(c, a[:, kept] @ b[kept])


@pytest.mark.parametrize("is_far", [False, True])
def test_what_stands_for_masked_off_elements_counts(is_far: bool) -> None:
    places = np.random.default_rng(5).integers(-1, 20, 32)
    a, b, c, _ = run(5, is_far=is_far, HOW="no zeros")
    a = np.where((places >= 0)[:, None], a, np.float32(3))
    np.testing.assert_array_equal(c, a @ b + 9 * 11)


def loops_of(how: str) -> str:
    types = {"places": "*i32", "a": "*fp32", "b": "*fp32", "c": "*fp32", "d": "*fp32", "K": "i32"}
    given = {"M": 32, "N": 32, "BK": 16, "HOW": how}
    types |= {"a_row": "i32", "a_step": "i32"} | dict.fromkeys(given, "constexpr")
    source = tw.ASTSource(gathered, types, given)
    return str(tw.compile(source, target=tw.GPUTarget("cpu", "znver4", 0)).asm["loops"])


@pytest.mark.parametrize(("how", "is_cut"), [("", True), ("two ends", False), ("gap", False), ("no zeros", False)])
def test_the_copies_end_where_the_product_does(how: str, is_cut: bool) -> None:
    text = loops_of(how)
    copy_and_product = re.findall(r" scf.for %\w+ = %c0_i64 to %\d+ step %c1_i64", text)
    assert len(copy_and_product) == 2 * is_cut


def test_rows_that_lie_anywhere_are_not_prefetched() -> None:
    lines_of_b = 4 * 3  # rows in the share of a block of C, lines that they touch
    assert loops_of("").count("vector.prefetch") == lines_of_b


@code_on("neoverse-v1")
def test_the_copy_of_columns_that_lie_apart_runs_along_rows() -> None:
    assert re.search(r"to %\d+ step %c1_i64  : i64 {\n((?!.*scf.for).*\n)*.*vector.gather", loops_of(""))
