"""Conversions of layouts go: layouts spread, cheap values are computed again, what is left moves to cheaper places."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.dominance import dominates
from tilewright.ir.parser import Parser, parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.layouts.encodings import Blocked, NvidiaMma, encoding
from tilewright.transforms.cse import cse
from tilewright.transforms.gpu.coalesce import coalesce
from tilewright.transforms.gpu.convert_to_ttgir import ConvertOptions, convert_to_ttgir
from tilewright.transforms.gpu.rematerialization import byte_count, conversion_cost
from tilewright.transforms.gpu.remove_layout_conversions import remove_layout_conversions

assert tilewright.dialects.__all__

LAYOUTS = """
#row = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#col = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [16, 2], warpsPerCTA = [1, 4], order = [0, 1]}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#m = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>
#a = #ttg.dot_op<{opIdx = 0, parent = #m, kWidth = 2}>
#b = #ttg.dot_op<{opIdx = 1, parent = #m, kWidth = 2}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:80"} {
"""
ROW, COL = "tensor<64x64xf32, #row>", "tensor<64x64xf32, #col>"
POINTERS = "%p: tensor<64x64x!tt.ptr<f32>, #row>, %q: tensor<64x64x!tt.ptr<f32>, #col>"


def removed(signature: str, body: str, *, results: str = "") -> Op:
    text = f"{LAYOUTS} tt.func @f({signature}) {results} {{\n{body}\n}}\n}}"
    module = Parser(text, unregistered=True).module()
    verify(module)
    remove_layout_conversions(module)
    cse(module)
    verify(module)
    return module


def places(module: Op) -> list[str]:
    """The op that defines the source of each conversion, and the op around it."""
    found = []
    for op in module.walk():
        if op.name == "ttg.convert_layout":
            source = op.operands[0].op
            found.append(f"{source.name if source else 'argument'} in {op.parent.name if op.parent else ''}")
    return found


def test_layouts_of_loads_spread_to_stores() -> None:
    body = f"""
    %x = tt.load %p : tensor<64x64x!tt.ptr<f32>, #row>
    %y = ttg.convert_layout %x : {ROW} -> {COL}
    %z = math.exp %y : {COL}
    %s = arith.addf %z, %y : {COL}
    %w = ttg.convert_layout %s : {COL} -> {ROW}
    tt.store %p, %w : tensor<64x64x!tt.ptr<f32>, #row>
    tt.return
    """
    assert places(removed(POINTERS, body)) == []


def test_what_others_need_is_converted_behind_the_last_op() -> None:
    body = f"""
    %x = tt.load %p : tensor<64x64x!tt.ptr<f32>, #row>
    %y = ttg.convert_layout %x : {ROW} -> {COL}
    %z = math.exp %y : {COL}
    "test.use"(%z) : ({COL}) -> ()
    tt.return
    """
    assert places(removed(POINTERS, body)) == ["math.exp in tt.func"]


def test_results_of_products_win() -> None:
    """The layout of the matrix instruction is kept where it meets another one."""
    body = f"""
    %d = tt.dot %x, %y, %c : tensor<64x64xf16, #a> * tensor<64x64xf16, #b> -> tensor<64x64xf32, #m>
    %e = ttg.convert_layout %d : tensor<64x64xf32, #m> -> {ROW}
    %x1 = tt.load %p : tensor<64x64x!tt.ptr<f32>, #row>
    %s = arith.addf %e, %x1 : {ROW}
    tt.store %p, %s : tensor<64x64x!tt.ptr<f32>, #row>
    tt.return
    """
    operands = "%x: tensor<64x64xf16, #a>, %y: tensor<64x64xf16, #b>, %c: tensor<64x64xf32, #m>"
    module = removed(f"{POINTERS}, {operands}", body)
    sums = [op for op in module.walk() if op.name == "arith.addf"]
    assert isinstance(encoding(sums[0].result.type.encoding), NvidiaMma)


def test_what_an_atomic_returns_is_in_its_own_layout_also_behind_a_product() -> None:
    """The atomic prefers a blocked layout to the product's, and so must the conversion of what it returns."""
    body = f"""
    %c = arith.constant dense<0.0> : tensor<64x64xf32, #m>
    %d = tt.dot %x, %y, %c : tensor<64x32xf16, #a> * tensor<32x64xf16, #b> -> tensor<64x64xf32, #m>
    %v = ttg.convert_layout %d : tensor<64x64xf32, #m> -> {COL}
    %old = tt.atomic_rmw exch, acq_rel, gpu, %q, %v : (tensor<64x64x!tt.ptr<f32>, #col>, {COL}) -> {COL}
    %w = ttg.convert_layout %old : {COL} -> {ROW}
    tt.store %p, %w : tensor<64x64x!tt.ptr<f32>, #row>
    tt.return
    """
    module = removed(f"{POINTERS}, %x: tensor<64x32xf16, #a>, %y: tensor<32x64xf16, #b>", body)
    assert places(module) == ["tt.dot in tt.func", "tt.atomic_rmw in tt.func"]


