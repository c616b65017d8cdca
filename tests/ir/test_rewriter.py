"""Greedy rewriting: folds, rules, dead code, shared constants, and an end to endless rewriting."""

from __future__ import annotations

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.dialects.arith import Constant
from tilewright.dialects.ttg_warp_specialize import WarpSpecializePartitions
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.parser import Parser, parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.rewriter import RewriteLimitError, Rewriter, apply_rules
from tilewright.ir.types import i32
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.gluon_pipeline import canonicalize_keeping_layouts


def rewritten(body: str, rules=None, folds=None) -> list[str]:
    """The lines of the function's body after rewriting."""
    module = parse_module(f"tt.func @f(%a: i32, %p: !tt.ptr<i32>, %c: i1) {{\n{body}\n  tt.return\n}}")
    apply_rules(module.regions[0].block.first, rules or {}, folds=folds)
    return [line.strip() for line in print_op(module).splitlines()[2:-3]]


def add_zero(op: Op) -> Value | None:
    """x + 0 -> x"""
    constant = defining(op.operands[1], Constant)
    return op.operands[0] if constant is not None and constant.attributes["value"] == Number(0, i32) else None


def double(op: Op, rewriter: Rewriter) -> bool:
    """x + x -> x * 2"""
    if op.operands[0] is not op.operands[1]:
        return False
    product = rewriter.create(op, "arith.muli", [op.operands[0], rewriter.constant(2, i32)], [i32])
    rewriter.replace(op, product.results)
    return True


def test_folds_reach_users() -> None:
    body = (
        "%0 = arith.constant 0 : i32\n%x = arith.addi %a, %0 : i32\n%y = arith.addi %x, %0 : i32\n"
        "tt.store %p, %y : !tt.ptr<i32>"
    )
    assert rewritten(body, folds={"arith.addi": (add_zero,)}) == ["tt.store %p, %a : !tt.ptr<i32>"]


def test_rules_create_before_the_op() -> None:
    body = "%x = arith.addi %a, %a : i32\n%y = arith.addi %x, %x : i32\ntt.store %p, %y : !tt.ptr<i32>"
    assert rewritten(body, {"arith.addi": (double,)}) == [
        "%c2_i32 = arith.constant 2 : i32",
        "%x = arith.muli %a, %c2_i32 : i32",
        "%y = arith.muli %x, %c2_i32 : i32",
        "tt.store %p, %y : !tt.ptr<i32>",
    ]


def test_what_only_a_dead_branch_needs_is_dead() -> None:
    body = (
        "%x = arith.addi %a, %a : i32\n%r = scf.if %c -> (i32) {\nscf.yield %x : i32\n} else {\nscf.yield %a : i32\n}"
    )
    assert rewritten(body) == []


def test_dead_code_goes_but_effects_stay() -> None:
    body = (
        "%x = arith.addi %a, %a : i32\n%y = arith.muli %x, %x : i32\n%l = tt.load %p : !tt.ptr<i32>\n"
        "%v = tt.load %p {isVolatile = true} : !tt.ptr<i32>\nscf.if %c {\n  %z = arith.addi %a, %a : i32\n}"
    )
    assert rewritten(body) == ["%v = tt.load %p {isVolatile = true} : !tt.ptr<i32>"]


def test_constants_are_shared_in_the_entry_block() -> None:
    body = (
        "scf.if %c {\n  %x = arith.constant 7 : i32\n  tt.store %p, %x : !tt.ptr<i32>\n}\n"
        "%y = arith.constant 7 : i32\ntt.store %p, %y : !tt.ptr<i32>"
    )
    assert rewritten(body) == [
        "%x = arith.constant 7 : i32",
        "scf.if %c {",
        "tt.store %p, %x : !tt.ptr<i32>",
        "}",
        "tt.store %p, %x : !tt.ptr<i32>",
    ]


def test_endless_rewriting_is_noticed() -> None:
    def swap(op: Op, rewriter: Rewriter) -> bool:
        rewriter.set_operands(op, op.operands[::-1])
        return True

    body = "%x = arith.addi %a, %a : i32\ntt.store %p, %x : !tt.ptr<i32>"
    with pytest.raises(RewriteLimitError, match=r"arith.addi does not come to rest"):
        rewritten(body, {"arith.addi": (swap,)})


def test_a_function_without_body_is_left_alone() -> None:
    module = parse_module("tt.func private @f(i32)")
    assert not apply_rules(module.regions[0].block.first, {})


def test_constants_stay_inside_what_sees_no_outer_values() -> None:
    text = """
      tt.func @f(%n: i32) {
        ttg.warp_specialize(%n)
        default {
          %c = arith.constant 2 : i32
          "use"(%c) : (i32) -> ()
          ttg.warp_yield
        }
        partition0(%x: i32) num_warps(4) {
          %t = arith.constant 2 : i32
          %s = arith.addi %t, %x : i32
          "use"(%s) : (i32) -> ()
          ttg.warp_return
        } : (i32) -> ()
        tt.return
      }"""
    module = Parser(text, unregistered=True).module()
    function = module.regions[0].block.first
    assert function is not None

    def swapped(op: Op, rewriter: Rewriter) -> bool:
        if not isinstance(op.operands[1].owner, Op):
            rewriter.set_operands(op, (op.operands[1], rewriter.constant(2, i32)))
            return True
        return False

    assert apply_rules(function, {"arith.addi": (swapped,)})
    verify(module)
    (sum,) = [op for op in module.walk() if op.name == "arith.addi"]
    assert sum.operands[1].owner.block is sum.block
    assert function.regions[0].block.first.name == "arith.constant"


def test_what_a_partition_captures_twice_is_rewritten_with_its_own_constants() -> None:
    text = """
      tt.func @f(%n: i32) {
        ttg.warp_specialize(%n, %n)
        default {
          ttg.warp_yield
        }
        partition0(%x: i32, %y: i32) num_warps(4) {
          %d = arith.subi %x, %y : i32
          "use"(%d) : (i32) -> ()
          ttg.warp_return
        } : (i32, i32) -> ()
        tt.return
      }"""
    module = Parser(text, unregistered=True).module()
    assert canonicalize_keeping_layouts(module)
    verify(module)
    (use,) = [op for op in module.walk() if op.name == "use"]
    constant = defining(use.operands[0], Constant)
    assert constant is not None
    assert constant.attributes["value"] == Number(0, i32)
    assert constant.block is use.block
    assert not next(iter(module.ops_of(WarpSpecializePartitions))).captures


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        ("%c0 = arith.constant 0 : i32\n%c1 = arith.constant 1 : i32\n%x = arith.addi %c1, %c0 : i32", False),
        ("%c0 = arith.constant 0 : i32\n%c1 = arith.constant 1 : i32\n%x = arith.addi %c1, %c1 : i32", True),
        ("%y = arith.addi %a, %a : i32\n%c1 = arith.constant 1 : i32\n%x = arith.addi %y, %c1 : i32", True),
        ("%c1 = arith.constant 1 : i32\n%c2 = arith.constant 1 : i32\n%x = arith.addi %c1, %c2 : i32", True),
    ],
    ids=["in place", "unused", "moved", "merged"],
)
def test_constants_that_go_or_move_are_changes(body: str, changes: bool) -> None:
    body += "\ntt.store %p, %x : !tt.ptr<i32>\ntt.return"
    module = parse_module(f"tt.func @f(%a: i32, %p: !tt.ptr<i32>) {{\n{body}\n}}")
    before = print_op(module)
    assert apply_rules(module.regions[0].block.first, {}) is changes
    assert (print_op(module) != before) is changes
