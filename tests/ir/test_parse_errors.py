"""Malformed text: every mistake is reported with line, column, a caret and what was expected."""

from __future__ import annotations

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.errors import ParseError
from tilewright.ir.parser import parse_module

IN_FUNCTION = """module {{
  tt.func @f(%a: i32, %x: f32, %t: tensor<4xf32>) {{
    {line}
    tt.return
  }}
}}
"""

LINES = {
    "unknown_op": "%0 = arith.addq %a, %a : i32",
    "unknown_dialect": "%0 = foo.bar %a : i32",
    "operand_type": "%0 = arith.addi %a, %x : i32",
    "missing_colon": "%0 = arith.addi %a, %a i32",
    "missing_operand": "%0 = arith.addi %a, : i32",
    "missing_type": "%0 = arith.addi %a, %a :",
    "unknown_type": "%0 = ub.poison : i32x4",
    "unclosed_tensor": "%0 = ub.poison : tensor<4xf32",
    "undefined_value": "%0 = arith.addi %a, %b : i32",
    "defined_twice": "%a = arith.constant 1 : i32",
    "result_count": "%0:2 = arith.addi %a, %a : i32",
    "result_number": "%0 = arith.addi %a, %a#1 : i32",
    "predicate": "%0 = arith.cmpi less, %a, %a : i32",
    "no_results": '%0 = "gpu.barrier"() : () -> ()',
    "bad_integer": "%0 = arith.constant 1.5 : i32",
    "not_a_number": '%0 = arith.constant "text"',
    "dense_count": "%0 = arith.constant dense<[1, 2, 3]> : tensor<4xi32>",
    "dense_type": "%0 = arith.constant dense<1> : i32",
    "attribute_name": "tt.return {1 = 2}",
    "unclosed_attributes": "tt.return {a = 1 : i32",
    "unclosed_string": 'tt.print "x {hex = false}',
    "not_a_pointer": "%0 = tt.load %x : f32",
    "mask_type": "%0 = tt.load %a, %a : !tt.ptr<f32>",
    "cache_modifier": "%0 = tt.load %a cacheModifier = fast : !tt.ptr<f32>",
    "block_pointer_type": "%0 = tt.advance %a, [%a] : i32",
    "operand_count": '%0 = "arith.addi"(%a) : (i32, i32) -> i32',
    "needs_quotes": "%0 = tt.reduce %t : f32",
    "no_block": "cf.br ^bb7",
    "location": "gpu.barrier loc(nowhere)",
    "location_alias": "gpu.barrier loc(#loc9)",
    "program_axis": "%0 = tt.get_program_id w : i32",
    "carried_types": "%0 = scf.for %i = %a to %a step %a iter_args(%y = %a) -> (f32) : i32 {",
}

TEXTS = {
    "end_of_text": "module {\n  tt.func @f() {\n    tt.return\n",
    "block_twice": "module {\n  tt.func @f() {\n    cf.br ^a\n  ^a:\n    tt.return\n  ^a:\n    tt.return\n  }\n}\n",
    "forward_type": (
        "module {\n  tt.func @f() {\n    cf.br ^b\n  ^a:\n    %0 = arith.addi %1, %1 : i32\n    tt.return\n"
        "  ^b:\n    %1 = arith.constant 1 : i64\n    cf.br ^a\n  }\n}\n"
    ),
    "symbol": "module {\n  tt.func f() {\n  }\n}\n",
    "outer_value": (
        "module {\n  tt.func @f(%a: i32) {\n    tt.return\n  }\n"
        "  tt.func @g() {\n    %0 = arith.addi %a, %a : i32\n    tt.return\n  }\n}\n"
    ),
    "no_op": "module {\n  = 3\n}\n",
}


@pytest.mark.quick
@pytest.mark.parametrize("name", sorted({*LINES, *TEXTS}))
def test_message(name: str, golden) -> None:
    text = TEXTS[name] if name in TEXTS else IN_FUNCTION.format(line=LINES[name])
    with pytest.raises(ParseError) as caught:
        parse_module(text, "bad.ttir")
    golden(f"{caught.value}\n", f"parse_errors/{name}.err")


def test_place() -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(IN_FUNCTION.format(line=LINES["operand_type"]), "bad.ttir")
    error = caught.value
    assert (error.file, error.line, error.column) == ("bad.ttir", 3, 25)
    assert error.source.strip() == LINES["operand_type"]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("#a = #ttg.slice<{dim = 0, parent = #a}>\ntt.func @f(tensor<4xf32, #a>)", "#a is defined by itself"),
        ("!a = tensor<4x!a>\ntt.func @f(!a)", "!a is defined by itself"),
        ('#loc = loc("x"(#loc))\ntt.func @f() loc(#loc)', "#loc is defined by itself"),
        ("tt.func @f() attributes {a = " + "[" * 10000 + "}", "nested too deeply"),
        ("tt.func @f(tensor<4xf32, #ttg.nothing<{}>>)", "#ttg.nothing is no layout"),
        (
            "tt.func @f(%p: tensor<4x!tt.qtr<f16>>, %d: !ttg.memdesc<4xf16, #ttg.swizzled_shared<{vec = 1, "
            "perPhase = 1, maxPhase = 1, order = [0]}>, #ttg.shared_memory, mutable>, "
            "%k: tensor<4xi1>, %o: tensor<4xf16>) {\n"
            "%t = ttg.async_copy_global_to_local %p, %d mask %k other %o : tensor<4x!tt.qtr<f16>> -> <4xf16, "
            "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>, #ttg.shared_memory, mutable>\n}",
            "holds no pointers",
        ),
    ],
)
def test_endless_text(text: str, problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        parse_module(text)