def test_ranges_are_made_again() -> None:
    body = """
    %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #row}>>
    %e = tt.expand_dims %r {axis = 0 : i32} :
        tensor<64xi32, #ttg.slice<{dim = 0, parent = #row}>> -> tensor<1x64xi32, #row>
    %f = arith.addi %e, %e : tensor<1x64xi32, #row>
    "test.use"(%f) : (tensor<1x64xi32, #row>) -> ()
    %g = ttg.convert_layout %f : tensor<1x64xi32, #row> -> tensor<1x64xi32, #col>
    "test.use"(%g) : (tensor<1x64xi32, #col>) -> ()
    tt.return
    """
    module = removed("", body)
    assert places(module) == []
    assert [op.name for op in module.walk()].count("tt.make_range") == 2


def test_copies_that_are_there_cost_nothing() -> None:
    """The comparison is computed from the first conversion's result; then only that needs the sum, so it goes, too."""
    wide = "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 4], order = [0, 1]}>"
    line, same = "tensor<16xi64, #line>", f"tensor<16xi64, #ttg.slice<{{dim = 0, parent = {wide}}}>>"
    body = f"""
    %r = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32, #line>
    %e = arith.extsi %r : tensor<16xi32, #line> to {line}
    %a = ttg.convert_layout %e : {line} -> {same}
    "test.use"(%a) : ({same}) -> ()
    %eight = arith.constant dense<8> : {line}
    %c = arith.cmpi slt, %e, %eight : {line}
    %b = ttg.convert_layout %c : {line.replace("i64", "i1")} -> {same.replace("i64", "i1")}
    "test.use"(%b) : ({same.replace("i64", "i1")}) -> ()
    tt.return
    """
    assert places(removed("", body)) == []


def test_expensive_values_are_not_made_again() -> None:
    body = f"""
    %e = tt.splat %x : f32 -> {ROW}
    %f = arith.divf %e, %e : {ROW}
    %h = math.exp %f : {ROW}
    %i = math.sin %h : {ROW}
    %j = math.log %i : {ROW}
    %k = math.tanh %j : {ROW}
    "test.use"(%k) : ({ROW}) -> ()
    %g = ttg.convert_layout %k : {ROW} -> {COL}
    "test.use"(%g) : ({COL}) -> ()
    tt.return
    """
    assert places(removed("%x: f32", body)) == ["math.tanh in tt.func"]


def test_what_goes_round_a_loop_is_carried_in_the_layout_that_is_used() -> None:
    body = f"""
    %z = arith.constant dense<0.0> : {ROW}
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%t = %z) -> ({ROW}) : i32 {{
      %u = arith.addf %t, %t : {ROW}
      %v = ttg.convert_layout %u : {ROW} -> {COL}
      tt.store %q, %v : tensor<64x64x!tt.ptr<f32>, #col>
      scf.yield %u : {ROW}
    }}
    tt.return
    """
    module = removed(f"{POINTERS}, %n: i32", body)
    assert places(module) == []
    loop = next(op for op in module.walk() if op.name == "scf.for")
    assert [result.type.encoding for result in loop.results] == [Blocked((4, 1), (16, 2), (1, 4), (0, 1)).text]


def test_the_smaller_tile_is_converted() -> None:
    narrow = "tensor<64x64xf16, #row>"
    body = f"""
    %x = "test.make"() : () -> {narrow}
    %y = arith.extf %x : {narrow} to {ROW}
    %z = ttg.convert_layout %y : {ROW} -> {COL}
    "test.use"(%z) : ({COL}) -> ()
    tt.return
    """
    module = removed("", body)
    (conversion,) = (op for op in module.walk() if op.name == "ttg.convert_layout")
    assert conversion.result.type.bits == 16
    assert byte_count(conversion.result) == 64 * 64 * 2
    assert (
        conversion_cost(conversion.result, encoding(Blocked((1, 4), (2, 16), (4, 1), (1, 0)).text)) == 32 * 64 * 64 * 4
    )


def test_conversions_move_into_the_arm_that_needs_them() -> None:
    body = f"""
    %z = arith.constant dense<0.0> : {ROW}
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {{
      %b = arith.cmpi eq, %i, %c1 : i32
      %r = scf.if %b -> ({ROW}) {{
        %x = "test.make"() : () -> {ROW}
        scf.yield %x : {ROW}
      }} else {{
        scf.yield %z : {ROW}
      }}
      %v = ttg.convert_layout %r : {ROW} -> {COL}
      "test.use"(%v) : ({COL}) -> ()
    }}
    tt.return
    """
    assert places(removed("%n: i32", body)) == ["test.make in scf.if"]


