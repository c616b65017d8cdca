"""Loop-invariant code motion: what leaves a loop, and what may not."""

from __future__ import annotations

import pytest
from rewriting_cases import check

from tilewright.transforms.licm import licm, licm_with_loads

SIGNATURE = "%n: i32, %x: i32, %p: !tt.ptr<i32>"
LOOP = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c8 = arith.constant 8 : i32
  {}
  scf.for %i = %c0 to %n step %c1 : i32 {{
    {}
    %q = tt.addptr %p, %i : !tt.ptr<i32>, i32
    tt.store %q, %a : !tt.ptr<i32>
  }}
  tt.return"""


@pytest.mark.quick
@pytest.mark.parametrize(
    ("op", "moves"),
    [
        ("arith.addi %x, %n : i32", True),
        ("arith.addi %x, %i : i32", False),
        ("arith.divsi %x, %c8 : i32", True),
        ("arith.divsi %x, %n : i32", False),
        ("arith.divsi %x, %c0 : i32", False),
        ("arith.remui %x, %n : i32", False),
        ("tt.load %p : !tt.ptr<i32>", False),
    ],
)
def test_what_moves(op: str, moves: bool) -> None:
    line = f"%a = {op}"
    check(licm, SIGNATURE, LOOP.format("", line), LOOP.format(line, "") if moves else None)


def test_chains_move_together() -> None:
    chain = "%b = arith.muli %x, %x : i32\n%a = arith.addi %b, %n : i32"
    check(licm, SIGNATURE, LOOP.format("", chain), LOOP.format(chain, ""))


NEST = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  {0}
  scf.for %i = %c0 to %n step %c1 : i32 {{
    {1}
    scf.for %j = %c0 to %n step %c1 : i32 {{
      {2}
      %q = tt.addptr %p, %j : !tt.ptr<i32>, i32
      tt.store %q, %b : !tt.ptr<i32>
    }}
  }}
  tt.return"""


def test_nested_loops() -> None:
    outer, inner = "%a = arith.muli %x, %x : i32", "%b = arith.addi %a, %i : i32"
    check(licm, SIGNATURE, NEST.format("", "", f"{outer}\n{inner}"), NEST.format(outer, inner, ""))


def test_reductions_move_with_what_they_capture() -> None:
    reduce = """%a = "tt.reduce"(%t) <{{axis = 0 : i32}}> ({{
      ^bb0(%l: i32, %s: i32):
        %u = arith.addi %l, %s : i32
        %v = arith.addi %u, {} : i32
        tt.reduce.return %v : i32
      }}) : (tensor<8xi32>) -> i32"""
    signature = SIGNATURE + ", %t: tensor<8xi32>"
    check(licm, signature, LOOP.format("", reduce.format("%x")), LOOP.format(reduce.format("%x"), ""))
    check(licm, signature, LOOP.format("", reduce.format("%i")), None)


def test_while_loops() -> None:
    body = """
      {}
      %r = scf.while (%a = %x) : (i32) -> (i32) {{
        {}
        %c = arith.cmpi slt, %a, %m : i32
        scf.condition(%c) %a : i32
      }} do {{
      ^bb0(%b: i32):
        %s = arith.addi %b, %m2 : i32
        scf.yield %s : i32
      }}
      tt.return %r : i32"""
    signature = "%n: i32, %x: i32, %m2: i32"
    line = "%m = arith.muli %n, %n : i32"
    check(licm, signature, body.format("", line), body.format(line, ""))


@pytest.mark.parametrize("mask", [False, True])
def test_loads_move_under_the_condition_that_there_is_a_step(mask: bool) -> None:
    loop = """
      %c1 = arith.constant 1 : i32
      %z = arith.constant dense<0> : tensor<8xi32>
      {0}
      %r = scf.for %i = %x to %n step %c1 iter_args(%s = %z) -> (tensor<8xi32>) : i32 {{
        {1}
        %b = arith.addi %s, %a : tensor<8xi32>
        {2}
        scf.yield %b : tensor<8xi32>
      }}
      tt.return %r : tensor<8xi32>"""
    signature = "%n: i32, %x: i32, %t: tensor<8x!tt.ptr<i32>>, %m: tensor<8xi1>"
    load = f"%a = tt.load %t{', %m' if mask else ''} : tensor<8x!tt.ptr<i32>>"
    guard = "%c = arith.cmpi slt, %x, %n : i32\n%g = tt.splat %c : i1 -> tensor<8xi1>\n"
    guard += "%h = arith.andi %g, %m : tensor<8xi1>\n" if mask else ""
    guarded = f"{guard}%a = tt.load %t, {'%h' if mask else '%g'} : tensor<8x!tt.ptr<i32>>"
    store = "tt.store %t, %b : tensor<8x!tt.ptr<i32>>"
    check(licm_with_loads, signature, loop.format("", load, ""), loop.format(guarded, "", ""))
    check(licm_with_loads, signature, loop.format("", load, store), None)
    check(licm, signature, loop.format("", load, ""), None)
