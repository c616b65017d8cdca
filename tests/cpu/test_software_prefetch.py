"""Loops prefetch rows of the next iteration's tile, and what masks load, on processors that guess neither."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from pass_kernels import loops_of

import tilewright as tw
import tilewright.language as tl
from loop_passes import Trial, check_every_pass, rounded_difference
from tilewright.backends.llvm.machine import host_target
from tilewright.dialects.arith import CompareIntegers, Select
from tilewright.dialects.scf import If
from tilewright.dialects.vector import MaskedLoad, Prefetch
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.transforms.matching import integer_of

TARGET = host_target("znver5")
FAR, NEAR = 2, 3
"""The locality of what goes to L2, and to L1."""


@tw.jit
def down(
    x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr, MASKS: tl.constexpr = False, FLIPS: tl.constexpr = True
):
    """Sums along columns: the next iteration reads BM rows further down; with `FLIPS`, no lane keeps to its own."""
    column = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, rows, BM):
        row = start + tl.arange(0, BM)[:, None]
        at = x + row * columns + column[None, :]
        total = tl.flip(total, 1) if FLIPS else total
        total += tl.load(at, (row < rows) & (column < columns)[None, :], 0.0) if MASKS else tl.load(at)
    tl.store(out + column, tl.sum(total, 0), column < columns if MASKS else None)


@tw.jit
def along(x, out, columns, BM: tl.constexpr, BN: tl.constexpr):
    """Largest elements of rows: the next iteration goes on where this one ends."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.full((BM, BN), -1.0, tl.float32)
    for start in range(0, columns, BN):
        value = tl.load(x + row[:, None] * columns + start + tl.arange(0, BN)[None, :])
        total = tl.maximum(tl.flip(total, 1), value)
    tl.store(out + row, tl.max(total, 1))


@tw.jit
def sums(x, out, columns, BM: tl.constexpr, BN: tl.constexpr):
    """Sums of pieces of columns: the loop along a row has a result."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    total = tl.zeros((BM,), tl.float32)
    for start in range(0, columns, BN):
        total = total * 0.5 + tl.sum(tl.load(x + row[:, None] * columns + start + tl.arange(0, BN)[None, :]), 1)
    tl.store(out + row, total)


@tw.jit
def again(x, out, iterations, columns, B: tl.constexpr):
    """Each iteration reads the same tile."""
    row, column = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    total = tl.zeros((B, B), tl.float32)
    for _ in range(iterations):
        total = tl.flip(total, 1) + tl.load(x + row * columns + column)
    tl.store(out + row * B + column, total)


@tw.jit
def end_of_row(x, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out, tl.sum(tl.load(x + tl.program_id(0) * n + at, at < n, 0.0), 0))


X = np.zeros(4096, np.float32)


def asked(kernel: Any, arguments: tuple[Any, ...], cpu: str = "znver5", **constants: Any) -> list[Prefetch]:
    return loops_of(kernel, arguments, cpu, **constants).ops_of(Prefetch)


def columns_asked(tile: tuple[int, int], cpu: str = "znver5") -> list[Prefetch]:
    return asked(down, (X, X, 64, 64), cpu, BM=tile[0], BN=tile[1])


def is_conditional(op: Op) -> bool:
    """Whether a branch on what the launch loads decides about it."""
    around = op.parent
    while around is not None and not isinstance(around, If):
        around = around.parent
    return isinstance(around, If) and isinstance(around.condition.op, CompareIntegers)


@pytest.mark.parametrize("tile", [(32, 32), (8, 128), (64, 32)])
def test_rows_of_the_next_iteration_are_asked_for(tile: tuple[int, int]) -> None:
    """Each line of a row, four per iteration, where the launch loads much; the launch tells where they are."""
    found = columns_asked(tile)
    assert len(found) == min(4, tile[1] * 4 // 64)
    assert all(op.locality == FAR and is_conditional(op) and integer_of(op.offset) is None for op in found)


@pytest.mark.parametrize("tile", [(32, 32), (8, 128), (64, 32)])
def test_sums_in_registers_ask_for_rows_where_the_launch_loads_much(tile: tuple[int, int]) -> None:
    """Eight vectors an iteration are 512 bytes, so 16 iterations are 8 KiB; otherwise each asks for what it loads."""
    found = asked(down, (X, X, 64, 64), BM=tile[0], BN=tile[1], FLIPS=False)
    assert len(found) == 8
    for op in found:
        ahead = op.offset.op
        assert isinstance(ahead, Select)
        assert integer_of(ahead.other) == 0
        assert ahead.chosen.op is not None
        assert 16 in map(integer_of, ahead.chosen.op.operands)
    assert not asked(down, (X, X, 64, 64), "znver4", BM=tile[0], BN=tile[1], FLIPS=False), "nothing was measured there"


def test_rows_that_go_on_are_asked_for() -> None:
    """The next iteration's 8 rows of 32 are 128 bytes behind these; 32 KiB are read before what is asked for."""
    assert {integer_of(op.offset) for op in asked(along, (X, X, 64), BM=8, BN=32)} == {128 * 32}


