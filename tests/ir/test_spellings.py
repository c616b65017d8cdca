"""Spellings of Triton's texts: each is read, and one is printed."""

from __future__ import annotations

from textwrap import dedent

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.errors import ParseError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

pytestmark = pytest.mark.quick

HEADER = "%a: i32, %c: i1, %p: !tt.ptr<f32>, %n: i64, %t: tensor<8xi8>"
SAMPLES = {
    "predicate": ('%x = arith.cmpi "slt", %a, %a : i32', "%x = arith.cmpi slt, %a, %a : i32"),
    "load": ("%x = tt.load %p, : !tt.ptr<f32>", "%x = tt.load %p : !tt.ptr<f32>"),
    "descriptor": (
        "%x = tt.make_tensor_descriptor %p, [%a], [%n] : !tt.ptr<f32>, !tt.tensordesc<8xf32>",
        "%x = tt.make_tensor_descriptor %p, [%a], [%n] : <f32>, <tensor<8xf32>>",
    ),
    "rounding": (
        "%x = tt.fp_to_fp %p_value {rounding = 1 : i32} : f32 -> f16",
        "%x = tt.fp_to_fp %p_value, rounding = rtne : f32 -> f16",
    ),
    "signs": ("%x = ub.poison : !tt.tensordesc<8xui8>", "%x = ub.poison : !tt.tensordesc<tensor<8xui8>>"),
    "type alias": ("%x = ub.poison : !token", "%x = ub.poison : !ttg.async.token"),
    "other type": ("%x = ub.poison : !llvm.struct<(i32,  i32)>", "%x = ub.poison : !llvm.struct<(i32, i32)>"),
    "words among attributes": (
        "%x = tt.reshape %t {allow_reorder, note = 3 : i32} : tensor<8xi8> -> tensor<2x4xi8>",
        "%x = tt.reshape %t allow_reorder {note = 3 : i32} : tensor<8xi8> -> tensor<2x4xi8>",
    ),
    "no address spaces": ("ttg.barrier none", "ttg.barrier none"),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_read_and_printed(name: str) -> None:
    given, wanted = SAMPLES[name]
    text = f"""!token = !ttg.async.token
tt.func @f({HEADER}) {{
  %p_value = tt.load %p : !tt.ptr<f32>
  {given}
  tt.return
}}
{{-# dialect_resources: {{ builtin: {{ blob: "0x08" }} }} #-}}
"""
    module = parse_module(text)
    verify(module)
    assert print_op(module).splitlines()[3].strip() == wanted


def test_one_result_type_needs_no_parentheses() -> None:
    text = """tt.func @f(%c: i1, %n: index, %x: f32) {
  %a = scf.if %c -> f32 { scf.yield %x : f32 } else { scf.yield %x : f32 }
  %b = scf.for %i = %n to %n step %n iter_args(%y = %x) -> f32 { scf.yield %y : f32 }
  tt.return
}"""
    printed = print_op(parse_module(text))
    assert "scf.if %c -> (f32) {" in printed
    assert "iter_args(%y = %x) -> (f32) {" in printed


def test_aliases_may_span_lines_and_nest() -> None:
    text = """#blocked = #ttg.blocked<{sizePerThread=[1, 1],
  threadsPerWarp=[32, 1], warpsPerCTA=[4, 1], order=[1, 0]}>
#row = #ttg.slice<{dim = 0, parent = #blocked}>
tt.func @f(%x: tensor<8xi32, #row>)
"""
    assert print_op(parse_module(text)).splitlines() == [
        "#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], "
        "order = [1, 0]}>",
        "module {",
        "  tt.func @f(tensor<8xi32, #ttg.slice<{dim = 0, parent = #blocked}>>)",
        "}",
    ]


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        ("#ttg.blocked<{sizePerThread = [1]}>", "needs the key threadsPerWarp"),
        ("#ttg.blocked<{sizePerThread = [1]}", "is not closed"),
        ("1 : i32", "expected a layout"),
    ],
)
def test_a_layout_that_cannot_be_read(attribute: str, problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        parse_module(f"tt.func @f(tensor<8xi32, {attribute}>)")


BY_VERSION = {
    "3.5": ("tt.load %p cacheModifier = ca : !tt.ptr<f32>", "!tt.tensordesc<tensor<8xf32>>"),
    "3.7": ("tt.load %p cacheModifier = ca : !tt.ptr<f32>", "!tt.tensordesc<8xf32>"),
    "3.9": (
        "tt.load %p {cachePolicy = #tt.cache_policy<cache_modifier = ca, eviction_policy = evict_normal>}"
        " : !tt.ptr<f32>",
        "!tt.tensordesc<8xf32>",
    ),
}


@pytest.mark.parametrize("version", BY_VERSION)
def test_printed_for_a_version(version: str) -> None:
    """Every version reads every other's text, and prints its own."""
    load, descriptor = BY_VERSION[version]
    text = f"tt.func @f(%p: !tt.ptr<f32>, %d: {descriptor}) {{\n %x = {load}\n tt.return\n}}"
    for other, (other_load, other_descriptor) in BY_VERSION.items():
        printed = print_op(parse_module(text), triton=other)
        assert f"%d: {other_descriptor}" in printed
        assert f"%x = {other_load}\n" in printed


GENERIC = {
    '"tt.get_program_id"() <{axis = 1 : i32}> : () -> i32': "%x = tt.get_program_id y : i32",
    '"arith.cmpi"(%a, %a) <{predicate = 2 : i64}> : (i32, i32) -> i1': "%x = arith.cmpi slt, %a, %a : i32",
    '"arith.addi"(%a, %a) <{overflowFlags = #arith.overflow<nsw, nuw>}> : (i32, i32) -> i32': (
        "%x = arith.addi %a, %a overflow<nsw, nuw> : i32"
    ),
    '"arith.addi"(%a, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32': (
        "%x = arith.addi %a, %a : i32"
    ),
    '"tt.load"(%p) <{cache = 2 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 0, 0>}>'
    " : (!tt.ptr<f32>) -> f32": "%x = tt.load %p cacheModifier = ca : !tt.ptr<f32>",
    '"tt.atomic_rmw"(%p, %p_value) <{atomic_rmw_op = 5 : i32, scope = 1 : i32, sem = 4 : i32}>'
    " : (!tt.ptr<f32>, f32) -> f32": (
        "%x = tt.atomic_rmw fadd, acq_rel, gpu, %p, %p_value : (!tt.ptr<f32>, f32) -> f32"
    ),
}


@pytest.mark.parametrize("given", GENERIC)
def test_generic_form(given: str) -> None:
    text = f"tt.func @f({HEADER}) {{\n  %p_value = tt.load %p : !tt.ptr<f32>\n  %x = {given}\n  tt.return\n}}"
    module = parse_module(text)
    verify(module)
    assert print_op(module).splitlines()[3].strip() == GENERIC[given]


def test_generic_form_of_groups_and_bits() -> None:
    text = """tt.func @f(%a: tensor<4x32xi8>, %b: tensor<32x4xi8>, %c: tensor<4x4xf32>, %s: tensor<4x1xi8>) {
  "ttg.barrier"() <{addrSpace = 6 : i32}> : () -> ()
  "ttg.barrier"() <{addrSpace = 31 : i32}> : () -> ()
  %x = "tt.dot_scaled"(%a, %b, %c, %s) <{a_elem_type = 0 : i32, b_elem_type = 1 : i32, fastMath = false,
    operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>}>
    : (tensor<4x32xi8>, tensor<32x4xi8>, tensor<4x4xf32>, tensor<4x1xi8>) -> tensor<4x4xf32>
  tt.return
}"""
    assert [line.strip() for line in print_op(parse_module(text)).splitlines()[2:5]] == [
        "ttg.barrier global_read|global_write",
        "ttg.barrier all",
        "%x = tt.dot_scaled %a, %b scale %s, %c lhs = e4m3 rhs = e5m2 {fastMath = false}"
        " : tensor<4x32xi8> * tensor<32x4xi8>, tensor<4x1xi8> -> tensor<4x4xf32>",
    ]


def test_a_number_that_no_keyword_has() -> None:
    with pytest.raises(ParseError, match="axis cannot be 7"):
        parse_module('%x = "tt.get_program_id"() <{axis = 7 : i32}> : () -> i32')


LAYOUT = "#ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]{}}}>"


def test_layouts_of_several_blocks_by_version() -> None:
    module = parse_module(f"tt.func @f(tensor<256xf32, {LAYOUT.format(', CGALayout = [[1]]')}>)")
    older = LAYOUT.format(", CTAsPerCGA = [2], CTASplitNum = [2], CTAOrder = [0]")
    assert print_op(module, triton="3.9").splitlines()[0] == "#blocked = " + LAYOUT.format(", CGALayout = [[1]]")
    assert print_op(module, triton="3.5").splitlines()[0] == "#blocked = " + older
    assert print_op(parse_module(print_op(module)), triton="3.9") == print_op(module, triton="3.9")


def test_buffers_of_more_axes_by_version() -> None:
    older = "CTAsPerCGA = [1, 1, 1], CTASplitNum = [1, 1, 1], CTAOrder = [2, 1, 0]"
    shared = "#ttg.nvmma_shared<{swizzlingByteWidth = 0, transposed = false, elementBitWidth = 8, "
    module = parse_module(f"tt.func @f(!tt.tensordesc<1x2x16xi8, {shared}rank = 3}}>>)")
    assert print_op(module, triton="3.9").splitlines()[0] == f"#shared = {shared}rank = 3}}>"
    assert print_op(module, triton="3.5").splitlines()[0] == f"#shared = {shared}{older}}}>"
    assert print_op(parse_module(print_op(module))) == print_op(module)


def test_definitions_of_aliases_may_be_indented() -> None:
    module = """
      #here = loc("k.py":1:2)
      #wide = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
      module {
        tt.func public @k(%x: tensor<128xi32, #wide>) { tt.return loc(#here) } loc(#here)
      }
    """
    indented, flush = (print_op(parse_module(text), locations=True) for text in (module, dedent(module)))
    assert indented == flush
    assert '"k.py":1:2' in indented
