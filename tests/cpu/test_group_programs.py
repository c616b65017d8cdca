"""Programs of a product that share columns follow one another, a few rows of tiles at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from machine_levels import run_here
from tilewright.backends.cpu.dot.plan import plan_of
from tilewright.backends.cpu.dot.spec import AT_RUN_TIME, DotSpec
from tilewright.backends.cpu.group_programs import SHARES_COLUMNS
from tilewright.backends.llvm.cpu_costs import PRODUCT_ROWS
from tilewright.backends.llvm.machine import host_target
from tilewright.ir.types import f32

LEVELS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
B = 16


@tw.jit
def product(x, y, out, order, width, K, HOW: tl.constexpr, B: tl.constexpr):
    """Tiles of rows of x by tiles of columns of y; `order` has the last tile, and for each the one before."""
    pid = tl.program_id(0)
    row, column = (pid % width, pid // width) if HOW == "swapped" else (pid // width, pid % width)
    i = tl.arange(0, B)
    sums = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        a = tl.load(x + (row * B + i)[:, None] * K + k + i[None, :])
        b = tl.load(y + ((column + row if HOW == "both" else column) * B + i)[None, :] * K + (k + i)[:, None])
        sums = tl.dot(a, b, sums)
    if HOW == "known":
        sums += pid
    if HOW == "atomic":
        tl.atomic_add(order, 1)
    if HOW == "volatile":
        sums += tl.load(order, volatile=True)
    if HOW == "noted":
        tl.store(order + 1 + row * width + column, tl.load(order))
        tl.store(order, row * width + column)
    tl.store(out + (row * width + column) * B * B + i[:, None] * B + i[None, :], sums)


@tw.jit
def doubled(x, y, out, order, width, K, HOW: tl.constexpr, B: tl.constexpr):
    """The same places, and no product."""
    row, column, i = tl.program_id(0) // width, tl.program_id(0) % width, tl.arange(0, B)
    tl.store(out + (row * width + column) * B + i, tl.load(x + row * B + i) + tl.load(y + column * B + i))


@pytest.mark.parametrize(("kernel", "how", "groups"), [
    (product, "", True), (product, "swapped", False), (product, "both", False), (product, "known", False),
    (product, "atomic", False), (product, "volatile", False), (doubled, "", False),
])
def test_which_programs_are_grouped(kernel: Any, how: str, groups: bool) -> None:
    """Rows that run fastest already are left alone, and those of which more than row and column is made."""
    x, order = np.zeros((64, 64), np.float32), np.zeros(1, np.int32)
    text = kernel.warmup(x, x, x, order, 3, 64, HOW=how, B=B, grid=(6,)).asm["ttcir"]
    assert (SHARES_COLUMNS in text) == groups


@pytest.mark.parametrize("rows", [1, 7, PRODUCT_ROWS, PRODUCT_ROWS + 1, 3 * PRODUCT_ROWS - 1])
@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("more", [0, 1, -1])
def test_each_tile_is_computed_once(rows: int, width: int, more: int) -> None:
    """Where the grid ends within a row of tiles, the tiles behind are not touched."""
    count, k = rows * width + more, 32
    rng = np.random.default_rng(rows)
    x = rng.standard_normal(((rows + 1) * B, k)).astype(np.float32)
    y = rng.standard_normal((width * B, k)).astype(np.float32)
    out = np.full(((rows + 1) * width, B, B), 77, np.float32)
    with tw.knobs.tilewright.scope():
        tw.knobs.tilewright.cpu = LEVELS[(rows + width + more) % len(LEVELS)]
        if count:
            product[(count,)](x, y, out, x, width, k, HOW="", B=B)
    expected = (x @ y.T).reshape(rows + 1, B, width, B).swapaxes(1, 2).reshape(-1, B, B)
    np.testing.assert_allclose(out[:count], expected[:count], rtol=1e-4, atol=1e-4)
    assert (out[count:] == 77).all()


def test_odd_widths_keep_their_programs() -> None:
    """A width below zero gives rows below zero, as ever."""
    x, y = np.ones((5 * B, B), np.float32), np.ones((2 * B, B), np.float32)
    out = np.zeros((9, B, B), np.float32)
    product[(5,)](x[2 * B :], y, out, x, -2, B, HOW="", B=B)
    assert [bool(tile.any()) for tile in out] == [True, True, True, True, True, False, False, False, False]


@pytest.mark.parametrize(("rows", "width", "more"), [(19, 3, 0), (8, 2, 0), (5, 4, 0), (3, 1, 0), (9, 3, 2)])
def test_programs_of_one_column_follow_one_another(rows: int, width: int, more: int) -> None:
    x, y = np.ones(((rows + 1) * B, B), np.float32), np.ones((width * B, B), np.float32)
    out, order = np.zeros(((rows + 1) * width, B, B), np.float32), np.full((rows + 1) * width + 1, -1, np.int32)
    product[(rows * width + more,)](x, y, out, order, width, B, HOW="noted", B=B, num_threads=1)
    found = [int(order[0])]
    while order[found[-1] + 1] >= 0:
        found.append(int(order[found[-1] + 1]))
    groups = [range(first, min(first + PRODUCT_ROWS, rows)) for first in range(0, rows, PRODUCT_ROWS)]
    whole = [row * width + column for group in groups for column in range(width) for row in group]
    assert found[::-1] == [*whole, *range(rows * width, rows * width + more)]


@pytest.mark.parametrize(("cpu", "m", "packs"), [
    ("znver5", 16, (False, False)), ("znver5", 32, (False, True)), ("znver5", 64, (True, True)),
    ("znver4", 32, (False, False)), ("x86-64-v3", 32, (True, True)),
])
def test_a_shared_b_is_packed_for_fewer_rows(cpu: str, m: int, packs: tuple[bool, bool]) -> None:
    target, found = host_target(cpu), []
    for shared in (False, True):
        strides = {"a_stride": AT_RUN_TIME, "b_stride": AT_RUN_TIME, "c_stride": 32}
        spec = DotSpec(m=m, n=32, k=32, a_type=f32, b_type=f32, acc_type=f32, b_shared=shared, **strides)
        plan = plan_of(spec, target)
        assert plan is not None, "it is large enough"
        found.append(plan.packs_b)
    assert tuple(found) == packs
