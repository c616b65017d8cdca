"""Rows that lie where an index says are lines in memory: they are stored, and added to, as vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from lowered_code import code_on
from machine_levels import run_here

ROWS, WIDTH, TABLE, BLOCK = 37, 50, 5, 4
CPUS = run_here("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
Kernel = Callable[..., None]


def add_rows(x, index, out, rows, W: tl.constexpr, Y: tl.constexpr, X: tl.constexpr):
    y, j = tl.program_id(0) * Y + tl.arange(0, Y)[:, None], tl.arange(0, X)[None, :]
    inside = (y < rows) & (j < W)
    row = tl.load(index + y, y < rows, other=0)
    row = tl.where(row < 0, row + 5, row)
    tl.atomic_add(out + row * W + j, tl.load(x + y * W + j, inside), inside, sem="relaxed", scope="launch")


def store_rows(x, index, out, rows, W: tl.constexpr, Y: tl.constexpr, X: tl.constexpr):
    y, j = tl.program_id(0) * Y + tl.arange(0, Y)[:, None], tl.arange(0, X)[None, :]
    inside = (y < rows) & (j < W)
    row = tl.load(index + y, y < rows, other=0)
    row = tl.where(row < 0, row + 5, row)
    tl.store(out + row * W + j, tl.load(x + y * W + j, inside), inside)


def store_apart(x, index, out, rows, W: tl.constexpr, Y: tl.constexpr, X: tl.constexpr):
    """Columns lie two elements apart; rows of one index follow one another."""
    y, j = tl.program_id(0) * Y + tl.arange(0, Y)[:, None], tl.arange(0, X)[None, :]
    inside = (y < rows) & (j < W // 2)
    row = tl.load(index + y, y < rows, other=0)
    row = tl.where(row < 0, row + 5, row)
    tl.store(out + row * W + 2 * j, tl.load(x + y * W + 2 * j, inside), inside)


def add_columns(x, index, out, rows, W: tl.constexpr, Y: tl.constexpr, X: tl.constexpr):
    """All rows are added to one, whose address no row needs."""
    y, j = tl.program_id(0) * Y + tl.arange(0, Y)[:, None], tl.arange(0, X)[None, :]
    inside = (y < rows) & (j < W)
    tl.atomic_add(out + j + y * 0, tl.load(x + y * W + j, inside), inside, sem="relaxed", scope="launch")


def add_to_few(x, index, out, rows, W: tl.constexpr, Y: tl.constexpr, X: tl.constexpr):
    """Neighbours are three numbers, over and over: a vector of sums would lose most of them."""
    y, j = tl.program_id(0) * Y + tl.arange(0, Y)[:, None], tl.arange(0, X)[None, :]
    inside = (y < rows) & (j < W)
    row = tl.load(index + y, y < rows, other=0)
    row = tl.where(row < 0, row + 5, row)
    tl.atomic_add(out + row * W + j % 3, tl.load(x + y * W + j, inside), inside, sem="relaxed", scope="launch")


def add_to_one(x, index, out, rows, W: tl.constexpr, Y: tl.constexpr, X: tl.constexpr):
    y, j = tl.program_id(0) * Y + tl.arange(0, Y)[:, None], tl.arange(0, X)[None, :]
    inside = (y < rows) & (j < W)
    row = tl.load(index + y, y < rows, other=0) + j * 0
    row = tl.where(row < 0, row + 5, row)
    tl.atomic_add(out + row * W, tl.load(x + y * W + j, inside), inside, sem="relaxed", scope="launch")


def add_and_tell(x, index, out, rows, W: tl.constexpr, Y: tl.constexpr, X: tl.constexpr):
    """The numbers before each sum are stored."""
    y, j = tl.program_id(0) * Y + tl.arange(0, Y)[:, None], tl.arange(0, X)[None, :]
    inside = (y < rows) & (j < W)
    row = tl.load(index + y, y < rows, other=0)
    row = tl.where(row < 0, row + 5, row)
    place = x + y * W + j
    tl.store(place, tl.atomic_add(out + row * W + j, tl.load(place, inside), inside, scope="launch"), inside)


def expected(kernel: Kernel, x: Any, index: Any) -> Any:
    """The contents of `out` behind the programs, one row after the other."""
    out = np.zeros((TABLE, WIDTH), x.dtype)
    for row, place in zip(x, index, strict=True):
        if kernel is store_rows:
            out[place] = row
        elif kernel is store_apart:
            out[place, ::2] = row[::2]
        elif kernel is add_columns:
            out[0] += row
        elif kernel is add_to_one:
            out[place, 0] += row.sum()
        elif kernel is add_to_few:
            np.add.at(out[place], np.arange(WIDTH) % 3, row)
        else:
            out[place] += row
    return out


def run(kernel: Kernel, kind: Any, num_threads: int = 1, block: int = 64) -> tuple[Any, Any, Any]:
    """Run `kernel` on numbers of a `kind`: what it stores, what it should have, and the kernel."""
    random = np.random.default_rng(ROWS)
    x = random.integers(-9, 9, (ROWS, WIDTH)).astype(kind)
    index = random.integers(-TABLE, TABLE, ROWS)
    out, wanted = np.zeros((TABLE, WIDTH), kind), expected(kernel, x, index)
    grid = (tw.cdiv(ROWS, BLOCK),)
    compiled = tw.jit(kernel)[grid](x, index, out, ROWS, W=WIDTH, Y=BLOCK, X=block, num_threads=num_threads)
    return out, wanted, compiled


SUMS = [add_rows, add_columns, add_to_few, add_to_one, add_and_tell]


@pytest.mark.parametrize("kernel", [*SUMS, store_rows, store_apart], ids=lambda k: k.__name__)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.int64, np.float16])
@pytest.mark.parametrize("cpu", CPUS)
def test_rows_come_one_after_the_other(kernel: Kernel, kind: Any, cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", cpu)
    out, wanted, _ = run(kernel, kind)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("kernel", SUMS, ids=lambda k: k.__name__)
def test_threads_lose_no_sums(kernel: Kernel) -> None:
    out, wanted, _ = run(kernel, np.float32, num_threads=2)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("kernel", SUMS, ids=lambda k: k.__name__)
def test_sums_of_lines_are_vectors(kernel: Kernel) -> None:
    """A thread that runs the launch alone has no atomic then."""
    *_, compiled = run(kernel, np.float32)
    scopes = (line.split(", ")[2] for line in compiled.asm["loops"].splitlines() if "tt.atomic_rmw" in line)
    assert list(dict.fromkeys(scopes)) == (["launch"] if kernel in (add_rows, add_columns) else ["cta", "launch"])


@pytest.mark.parametrize("kernel", [add_rows, store_rows], ids=lambda k: k.__name__)
@code_on("znver5")
def test_buffers_keep_one_number_per_row(kernel: Kernel) -> None:
    *_, compiled = run(kernel, np.float32)
    places = [line for line in compiled.asm["ttcir"].splitlines() if "cpu.alloc" in line and "xf32>, 5>" not in line]
    assert places
    assert all(f"tensor<{BLOCK}x1x" in line for line in places)
