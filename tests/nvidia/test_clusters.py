"""Programs that several blocks of a cluster compute together: elements go from block to block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated import compiled, launch, run

import tilewright
import tilewright.language as tl

N = 64


@tilewright.jit
def transpose(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(y + at, tl.trans(tl.load(x + at)))


@tilewright.jit
def columns(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tile = tl.load(x + at).to(tl.float32)
    tl.store(y + at, tile / tl.sum(tile, axis=0)[None, :])


@tilewright.jit
def product(x, y, z, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(z + at, tl.dot(tl.load(x + at), tl.load(y + at)))


@tilewright.jit
def turned_through_memory(x, between, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(between + i[:, None] * N + i[None, :], tl.load(x + i[:, None] * N + i[None, :]))
    tl.debug_barrier()
    tl.store(y + i[:, None] * N + i[None, :], tl.load(between + i[None, :] * N + i[:, None]))


@tilewright.jit
def rows_that_follow(x, y, rows, N: tl.constexpr):
    i = tl.arange(0, N)
    w = tl.load(y + i[:, None] * N + i[None, :])
    for row in tl.range(0, rows, warp_specialize=True):
        at = row * N * N
        total = tl.dot(tl.load(x + at + i[:, None] * N + i[None, :]), w)
        tl.debug_barrier()
        tl.store(x + at + N * N + i[None, :] * N + i[:, None], total.to(tl.float16))
        tl.debug_barrier()


def numbers() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(1, 5, (N, N)).astype(np.float16)


def test_a_transposition_between_blocks() -> None:
    x = numbers()
    _, y = run(transpose, (1,), x, np.zeros_like(x), N=N, capability=90, num_ctas=4)
    assert (y == x.T).all()
    ptx = compiled(transpose, (x, x), N=N, capability=90, num_ctas=4).asm["ptx"]
    assert "ld.shared::cluster" in ptx
    assert ptx.count("barrier.cluster.arrive.aligned") == ptx.count("barrier.cluster.wait.aligned") >= 2


@pytest.mark.parametrize("ctas", [1, 2, 4])
def test_barriers_wait_for_all_blocks_of_a_program(ctas: int) -> None:
    """With several blocks they waited for the threads of one, and another one loaded what was not stored yet."""
    x = numbers()
    arguments = x, np.zeros_like(x), np.zeros_like(x)
    kernel = compiled(turned_through_memory, arguments, N=N, capability=90, num_ctas=ctas)
    assert (launch(kernel, (1,), arguments)[2] == x.T).all()
    assert ("ttng.cluster_barrier" in kernel.asm["ttgir"]) is (ctas > 1)


@pytest.mark.parametrize("capability", [90, 100])
def test_loops_with_barriers_of_all_blocks_are_not_divided(capability: int) -> None:
    x = np.zeros((4, N, N), np.float16)
    x[0], w = numbers(), np.eye(N, dtype=np.float16)
    kernel = compiled(rows_that_follow, (x, w, 3), N=N, capability=capability, num_ctas=2)
    found = launch(kernel, (1,), (x, w, 3))[0]
    np.testing.assert_array_equal(found, [x[0], x[0].T, x[0], x[0].T])
    assert "ttg.warp_specialize" not in kernel.asm["ttgir"]


def test_a_sum_over_blocks() -> None:
    x = numbers()
    _, y = run(columns, (1,), x, np.zeros((N, N), np.float32), N=N, capability=90, num_ctas=2)
    assert np.allclose(y, x.astype(np.float32) / x.astype(np.float32).sum(0))


def test_factors_of_other_blocks() -> None:
    x = numbers()
    _, _, z = run(product, (1,), x, x.T.copy(), np.zeros((N, N), np.float32), N=N, capability=90, num_ctas=2)
    assert (z == x.astype(np.float32) @ x.T.astype(np.float32)).all()


@tilewright.jit
def long_product(x, y, z, K, N: tl.constexpr, M: tl.constexpr, cast: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 32)
    sum = tl.zeros((M, N), tl.float32)
    for start in range(0, K, 32):
        left = tl.load(x + i[:, None] * K + start + k[None, :])
        right = tl.load(y + (start + k)[:, None] * N + j[None, :])
        if cast:
            right = right + right
        sum = tl.dot(left, right, sum)
    tl.store(z + i[:, None] * N + j[None, :], sum)


@pytest.mark.slow
@pytest.mark.parametrize("capability", [90, 120])
def test_every_block_copies_the_factors_that_it_needs(capability: int) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (128, 64)).astype(np.float16)
    y = np.random.default_rng(1).integers(-3, 4, (64, 64)).astype(np.float16)
    out = np.zeros((128, 64), np.float32)
    *_, z = run(long_product, (1,), x, y, out, 64, N=64, M=128, cast=False, capability=capability, num_ctas=2)
    assert (z == x.astype(np.float32) @ y.astype(np.float32)).all()


@pytest.mark.parametrize(("capability", "rows"), [(90, 128), (100, 256), (90, 64)])
def test_a_factor_that_is_computed_comes_from_other_blocks(capability: int, rows: int) -> None:
    """Each block computes a part of it, and products want all of it in shared memory: it was refused."""
    x, y = (np.random.default_rng(3).integers(-3, 4, (n, 64)).astype(np.float16) for n in (rows, 64))
    given = (x, y, np.zeros((rows, 64), np.float32), 64)
    *_, z = run(long_product, (1,), *given, N=64, M=rows, cast=True, capability=capability, num_ctas=2)
    np.testing.assert_array_equal(z, x.astype(np.float32) @ (2 * y).astype(np.float32))


@tilewright.jit
def turned_product(x, y, z, K, M: tl.constexpr, N: tl.constexpr, DESCRIPTORS: tl.constexpr):
    i, j, k = tl.arange(0, M)[:, None], tl.arange(0, N)[:, None], tl.arange(0, 32)[None, :]
    left = tl.make_tensor_descriptor(x, [M, K], [K, 1], [M, 32])
    right = tl.make_tensor_descriptor(y, [N, K], [K, 1], [N, 32])
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, K, 32):
        if DESCRIPTORS:
            total = tl.dot(left.load([0, start]), right.load([0, start]).T, total)
        else:
            total = tl.dot(tl.load(x + i * K + start + k), tl.load(y + j * K + start + k).T, total)
    tl.store(z + i * N + tl.trans(j), total)


@pytest.mark.parametrize("descriptors", [False, True])
@pytest.mark.parametrize("capability", [90, 100])
def test_blocks_load_the_turned_factors_that_they_need(capability: int, descriptors: bool) -> None:
    x, y = (np.random.default_rng(4).integers(-3, 4, (n, 96)).astype(np.float16) for n in (256, 64))
    given = (x, y, np.zeros((256, 64), np.float32), 96)
    made = compiled(turned_product, given, M=256, N=64, DESCRIPTORS=descriptors, capability=capability, num_ctas=2)
    z = launch(made, (1,), given)[2]
    np.testing.assert_array_equal(z, x.astype(np.float32) @ y.T.astype(np.float32))
    ttgir = made.asm["ttgir"]
    assert "ttg.async_copy_global_to_local" in ttgir or "async_tma_copy_global_to_local" in ttgir
    inside = ttgir[ttgir.index("scf.for") :]
    assert "ttg.convert_layout" not in inside[: inside.index("scf.yield")]


@tilewright.jit
def total_of_a_line(x, y, N: tl.constexpr):
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, N)), 0))


def test_a_sum_over_blocks_waits_for_all_of_them_twice() -> None:
    """Once for what the others wrote, and once before it may be overwritten."""
    x = np.random.default_rng(0).integers(-9, 9, 512).astype(np.int32)
    _, y = run(total_of_a_line, (1,), x, np.zeros(1, np.int32), N=512, capability=90, num_ctas=2)
    assert y == x.sum()
    ptx = compiled(total_of_a_line, (x, y), N=512, capability=90, num_ctas=2).asm["ptx"]
    assert ptx.count("barrier.cluster.arrive.aligned") == 2


@tilewright.jit
def sums(x, y, N: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(y + at, tl.cumsum(tl.load(x + at), AXIS))


@tilewright.jit
def sums_of_a_line(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.cumsum(tl.load(x + i), 0, reverse=True))


@pytest.mark.parametrize("num_ctas", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_scan_over_blocks(num_ctas: int) -> None:
    x = np.random.default_rng(0).integers(-9, 9, 512).astype(np.int32)
    _, y = run(sums_of_a_line, (1,), x, np.zeros_like(x), N=512, capability=90, num_ctas=num_ctas)
    assert (y == x[::-1].cumsum()[::-1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0, 1])
def test_scans_of_rows_and_of_columns(axis: int) -> None:
    x = numbers().astype(np.int32)
    _, y = run(sums, (1,), x, np.zeros_like(x), N=N, AXIS=axis, capability=90, num_ctas=2)
    assert (y == x.cumsum(axis)).all()


@tilewright.jit
def counts(x, y, N: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, N)
    values = tl.load(x + i)
    tl.store(y + tl.arange(0, BINS), tl.histogram(values, BINS, values != 3))


@pytest.mark.parametrize(("size", "bins"), [(512, 8), pytest.param(64, 256, marks=pytest.mark.slow)])
def test_a_histogram_over_blocks(size: int, bins: int) -> None:
    x = np.random.default_rng(0).integers(0, 8, size).astype(np.int32)
    _, y = run(counts, (1,), x, np.zeros(bins, np.int32), N=size, BINS=bins, capability=90, num_ctas=2)
    assert (y == np.bincount(x[x != 3], minlength=bins)).all()


@tilewright.jit
def picked(x, places, y, N: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(y + at, tl.gather(tl.load(x + at), tl.load(places + at), AXIS))


@tilewright.jit
def flipped(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.flip(tl.load(x + i)) + tl.sort(tl.load(x + i)))


@pytest.mark.spared
@pytest.mark.parametrize("axis", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_gather_over_blocks(axis: int) -> None:
    x, places = numbers(), np.random.default_rng(1).integers(0, N, (N, N)).astype(np.int32)
    *_, y = run(picked, (1,), x, places, np.zeros_like(x), N=N, AXIS=axis, capability=90, num_ctas=2)
    assert (y == np.take_along_axis(x, places, axis)).all()


def test_partners_in_other_blocks() -> None:
    x = np.random.default_rng(0).integers(0, 99, 256).astype(np.int32)
    _, y = run(flipped, (1,), x, np.zeros_like(x), N=256, capability=90, num_ctas=2)
    assert (y == x[::-1] + np.sort(x)).all()


@tilewright.jit
def used_twice(x, y, z, K, N: tl.constexpr):
    i, k = tl.arange(0, N)[:, None], tl.arange(0, 32)[None, :]
    first, second = tl.zeros((N, N), tl.float32), tl.zeros((N, N), tl.float32)
    for start in tl.range(0, K, 32, num_stages=3):
        left, right = tl.load(x + i * K + start + k), tl.load(y + i * K + start + k)
        first = tl.dot(left, right.T, first)
        second = tl.dot(left + left, right.T, second)
    tl.store(z + i * N + tl.trans(i), first + second)


def test_a_block_copies_to_no_other_block() -> None:
    """Its part of a tile that two products use is not the part that it multiplies: the copy was refused."""
    x, y = (np.random.default_rng(6).integers(-3, 4, (64, 96)).astype(np.float16) for _ in range(2))
    given = (x, y, np.zeros((64, 64), np.float32), 96)
    *_, z = run(used_twice, (1,), *given, N=64, capability=90, num_ctas=2)
    np.testing.assert_array_equal(z, 3 * x.astype(np.float32) @ y.T.astype(np.float32))


@tilewright.jit
def with_few_elements(x, out):
    """Two elements are looked at as two rows, then follow two others."""
    i = tl.arange(0, 2)
    rows = tl.load(x + i[:, None] + tl.arange(0, 1)[None, :])
    tl.store(out + tl.arange(0, 4), tl.cat(tl.reshape(rows, (2,)), tl.load(x + 2 + i)))


@pytest.mark.parametrize("ctas", [4, 8])
def test_tiles_of_fewer_elements_than_ctas_are_reshaped(ctas: int) -> None:
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    with tilewright.simulate("cuda:90"):
        with_few_elements[(1,)](x, out, num_ctas=ctas)
    np.testing.assert_array_equal(out, x)


@tilewright.jit
def turned_rows(x, z, M: tl.constexpr, N: tl.constexpr):
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    halves = tl.permute(tl.reshape(tl.load(x + places), (2, M // 2, N)), (1, 0, 2))
    tl.store(z + places, tl.flip(tl.reshape(halves, (M, N)), 1))


def test_a_gather_from_rows_that_blocks_have_by_turns() -> None:
    """The blocks' steps along the rows are 4 and 1 there, which is no layout of the kind that gathers choose."""
    x = np.arange(8 * 32, dtype=np.int64).reshape(8, 32)
    *_, z = run(turned_rows, (1,), x, np.zeros_like(x), M=8, N=32, capability=90, num_ctas=4)
    np.testing.assert_array_equal(z, x[[0, 4, 1, 5, 2, 6, 3, 7], ::-1])
