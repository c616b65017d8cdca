"""What texts of Triton spell in more than one way is read in all of them, and printed in one."""

from __future__ import annotations

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.errors import ParseError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

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
