"""Turns that add to rows of a tile go row by row where each goes on along a row of memory; others stay as they are."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from pass_kernels import loops_of

import tilewright as tw
import tilewright.language as tl
from loop_passes import TARGETS, Trial, check_every_pass, rounded_difference
from lowered_code import code_on
from tilewright.backends.cpu.interchange_rows import interchange_rows
from tilewright.backends.cpu.loop_facts import ALONG
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.scf import For
from tilewright.dialects.vector import Prefetch
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module

ROWS, COLUMNS = 6, 700


@tw.jit
def sums(x, y, out, rows, columns, step, BM: tl.constexpr, BN: tl.constexpr, HOW: tl.constexpr = ""):
    """Sums of rows; in other ways, each turn needs more than the row that it is in, or more than memory."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    lane = tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, columns, BN):
        column = start + lane
        inside = (row < rows)[:, None] & (column < columns)
        if HOW == "down":
            below = start + tl.arange(0, BM)[:, None]
            read = tl.load(x + below * columns + lane, (below < rows) & (lane < columns), 0.0)
        elif HOW == "apart":
            read = tl.load(x + (row[:, None] * columns + start) * 2 + lane, inside, 0.0)
        elif HOW == "by a step":
            read = tl.load(x + (row[:, None] * columns + start) * step + lane, inside, 0.0)
        else:
            read = tl.load(x + row[:, None] * columns + column, inside, 0.0)
        if HOW == "products":
            read *= tl.load(y + column, column < columns, 0.0)
        if HOW == "upside down":
            total = tl.flip(total, 0) * 0.5 + read
        elif HOW == "next to each other":
            total = tl.flip(total, 1) * 0.5 + read
        else:
            total += read
        if HOW == "stored":
            tl.store(y + column + tl.zeros((BM, BN), tl.int32), total, inside)
        if HOW == "told":
            tl.store(y + start // BN, tl.sum(total))
    tl.store(out + row, tl.sum(total, 1), row < rows)


X = np.zeros(ROWS * COLUMNS, np.float32)
CHANGED = ["", "products"]
KEPT = ["down", "apart", "by a step", "upside down", "next to each other", "stored", "told"]


def is_interchanged(module: Op) -> bool:
    return any(ALONG in op.attributes for op in module.ops_of(For))


def lowered(how: str, cpu: str = "znver5", rows: int = 4, lanes: int = 512) -> Op:
    return loops_of(sums, (X, X, X, ROWS, COLUMNS, 3), cpu, BM=rows, BN=lanes, HOW=how)


@pytest.mark.parametrize("how", CHANGED)
@pytest.mark.parametrize("cpu", ["znver5", "x86-64-v3", "neoverse-v1"])
def test_turns_along_rows_are_inside_of_rows(how: str, cpu: str) -> None:
    assert is_interchanged(lowered(how, cpu))


@pytest.mark.parametrize("how", KEPT)
def test_other_turns_stay(how: str) -> None:
    assert not is_interchanged(lowered(how))


def test_one_row_has_nothing_to_interchange() -> None:
    assert not is_interchanged(lowered("", rows=1))
    assert not is_interchanged(lowered("", lanes=64)), "rows in registers are inside already"


@code_on("znver5")
def test_what_follows_is_asked_for() -> None:
    """32 KiB ahead, whichever row that is."""
    asked = [op for op in lowered("").ops_of(Prefetch) if op.locality == 2]
    assert {int(op.offset.op.attributes["value"].value) for op in asked if op.offset.op} == {32 << 10}


def launch(how: str, module: Op) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(len(how))
    x, y = (rng.integers(-9, 9, 64 * COLUMNS).astype(np.float32) for _ in range(2))
    out = np.full(16, 77, np.float32)
    run_ir(module, {"x": x, "y": y, "out": out, "rows": ROWS, "columns": COLUMNS, "step": 3}, (2,))
    return {"out": out, "y": y}


@pytest.mark.parametrize("how", [*CHANGED, *KEPT])
@pytest.mark.parametrize("target", TARGETS[1:3], ids=lambda target: target.cpu)
def test_every_pass_keeps_what_is_computed(how: str, target: Target) -> None:
    given = (X, X, X, ROWS, COLUMNS, 3)
    text = sums.warmup(*given, BM=4, BN=256, HOW=how, grid=(1,)).asm["ttcir"]
    seen, _ = check_every_pass(text, target, Trial(partial(launch, how), rounded_difference))
    assert ("interchange_rows" in seen) == (how in CHANGED)


LOOPS = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %iterations: i64) {
    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 1 : i64
    %c4 = arith.constant 4 : i64
    %c8 = arith.constant 8 : i64
    %c32 = arith.constant 32 : i64
    %far = arith.constant 1000 : i64
    %buffer = "cpu.alloc"() <{offset = 0 : i64}> : () -> !tt.ptr<tensor<4x32xf32>, 5>
    scf.for %t = %c0 to %iterations step %c1 : i64 {
      %start = arith.muli %t, %c32 : i64
      %rows = tt.bitcast %buffer : !tt.ptr<tensor<4x32xf32>, 5> -> !tt.ptr<f32>
      scf.for %r = %c0 to %c4 step %c1 : i64 {
        %place = arith.muli %r, WIDTH : i64
        %sum = tt.addptr %rows, %place : !tt.ptr<f32>, i64
        %other = tt.addptr %rows, OTHER : !tt.ptr<f32>, i64
        %line = arith.muli %r, %far : i64
        %at = arith.addi %line, %start : i64
        %p = tt.addptr %x, %at : !tt.ptr<f32>, i64
        scf.parallel %i = %c0 to %c32 step %c8 : i64 {
          %q = tt.addptr %p, %i : !tt.ptr<f32>, i64
          %v = vector.load %q[%c0] : !tt.ptr<f32> -> vector<8xf32>
          %s = tt.addptr SOURCE, %i : !tt.ptr<f32>, i64
          %w = vector.load %s[%c0] : !tt.ptr<f32> -> vector<8xf32>
          %z = arith.addf %v, %w : vector<8xf32>
          %d = tt.addptr %sum, %i : !tt.ptr<f32>, i64
          vector.store %z, %d[%c0] : !tt.ptr<f32>, vector<8xf32>
        }
      }
    }
    tt.return
  }
"""


@pytest.mark.parametrize(("width", "other", "source", "is_changed"), [
    ("%c32", "%c0", "%sum", True),
    ("%c8", "%c0", "%sum", False),  # rows overlap
    ("%c32", "%c0", "%other", False),  # the first row is read by all
    ("%start", "%c0", "%sum", False),  # where rows lie differs from turn to turn
    ("%c32", "%place", "%other", False),  # a row under another name
])
def test_rows_of_buffers_are_apart(width: str, other: str, source: str, *, is_changed: bool) -> None:
    text = LOOPS.replace("WIDTH", width).replace("OTHER", other).replace("SOURCE", source)
    assert interchange_rows(parse_module(f"module {{{text}}}")) == is_changed
