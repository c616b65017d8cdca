"""Expensive numbers of rows are vectors of a nest in front, where they mean the same there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.distribute_loops import MIN_ROWS, distribute_loops
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


def module_of(body: str, after: str, op: str = "math.exp %n") -> Op:
    module = parse_module(NESTS.replace("BODY", body).replace("AFTER", after).replace("math.exp %n", op))
    verify(module)
    return module


def result_of(module: Op) -> np.ndarray:
    x, out = np.random.default_rng(3).standard_normal(64, np.float32), np.zeros(64, np.float32)
    run_ir(module, [x, out])
    return out


@pytest.mark.parametrize("op", ["math.exp %n", "arith.maxnumf %n, %half"])
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
def test_numbers_move_where_they_mean_the_same(body: str, after: str, moves: bool, op: str) -> None:
    module = module_of(body, after, op)
    before, expected = print_op(module), result_of(module_of(body, after, op))
    assert distribute_loops(module) == moves
    verify(module)
    assert (print_op(module) == before) != moves
    np.testing.assert_array_equal(result_of(module), expected)
    nests = module.ops_of(Nest)
    numbers = [inner.parent for inner in module.walk() if inner.name == op.split()[0]]
    assert numbers == [nests[1]]
    assert len(nests) == 2 + moves


def test_a_cheap_number_stays() -> None:
    assert not distribute_loops(module_of(READ, "", "arith.addf %n, %half"))


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


@pytest.mark.parametrize(("height", "rows"), [(MIN_ROWS // 2, 3), (MIN_ROWS, 8), (64, 0), (64, 50), (64, 64)])
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
    assert has_vectors == (height >= MIN_ROWS)


def rows_of_nests(kernel: Any) -> list[str]:
    """The lines of the nests of vectors without rows."""
    nests = parse_module(kernel.asm["ttcir"]).ops_of(Nest)
    return [line for nest in nests if not nest.outer for line in print_op(nest).splitlines()]


SOFTMAX = """
tt.func public @kernel(%given: !tt.ptr<f32>, %to: !tt.ptr<f32>) {
  %x = "cpu.alloc"() : () -> !tt.ptr<tensor<16xCOLUMNSxf32>, 5>
  %y = "cpu.alloc"() : () -> !tt.ptr<tensor<16xCOLUMNSxf32>, 5>
  "cpu.nest"() <{mode = rows, outer = array<i64: 16>}> ({
    PLACES
    %p = tt.addptr %fb, %at : tensor<16xCOLUMNSx!tt.ptr<f32>>, tensor<16xCOLUMNSxi32>
    %v = tt.load %p : tensor<16xCOLUMNSx!tt.ptr<f32>>
    "cpu.write"(%v, %x) : (tensor<16xCOLUMNSxf32>, !tt.ptr<tensor<16xCOLUMNSxf32>, 5>) -> ()
    "cpu.yield"() : () -> ()
  }) : () -> ()
  "cpu.nest"() <{mode = rows, outer = array<i64: 16>}> ({
    %half = arith.constant dense<0.5> : tensor<16xCOLUMNSxf32>
    BEFORE
    %v = "cpu.read"(%x) : (!tt.ptr<tensor<16xCOLUMNSxf32>, 5>) -> tensor<16xCOLUMNSxf32>
    %w = OPERATION : tensor<16xCOLUMNSxf32>
    %m = "tt.reduce"(%w) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %ab = arith.maxnumf %a, %b : f32
      tt.reduce.return %ab : f32
    }) : (tensor<16xCOLUMNSxf32>) -> tensor<16xf32>
    %m1 = tt.expand_dims %m {axis = 1 : i32} : tensor<16xf32> -> tensor<16x1xf32>
    %mb = tt.broadcast %m1 : tensor<16x1xf32> -> tensor<16xCOLUMNSxf32>
    %d = arith.subf %w, %mb : tensor<16xCOLUMNSxf32>
    %e = math.exp2 %d : tensor<16xCOLUMNSxf32>
    "cpu.write"(%e, %OUT) : (tensor<16xCOLUMNSxf32>, !tt.ptr<tensor<16xCOLUMNSxf32>, 5>) -> ()
    "cpu.yield"() : () -> ()
  }) : () -> ()
  "cpu.nest"() <{mode = rows, outer = array<i64: 16>}> ({
    PLACES
    %v = "cpu.read"(%OUT) : (!tt.ptr<tensor<16xCOLUMNSxf32>, 5>) -> tensor<16xCOLUMNSxf32>
    %p = tt.addptr %tb, %at : tensor<16xCOLUMNSx!tt.ptr<f32>>, tensor<16xCOLUMNSxi32>
    tt.store %p, %v : tensor<16xCOLUMNSx!tt.ptr<f32>>
    "cpu.yield"() : () -> ()
  }) : () -> ()
  tt.return
}
"""
PLACES = """
    %row = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %column = tt.make_range {end = COLUMNS : i32, start = 0 : i32} : tensor<COLUMNSxi32>
    %width = arith.constant dense<COLUMNS> : tensor<16xi32>
    %first = arith.muli %row, %width : tensor<16xi32>
    %r = tt.expand_dims %first {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %rb = tt.broadcast %r : tensor<16x1xi32> -> tensor<16xCOLUMNSxi32>
    %c = tt.expand_dims %column {axis = 0 : i32} : tensor<COLUMNSxi32> -> tensor<1xCOLUMNSxi32>
    %cb = tt.broadcast %c : tensor<1xCOLUMNSxi32> -> tensor<16xCOLUMNSxi32>
    %at = arith.addi %rb, %cb : tensor<16xCOLUMNSxi32>
    %fb = tt.splat %given : !tt.ptr<f32> -> tensor<16xCOLUMNSx!tt.ptr<f32>>
    %tb = tt.splat %to : !tt.ptr<f32> -> tensor<16xCOLUMNSx!tt.ptr<f32>>
"""
DOUBLE = "arith.addf %v, %v"
WRITTEN = '"cpu.write"(%half, %x) : (tensor<16xCOLUMNSxf32>, !tt.ptr<tensor<16xCOLUMNSxf32>, 5>) -> ()'


@pytest.mark.parametrize(
    ("operation", "columns", "out", "before", "moves"),
    [
        (DOUBLE, 64, "y", "", True),
        (DOUBLE, 64, "x", "", True),
        (DOUBLE, 64, "y", WRITTEN, False),
        (DOUBLE, 256, "y", "", False),
        ("math.exp2 %v", 64, "y", "", False),
    ],
    ids=["plain", "in-place", "written-before", "long-rows", "expensive"],
)
def test_reductions_of_short_rows_come_first(operation: str, columns: int, out: str, before: str, moves: bool) -> None:
    """All rows are reduced before one of them is written, and none that the nest has changed before."""
    names = {"PLACES": PLACES, "BEFORE": before, "OPERATION": operation, "OUT": out, "COLUMNS": str(columns)}
    text = SOFTMAX
    for name, meaning in names.items():
        text = text.replace(name, meaning)
    x, results = np.random.default_rng(5).standard_normal((16, columns), np.float32), []
    for changes in (False, True):
        module = parse_module(text)
        if changes:
            assert distribute_loops(module) == moves
            verify(module)
        found = np.zeros_like(x)
        run_ir(module, [x, found])
        results.append(found)
    np.testing.assert_array_equal(*results)
    nests = [["tt.reduce" in print_op(nest), "exp2" in print_op(nest)] for nest in module.ops_of(Nest)[1:-1]]
    assert nests == ([[True, False], [False, True]] if moves else [[True, True]])


@tw.jit
def normal_rows(x, y, out, eps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """A product whose rows get the mean 0 and the variance 1."""
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    at = r[:, None] * COLUMNS + c[None, :]
    product = tl.dot(tl.load(x + at), tl.load(y + c[:, None] * COLUMNS + c[None, :]), input_precision="ieee")
    centred = product - (tl.sum(product, 1) / COLUMNS)[:, None]
    scale = tl.rsqrt(tl.sum(centred * centred, 1) / COLUMNS + eps)
    tl.store(out + at, centred * scale[:, None])


@pytest.mark.parametrize(("rows", "columns", "nests"), [(64, 32, 2), (MIN_ROWS // 2, 32, 0), (16, 256, 0)])
def test_one_reduction_after_the_other(rows: int, columns: int, nests: int) -> None:
    rng = np.random.default_rng(rows)
    x, y = (rng.standard_normal((extent, columns), np.float32) for extent in (rows, columns))
    out = np.zeros_like(x)
    kernel: Any = normal_rows[(1,)](x, y, out, 1e-5, ROWS=rows, COLUMNS=columns)
    product = x.astype(np.float64) @ y
    expected = (product - product.mean(1, keepdims=True)) / np.sqrt(product.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(out, expected, rtol=1e-3, atol=1e-4)
    sums = [nest for nest in parse_module(kernel.asm["ttcir"]).ops_of(Nest) if "tt.reduce" in print_op(nest)]
    assert sum(not any(op.name == "tt.store" for op in nest.body) for nest in sums) == nests
