"""Sums over rows of a tile that is wider than what its mask shows of them have a version for one vector of each.

Loops that look for signals in each iteration have it: the others keep sums in registers, in `interchange_loops.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from guarded_memory import between_guards

import tilewright as tw
import tilewright.language as tl
from loop_passes import Trial, check_every_pass, rounded_difference
from tilewright.backends.cpu.pipeline import loop_passes
from tilewright.backends.cpu.version_single_vectors import version_single_vectors
from tilewright.backends.llvm.machine import host_target
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes

TARGET = host_target("znver4")


@tw.jit
def middle(x, out, s1, s2, B1: tl.constexpr, B2: tl.constexpr, HOW: tl.constexpr = ""):
    """out[i, k] = Σ_j x[i, j, k], by tiles of B1 × B2 elements (j, k)."""
    i, k = tl.program_id(0), tl.program_id(1) * B2 + tl.arange(0, B2)[None, :]
    total = tl.full((B1, B2), -0.0, tl.float32)
    for start in range(0, s1, B1):
        j = start + tl.arange(0, B1)[:, None]
        inside = (j < s1) & (k < s2)
        if HOW == "columns":
            inside = (k < s2) & (j >= 0)
        if HOW == "odd":
            inside &= j % 2 == 1
        value = tl.load(x + (i * s1 + j) * s2 + k, inside, 0.0)
        total = value if HOW == "copies" else total + value
    tl.store(out + i * s2 + k, tl.sum(total, 0)[None, :], k < s2)


@pytest.mark.parametrize("s2", [1, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 65])
@pytest.mark.parametrize("s1", [0, 1, 15, 16, 17, 50])
@pytest.mark.parametrize("how", ["", "odd"])
@pytest.mark.parametrize("interruptible", [False, True])
def test_every_width(s1: int, s2: int, how: str, interruptible: bool) -> None:
    """Memory ends at a page that nobody may touch; loops that look for signals keep sums in memory."""
    _, memory = between_guards(3 * s1 * s2, np.dtype(np.float32))
    memory[:] = np.random.default_rng(s2).integers(-9, 9, memory.size)
    x, out = memory.reshape(3, s1, s2), np.full((3, s2), 77, np.float32)
    middle[(3, tw.cdiv(s2, 32))](x, out, s1, s2, B1=16, B2=32, HOW=how, interruptible=interruptible)
    np.testing.assert_array_equal(out, (x[:, 1::2] if how else x).sum(1))


@pytest.mark.parametrize("s2", [3, 16, 20])
@pytest.mark.parametrize("interruptible", [False, True])
def test_signs_of_zeros_are_those_of_the_sums(s2: int, interruptible: bool) -> None:
    """Rows that are masked off add +0, so a sum of -0 alone is -0 only in a tile that is full."""
    for s1, negative in ((16, True), (15, False), (17, False)):
        x, out = np.full((1, s1, s2), -0.0, np.float32), np.zeros((1, s2), np.float32)
        middle[(1, 1)](x, out, s1, s2, B1=16, B2=32, interruptible=interruptible)
        assert np.signbit(out).all() == negative, s1


def lowered(target: Any = TARGET, tile: tuple[int, int] = (16, 32), how: str = "") -> Op:
    """The loops in front of the pass."""
    x = np.zeros(4096, np.float32)
    text = middle.warmup(x, x, 7, 7, B1=tile[0], B2=tile[1], HOW=how, grid=(1,), interruptible=True).asm["ttcir"]
    module = parse_module(text)
    run_passes(module, [step for step in loop_passes(target) if step.name != "version_single_vectors"])
    return module


def test_which_sums_have_the_version() -> None:
    assert version_single_vectors(lowered())
    assert not version_single_vectors(lowered(tile=(16, 16))), "a vector is a row"
    assert not version_single_vectors(lowered(tile=(16, 256))), "rows are long"
    assert not version_single_vectors(lowered(how="odd")), "which rows count is no range"
    assert not version_single_vectors(lowered(how="copies")), "nothing is added"


def launch(s1: int, s2: int, module: Op) -> dict[str, np.ndarray]:
    x = np.random.default_rng(s1).integers(-9, 9, 4 * s1 * s2).astype(np.float32)
    out = np.full(2 * s2, 77, np.float32)
    run_ir(module, {"x": x, "out": out, "s1": s1, "s2": s2}, (2, 2))
    return {"out": out}


@pytest.mark.parametrize("s2", [5, 16, 17, 32, 40])
@pytest.mark.parametrize("s1", [0, 9, 16, 37])
def test_no_pass_changes_what_is_summed(s1: int, s2: int) -> None:
    x = np.zeros(4096, np.float32)
    text = middle.warmup(x, x, 7, 7, B1=16, B2=32, grid=(1,), interruptible=True).asm["ttcir"]
    seen, _ = check_every_pass(text, TARGET, Trial(partial(launch, s1, s2), rounded_difference))
    assert "version_single_vectors" in seen


@tw.jit
def two_loops(x, y, z, n, m, end, way):
    """A program's own loops, the second of which goes on where the first one ends, and does something else."""
    for i in range(n):
        if way > 0:
            tl.store(x + i, 1.0)
        else:
            for j in range(0, end, 16):
                tl.store(y + j, 2.0)
    for i in range(n, m):
        tl.store(z + i, 3.0)


@pytest.mark.parametrize("way", [0, 2])
@pytest.mark.parametrize("end", [0, 5, 16, 17])
def test_loops_of_a_program_are_no_rows_of_a_nest(way: int, end: int) -> None:
    x, y, z = (np.zeros(64, np.float32) for _ in range(3))
    two_loops[(1,)](x, y, z, 5, 9, end, way)
    assert (x == np.where((way > 0) & (np.arange(64) < 5), 1, 0)).all()
    assert (y == np.where((way == 0) & (np.arange(64) % 16 == 0) & (np.arange(64) < end), 2, 0)).all()
    assert (z == np.where((np.arange(64) >= 5) & (np.arange(64) < 9), 3, 0)).all()
