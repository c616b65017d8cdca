"""Kernels whose threads need each other's elements, on the simulator: reductions, scans, histograms, gathers, sorts."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.nvidia.simulated import compiled, launch, run

import tilewright
import tilewright.language as tl

Array = np.ndarray[Any, Any]
slow = pytest.mark.slow


def draw(shape: Any, dtype: str, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iub":
        return random.integers(0, 100, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def count(ptx: str, pattern: str) -> int:
    return len(re.findall(pattern, ptx))


@tilewright.jit
def softmax(out, x, n, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + i, e / tl.sum(e, 0), mask=i < n)


def test_softmax_takes_fewer_instructions_than_tritons() -> None:
    x = draw((2, 1000), "f4")
    made = compiled(softmax, [x, x, 1000], BLOCK=1024)
    found, _ = launch(made, (2,), [np.zeros_like(x), x, 1000])
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-8)
    ptx = made.asm["ptx"]
    assert (count(ptx, r"shfl\.sync"), count(ptx, r"bar(rier\.cta)?\.sync")) == (10, 3)  # Triton 3.9: 14 and 3


@slow
@pytest.mark.parametrize("warps", [1, 2, 8, 16, 32])
def test_softmax_of_any_number_of_warps(warps: int) -> None:
    x = draw((2, 1000), "f4")
    found, _ = run(softmax, (2,), np.zeros_like(x), x, 1000, BLOCK=1024, num_warps=warps)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-8)


@tilewright.jit
def folds(total, most, least, where, flags, x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.store(total, tl.sum(v, 0))
    tl.store(most, tl.max(v, 0))
    tl.store(least, tl.min(v, 0))
    tl.store(where, tl.argmax(v, 0))
    tl.store(where + 1, tl.argmin(v, 0))
    tl.store(flags, tl.reduce_or((v > 1).to(tl.int32), 0))
    tl.store(flags + 1, tl.xor_sum((v > 1).to(tl.int32), 0))


@slow
@pytest.mark.parametrize("capability", [80, 90, 100, 120])
@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "bfloat16"])
def test_folds_of_every_type(dtype: str, capability: int) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    x = np.round(draw(512, "f4", seed=capability) * 4).astype(kind) if "f" in dtype else draw(512, dtype)
    one, two = np.zeros(1, kind), np.zeros(2, "i4")
    total, most, least, where, flags, _ = run(folds, (1,), one, one, one, two, two, x, capability=capability, BLOCK=512)
    assert (most, least) == (x.max(), x.min())
    assert list(where) == [x.argmax(), x.argmin()]
    assert list(flags) == [(x > 1).any(), (x > 1).sum() & 1]
    assert total == x.astype("f8").sum().astype(kind) if "f" in dtype else x.sum(dtype=kind)


@tilewright.jit
def bits(out, x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.store(out, tl.xor_sum(v, 0))
    tl.store(out + 1, tl.reduce_or(v, 0))


def test_bits_of_64_are_folded_by_halves() -> None:
    x = draw(64, "u8")
    x &= np.uint64(0xFFF0_0FFF_0F0F_FF00)
    made = compiled(bits, [x[:2], x], capability=80, BLOCK=64, num_warps=1)
    found, _ = launch(made, (1,), [np.zeros(2, "u8"), x])
    assert list(found) == [np.bitwise_xor.reduce(x), np.bitwise_or.reduce(x)]
    assert count(made.asm["ptx"], r"redux\.sync") == 4


@tilewright.jit
def extremes(out, x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.store(out, tl.max(v, 0))
    tl.store(out + 1, tl.min(v, 0))
    tl.store(out + 2, tl.sum(v, 0))


@pytest.mark.parametrize(
    ("capability", "dtype", "instruction", "times"),
    [
        pytest.param(*case, marks=slow)
        for case in [(80, "f2", "f16x2", 0), (90, "f2", "f16x2", 1), (90, "f4", "f32x2", 0), (100, "f4", "f32x2", 1)]
    ],
)
def test_two_elements_at_once(capability: int, dtype: str, instruction: str, times: int) -> None:
    """The lowering takes pairs where the device is faster with them; LLVM may find others."""
    x = draw(512, dtype)
    made = compiled(extremes, [x[:3], x], capability=capability, BLOCK=512)
    assert count(made.asm["ptx"], rf"(add|max|min)\S*\.{instruction}") >= times
    assert count(made.asm["llir"], r"= fadd [a-z ]*<2 x (half|float)>") == times
    found, _ = launch(made, (1,), [np.zeros(3, dtype), x])
    np.testing.assert_allclose(found, [x.max(), x.min(), x.astype("f4").sum()], rtol=1e-2)


@slow
@pytest.mark.parametrize("capability", [80, 100])
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(special: float, capability: int) -> None:
    x = draw(256, "f4")
    x[77] = special
    found, _ = run(extremes, (1,), np.zeros(3, "f4"), x, capability=capability, BLOCK=256)
    np.testing.assert_allclose(found, [np.fmax.reduce(x), np.fmin.reduce(x), x.sum()], rtol=1e-5)


@tilewright.jit
def row_sums(out, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    v = tl.load(x + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :])
    tl.store(out + tl.arange(0, COLUMNS if AXIS == 0 else ROWS), tl.sum(v, AXIS))


@pytest.mark.parametrize("blocks", [pytest.param(blocks, marks=slow) for blocks in (1, 2, 4)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(64, 64), (16, 256), (256, 16)])
def test_sums_of_rows_and_over_blocks(blocks: int, axis: int, shape: tuple[int, int]) -> None:
    x = draw(shape, "i4").astype("f4")
    wanted = x.sum(axis)
    found, _ = run(
        row_sums,
        (1,),
        np.zeros_like(wanted),
        x,
        ROWS=shape[0],
        COLUMNS=shape[1],
        AXIS=axis,
        capability=90,
        num_ctas=blocks,
    )
    np.testing.assert_array_equal(found, wanted)


@tilewright.jit
def later_value(a, place_a, b, place_b):
    return tl.where(b != 0, b, a), tl.where(b != 0, place_b, place_a)


@tilewright.jit
def fill(out, places, x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v, place = tl.associative_scan((tl.load(x + i), i.to(tl.int64)), 0, later_value)
    tl.store(out + i, v)
    tl.store(places + i, place)


@pytest.mark.parametrize("warps", [pytest.param(warps, marks=slow) for warps in (1, 4, 8)])
def test_scan_of_two_operands_in_order(warps: int) -> None:
    x = draw(512, "f4") * (draw(512, "i4", seed=1) > 60)
    x[0] = 5
    wanted = np.maximum.accumulate(np.where(x != 0, np.arange(512), 0))
    found, places, _ = run(fill, (1,), np.zeros_like(x), np.zeros(512, "i8"), x, BLOCK=512, num_warps=warps)
    np.testing.assert_array_equal(found, x[wanted])
    np.testing.assert_array_equal(places, wanted)


@tilewright.jit
def down(out, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


def test_a_scan_reads_the_totals_of_other_warps_when_it_needs_them() -> None:
    x = draw((64, 64), "i4")
    kernel = compiled(down, [np.zeros_like(x), x], ROWS=64, COLUMNS=64)
    np.testing.assert_array_equal(launch(kernel, (1,), [np.zeros_like(x), x])[0], x.cumsum(0))
    behind = kernel.asm["ptx"].rpartition("bar.sync")[2]
    parts = behind[: behind.index("st.global")].split("ld.shared.")
    assert len(parts) > 8
    assert all("add.s32" in part for part in parts[1:])  # each is used before the next one is read


@tilewright.jit
def with_more(mean, square, weight, other_mean, other_square, other_weight):
    total = weight + other_weight
    share = tl.where(total == 0, 0.0, other_weight / total)
    step = other_mean - mean
    return mean + step * share, square + other_square + step * step * weight * share, total


@tilewright.jit
def mean_and_variance(out, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    v = tl.load(x + rows[:, None] * COLUMNS + columns)
    mean, square, weight = tl.reduce((v, tl.zeros_like(v), tl.full((ROWS, COLUMNS), 1, tl.float32)), 1, with_more)
    tl.store(out + rows, mean)
    tl.store(out + ROWS + rows, square / weight)


@pytest.mark.parametrize("shape", [(1, 1024), (8, 256)])
def test_lanes_agree_on_means_whose_roundings_depend_on_the_order(shape: tuple[int, int]) -> None:
    """Each lane stores for the other warps what it has: the simulator reports values that differ."""
    x = draw(shape, "f4")
    out, _ = run(mean_and_variance, (1,), np.zeros((2, shape[0]), "f4"), x, ROWS=shape[0], COLUMNS=shape[1])
    np.testing.assert_allclose(out, [x.mean(1), x.var(1)], rtol=1e-5, atol=1e-6)


@tilewright.jit
def places_of_largest(out, x, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    v = tl.load(x + rows[:, None] * COLUMNS + tl.arange(0, COLUMNS))
    tl.store(out + rows, tl.argmax(v, 1))


def test_lanes_agree_on_the_place_of_the_largest_where_there_are_nans() -> None:
    x = draw((4, 512), "f4")
    x[1:, ::3] = np.nan
    out, _ = run(places_of_largest, (1,), np.zeros(4, "i4"), x, ROWS=4, COLUMNS=512)
    assert out[0] == x[0].argmax()


def test_integers_are_compared_without_a_further_shuffle() -> None:
    def shuffles(dtype: str) -> int:
        x = np.zeros((4, 512), dtype)
        kernel = compiled(places_of_largest, [np.zeros(4, "i4"), x], ROWS=4, COLUMNS=512, num_warps=1)
        return count(kernel.asm["ptx"], "shfl.sync.idx")

    assert shuffles("i4") == 0
    assert shuffles("f4") > 0


@tilewright.jit
def bins(out, masked, x, BLOCK: tl.constexpr, COUNT: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.store(out + tl.arange(0, COUNT), tl.histogram(v, COUNT))
    tl.store(masked + tl.arange(0, COUNT), tl.histogram(v, COUNT, mask=v % 3 == 0))


@pytest.mark.parametrize(
    ("block", "count", "warps"),
    [
        (256, 64, 4),
        *(pytest.param(*case, marks=slow) for case in [(1024, 256, 4), (32, 8, 1), (512, 1024, 2), (64, 16, 8)]),
    ],
)
def test_histogram_counts_copies_once(block: int, count: int, warps: int) -> None:
    x = np.random.default_rng(0).integers(-3, count + 5, block).astype("i4")
    none = np.zeros(count, "i4")
    found, masked, _ = run(bins, (1,), none, none, x, BLOCK=block, COUNT=count, num_warps=warps)
    inside = x[(x >= 0) & (x < count)]
    np.testing.assert_array_equal(found, np.bincount(inside, minlength=count))
    np.testing.assert_array_equal(masked, np.bincount(inside[inside % 3 == 0], minlength=count))


@tilewright.jit
def pick(out, x, indices, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    i = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + i, tl.gather(tl.load(x + i), tl.load(indices + i), AXIS))


@pytest.mark.parametrize(
    ("shape", "axis", "warps", "dtype", "index"),
    [
        *(
            pytest.param(*case, marks=slow)
            for case in [
                ((16, 32), 1, 4, "f4", "i4"),
                ((32, 32), 0, 4, "f2", "i4"),
                ((16, 64), 0, 1, "i8", "i8"),
                ((8, 128), 1, 2, "f4", "i2"),
                ((1, 128), 1, 1, "i1", "i4"),
                ((64, 4), 0, 8, "f8", "i1"),
            ]
        ),
    ],
)
def test_gather_within_and_between_warps(shape: tuple[int, int], axis: int, warps: int, dtype: str, index: str) -> None:
    x = draw(shape, dtype)
    indices = np.random.default_rng(1).integers(0, shape[axis], shape).astype(index)
    found, *_ = run(
        pick, (1,), np.zeros_like(x), x, indices, ROWS=shape[0], COLUMNS=shape[1], AXIS=axis, num_warps=warps
    )
    np.testing.assert_array_equal(found, np.take_along_axis(x, indices.astype("i8"), axis))


@tilewright.jit
def order(out, turned, x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, tl.sort(v))
    tl.store(turned + i, tl.flip(v))


@pytest.mark.parametrize(
    ("block", "warps"), [(64, 2), *(pytest.param(*case, marks=slow) for case in [(256, 4), (1024, 8), (32, 1)])]
)
def test_sort_exchanges_by_shuffles(block: int, warps: int) -> None:
    x = draw(block, "f4")
    made = compiled(order, [x, x, x], BLOCK=block, num_warps=warps)
    found, turned, _ = launch(made, (1,), [np.zeros_like(x), np.zeros_like(x), x])
    np.testing.assert_array_equal(found, np.sort(x))
    np.testing.assert_array_equal(turned, x[::-1])
    ptx = made.asm["ptx"]
    if warps == 1:
        assert not count(ptx, r"ld\.shared|bar\.sync")
    bits = block.bit_length() - 1
    assert count(ptx, r"setp\.[lg]t\.f32") <= bits * (bits + 1) // 2 * block // (32 * warps)


@slow
def test_sorts_know_no_order_of_nan() -> None:
    x = draw(64, "f4")
    x[5], x[9] = np.nan, -0.0
    found, *_ = run(order, (1,), x, x, x, BLOCK=64)
    assert np.isnan(found).sum() == 1
    np.testing.assert_array_equal(np.sort(found), np.sort(x))


@tilewright.jit
def halves(out, x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    even, odd = tl.split(tl.reshape(tl.load(x + i), (BLOCK // 2, 2)))
    tl.store(out + i, tl.reshape(tl.trans(tl.join(odd, even)), (BLOCK,)))
    tl.store(out + BLOCK + i, tl.cat(even, odd, can_reorder=True))


def test_rearrangements() -> None:
    x = draw(256, "i4")
    found, _ = run(halves, (1,), np.zeros(512, "i4"), x, BLOCK=256)
    np.testing.assert_array_equal(found[:256], np.concatenate([x[1::2], x[::2]]))
    np.testing.assert_array_equal(np.sort(found[256:]), np.sort(x))


@tilewright.jit(noinline=True)
def summary(x, more):
    v = tl.load(x + tl.arange(0, 256))
    counts = tl.histogram(v.to(tl.int32) & 31, 32)
    return tl.sum(v, 0) + tl.max(tl.cumsum(v, 0), 0) + tl.sum(counts, 0).to(tl.float32) + more


@tilewright.jit
def summaries(out, x, count):
    total = summary(x, count)
    for k in range(count):
        total += summary(x, k)
        if k > 1:
            total += tl.sum(tl.load(x + k + tl.arange(0, 128)), 0)
    tl.store(out, total)


@slow
def test_functions_that_are_called_have_scratch_memory_of_their_own() -> None:
    x = draw(1024, "i4").astype("f4")
    found, _ = run(summaries, (1,), np.zeros(1, "f4"), x, 4)
    each = 2 * x[:256].sum() + 256
    assert found[0] == 5 * each + 4 + 0 + 1 + 2 + 3 + x[2:130].sum() + x[3:131].sum()
