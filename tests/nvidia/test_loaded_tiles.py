"""Tiles that one partition loads and threads of another use, and tiles from outside that partitions are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch
from test_specialized_loops import FENCE, partitions_of, unnoticed_mutants

import tilewright as tw
import tilewright.language as tl

RANDOM = np.random.default_rng(5)


@tw.jit
def row_sums(a, o, M, N, WAY: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.make_tensor_descriptor(a, [M, N], [N, 1], [BM, BN])
    i = tl.program_id(0) * BM
    total = tl.zeros((BM,), tl.float32)
    for k in tl.range(0, N, BN, warp_specialize=True):
        tile = rows.load([i, k]).to(tl.float32)
        if WAY == "some steps" and k > BN:
            tile *= 2
        total += tl.sum(tile, 1)
        if WAY == "stored":
            tl.store(o + i + tl.arange(0, BM), total)
    tl.store(o + i + tl.arange(0, BM), total)


def summed(n: int, way: str = "") -> tuple[list[Any], np.ndarray[Any, Any]]:
    a = RANDOM.integers(-4, 5, (100, n)).astype(np.float16)
    expected = np.zeros(128, np.float32)
    expected[:100] = a.astype(np.float32).sum(1)
    if way == "some steps":
        expected[:100] += a[:, 64:].astype(np.float32).sum(1)
    return [a, np.full(128, 7, np.float32), 100, n], expected


def compiled_sums(arguments: list[Any], way: str = "", **options: int) -> Any:
    options = {"capability": 100, **options}
    return compiled(row_sums, arguments, WAY=way, BM=64, BN=32, **options)


@pytest.mark.parametrize("n", [0, 8, 32, 200])
@pytest.mark.parametrize("way", ["", "some steps", "stored"])
def test_a_loop_without_products_is_divided(n: int, way: str) -> None:
    arguments, expected = summed(n, way)
    kernel = compiled_sums(arguments, way)
    np.testing.assert_array_equal(launch(kernel, (2,), arguments)[1], expected)
    default, copies = partitions_of(kernel)
    assert "global_to_local" not in default
    assert copies.count("async_tma_copy_global_to_local") == 1
    assert "memdesc<3x64x32xf16" in copies


def test_loops_with_one_stage_and_devices_without_tensor_memory_keep_their_loads() -> None:
    arguments, expected = summed(96)
    for kernel in (compiled_sums(arguments, num_stages=1), compiled_sums(arguments, capability=90)):
        assert "ttg.warp_specialize(" not in kernel.asm["ttgir"]
        np.testing.assert_array_equal(launch(kernel, (2,), arguments)[1], expected)


@pytest.mark.spared
def test_every_missing_barrier_of_loaded_tiles_is_reported() -> None:
    arguments, _ = summed(200)
    kernel = compiled_sums(arguments)
    assert [line.strip() for line in unnoticed_mutants(kernel, [arguments])] == [FENCE]


@tw.jit
def moved_down(a, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Each step reads what the step before has written."""
    rows = tl.make_tensor_descriptor(a, [M, N], [N, 1], [BM, BN])
    for i in tl.range(0, M - BM, BM, warp_specialize=True):
        rows.store([i + BM, 0], rows.load([i, 0]) + 1)


def test_a_loop_that_writes_by_descriptor_loads_in_its_order() -> None:
    a = np.zeros((64, 32), np.float16)
    kernel = compiled(moved_down, [a, 64, 32], capability=100, BM=8, BN=32)
    found = launch(kernel, (1,), [a, 64, 32])[0]
    np.testing.assert_array_equal(found, np.repeat(np.arange(8), 8)[:, None] * np.ones((1, 32), np.float16))
    assert "ttg.warp_specialize(" not in kernel.asm["ttgir"]


BLOCK = {"BM": 128, "BN": 64, "BK": 32}


@tw.jit
def biased(a, b, c, bias, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    steps = tl.make_tensor_descriptor(bias, [K, N], [N, 1], [BM, BN])
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=True):
        total = tl.dot(left.load([0, k]), right.load([0, k]).T, total)
        total += steps.load([k, 0])
    tl.store(c + tl.arange(0, BM)[:, None] * N + tl.arange(0, BN)[None, :], total)


