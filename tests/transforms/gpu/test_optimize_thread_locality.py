"""Reductions in loops, reshapes and gathers with less talk between threads; results stay what they were."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.optimize_thread_locality import optimize_thread_locality

assert tilewright.dialects.__all__

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#rows = #ttg.slice<{dim = 1, parent = #blocked}>
#columns = #ttg.slice<{dim = 0, parent = #blocked}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
"""


def row_sums(combine: str, start: str) -> str:
    """A module in which `combine` folds n blocks of 64 columns, for 8 rows."""
    return f"""{HEAD}
    tt.func public @f(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) {{
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %start = arith.constant dense<{start}> : tensor<8xf32, #rows>
      %r = tt.make_range {{start = 0 : i32, end = 8 : i32}} : tensor<8xi32, #rows>
      %c = tt.make_range {{start = 0 : i32, end = 64 : i32}} : tensor<64xi32, #columns>
      %r1 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<8xi32, #rows> -> tensor<8x1xi32, #blocked>
      %c1 = tt.expand_dims %c {{axis = 0 : i32}} : tensor<64xi32, #columns> -> tensor<1x64xi32, #blocked>
      %wide = arith.constant dense<64> : tensor<8x1xi32, #blocked>
      %r2 = arith.muli %r1, %wide : tensor<8x1xi32, #blocked>
      %rb = tt.broadcast %r2 : tensor<8x1xi32, #blocked> -> tensor<8x64xi32, #blocked>
      %cb = tt.broadcast %c1 : tensor<1x64xi32, #blocked> -> tensor<8x64xi32, #blocked>
      %o = arith.addi %rb, %cb : tensor<8x64xi32, #blocked>
      %sp = tt.splat %x : !tt.ptr<f32> -> tensor<8x64x!tt.ptr<f32>, #blocked>
      %p0 = tt.addptr %sp, %o : tensor<8x64x!tt.ptr<f32>, #blocked>, tensor<8x64xi32, #blocked>
      %next = arith.constant dense<512> : tensor<8x64xi32, #blocked>
      %sum:2 = scf.for %i = %zero to %n step %one iter_args(%acc = %start, %p = %p0)
          -> (tensor<8xf32, #rows>, tensor<8x64x!tt.ptr<f32>, #blocked>) : i32 {{
        %v = tt.load %p : tensor<8x64x!tt.ptr<f32>, #blocked>
        %s = "tt.reduce"(%v) <{{axis = 1 : i32}}> ({{
        ^bb0(%a: f32, %b: f32):
          %t = {combine} %a, %b : f32
          tt.reduce.return %t : f32
        }}) : (tensor<8x64xf32, #blocked>) -> tensor<8xf32, #rows>
        %new = {combine} %acc, %s : tensor<8xf32, #rows>
        %q = tt.addptr %p, %next : tensor<8x64x!tt.ptr<f32>, #blocked>, tensor<8x64xi32, #blocked>
        scf.yield %new, %q : tensor<8xf32, #rows>, tensor<8x64x!tt.ptr<f32>, #blocked>
      }}
      %so = tt.splat %out : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>, #rows>
      %po = tt.addptr %so, %r : tensor<8x!tt.ptr<f32>, #rows>, tensor<8xi32, #rows>
      tt.store %po, %sum#0 : tensor<8x!tt.ptr<f32>, #rows>
      tt.return
    }}
    }}"""


def run(module: Op, data: np.ndarray, n: int) -> np.ndarray:
    out = np.zeros(8, np.float32)
    run_ir(module, {"x": data, "out": out, "n": n})
    return out


@pytest.mark.parametrize(
    ("combine", "start"),
    [
        ("arith.addf", "0.0"),
        ("arith.addf", "3.5"),
        ("arith.mulf", "1.0"),
        ("arith.maximumf", "0xFF800000"),
        ("arith.maxnumf", "0.25"),
        ("arith.minimumf", "0x7F800000"),
        ("arith.minnumf", "-0.25"),
    ],
)
@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_threads_reduce_their_part_first(combine: str, start: str, blocks: int) -> None:
    module = parse_module(row_sums(combine, start))
    verify(module)
    data = np.random.default_rng(0).uniform(0.9, 1.1, (3, 8, 64)).astype(np.float32)
    expected = run(module, data, blocks)
    assert optimize_thread_locality(module)
    verify(module)
    np.testing.assert_allclose(run(module, data, blocks), expected, rtol=1e-5)


def test_text(golden: Callable[[str, str], None]) -> None:
    module = parse_module(row_sums("arith.addf", "0.0"))
    optimize_thread_locality(module)
    golden(print_op(module), "transforms/optimize_thread_locality/row_sums.ttgir")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("arith.addf", "arith.subf"),
        ("%new = arith.addf", "%new = arith.subf"),
        ("%new = arith.addf", "%new = arith.maxnumf"),
        ("%new =", "%seen = math.absf %acc : tensor<8xf32, #rows>\n%new ="),
    ],
    ids=["no sum", "subtracted", "another combination", "seen in the loop"],
)
def test_what_threads_cannot_do_on_their_own(before: str, after: str) -> None:
    module = parse_module(row_sums("arith.addf", "0.0").replace(before, after))
    assert not optimize_thread_locality(module)


GATHER = f"""{HEAD}
tt.func public @f(%x: tensor<64x64xf32, #blocked>, %i: tensor<64x64xi32, #blocked>) -> tensor<64x64xf32, #blocked> {{
  %g = tt.gather %x[%i] {{axis = 0 : i32}} : (tensor<64x64xf32, #blocked>, tensor<64x64xi32, #blocked>)
    -> tensor<64x64xf32, #blocked>
  tt.return %g : tensor<64x64xf32, #blocked>
}}
}}"""


def test_a_warp_has_whole_columns_of_a_gather() -> None:
    module = parse_module(GATHER)
    assert optimize_thread_locality(module)
    verify(module)
    text = print_op(module)
    assert "sizePerThread = [2, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], order = [0, 1]" in text
    assert not optimize_thread_locality(module)


RESHAPE = f"""{HEAD}
tt.func public @f(%x: tensor<512xf32, #line>) -> tensor<8xf32, #rows> {{
  %y = tt.reshape %x allow_reorder : tensor<512xf32, #line> -> tensor<8x64xf32, #blocked>
  %s = "tt.reduce"(%y) <{{axis = 1 : i32}}> ({{
  ^bb0(%a: f32, %b: f32):
    %t = arith.addf %a, %b : f32
    tt.reduce.return %t : f32
  }}) : (tensor<8x64xf32, #blocked>) -> tensor<8xf32, #rows>
  tt.return %s : tensor<8xf32, #rows>
}}
}}"""


def test_a_reshape_gives_threads_whole_rows() -> None:
    tall = RESHAPE.replace("512", "4096").replace("8x64", "128x32").replace("tensor<8xf32", "tensor<128xf32")
    module = parse_module(tall)
    assert optimize_thread_locality(module)
    verify(module)
    assert "allow_reorder efficient_layout" in print_op(module)
    assert not optimize_thread_locality(module)
    fixed = RESHAPE.replace(" allow_reorder", "")
    assert not optimize_thread_locality(parse_module(fixed)), "the order of elements matters"
