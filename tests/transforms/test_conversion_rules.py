"""Conversions of layouts disappear into ops around them; chains of views become one; captures nobody uses go."""

from __future__ import annotations

import pytest

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import Parser
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize

pytestmark = pytest.mark.quick

assert tilewright.dialects.__all__

HEAD = """
#a = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#m = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>
#o = #ttg.dot_op<{opIdx = 0, parent = #m, kWidth = 2}>
#s = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32} {
"""
A, B = "tensor<512xf32, #a>", "tensor<512xf32, #b>"
MEMORY = "!ttg.memdesc<512xf32, #s, #smem>"
MUTABLE = "!ttg.memdesc<512xf32, #s, #smem, mutable>"


def canonical(signature: str, body: str) -> Op:
    module = Parser(f"{HEAD} tt.func @f({signature}) {{\n{body}\ntt.return\n}}\n}}", unregistered=True).module()
    verify(module)
    canonicalize(module)
    verify(module)
    return module


def names(module: Op) -> list[str]:
    ops = [op.name.partition(".")[2] for op in module.walk()]
    return [name for name in ops if name not in ("module", "func", "return")]


KEPT = "convert_layout use"


@pytest.mark.parametrize(
    ("signature", "body", "left"),
    [
        ("%x: f32", f"%s = tt.splat %x : f32 -> {A}", "splat use"),
        ("", "%s = tt.make_range {end = 512 : i32, start = 0 : i32} : tensor<512xi32, #a>", "make_range use"),
        ("", f"%s = arith.constant dense<1.0> : {A}", "constant use"),
        (f"%m: {MUTABLE}", f"%s = ttg.local_load %m : {MUTABLE} -> {A}", "local_load use"),
        (f"%t: {B}", f"%s = ttg.convert_layout %t : {B} -> {A}", "use"),
        (f"%t: {A}", f"%s = arith.addf %t, %t : {A}", "addf convert_layout use"),
        ("%t: tensor<64xi32, #b>", "%s = tt.histogram %t : tensor<64xi32, #b> -> tensor<512xi32, #a>", "histogram use"),
        ("%t: tensor<256xf32, #b>", f"%s = tt.cat %t, %t : tensor<256xf32, #b> -> {A}", "cat use"),
    ],
)
def test_a_conversion_goes_into_what_gives_the_tile(signature: str, body: str, left: str) -> None:
    element = "i32" if "512xi32" in body else "f32"
    before, after = (f"tensor<512x{element}, #{layout}>" for layout in "ab")
    body += f'\n%c = ttg.convert_layout %s : {before} -> {after}\n"test.use"(%c) : ({after}) -> ()'
    assert " ".join(names(canonical(signature, body))) == left


def test_a_loaded_tile_is_converted_where_it_is_loaded() -> None:
    """A value stored in between must not be read."""
    body = f"""
    %x = ttg.local_load %m : {MUTABLE} -> {A}
    ttg.local_store %y, %m : {A} -> {MUTABLE}
    %c = ttg.convert_layout %x : {A} -> {B}
    "test.use"(%c) : ({B}) -> ()
    """
    assert names(canonical(f"%m: {MUTABLE}, %y: {A}", body)) == ["local_load", "local_store", "use"]


def test_operands_of_a_second_product_keep_their_conversion() -> None:
    mma, operand = "tensor<64x64xf16, #m>", "tensor<64x64xf16, #o>"
    body = f"""
    %x = arith.constant dense<1.0> : {mma}
    %c = ttg.convert_layout %x : {mma} -> {operand}
    %y = tt.splat %s : f16 -> {mma}
    %d = ttg.convert_layout %y : {mma} -> {operand}
    "test.use"(%d) : ({operand}) -> ()
    """
    assert names(canonical("%s: f16", body)) == ["splat", "convert_layout", "use"]


@pytest.mark.parametrize(
    ("body", "left"),
    [
        (f"%m = ttg.local_alloc %c : ({B}) -> {MUTABLE}", "local_alloc use"),
        (f"ttg.local_store %c, %b : {B} -> {MUTABLE}\n%m = ttg.local_load %b : {MUTABLE} -> {B}", "local_store"),
        (f"%m = math.exp %c : {B}", "convert_layout exp use"),
    ],
)
def test_what_takes_any_layout_takes_the_tile_before_its_conversion(body: str, left: str) -> None:
    wanted = MUTABLE if "local_alloc" in body else B
    text = f'%c = ttg.convert_layout %x : {A} -> {B}\n{body}\n"test.use"(%m) : ({wanted}) -> ()'
    assert " ".join(names(canonical(f"%x: {A}, %b: {MUTABLE}", text))).startswith(left)


def test_a_gather_takes_any_layout_unless_one_was_chosen() -> None:
    indices = "tensor<512xi32, #b>"
    for attribute, kept in (("", False), (", efficient_layout", True)):
        body = f"""
        %c = ttg.convert_layout %x : {A} -> {B}
        %g = tt.gather %c[%i] {{axis = 0 : i32{attribute}}} : ({B}, {indices}) -> {B}
        "test.use"(%g) : ({B}) -> ()
        """
        assert ("convert_layout" in names(canonical(f"%x: {A}, %i: {indices}", body))) is kept