def test_operands_of_products_are_converted_next_to_their_loads() -> None:
    half = "tensor<64x64xf16, #row>"
    body = f"""
    %l = tt.load %h : tensor<64x64x!tt.ptr<f16>, #row>
    %k = arith.addf %l, %l : {half}
    %x = ttg.convert_layout %k : {half} -> tensor<64x64xf16, #a>
    %d = tt.dot %x, %y, %c : tensor<64x64xf16, #a> * tensor<64x64xf16, #b> -> tensor<64x64xf32, #m>
    tt.return %d : tensor<64x64xf32, #m>
    """
    signature = "%h: tensor<64x64x!tt.ptr<f16>, #row>, %y: tensor<64x64xf16, #b>, %c: tensor<64x64xf32, #m>"
    assert places(removed(signature, body, results="-> tensor<64x64xf32, #m>")) == ["tt.load in tt.func"]


def test_sums_are_not_made_again_in_another_order() -> None:
    """Two reductions of the same floats could round differently."""
    slice_row = "tensor<64xf32, #ttg.slice<{dim = 1, parent = #row}>>"
    body = f"""
    %r = "tt.reduce"(%x) <{{axis = 1 : i32}}> ({{
    ^bb0(%s: f32, %t: f32):
      %u = arith.addf %s, %t : f32
      tt.reduce.return %u : f32
    }}) : ({ROW}) -> {slice_row}
    "test.use"(%r) : ({slice_row}) -> ()
    %c = ttg.convert_layout %r : {slice_row} -> tensor<64xf32, #line>
    "test.use"(%c) : (tensor<64xf32, #line>) -> ()
    tt.return
    """
    assert places(removed(f"%x: {ROW}", body)) == ["tt.reduce in tt.func"]


@pytest.mark.parametrize("warps", [4, 8])
def test_a_copy_of_rows_to_columns(warps: int, golden: Callable[[str, str], None]) -> None:
    text = """
    tt.func public @transposed(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %q: !tt.ptr<f32>, %n: i32) {
      %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
      %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
      %columns = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
      %c64 = arith.constant dense<64> : tensor<64x1xi32>
      %start = arith.muli %rows, %c64 : tensor<64x1xi32>
      %s = tt.broadcast %start : tensor<64x1xi32> -> tensor<64x64xi32>
      %c = tt.broadcast %columns : tensor<1x64xi32> -> tensor<64x64xi32>
      %there = arith.addi %s, %c : tensor<64x64xi32>
      %back = tt.trans %there {order = array<i32: 1, 0>} : tensor<64x64xi32> -> tensor<64x64xi32>
      %from = tt.splat %p : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>>
      %to = tt.splat %q : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>>
      %a = tt.addptr %from, %there : tensor<64x64x!tt.ptr<f32>>, tensor<64x64xi32>
      %b = tt.addptr %to, %back : tensor<64x64x!tt.ptr<f32>>, tensor<64x64xi32>
      %x = tt.load %a : tensor<64x64x!tt.ptr<f32>>
      tt.store %b, %x : tensor<64x64x!tt.ptr<f32>>
      tt.return
    }
    """
    module = parse_module(text)
    convert_to_ttgir(module, ConvertOptions("cuda:80", warps))
    coalesce(module)
    remove_layout_conversions(module)
    cse(module)
    verify(module)
    golden(print_op(module), f"transforms/remove_layout_conversions/transposed_{warps}.ttgir")


def test_what_is_made_before_dominates() -> None:
    text = "module { tt.func @f(%n: i32) { %a = arith.addi %n, %n : i32\n%b = arith.addi %a, %n : i32\ntt.return } }"
    module = parse_module(text)
    function = next(op for op in module.walk() if op.name == "tt.func")
    first, second = (op for op in module.walk() if op.name == "arith.addi")
    assert dominates(first.result, second)
    assert not dominates(second.result, first)
    assert not dominates(first.result, first)
    assert dominates(function.regions[0].block.args[0], first)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_loaded_tile_is_converted_where_it_meets_a_product(swapped: bool) -> None:
    """Two layouts that matter meet in one op: it has that of the product, and so have both of its operands."""
    sides = ("%l", "%k") if swapped else ("%k", "%l")
    body = f"""
    %zero = arith.constant dense<0.0> : tensor<64x64xf32, #m>
    %d = tt.dot %x, %y, %zero : tensor<64x64xf16, #a> * tensor<64x64xf16, #b> -> tensor<64x64xf32, #m>
    %t = tt.load %p : tensor<64x64x!tt.ptr<f32>, #row>
    %k = ttg.convert_layout %t : {ROW} -> {COL}
    %l = ttg.convert_layout %d : tensor<64x64xf32, #m> -> {COL}
    %s = arith.addf {sides[0]}, {sides[1]} : {COL}
    %e = math.exp %s : {COL}
    tt.store %q, %e : tensor<64x64x!tt.ptr<f32>, #col>
    tt.return
    """
    signature = f"%x: tensor<64x64xf16, #a>, %y: tensor<64x64xf16, #b>, {POINTERS}"
    module = removed(signature, body)
    (added,) = (op for op in module.walk() if op.name == "arith.addf")
    layouts = {encoding(value.type.encoding) for value in (*added.operands, *added.results)}
    assert len(layouts) == 1
    assert isinstance(layouts.pop(), NvidiaMma)
    assert sorted(places(module)) == ["math.exp in tt.func", "tt.load in tt.func"]
