"""Expensive numbers of rows are vectors of a nest in front, where they mean the same there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.distribute_loops import FEWEST_ROWS, distribute_loops
from tilewright.dialects.cpu import Alloc, Nest
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

NESTS = """
tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
  %d = "cpu.alloc"() <{offset = 0 : i64}> : () -> !tt.ptr<tensor<16xf32>, 5>
  %e = "cpu.alloc"() <{offset = 64 : i64}> : () -> !tt.ptr<tensor<16xf32>, 5>
  "cpu.nest"() <{mode = rows, outer = array<i64>}> ({
    %i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %f = arith.sitofp %i : tensor<16xi32> to tensor<16xf32>
    "cpu.write"(%f, %d) : (tensor<16xf32>, !tt.ptr<tensor<16xf32>, 5>) -> ()
    "cpu.write"(%f, %e) : (tensor<16xf32>, !tt.ptr<tensor<16xf32>, 5>) -> ()
    "cpu.yield"() : () -> ()
  }) : () -> ()
  "cpu.nest"() <{mode = rows, outer = array<i64: 16>}> ({
    %row = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %column = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %four = arith.constant dense<4> : tensor<16xi32>
    %first = arith.muli %row, %four : tensor<16xi32>
    %r = tt.expand_dims %first {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %rb = tt.broadcast %r : tensor<16x1xi32> -> tensor<16x4xi32>
    %c = tt.expand_dims %column {axis = 0 : i32} : tensor<4xi32> -> tensor<1x4xi32>
    %cb = tt.broadcast %c : tensor<1x4xi32> -> tensor<16x4xi32>
    %at = arith.addi %rb, %cb : tensor<16x4xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x4x!tt.ptr<f32>>
    %p = tt.addptr %xs, %at : tensor<16x4x!tt.ptr<f32>>, tensor<16x4xi32>
    %v = tt.load %p : tensor<16x4x!tt.ptr<f32>>
    %firsts = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %begin = tt.addptr %firsts, %first : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %half = arith.constant dense<0.5> : tensor<16xf32>
    BODY
    %n = arith.mulf %m, %half : tensor<16xf32>
    %exp = math.exp %n : tensor<16xf32>
    AFTER
    %e1 = tt.expand_dims %exp {axis = 1 : i32} : tensor<16xf32> -> tensor<16x1xf32>
    %eb = tt.broadcast %e1 : tensor<16x1xf32> -> tensor<16x4xf32>
    %y = arith.mulf %v, %eb : tensor<16x4xf32>
    %os = tt.splat %out : !tt.ptr<f32> -> tensor<16x4x!tt.ptr<f32>>
    %q = tt.addptr %os, %at : tensor<16x4x!tt.ptr<f32>>, tensor<16x4xi32>
    tt.store %q, %y : tensor<16x4x!tt.ptr<f32>>
    "cpu.yield"() : () -> ()
  }) : () -> ()
  tt.return
}
"""
READ = '%m = "cpu.read"(%d) : (!tt.ptr<tensor<16xf32>, 5>) -> tensor<16xf32>'
RANGE = "%m = arith.sitofp %row : tensor<16xi32> to tensor<16xf32>"
LOADED = "%m = tt.load %begin : tensor<16x!tt.ptr<f32>>"
WRITE = '"cpu.write"(%half, %d) : (tensor<16xf32>, !tt.ptr<tensor<16xf32>, 5>) -> ()'
KEPT = '"cpu.write"(%exp, %e) : (tensor<16xf32>, !tt.ptr<tensor<16xf32>, 5>) -> ()'
OLD = '%old = "cpu.read"(%e) : (!tt.ptr<tensor<16xf32>, 5>) -> tensor<16xf32>\n' + RANGE
REDUCED = """%m = "tt.reduce"(%v) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<16x4xf32>) -> tensor<16xf32>"""


def module_of(body: str, after: str) -> Op:
    module = parse_module(NESTS.replace("BODY", body).replace("AFTER", after))
    verify(module)
    return module


def result_of(module: Op) -> np.ndarray:
    x, out = np.random.default_rng(3).standard_normal(64, np.float32), np.zeros(64, np.float32)
    run_ir(module, [x, out])
    return out


@pytest.mark.parametrize(
    ("body", "after", "moves"),
    [
        (READ, "", True),
        (RANGE, "", True),
        (READ, WRITE, True),
        (RANGE, KEPT, True),
        (OLD, KEPT, True),
        (WRITE + "\n" + READ, "", False),
        (LOADED, "", False),
        (REDUCED, "", False),
    ],
    ids=["buffer", "range", "buffer-changed-later", "kept", "kept-where-old", "buffer-changed", "memory", "sum"],
)
def test_numbers_move_where_they_mean_the_same(body: str, after: str, moves: bool) -> None:
    module = module_of(body, after)
    before, expected = print_op(module), result_of(module_of(body, after))
    assert distribute_loops(module) == moves
    verify(module)
    assert (print_op(module) == before) != moves
    np.testing.assert_array_equal(result_of(module), expected)
    nests = module.ops_of(Nest)
    exponentials = [op.parent for op in module.walk() if op.name == "math.exp"]
    assert exponentials == [nests[1]]
    assert len(nests) == 2 + moves


def test_what_the_nest_keeps_anyway_needs_no_further_buffer() -> None:
    for after, more in ((KEPT, 0), ("", 1)):
        module = module_of(RANGE, after)
        before = len(module.ops_of(Alloc))
        distribute_loops(module)
        assert len(module.ops_of(Alloc)) == before + more


@tw.jit
def decay(x, rates, out, rows, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEPS: tl.constexpr):
    """Sums of tiles, of which each is worth less: exp2 of a number per row that the loop carries."""
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    at = r[:, None] * COLUMNS + c[None, :]
    rate = tl.load(rates + r, r < rows, 0)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for step in range(STEPS):
        total = total * tl.exp2(rate)[:, None] + tl.load(x + step * ROWS * COLUMNS + at, (r < rows)[:, None], 0)
        rate = rate * 0.5
    tl.store(out + at, total, (r < rows)[:, None])


@pytest.mark.parametrize(("height", "rows"), [(FEWEST_ROWS // 2, 3), (FEWEST_ROWS, 8), (64, 0), (64, 50), (64, 64)])
def test_decaying_sums(height: int, rows: int) -> None:
    rng, width, steps = np.random.default_rng(rows), 16, 4
    x, rates = rng.standard_normal((steps, height, width), np.float32), rng.standard_normal(height, np.float32)
    out, expected, rate = np.zeros((height, width), np.float32), np.zeros((height, width)), rates.astype(np.float64)
    for tile in x:
        expected = expected * np.exp2(rate)[:, None] + tile
        rate = rate * 0.5
    expected[rows:] = 0
    kernel: Any = decay[(1,)](x, rates, out, rows, ROWS=height, COLUMNS=width, STEPS=steps)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    has_vectors = any("math.exp2" in line and f"tensor<{height}xf32>" in line for line in rows_of_nests(kernel))
    assert has_vectors == (height >= FEWEST_ROWS)


def rows_of_nests(kernel: Any) -> list[str]:
    """The lines of the nests of vectors without rows."""
    nests = parse_module(kernel.asm["ttcir"]).ops_of(Nest)
    return [line for nest in nests if not nest.outer for line in print_op(nest).splitlines()]
