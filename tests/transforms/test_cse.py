"""Common subexpressions: what is merged, and what looks equal but is not."""

from __future__ import annotations

import pytest
from rewriting_cases import check

from tilewright.transforms.cse import cse, loop_aware_cse

pytestmark = pytest.mark.quick

XY = "%x: i32, %y: i32, %p: !tt.ptr<i32>, %q: !tt.ptr<i32>, %c: i1"
END = "\ntt.store %p, %a : !tt.ptr<i32>\ntt.store %q, %b : !tt.ptr<i32>\ntt.return"


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ("arith.addi %x, %y", "arith.addi %x, %y", True),
        ("arith.addi %x, %y", "arith.addi %y, %x", True),
        ("arith.subi %x, %y", "arith.subi %y, %x", False),
        ("arith.addi %x, %y", "arith.muli %x, %y", False),
        ("arith.divsi %x, %y", "arith.divsi %x, %y", True),
    ],
)
def test_equal_computations(first: str, second: str, merged: bool) -> None:
    before = f"%a = {first} : i32\n%b = {second} : i32" + END
    after = f"%a = {first} : i32" + END.replace("%b", "%a") if merged else None
    check(cse, XY, before, after)


def test_attributes_count() -> None:
    before = (
        "%d = arith.cmpi slt, %x, %y : i32\n%e = arith.cmpi sle, %x, %y : i32\n"
        "%a = arith.select %d, %x, %y : i32\n%b = arith.select %e, %x, %y : i32" + END
    )
    check(cse, XY, before, None)


def test_zeros_differ() -> None:
    before = "%a = arith.constant 0.0 : f32\n%b = arith.constant -0.0 : f32\ntt.return %a, %b : f32, f32"
    check(cse, "", before, None)


@pytest.mark.parametrize(
    ("between", "merged"),
    [
        ("", True),
        ("tt.store %q, %x : !tt.ptr<i32>", False),
        ("%o = tt.atomic_rmw add, acq_rel, gpu, %q, %x : (!tt.ptr<i32>, i32) -> i32", False),
        ("scf.if %c {\n tt.store %q, %x : !tt.ptr<i32>\n}", False),
        ("gpu.barrier", False),
    ],
)
def test_loads(between: str, merged: bool) -> None:
    before = f"%a = tt.load %p : !tt.ptr<i32>\n{between}\n%b = tt.load %p : !tt.ptr<i32>" + END
    after = f"%a = tt.load %p : !tt.ptr<i32>\n{between}" + END.replace("%b", "%a") if merged else None
    check(cse, XY, before, after)


def test_volatile_loads_stay() -> None:
    load = "tt.load %p {isVolatile = true} : !tt.ptr<i32>"
    check(cse, XY, f"%a = {load}\n%b = {load}" + END, None)


LOOP = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %a = tt.load %p : !tt.ptr<i32>
  %s = arith.addi %x, %y : i32
  scf.for %i = %c0 to %x step %c1 : i32 {{
    {}
    tt.{} %q, {} : {}
  }}
  %b = arith.addi %a, %s : i32
  tt.store %p, %b : !tt.ptr<i32>
  tt.return"""


def test_loads_in_loops() -> None:
    """A loop that writes may have written before its body loads again."""
    inside = "%t = arith.addi %x, %y : i32\n%l = tt.load %p : !tt.ptr<i32>\n%u = arith.addi %t, %l : i32"
    kept = "%l = tt.load %p : !tt.ptr<i32>\n%u = arith.addi %s, %l : i32"
    check(cse, XY, LOOP.format(inside, "store", "%u", "!tt.ptr<i32>"), LOOP.format(kept, "store", "%u", "!tt.ptr<i32>"))


def test_arms_do_not_see_each_other() -> None:
    before = """
      %r = scf.if %c -> (i32) {
        %a = arith.addi %x, %y : i32
        scf.yield %a : i32
      } else {
        %b = arith.addi %x, %y : i32
        %d = arith.muli %b, %b : i32
        scf.yield %d : i32
      }
      %e = arith.addi %x, %y : i32
      tt.return %r, %e : i32, i32"""
    check(cse, XY, before, None)


REDUCE = """
  {} = "tt.reduce"(%t) <{{axis = 0 : i32}}> ({{
  ^bb0(%l: i32, %s: i32):
    %u = arith.{} %l, %s : i32
    tt.reduce.return %u : i32
  }}) : (tensor<8xi32>) -> i32"""


def test_regions_are_compared() -> None:
    signature = "%t: tensor<8xi32>"
    end = "\ntt.return %a, {} : i32, i32"
    both = REDUCE.format("%a", "addi") + REDUCE.format("%b", "{}")
    check(cse, signature, both.replace("{}", "addi") + end.format("%b"), REDUCE.format("%a", "addi") + end.format("%a"))
    check(cse, signature, both.replace("{}", "muli") + end.format("%b"), None)


def test_dead_ops_leave() -> None:
    check(cse, XY, "%a = arith.addi %x, %y : i32\n%b = tt.load %p : !tt.ptr<i32>\ntt.return", "tt.return")


ALIKE = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r:2 = scf.for %i = %c0 to %x step %c1 iter_args(%a = %y, %b = {}) -> (i32, i32) : i32 {{
    %s = arith.addi %a, %x : i32
    %t = arith.{} %b, {} : i32
    scf.yield %s, %t : i32, i32
  }}
  tt.return %r#0, %r#1 : i32, i32"""


