"""The order in which one thread runs programs: those whose tiles are neighbours in memory one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on


@tw.jit
def doubled(x, out, M, N, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    inside = (r < M)[:, None] & (c < N)[None, :]
    tl.store(out + r[:, None] * N + c[None, :], 2 * tl.load(x + r[:, None] * N + c[None, :], inside), inside)


@tw.jit
def columns_first(x, out, M, N, B: tl.constexpr):
    r, c = tl.program_id(1) * B + tl.arange(0, B), tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + r[:, None] * N + c[None, :], 2 * tl.load(x + r[:, None] * N + c[None, :]))


@tw.jit
def transposed(x, out, M, N, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    tl.store(out + c[None, :] * M + r[:, None], tl.load(x + r[:, None] * N + c[None, :]))


@tw.jit
def product(x, out, M, N, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    k = tl.arange(0, B)
    sums = tl.dot(tl.load(x + r[:, None] * N + k[None, :]), tl.load(x + k[:, None] * N + c[None, :]))
    tl.store(out + r[:, None] * N + c[None, :], sums)


@tw.jit
def counting(x, out, M, N, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    tl.atomic_add(out + r[:, None] * N + c[None, :], tl.load(x + r[:, None] * N + c[None, :]))


@tw.jit
def watching(x, out, M, N, B: tl.constexpr):
    r, c = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B)
    tl.store(out + r[:, None] * N + c[None, :], tl.load(x, volatile=True))


@tw.jit
def rows_apart(x, out, M, N, B: tl.constexpr):
    r, c = tl.program_id(0), tl.program_id(1) * 4096 + tl.arange(0, B)
    tl.store(out + r * N + c, tl.load(x + r * N + c))


@tw.jit
def in_one_row(x, out, M, N, B: tl.constexpr):
    c = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + c, tl.load(x + c))


@tw.jit
def chain(last, before, STRIDE: tl.constexpr):
    """Each program notes which one ran before it; only one thread makes that a chain."""
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    me = x * 100 + y * 10 + z
    tl.store(before + x * STRIDE + y * 4 + z, tl.load(last))
    tl.store(last, me)


def order_of(kernel: tw.JITFunction, *arguments: object, **options: int) -> str:
    text = kernel.warmup(*arguments, grid=(2, 2), **options).asm["ttcir"]
    return "yx" if 'program_order = "yx"' in text else "xy"


@pytest.mark.parametrize(
    ("kernel", "order"),
    [
        (doubled, "yx"),
        (columns_first, "xy"),
        (transposed, "xy"),
        (product, "xy"),
        (counting, "xy"),
        (watching, "xy"),
        (rows_apart, "xy"),
        (in_one_row, "xy"),
    ],
)
def test_which_kernels_have_another_order(kernel: tw.JITFunction, order: str) -> None:
    x = np.zeros((64, 64), np.float32)
    assert order_of(kernel, x, x.copy(), 64, 64, B=16) == order


@pytest.mark.parametrize("grid", [(3, 4), (1, 4), (3, 1), (2, 3, 2)])
def test_programs_run_in_that_order(grid: tuple[int, ...]) -> None:
    for stride, by_y in ((64, True), (1, False)):
        last, before = np.full(1, -1, np.int32), np.full((3, 64), -2, np.int32)
        chain[grid](last, before, STRIDE=stride, num_threads=1)
        x, y, z = (*grid, 1)[:3]
        places = [(i, j, k) for k in range(z) for i in range(x) for j in range(y)]
        if not by_y:
            places = [(i, j, k) for k in range(z) for j in range(y) for i in range(x)]
        numbers = [100 * i + 10 * j + k for i, j, k in places]
        if by_y:
            found = [before[i, 4 * j + k] for i, j, k in places]
            assert found == [-1, *numbers[:-1]]
        assert last[0] == numbers[-1]


@pytest.mark.parametrize("shape", [(1, 1), (70, 33), (16, 200), (200, 16), (160, 160)])
@pytest.mark.parametrize("num_threads", [1, 2])
@code_on("x86-64-v3")
def test_every_program_runs_once(shape: tuple[int, int], num_threads: int) -> None:
    x, out = np.arange(np.prod(shape), dtype=np.float32).reshape(shape), np.full(shape, np.nan, np.float32)
    doubled[tuple(-(-extent // 16) for extent in shape)](x, out, *shape, B=16, num_threads=num_threads)
    np.testing.assert_array_equal(out, 2 * x)
