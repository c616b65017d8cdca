"""Factors are copied or packed where their rows lie on one set of the L1 cache; on Intel's the right one anywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from changed_costs import change_costs
from dot_native import A_STRIDE, B_STRIDE, aligned, check, compile_dots, make_spec

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from tilewright.backends.cpu.dot import DotSpec, dot_workspace_bytes
from tilewright.backends.llvm.machine import host_target
from tilewright.ir.types import Type, f32, f64

TARGET = host_target()


@tw.jit
def product(a, b, c, M, N, K, a_step, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A lies by columns, `a_step` apart."""
    m, n = tl.program_id(0) * BM + tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        left = tl.load(a + m + k[None, :] * a_step, (m < M) & (k < K)[None, :], 0)
        right = tl.load(b + k[:, None] * N + n, (k < K)[:, None] & (n < N), 0)
        total = tl.dot(left, right, total, "ieee")
    tl.store(c + m * N + n, total, (m < M) & (n < N))


@pytest.fixture(autouse=True)
def _copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colliding rows are copied, whatever this machine is."""
    change_costs(monkeypatch, copies_colliding=True)


def transposed(m: int, n: int, k: int, type: Type = f32) -> DotSpec:
    return replace(make_spec((m, n, k), type, type, a_transposed=True), a_stride=A_STRIDE)


def copied(spec: DotSpec, stride: int) -> bool:
    """Whether a product of rows of A and B at that distance writes to its workspace."""
    a, b = aligned((max(spec.m, spec.k), stride), np.float32), aligned((spec.k, stride), np.float32)
    c, workspace = aligned((spec.m, spec.n), np.float32), aligned((dot_workspace_bytes(spec, TARGET) + 64,), np.uint8)
    workspace[:] = 77
    (function,) = compile_dots([spec], TARGET)
    function(a.ctypes.data, b.ctypes.data, c.ctypes.data, workspace.ctypes.data, stride, stride)
    return not (workspace == 77).all()


@pytest.mark.parametrize(("stride", "collides"), [(1024, True), (3072, True), (1040, False), (512, False), (64, False)])
@code_on("znver5")
def test_rows_are_copied_if_they_are_whole_pages_apart(stride: int, collides: bool) -> None:
    assert copied(transposed(64, 64, 32), stride) == collides


def test_what_is_read_by_few_blocks_is_read_where_it_lies() -> None:
    assert not copied(transposed(8, 64, 32), 1024)


@pytest.mark.parametrize("packs_far_rows", [False, True])
@pytest.mark.parametrize(("stride", "collides"), [(1024, True), (1040, False), (997, False)])
def test_rows_of_b_are_packed_if_they_collide_or_wherever_they_lie(
    stride: int, collides: bool, packs_far_rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_costs(monkeypatch, packs_far_rows=packs_far_rows)
    spec = replace(make_spec((64, 64, 32), f32, f32), b_stride=B_STRIDE)
    assert copied(spec, stride) == (collides or packs_far_rows)
    assert not copied(spec, 64), "rows that follow one another are read in order"
    assert not copied(replace(spec, m=8), stride), "few blocks read them"


@pytest.mark.parametrize("type", [f32, f64])
@pytest.mark.parametrize("extents", [(64, 64, 32), (128, 64, 16), (64, 128, 1), (256, 32, 8)])
@pytest.mark.parametrize("bytes", [4096, 8192, 4160, 2048])
def test_products_of_rows_at_any_distance(bytes: int, extents: tuple[int, int, int], type: Type) -> None:
    spec = transposed(*extents, type)
    for each in (spec, replace(spec, zero_init=True)):
        check(*compile_dots([each], TARGET), each, TARGET, a_stride=bytes * 8 // type.bits)


@pytest.mark.quick
@pytest.mark.parametrize("more", [{"a_step": A_STRIDE}, {"a_stride": 1024}, {"a_transposed": False}])
def test_other_left_matrices_are_read_where_they_lie(more: dict[str, Any]) -> None:
    """Columns that lie apart, distances known before, rows that go along k."""
    spec = replace(transposed(64, 64, 32), **more)
    assert dot_workspace_bytes(spec, TARGET) == 0


@pytest.mark.parametrize(("m", "n", "k"), [(128, 64, 64), (100, 60, 70), (3, 64, 33), (67, 5, 31)])
@pytest.mark.parametrize("stride", [1024, 1040])
def test_ends_of_rows_columns_and_depth(m: int, n: int, k: int, stride: int) -> None:
    """The matrix has NaNs behind its last column, which may not reach C."""
    rng = np.random.default_rng(m)
    memory = np.full((k, stride), np.nan, np.float32)
    memory[:, :m], b = rng.integers(-9, 9, (k, m)), rng.integers(-9, 9, (k, n)).astype(np.float32)
    c = np.zeros((m, n), np.float32)
    product[(-(-m // 64),)](memory, b, c, m, n, k, stride, 64, 64, 32)
    np.testing.assert_array_equal(c, memory[:, :m].T @ b)