def test_products_and_threads_have_tiles_of_one_partition() -> None:
    m, n, k = 128, 64, 160
    a, b, bias = (RANDOM.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k), (k, n)))
    arguments = [a, b, np.zeros((m, n), np.float32), bias, m, n, k]
    kernel = compiled(biased, arguments, capability=100, **BLOCK)
    expected = a.astype(np.float32) @ b.T.astype(np.float32)
    for start in range(0, k, 32):
        part = bias[start : start + m].astype(np.float32)
        expected[: len(part)] += part
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)
    default, _, copies = partitions_of(kernel)
    assert "global_to_local" not in default
    assert copies.count("async_tma_copy_global_to_local") == 3


@tw.jit
def gathered(a, b, c, order, M, N, K, WAY: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    right = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    rows = tl.load(order + tl.arange(0, BM))
    total = tl.zeros((BM, BN), tl.float32)
    if WAY == "descriptor":
        left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [1, BK])
        for k in tl.range(0, K, BK, warp_specialize=True):
            total = tl.dot(left.gather(rows, k), right.load([0, k]).T, total)
    else:
        places = a + rows[:, None] * K + tl.arange(0, BK)[None, :]
        for k in tl.range(0, K, BK, warp_specialize=True):
            total = tl.dot(tl.load(places + k), right.load([0, k]).T, total)
    tl.store(c + tl.arange(0, BM)[:, None] * N + tl.arange(0, BN)[None, :], total)


@pytest.mark.parametrize("way", ["descriptor", "pointers"])
def test_copies_of_rows_that_were_loaded_in_front_of_the_loop(way: str) -> None:
    m, n, k = 128, 64, 160
    a, b = (RANDOM.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    order = RANDOM.permutation(m).astype(np.int32)
    arguments = [a, b, np.zeros((m, n), np.float32), order, m, n, k]
    kernel = compiled(gathered, arguments, capability=100, WAY=way, **BLOCK)
    expected = a[order].astype(np.float32) @ b.T.astype(np.float32)
    np.testing.assert_array_equal(launch(kernel, (1,), arguments)[2], expected)
    default, _, copies = partitions_of(kernel)
    assert "global_to_local" not in default
    assert copies.count("global_to_local") + copies.count("tma_gather") == 2
    assert "ttg.local_load" in copies


@tw.jit
def chased(a, o, N, STEPS, BM: tl.constexpr, BN: tl.constexpr):
    """Each block that is read says which one is next."""
    blocks = tl.make_tensor_descriptor(a, [N, BN], [BN, 1], [BM, BN])
    place = 0
    for _ in tl.range(0, STEPS, warp_specialize=True):
        place = tl.max(tl.max(blocks.load([place * BM, 0]), 1), 0)
    tl.store(o, place)


@pytest.mark.parametrize(("rows", "columns"), [(8, 32), pytest.param(128, 256, marks=pytest.mark.slow)])
def test_loops_that_cannot_be_divided_or_whose_rings_are_too_large_keep_their_loads(rows: int, columns: int) -> None:
    following = np.array([2, 0, 3, 1], np.int32)
    a = np.repeat(following, rows)[:, None] * np.ones((1, columns), np.int32)
    arguments = [a.astype(np.int32), np.zeros(1, np.int32), 4 * rows, 3]
    kernel = compiled(chased, arguments, capability=100, BM=rows, BN=columns)
    assert launch(kernel, (1,), arguments)[1] == [1]
    assert "ttg.warp_specialize(" not in kernel.asm["ttgir"]
    arguments = [np.ones((100, 4 * columns), np.float16), np.zeros(128, np.float32), 100, 4 * columns]
    sums = compiled(row_sums, arguments, capability=100, num_stages=4, WAY="", BM=rows, BN=columns)
    assert ("ttg.warp_specialize(" in sums.asm["ttgir"]) is (rows == 8), "four places of 64 KB are too much"
