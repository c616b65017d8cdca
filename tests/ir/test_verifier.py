"""Malformed IR: the error names the op and the rule it breaks."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.attributes import FileLocation, Keyword
from tilewright.ir.core import Block, Op, Region
from tilewright.ir.dominance import dominator_children
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.types import FunctionType, Type, f32, i1, i32
from tilewright.ir.verifier import verify

IN_FUNCTION = """tt.func @f(%a: i32, %b: i64, %c: i1, %x: f32, %t: tensor<4xf32>, %m: tensor<4x8xf32>, %p: !tt.ptr<f32>,
           %q: tensor<4x!tt.ptr<f32>>, %i: tensor<8xi32>) {{
  {line}
  tt.return
}}
"""

LINES = {
    "float_operands": "%0 = arith.addf %a, %a : i32",
    "integer_operands": "%0 = arith.addi %t, %t : tensor<4xf32>",
    "too_few_operands": '%0 = "arith.addi"(%a) : (i32) -> i32',
    "too_many_operands": "%0 = arith.negf %x, %x : f32",
    "results": '%0:2 = "arith.negf"(%x) : (f32) -> (f32, f32)',
    "result_type": '%0 = "arith.addi"(%a, %a) : (i32, i32) -> i64',
    "widening": "%0 = arith.extsi %b : i64 to i32",
    "narrowing": "%0 = arith.truncf %x : f32 to f64",
    "conversion_kind": "%0 = arith.extf %a : i32 to f32",
    "conversion_shape": "%0 = arith.sitofp %a : i32 to tensor<4xf32>",
    "bitcast": "%0 = tt.bitcast %t : tensor<4xf32> -> tensor<4xi8>",
    "comparison": '%0 = "arith.cmpi"(%a, %b) <{predicate = 2 : i64}> : (i32, i64) -> i1',
    "predicate": '%0 = "arith.cmpi"(%a, %a) <{predicate = near}> : (i32, i32) -> i1',
    "missing_attribute": '%0 = "tt.expand_dims"(%t) : (tensor<4xf32>) -> tensor<4x1xf32>',
    "splat": "%0 = tt.splat %a : i32 -> tensor<4xf32>",
    "broadcast": "%0 = tt.broadcast %t : tensor<4xf32> -> tensor<8xf32>",
    "expand_axis": "%0 = tt.expand_dims %t {axis = 2 : i32} : tensor<4xf32> -> tensor<4x1xf32>",
    "expand_shape": "%0 = tt.expand_dims %t {axis = 0 : i32} : tensor<4xf32> -> tensor<4x1xf32>",
    "reshape": "%0 = tt.reshape %m : tensor<4x8xf32> -> tensor<16xf32>",
    "transpose_order": "%0 = tt.trans %m {order = array<i32: 0, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>",
    "transpose_shape": "%0 = tt.trans %m {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<4x8xf32>",
    "split": "%0, %1 = tt.split %m : tensor<4x8xf32> -> tensor<4xf32>",
    "cat": "%0 = tt.cat %t, %t : tensor<4xf32> -> tensor<16xf32>",
    "gather": "%0 = tt.gather %t[%i] {axis = 1 : i32} : (tensor<4xf32>, tensor<8xi32>) -> tensor<8xf32>",
    "range": "%0 = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<4xi32>",
    "dot": "%0 = tt.dot %m, %m, %m : tensor<4x8xf32> * tensor<4x8xf32> -> tensor<4x8xf32>",
    "load_result": '%0 = "tt.load"(%p) : (!tt.ptr<f32>) -> i32',
    "load_no_pointer": '%0 = "tt.load"(%x) : (f32) -> f32',
    "store_value": '"tt.store"(%p, %a) : (!tt.ptr<f32>, i32) -> ()',
    "offset_shape": "%0 = tt.addptr %q, %a : tensor<4x!tt.ptr<f32>>, i32",
    "boundary": "%0 = tt.load %q {boundaryCheck = array<i32: 1>} : tensor<4x!tt.ptr<f32>>",
    "atomic_order": "%0 = tt.atomic_rmw fadd, eventually, gpu, %p, %x : (!tt.ptr<f32>, f32) -> f32",
    "condition": "%0 = arith.select %t, %a, %a : tensor<4xf32>, i32",
    "assume": "llvm.intr.assume %a : i32",
    "callee": "tt.call @nobody() : () -> ()",
    "call_types": "tt.call @f(%a) : (i32) -> ()",
    "returned": "tt.return %a : i32\n^bb1:",
    "yielded": "%0 = scf.if %c -> (i32) {\n    scf.yield %x : f32\n  } else {\n    scf.yield %a : i32\n  }",
    "no_else": "%0 = scf.if %c -> (i32) {\n    scf.yield %a : i32\n  }",
    "carried": ("%0 = scf.for %k = %a to %a step %a iter_args(%y = %x) -> (f32) : i32 {\n    scf.yield %a : i32\n  }"),
    "unsigned": "scf.for %k = %a to %a step %a : i32 {\n  } {unsignedCmp}",
    "wrong_terminator": "scf.for %k = %a to %a step %a : i32 {\n    tt.reduce.return %a : i32\n  }",
    "terminator_in_the_middle": "tt.return\n  gpu.barrier",
    "reduce_arguments": (
        '%0 = "tt.reduce"(%t) <{axis = 0 : i32}> ({\n  ^bb0(%y: i32, %z: i32):\n    tt.reduce.return %y : i32\n'
        "  }) : (tensor<4xf32>) -> f32"
    ),
    "reduce_result": (
        '%0 = "tt.reduce"(%m) <{axis = 1 : i32}> ({\n  ^bb0(%y: f32, %z: f32):\n    tt.reduce.return %y : f32\n'
        "  }) : (tensor<4x8xf32>) -> tensor<8xf32>"
    ),
    "inline_assembly": (
        '%0 = tt.elementwise_inline_asm "" {constraints = "=r,r", packed_element = 1 : i32, pure = true} %t'
        " : tensor<4xf32> -> tensor<8xf32>"
    ),
    "branch_values": "cf.br ^b(%a : i32)\n^b(%y: f32):",
}


@pytest.mark.quick
@pytest.mark.parametrize("name", sorted(LINES))
def test_message(name: str, golden) -> None:
    module = parse_module(IN_FUNCTION.format(line=LINES[name]))
    with pytest.raises(VerificationError) as caught:
        verify(module)
    golden(f"{caught.value}\n", f"verification_errors/{name}.err")


@pytest.mark.quick
@pytest.mark.parametrize("wrong", [(i32, i32), (f32, i32), (i1, f32)])
def test_arguments_are_those_of_the_functions_type(wrong: tuple[Type, ...]) -> None:
    module = parse_module("tt.func @f(%a: i32, %x: f32) {\n  tt.return\n}")
    verify(module)
    function = module.regions[0].block.first
    function.attributes["function_type"] = FunctionType(wrong, ())
    with pytest.raises(VerificationError, match="arguments of the entry block"):
        verify(module)


@pytest.mark.parametrize(("element", "fits"), [("i32", True), ("i64", False)])
def test_rows_by_index_have_elements_of_at_most_32_bits(element: str, fits: bool) -> None:
    block, rows = f"!tt.tensordesc<tensor<1x32x{element}>>", "tensor<8xi32>"
    module = parse_module(
        f"tt.func @f(%d: {block}, %r: {rows}, %x: i32) {{\n"
        f"  %t = tt.descriptor_gather %d[%r, %x] : ({block}, {rows}, i32) -> tensor<8x32x{element}>\n  tt.return\n}}"
    )
    with nullcontext() if fits else pytest.raises(VerificationError, match="at most 32 bits"):
        verify(module)


@pytest.mark.parametrize("result", ["i32", "tensor<256xi32>"])
def test_rows_by_index_are_a_matrix(result: str) -> None:
    block, rows = "!tt.tensordesc<tensor<1x32xi32>>", "tensor<8xi32>"
    module = parse_module(
        f"tt.func @f(%d: {block}, %r: {rows}, %x: i32) {{\n"
        f'  %t = "tt.descriptor_gather"(%d, %r, %x) : ({block}, {rows}, i32) -> {result}\n  tt.return\n}}'
    )
    with pytest.raises(VerificationError, match="needs a tensor with two axes"):
        verify(module)


def test_use_before_definition() -> None:
    """The op that computes an operand stands behind its user."""
    module = parse_module(
        "tt.func @f(%a: i32) {\n  %x = arith.addi %a, %a : i32\n  %y = arith.addi %x, %a : i32\n  tt.return\n}"
    )
    block = module.regions[0].block.first.regions[0].block
    first = block.first
    first.unlink()
    block.insert(first, block.last)
    with pytest.raises(VerificationError, match=r"arith.addi: operand 0 \(%x\) does not dominate this use"):
        verify(module)


def test_value_of_an_inner_region_is_not_visible_outside() -> None:
    module = parse_module(
        "tt.func @f(%a: i32, %c: i1) {\n  scf.if %c {\n    %x = arith.addi %a, %a : i32\n  }\n"
        "  %y = arith.addi %a, %a : i32\n  tt.return\n}"
    )
    inner = next(op for op in module.walk() if op.results and op.results[0].name == "x")
    outer = next(op for op in module.walk() if op.results and op.results[0].name == "y")
    outer.set_operand(1, inner.result)
    with pytest.raises(VerificationError, match="does not dominate"):
        verify(module)


def test_isolated_regions_see_no_outer_values() -> None:
    module = parse_module(
        "tt.func @f(%a: i32) {\n  tt.return\n}\ntt.func @g(%b: i32) {\n  %x = arith.addi %b, %b : i32\n  tt.return\n}"
    )
    first, second = module.regions[0].block
    second.regions[0].block.first.set_operand(0, first.regions[0].block.args[0])
    with pytest.raises(VerificationError, match="does not dominate"):
        verify(module)


def test_dominance_across_blocks() -> None:
    text = """tt.func @f(%c: i1, %x: f32) {
  %a = arith.negf %x : f32
  cf.cond_br %c, ^left, ^right
^left:
  %b = arith.negf %a : f32
  cf.br ^end
^right:
  cf.br ^end
^end:
  %e = arith.negf %a : f32
  tt.return
^unreachable:
  %u = arith.negf %b : f32
  tt.return
}"""
    module = parse_module(text)
    verify(module)
    left = next(op for op in module.walk() if op.results and op.results[0].name == "b")
    end = next(op for op in module.walk() if op.results and op.results[0].name == "e")
    end.set_operand(0, left.result)
    with pytest.raises(VerificationError, match="does not dominate"):
        verify(module)


def test_each_block_stands_below_the_last_one_on_all_ways_to_it() -> None:
    """Blocks that are none of the tree are not verified."""
    (function,) = parse_module("""tt.func @f(%c: i1) {
  cf.br ^head
^head:
  cf.cond_br %c, ^left, ^right
^left:
  cf.br ^end
^right:
  cf.cond_br %c, ^head, ^end
^end:
  tt.return
}""").regions[0].block
    blocks = function.regions[0].blocks
    tree = dominator_children(function.regions[0])
    assert {blocks.index(block): {*map(blocks.index, below)} for block, below in tree.items()} == {
        0: {1}, 1: {2, 3, 4}, 2: set(), 3: set(), 4: set(),
    }  # fmt: skip


def test_uses_must_be_known() -> None:
    module = parse_module("tt.func @f(%a: i32) {\n  %x = arith.addi %a, %a : i32\n  tt.return\n}")
    op = next(op for op in module.walk() if op.name == "arith.addi")
    op.operands[0].uses.clear()
    with pytest.raises(VerificationError, match="does not know this use"):
        verify(module)


def test_block_without_terminator() -> None:
    module = parse_module("tt.func @f(%a: i32) {\n  tt.return\n}")
    function = module.regions[0].block.first
    function.regions[0].block.first.erase()
    with pytest.raises(VerificationError, match="does not end with a terminator"):
        verify(module)


def test_error_tells_op_types_and_place() -> None:
    op = Op.create("arith.addf", location=FileLocation("kernel.py", 3, 5))
    module = Op.create("builtin.module", regions=[Region([Block()])])
    module.regions[0].block.append(op)
    with pytest.raises(VerificationError) as caught:
        verify(module)
    assert caught.value.op is op
    assert str(caught.value) == "arith.addf: needs 2 operands, has 0\n  in: arith.addf() -> ()\n  at: kernel.py:3:5"


@pytest.mark.quick
@pytest.mark.parametrize("shapes", [("4", "4", "8"), ("4x8", "4x8", "8x8"), ("2x4x8", "6x4x8", "8x4x8")])
def test_tiles_are_put_together_along_the_first_axis(shapes: tuple[str, ...]) -> None:
    a, b, both = (f"tensor<{shape}xf32>" for shape in shapes)
    text = f'tt.func @f(%a: {a}, %b: {b}) {{\n  %0 = "tt.cat"(%a, %b) : ({a}, {b}) -> {both}\n  tt.return\n}}'
    verify(parse_module(text))


def test_symbols_are_unique() -> None:
    with pytest.raises(VerificationError, match="@f is defined twice"):
        verify(parse_module("tt.func @f() {\n  tt.return\n}\ntt.func @f() {\n  tt.return\n}"))


def test_wrong_keyword() -> None:
    block = Block([i32, i32])
    block.append(Op.create("arith.cmpi", block.args, [i1], {"predicate": Keyword("less")}))
    block.append(Op.create("scf.condition", [block.first.result]))
    loop = Op.create("scf.while", [], [f32], regions=[Region([block]), Region([Block()])])
    with pytest.raises(VerificationError, match="predicate must be one of eq, ne, slt"):
        verify(loop)