PLACED = "#ttg.blocked<{{sizePerThread = [{}], threadsPerWarp = [{}], warpsPerCTA = [{}], order = [{}]}}>"


def test_a_tile_is_turned_before_a_conversion_that_moves_nothing() -> None:
    row, same = (f"tensor<1x128xf32, {PLACED.format('1, 1', '1, 32', '1, 4', order)}>" for order in ("1, 0", "0, 1"))
    column = f"tensor<128x1xf32, {PLACED.format('1, 1', '32, 1', '4, 1', '1, 0')}>"
    body = f"""
    %c = ttg.convert_layout %x : {row} -> {same}
    %t = tt.trans %c {{order = array<i32: 1, 0>}} : {same} -> {column}
    "test.use"(%t) : ({column}) -> ()
    """
    assert names(canonical(f"%x: {row}", body)) == ["trans", "use"]


@pytest.mark.parametrize(("lanes", "left"), [("32, 1", ["tmem_store"]), ("1, 32", ["convert_layout", "tmem_store"])])
def test_tensor_memory_takes_tiles_from_the_lanes_that_reach_it(lanes: str, left: list[str]) -> None:
    """Each lane of a warp reaches one row."""
    stored = f"tensor<128x64xf32, {PLACED.format('1, 64', '32, 1', '4, 1', '0, 1')}>"
    held = f"tensor<128x64xf32, {PLACED.format('1, 64', lanes, '4, 1', '1, 0')}>"
    encoding = "#ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>"
    memory = f"!ttg.memdesc<128x64xf32, {encoding}, #ttng.tensor_memory, mutable>"
    body = f"""
    %true = arith.constant true
    %c = ttg.convert_layout %x : {held} -> {stored}
    ttng.tmem_store %c, %m, %true : {stored} -> {memory}
    """
    assert [name for name in names(canonical(f"%x: {held}, %m: {memory}", body)) if name != "constant"] == left


def test_a_tile_does_not_go_to_memory_twice() -> None:
    for type, left in ((MEMORY, ["use"]), (MUTABLE, ["local_load", "local_alloc", "use"])):
        body = f"""
        %x = ttg.local_load %m : {type} -> {A}
        %n = ttg.local_alloc %x : ({A}) -> {type}
        "test.use"(%n) : ({type}) -> ()
        """
        assert names(canonical(f"%m: {type}", body)) == left


def test_parts_of_parts_and_turned_views_are_one_op() -> None:
    whole, half = "!ttg.memdesc<64x64xf16, #t, #smem, mutable>", "!ttg.memdesc<32x32xf16, #t, #smem, mutable, 64x64>"
    part = "!ttg.memdesc<16x16xf16, #t, #smem, mutable, 64x64>"
    shared = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>"
    body = f"""
    %h = ttg.memdesc_subslice %m[32, 0] : {whole} -> {half}
    %p = ttg.memdesc_subslice %h[16, 16] : {half} -> {part}
    "test.use"(%p) : ({part}) -> ()
    %t = ttg.memdesc_trans %m {{order = array<i32: 1, 0>}} : {whole} -> {whole.replace("#t", "#u")}
    %w = ttg.memdesc_trans %t {{order = array<i32: 1, 0>}} : {whole.replace("#t", "#u")} -> {whole}
    "test.use"(%w) : ({whole}) -> ()
    """
    swap = {"#t": shared, "#u": shared.replace("[1, 0]", "[0, 1]")}
    for short, full in swap.items():
        body = body.replace(short, full)
    module = canonical(f"%m: {whole.replace('#t', shared)}", body)
    assert names(module) == ["memdesc_subslice", "use", "use"]
    assert "[48, 16]" in print_op(module)


def test_partitions_capture_what_they_use_once() -> None:
    body = """
    %r:2 = ttg.warp_specialize(%a, %b, %a)
    default { ttg.warp_yield %a, %b : i32, i32 }
    partition0(%x: i32, %y: i32, %z: i32) num_warps(4) {
      "test.use"(%x, %z) : (i32, i32) -> ()
      ttg.warp_return
    } : (i32, i32, i32) -> (i32, i32)
    "test.use"(%r#1) : (i32) -> ()
    """
    text = print_op(canonical("%a: i32, %b: i32", body))
    assert "ttg.warp_specialize(%a)" in text
    assert "ttg.warp_yield %b : i32" in text


def test_an_empty_loop_gives_what_it_yields_and_equal_values_go_round_once() -> None:
    body = """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c9 = arith.constant 9 : i32
    %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%x = %a) -> (i32) : i32 { scf.yield %b : i32 }
    %s:2 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %a) -> (i32, i32) : i32 {
      %z = arith.addi %x, %y : i32
      scf.yield %z, %z : i32, i32
    }
    "test.use"(%r, %s#0, %s#1) : (i32, i32, i32) -> ()
    """
    module = canonical("%a: i32, %b: i32, %n: i32", body)
    loops = [op for op in module.walk() if op.name == "scf.for"]
    assert [len(loop.results) for loop in loops] == [1]
    assert '"test.use"(%b' in print_op(module)
