"""TTIR → TTGIR: the layouts that ops take and give, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.convert_to_ttgir import ConvertOptions, convert_to_ttgir

pytestmark = pytest.mark.quick

assert tilewright.dialects.__all__

Golden = Callable[[str, str], None]

PROGRAMS = {
    "columns": (
        "%p: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %s: i32",
        """
        %zero = arith.constant dense<0.0> : tensor<64x32xf16>
        %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
        %row = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
        %stride = tt.splat %s : i32 -> tensor<64x1xi32>
        %o = arith.muli %row, %stride : tensor<64x1xi32>
        %t = tt.broadcast %o : tensor<64x1xi32> -> tensor<64x32xi32>
        %b = tt.splat %p : !tt.ptr<f16> -> tensor<64x32x!tt.ptr<f16>>
        %q = tt.addptr %b, %t : tensor<64x32x!tt.ptr<f16>>, tensor<64x32xi32>
        tt.store %q, %zero : tensor<64x32x!tt.ptr<f16>>
        """,
    ),
    "dot_in_loop": (
        "%a: tensor<64x64xf16>, %n: i32",
        """
        %zero = arith.constant dense<0.0> : tensor<64x64xf32>
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i32 {
          %b = tt.trans %a {order = array<i32: 1, 0>} : tensor<64x64xf16> -> tensor<64x64xf16>
          %d = tt.dot %a, %b, %acc : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
          scf.yield %d : tensor<64x64xf32>
        }
        %most = "tt.reduce"(%sum) ({
        ^bb0(%x: f32, %y: f32):
          %z = arith.maxnumf %x, %y : f32
          tt.reduce.return %z : f32
        }) {axis = 1 : i32} : (tensor<64x64xf32>) -> tensor<64xf32>
        %e = math.exp %most : tensor<64xf32>
        """,
    ),
    "squares_of_dots": (
        "%a: tensor<16x16xf32>, %b: tensor<16x32xf32>, %c: tensor<16x64xf32>, %d: tensor<16x128xf32>, "
        "%e: tensor<16x256xf32>",
        """
        %x = tt.dot %a, %a, %a : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>
        %y = tt.dot %x, %b, %b : tensor<16x16xf32> * tensor<16x32xf32> -> tensor<16x32xf32>
        %z = tt.dot %x, %c, %c : tensor<16x16xf32> * tensor<16x64xf32> -> tensor<16x64xf32>
        %u = tt.dot %x, %d, %d : tensor<16x16xf32> * tensor<16x128xf32> -> tensor<16x128xf32>
        %v = tt.dot %x, %e, %e : tensor<16x16xf32> * tensor<16x256xf32> -> tensor<16x256xf32>
        """,
    ),
    "pairs": (
        "%a: tensor<128xf32>, %b: tensor<128xf32>, %w: tensor<64x2xf32>",
        """
        %j = tt.join %a, %b : tensor<128xf32> -> tensor<128x2xf32>
        %x, %y = tt.split %j : tensor<128x2xf32> -> tensor<128xf32>
        %u, %v = tt.split %w : tensor<64x2xf32> -> tensor<64xf32>
        %c = tt.cat %x, %y : tensor<128xf32> -> tensor<256xf32>
        %f = math.exp %c : tensor<256xf32>
        %g = arith.addf %u, %v : tensor<64xf32>
        """,
    ),
    "rows_by_index": (
        "%d: !tt.tensordesc<tensor<1x32xi8>>, %r: tensor<8xi32>, %x: i32",
        """
        %t = tt.descriptor_gather %d[%r, %x] : (!tt.tensordesc<tensor<1x32xi8>>, tensor<8xi32>, i32) -> tensor<8x32xi8>
        tt.descriptor_scatter %d[%r, %x], %t : !tt.tensordesc<tensor<1x32xi8>>, tensor<8xi32>, i32, tensor<8x32xi8>
        """,
    ),
    "jumps": (
        "%a: tensor<64xi32>, %c: i1",
        """
          %k = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
          cf.cond_br %c, ^bb1(%a : tensor<64xi32>), ^bb2
        ^bb1(%b: tensor<64xi32>):
          %s = arith.addi %b, %a : tensor<64xi32>
          cf.br ^bb2
        ^bb2:
          %p = ub.poison : tensor<64xf32>
        """,
    ),
}


def module_of(signature: str, body: str) -> Op:
    module = parse_module(f"module {{\n tt.func public @f({signature}) {{\n{body}\ntt.return\n}}\n}}")
    verify(module)
    return module


@pytest.mark.parametrize("name", PROGRAMS)
def test_layouts(name: str, golden: Golden) -> None:
    module = module_of(*PROGRAMS[name])
    convert_to_ttgir(module, ConvertOptions("cuda:80"))
    verify(module)
    golden(print_op(module), f"transforms/convert_to_ttgir/{name}.ttgir")


def test_several_ctas_share_each_tile(golden: Golden) -> None:
    module = module_of(*PROGRAMS["dot_in_loop"])
    convert_to_ttgir(module, ConvertOptions("cuda:90", num_warps=8, num_ctas=2))
    verify(module)
    golden(print_op(module, triton="3.9"), "transforms/convert_to_ttgir/dot_in_loop_2_ctas.ttgir")


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_conversions_are_added(name: str) -> None:
    module = module_of(*PROGRAMS[name])
    before = [op.name for op in module.walk()]
    convert_to_ttgir(module, ConvertOptions("cuda:80"))
    assert [op.name for op in module.walk() if op.name != "ttg.convert_layout"] == before


def test_functions_that_return_tiles() -> None:
    module = parse_module("""
        tt.func private @g() -> tensor<64xi32> {
          %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
          tt.return %r : tensor<64xi32>
        }
        tt.func public @f() {
          %r = tt.call @g() : () -> tensor<64xi32>
          tt.return
        }
        """)
    convert_to_ttgir(module, ConvertOptions("cuda:80"))
    verify(module)
    call = next(op for op in module.walk() if op.name == "tt.call")
    assert call.result.type.text == (
        "tensor<64xi32, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>>"
    )


def test_twice_is_once() -> None:
    module = module_of(*PROGRAMS["columns"])
    convert_to_ttgir(module, ConvertOptions("cuda:80"))
    text = print_op(module)
    convert_to_ttgir(module, ConvertOptions("cuda:80"))
    assert print_op(module) == text