def test_loop_values_that_step_alike() -> None:
    after = """
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %r = scf.for %i = %c0 to %x step %c1 iter_args(%a = %y) -> (i32) : i32 {
        %s = arith.addi %a, %x : i32
        scf.yield %s : i32
      }
      tt.return %r, %r : i32, i32"""
    check(loop_aware_cse, XY, ALIKE.format("%y", "addi", "%x"), after)
    check(loop_aware_cse, XY, ALIKE.format("%x", "addi", "%x"), None)
    check(loop_aware_cse, XY, ALIKE.format("%y", "muli", "%x"), None)
    check(loop_aware_cse, XY, ALIKE.format("%y", "addi", "%i"), None)
    check(loop_aware_cse, XY, ALIKE.format("%y", "addi", "%a"), None)
    check(cse, XY, ALIKE.format("%y", "addi", "%x"), None)


def test_loop_values_that_depend_on_each_other() -> None:
    """Two pairs of a counter and a phase: each phase flips when its counter wraps."""
    before = """
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c3 = arith.constant 3 : i32
      %r:4 = scf.for %i = %c0 to %x step %c1 iter_args(%m = %c0, %f = %y, %n = %c0, %g = %y)
          -> (i32, i32, i32, i32) : i32 {
        %m1 = arith.addi %m, %c1 : i32
        %d = arith.cmpi eq, %m1, %c3 : i32
        %f1 = arith.xori %f, %c1 : i32
        %m2 = arith.select %d, %c0, %m1 : i32
        %f2 = arith.select %d, %f1, %f : i32
        %n1 = arith.addi %n, %c1 : i32
        %e = arith.cmpi eq, %n1, %c3 : i32
        %g1 = arith.xori %g, %c1 : i32
        %n2 = arith.select %e, {0}, %n1 : i32
        %g2 = arith.select %e, %g1, %g : i32
        scf.yield %m2, %f2, %n2, %g2 : i32, i32, i32, i32
      }
      tt.return %r#1, %r#3 : i32, i32"""
    after = """
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c3 = arith.constant 3 : i32
      %r:2 = scf.for %i = %c0 to %x step %c1 iter_args(%m = %c0, %f = %y) -> (i32, i32) : i32 {
        %m1 = arith.addi %m, %c1 : i32
        %d = arith.cmpi eq, %m1, %c3 : i32
        %f1 = arith.xori %f, %c1 : i32
        %m2 = arith.select %d, %c0, %m1 : i32
        %f2 = arith.select %d, %f1, %f : i32
        scf.yield %m2, %f2 : i32, i32
      }
      tt.return %r#1, %r#1 : i32, i32"""
    check(loop_aware_cse, XY, before.replace("{0}", "%c0"), after)
    check(loop_aware_cse, XY, before.replace("{0}", "%c1"), None)


def test_inside_reductions() -> None:
    body = """%a = "tt.reduce"(%t) <{{axis = 0 : i32}}> ({{
      ^bb0(%l: i32, %s: i32):
        %u = arith.addi %l, %s : i32
        {}
        tt.reduce.return %w : i32
      }}) : (tensor<8xi32>) -> i32
      tt.return %a : i32"""
    twice = "%v = arith.addi %s, %l : i32\n%w = arith.muli %u, %v : i32"
    check(cse, "%t: tensor<8xi32>", body.format(twice), body.format("%w = arith.muli %u, %u : i32"))
