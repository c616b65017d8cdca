"""Passes about functions and their blocks: inline, symbol_dce, structure_control_flow."""

from __future__ import annotations

from rewriting_cases import check, nameless

import tilewright.dialects
from tilewright.ir.attributes import CallLocation
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.transforms.inline import inline, symbol_dce
from tilewright.transforms.structure_control_flow import structure_control_flow

assert tilewright.dialects.__all__

CALLER = """
module {
  tt.func public @kernel(%n: i32, %p: !tt.ptr<i32>) {
    %a = tt.call @square(%n) : (i32) -> i32
    %b = tt.call @square(%a) : (i32) -> i32
    tt.store %p, %b : !tt.ptr<i32>
    tt.return
  }
"""
SQUARE = """
  tt.func private @square(%x: i32) -> i32 attributes {noinline = NOINLINE} {
    %y = tt.call @product(%x, %x) : (i32, i32) -> i32
    tt.return %y : i32
  }
  tt.func private @product(%x: i32, %y: i32) -> i32 {
    %z = arith.muli %x, %y : i32
    tt.return %z : i32
  }
}
"""


def parsed(text: str) -> Op:
    module = parse_module(text)
    verify(module)
    return module


def test_calls_of_calls_are_inlined() -> None:
    module = parsed(CALLER + SQUARE.replace("NOINLINE", "false"))
    inline(module)
    verify(module)
    expected = """
    module {
      tt.func public @kernel(%n: i32, %p: !tt.ptr<i32>) {
        %a = arith.muli %n, %n : i32
        %b = arith.muli %a, %a : i32
        tt.store %p, %b : !tt.ptr<i32>
        tt.return
      }
    }"""
    assert nameless(module) == nameless(parsed(expected))
    multiply = module.regions[0].block.first.regions[0].block.first
    assert multiply is not None
    assert isinstance(multiply.location, CallLocation)
    assert isinstance(multiply.location.callee, CallLocation)


def test_noinline_functions_stay_but_not_their_callees() -> None:
    module = parsed(CALLER + SQUARE.replace("NOINLINE", "true"))
    inline(module)
    verify(module)
    names = [op.attributes.get("sym_name") for op in module.regions[0].block]
    assert names == ["kernel", "square"]
    assert [op.name for op in module.walk() if op.name == "tt.call"] == ["tt.call", "tt.call"]


def test_recursion_ends() -> None:
    text = CALLER + SQUARE.replace("NOINLINE", "false").replace(
        "arith.muli %x, %y : i32", "tt.call @square(%x) : (i32) -> i32"
    )
    module = parsed(text)
    inline(module)
    verify(module)
    assert any(op.name == "tt.call" for op in module.walk())


def test_unreachable_private_functions_leave() -> None:
    text = (
        CALLER
        + SQUARE.replace("NOINLINE", "true").replace("}\n}", "}\n")
        + "tt.func private @lost() {\n tt.return\n}\n}"
    )
    module = parsed(text)
    assert symbol_dce(module)
    assert [op.attributes["sym_name"] for op in module.regions[0].block] == ["kernel", "square", "product"]
    assert not symbol_dce(module)


EARLY = """
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  tt.return %x : i32
^bb2:
  %y = arith.muli %x, %x : i32
  tt.return %y : i32"""


def test_early_return() -> None:
    after = """
      %r = scf.if %c -> (i32) {
        scf.yield %x : i32
      } else {
        %y = arith.muli %x, %x : i32
        scf.yield %y : i32
      }
      tt.return %r : i32"""
    check(structure_control_flow, "%c: i1, %x: i32", EARLY, after)


def test_arms_that_meet_again() -> None:
    before = """
      %s = arith.addi %x, %x : i32
      cf.cond_br %c, ^bb1, ^bb2(%s : i32)
    ^bb1:
      tt.store %p, %x : !tt.ptr<i32>
      cf.br ^bb2(%x : i32)
    ^bb2(%v: i32):
      %y = arith.muli %v, %s : i32
      tt.return %y : i32"""
    after = """
      %s = arith.addi %x, %x : i32
      %v = scf.if %c -> (i32) {
        tt.store %p, %x : !tt.ptr<i32>
        scf.yield %x : i32
      } else {
        scf.yield %s : i32
      }
      %y = arith.muli %v, %s : i32
      tt.return %y : i32"""
    check(structure_control_flow, "%c: i1, %x: i32, %p: !tt.ptr<i32>", before, after)


def test_nested_early_returns() -> None:
    before = """
      cf.cond_br %c, ^bb1, ^bb3
    ^bb1:
      cf.cond_br %d, ^bb2, ^bb3
    ^bb2:
      tt.return
    ^bb3:
      tt.store %p, %x : !tt.ptr<i32>
      tt.return"""
    after = """
      scf.if %c {
        scf.if %d {
        } else {
          tt.store %p, %x : !tt.ptr<i32>
        }
      } else {
        tt.store %p, %x : !tt.ptr<i32>
      }
      tt.return"""
    check(structure_control_flow, "%c: i1, %d: i1, %x: i32, %p: !tt.ptr<i32>", before, after)


def test_cycles_stay() -> None:
    before = """
      cf.br ^bb1(%x : i32)
    ^bb1(%v: i32):
      %c = arith.cmpi slt, %v, %x : i32
      cf.cond_br %c, ^bb1(%x : i32), ^bb2
    ^bb2:
      tt.return"""
    check(structure_control_flow, "%x: i32", before, None)


def test_unreachable_blocks_leave() -> None:
    before = "tt.return %x : i32\n^bb1:\n  %y = arith.muli %x, %x : i32\n  tt.return %y : i32"
    check(structure_control_flow, "%x: i32", before, "tt.return %x : i32")