def test_rows_on_other_pages_are_left_to_processors_that_find_them() -> None:
    """On Intel's processors prefetches of far rows delay loads: only rows that go on, and masked loads, have some."""
    assert {integer_of(op.offset) for op in asked(along, (X, X, 64), "sapphirerapids", BM=8, BN=32)} == {128 * 32}
    assert not columns_asked((32, 32), "sapphirerapids")
    assert not asked(down, (X, X, 64, 64), "sapphirerapids", BM=32, BN=32, FLIPS=False)
    assert asked(end_of_row, (X, X, 40), "sapphirerapids", BLOCK=1024)


def test_small_tiles_are_asked_for_several_iterations_ahead() -> None:
    """A tile of 4 rows of 128 bytes is a small part of what memory brings meanwhile: 32 KiB are 64 of them."""
    for op in columns_asked((4, 32)):
        assert op.offset.op is not None
        assert 64 in map(integer_of, op.offset.op.operands)


def test_what_is_guessed_is_not_asked_for() -> None:
    assert not asked(sums, (X, X, 64), BM=8, BN=128), "results of two versions take registers"
    assert not asked(again, (X, X, 4, 64), B=32), "the next iteration reads the same"
    assert not columns_asked((4, 2048)), "rows are long"
    assert not columns_asked((256, 256)), "the tile of the next iteration would push this one out of L2"
    assert not columns_asked((32, 32), "znver4"), "nothing was measured there"
    assert not columns_asked((32, 32), "x86-64-v3")


def test_loads_under_masks_ask_for_what_is_behind() -> None:
    found = asked(end_of_row, (X, X, 40), BLOCK=1024)
    masked = loops_of(end_of_row, (X, X, 40), "znver5", BLOCK=1024).ops_of(MaskedLoad)
    assert len(found) == len(masked) > 0
    assert {(op.locality, integer_of(op.offset)) for op in found} == {(NEAR, 2048)}
    assert not asked(end_of_row, (X, X, 40), "znver4", BLOCK=1024)
    assert not asked(end_of_row, (X, X, 40), "x86-64-v3", BLOCK=1024)


def test_buffers_are_not_asked_for() -> None:
    """All that is read under masks is `x`."""
    found = asked(down, (X, X, 64, 64), BM=16, BN=32, MASKS=True)
    assert found
    for op in found:
        base = op.base
        while base.op is not None:
            base = base.op.operands[0]
        assert base.name == "x"


def launch(rows: int, columns: int, module: Op) -> dict[str, np.ndarray]:
    x = np.random.default_rng(rows).integers(-9, 9, rows * columns).astype(np.float32)
    out = np.full(columns, 77, np.float32)
    run_ir(module, {"x": x, "out": out, "rows": rows, "columns": columns}, (tw.cdiv(columns, 32),))
    return {"out": out}


@pytest.mark.parametrize("flips", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(7, 40), (33, 64), (64, 20)])
def test_no_pass_changes_what_is_summed(rows: int, columns: int, flips: bool) -> None:
    text = down.warmup(X, X, 7, 7, BM=16, BN=32, MASKS=True, FLIPS=flips, grid=(1,)).asm["ttcir"]
    seen, _ = check_every_pass(text, TARGET, Trial(partial(launch, rows, columns), rounded_difference))
    assert "prefetch_rows" in seen
