"""Canonical forms of structured control flow, with the cases next to them that must stay."""

from __future__ import annotations

from rewriting_cases import check

from tilewright.transforms.canonicalize import canonicalize, canonicalize_as_triton


def test_known_condition() -> None:
    before = """
      %c = arith.constant {}
      %r = scf.if %c -> (i32) {{
        %a = arith.muli %x, %x : i32
        scf.yield %a : i32
      }} else {{
        scf.yield %y : i32
      }}
      tt.return %r : i32"""
    after = "%a = arith.muli %x, %x : i32\ntt.return %a : i32"
    check(canonicalize, "%x: i32, %y: i32", before.format("true"), after)
    check(canonicalize, "%x: i32, %y: i32", before.format("false"), "tt.return %y : i32")


def test_condition_without_else() -> None:
    before = "%c = arith.constant {}\nscf.if %c {{\n  tt.store %p, %x : !tt.ptr<i32>\n}}\ntt.return"
    check(canonicalize, "%p: !tt.ptr<i32>, %x: i32", before.format("true"), "tt.store %p, %x : !tt.ptr<i32>\ntt.return")
    check(canonicalize, "%p: !tt.ptr<i32>, %x: i32", before.format("false"), "tt.return")


def test_unused_results_of_if() -> None:
    before = """
      %r:2 = scf.if %c -> (i32, i32) {
        %a = arith.muli %x, %x : i32
        %b = tt.load %p : !tt.ptr<i32>
        scf.yield %a, %b : i32, i32
      } else {
        scf.yield %x, %x : i32, i32
      }
      tt.return %r#1 : i32"""
    after = """
      %r = scf.if %c -> (i32) {
        %b = tt.load %p : !tt.ptr<i32>
        scf.yield %b : i32
      } else {
        scf.yield %x : i32
      }
      tt.return %r : i32"""
    check(canonicalize, "%c: i1, %x: i32, %p: !tt.ptr<i32>", before, after)


def test_if_that_only_chooses() -> None:
    before = """
      %r = scf.if %c -> (i32) {{
        scf.yield %x : i32
      }} else {{
        scf.yield {} : i32
      }}
      tt.return %r : i32"""
    after = "%r = arith.select %c, %x, %y : i32\ntt.return %r : i32"
    check(canonicalize, "%c: i1, %x: i32, %y: i32", before.format("%y"), after)
    check(canonicalize, "%c: i1, %x: i32, %y: i32", before.format("%x"), "tt.return %x : i32")


def test_a_tile_is_chosen_where_nothing_else_is_done() -> None:
    """A scalar is chosen beside what is done."""
    before = """
      %r = scf.if %c -> ({0}) {{
        {1}
        scf.yield %x : {0}
      }} else {{
        scf.yield %y : {0}
      }}
      tt.return %r : {0}"""
    signature, store = "%c: i1, %x: {0}, %y: {0}, %z: i32, %p: !tt.ptr<i32>", "tt.store %p, %z : !tt.ptr<i32>"
    choice = "%r = arith.select %c, %x, %y : {0}\ntt.return %r : {0}"
    tile = "tensor<4xi32>"
    check(canonicalize, signature.format(tile), before.format(tile, ""), choice.format(tile))
    check(canonicalize, signature.format(tile), before.format(tile, store), None)
    both = choice.format("i32").replace("\n", f"\nscf.if %c {{\n{store}\n}} else {{\n}}\n")
    check(canonicalize, signature.format("i32"), before.format("i32", store), both)


def test_if_that_computes_stays() -> None:
    before = """
      %r = scf.if %c -> (i32) {
        %a = arith.divsi %x, %y : i32
        scf.yield %a : i32
      } else {
        scf.yield %y : i32
      }
      tt.return %r : i32"""
    check(canonicalize, "%c: i1, %x: i32, %y: i32", before, None)


def test_condition_is_known_inside() -> None:
    before = """
      %t = arith.constant true
      scf.if %c {
        %m = arith.andi %c, %d : i1
        tt.store %p, %x, %m : !tt.ptr<i32>
      } else {
        %n = arith.ori %d, %c : i1
        tt.store %q, %x, %n : !tt.ptr<i32>
      }
      tt.return"""
    after = """
      scf.if %c {
        tt.store %p, %x, %d : !tt.ptr<i32>
      } else {
        tt.store %q, %x, %d : !tt.ptr<i32>
      }
      tt.return"""
    check(canonicalize, "%c: i1, %d: i1, %x: i32, %p: !tt.ptr<i32>, %q: !tt.ptr<i32>", before, after)


def test_pure_if_without_users_leaves() -> None:
    before = "scf.if %c {\n  %r = arith.divsi %x, %x : i32\n}\ntt.return"
    check(canonicalize, "%c: i1, %x: i32", before, "tt.return")


FOR = """
  %lo = arith.constant {} : i32
  %hi = arith.constant {} : i32
  %st = arith.constant {} : i32
  %r = scf.for %i = %lo to %hi step %st iter_args(%a = %x) -> (i32) : i32 {{
    %n = arith.muli %a, %x : i32
    scf.yield %n : i32
  }}
  tt.return %r : i32"""


def test_trip_counts() -> None:
    once = "%n = arith.muli %x, %x : i32\ntt.return %n : i32"
    check(canonicalize, "%x: i32", FOR.format(3, 3, 1), "tt.return %x : i32")
    check(canonicalize, "%x: i32", FOR.format(3, -1, 1), "tt.return %x : i32")
    check(canonicalize, "%x: i32", FOR.format(3, 4, 1), once)
    check(canonicalize, "%x: i32", FOR.format(0, 4, 4), once)
    check(canonicalize, "%x: i32", FOR.format(2147483646, 2147483647, 2), once)
    check(canonicalize, "%x: i32", FOR.format(0, 5, 4), None)


def test_empty_range_of_an_unknown_bound() -> None:
    before = FOR.format(0, 0, 1).replace("%lo to %hi", "%n0 to %n0")
    check(canonicalize, "%x: i32, %n0: i32", before, "tt.return %x : i32")


EMPTY = """
  %lo = arith.constant 0 : i32
  %st = arith.constant 1 : i32
  {}
  %r = scf.for %i = %lo to {} step %st iter_args(%a = %x) -> (i32) : i32 {{
    scf.yield {} : i32
  }}
  tt.return %r : i32"""


def test_loops_that_only_yield() -> None:
    """The yielded value is the result only where there is a turn, and where it is known in front of the loop."""
    five = "%hi = arith.constant 5 : i32"
    check(canonicalize, NXY, EMPTY.format(five, "%hi", "%y"), "tt.return %y : i32")
    check(canonicalize, NXY, EMPTY.format(five, "%hi", "%i"), None)
    check(canonicalize, NXY, EMPTY.format("", "%n", "%y"), None)
    busy = EMPTY.format(five, "%hi", "%y").replace("scf.yield", "tt.store %p, %i : !tt.ptr<i32>\nscf.yield")
    check(canonicalize, f"{NXY}, %p: !tt.ptr<i32>", busy, None)


CARRIED = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %y) -> (i32, i32) : i32 {{
    %s = arith.addi %a, %b : i32
    {}
  }}
  tt.return {}"""
ONE_CARRIED = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> (i32) : i32 {
    %s = arith.addi %a, %y : i32
    scf.yield %s : i32
  }
  tt.return %r : i32"""
NXY = "%n: i32, %x: i32, %y: i32"


def test_unchanged_loop_value() -> None:
    check(canonicalize, NXY, CARRIED.format("scf.yield %s, %b : i32, i32", "%r#0 : i32"), ONE_CARRIED)
    check(canonicalize, NXY, CARRIED.format("scf.yield %s, %y : i32, i32", "%r#0 : i32"), ONE_CARRIED)
    after = ONE_CARRIED.replace("return %r : i32", "return %y : i32")
    assert "return %y" in after
    check(canonicalize, NXY, CARRIED.format("scf.yield %s, %b : i32, i32", "%r#1 : i32"), "tt.return %y : i32")


def test_loop_values_that_are_one() -> None:
    both = CARRIED.replace("%b = %y", "%b = %x")
    after = ONE_CARRIED.replace("%a, %y", "%a, %a")
    for result in ("%r#0", "%r#1"):
        check(canonicalize, NXY, both.format("scf.yield %s, %s : i32, i32", f"{result} : i32"), after)
    sums = "arith.addi %r#0, %r#1 : i32\ntt.return %e"
    used = both.replace("tt.return {}", f"%e = {sums} : i32").format("scf.yield %s, %s : i32, i32")
    check(canonicalize, NXY, used, after.replace("tt.return %r", "%e = arith.addi %r, %r : i32\ntt.return %e"))


def test_swapped_loop_values_stay() -> None:
    check(
        canonicalize,
        NXY,
        CARRIED.format("scf.yield %b, %a : i32, i32", "%r#0, %r#1 : i32, i32").replace(
            "%s = arith.addi %a, %b : i32", ""
        ),
        None,
    )


def test_unneeded_loop_value() -> None:
    before = """
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %y) -> (i32, i32) : i32 {
        %s = arith.addi %a, %y : i32
        %t = arith.muli %b, %b : i32
        %u = arith.addi %t, %i : i32
        scf.yield %s, %u : i32, i32
      }
      tt.return %r#0 : i32"""
    check(canonicalize, NXY, before, ONE_CARRIED)
    twice_on_the_way = before.replace("%u = arith.addi %t, %i", "%v = arith.addi %t, %b : i32\n%u = arith.addi %v, %t")
    check(canonicalize, NXY, twice_on_the_way, ONE_CARRIED)
    check(canonicalize, NXY, before.replace("%r#0 : i32", "%r#0, %r#1 : i32, i32"), None)
    feeds_other = before.replace("%s = arith.addi %a, %y", "%s = arith.addi %a, %b")
    check(canonicalize, NXY, feeds_other, None)


def test_value_needed_by_an_effect_stays() -> None:
    before = """
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %p) -> (!tt.ptr<i32>) : i32 {
        tt.store %a, %x : !tt.ptr<i32>
        %b = tt.addptr %a, %c1 : !tt.ptr<i32>, i32
        scf.yield %b : !tt.ptr<i32>
      }
      tt.return"""
    check(canonicalize, "%n: i32, %x: i32, %p: !tt.ptr<i32>", before, None)


def test_pure_loop_without_users_leaves() -> None:
    check(canonicalize, NXY, CARRIED.format("scf.yield %s, %b : i32, i32", "%x : i32"), "tt.return %x : i32")


def test_body_that_becomes_invariant() -> None:
    """The yielded value folds to the carried value only while the loop's body is rewritten."""
    before = CARRIED.format(
        "%z = arith.muli %c0, %i : i32\n%t = arith.addi %b, %z : i32\nscf.yield %s, %t : i32, i32", "%r#0 : i32"
    )
    check(canonicalize, NXY, before, ONE_CARRIED)


WHILE = """
  %c1 = arith.constant 1 : i32
  %r:2 = scf.while (%a = %x, %b = %y) : (i32, i32) -> (i32, i32) {{
    %c = arith.cmpi slt, %a, %n : i32
    scf.condition(%c) {0} : i32, i32
  }} do {{
  ^bb0(%p: i32, %q: i32):
    %s = arith.addi %p, {1} : i32
    scf.yield %s, {2} : i32, i32
  }}
  tt.return %r#0 : i32"""
WHILE_ONE = """
  %c1 = arith.constant 1 : i32
  %r = scf.while (%a = %x) : (i32) -> (i32) {{
    %c = arith.cmpi slt, %a, %n : i32
    scf.condition(%c) %a : i32
  }} do {{
  ^bb0(%p: i32):
    %s = arith.addi %p, {} : i32
    scf.yield %s : i32
  }}
  tt.return %r : i32"""


def test_unchanged_value_of_while() -> None:
    check(
        canonicalize,
        NXY,
        WHILE.format("%a, %b", "%q", "%q"),
        WHILE_ONE.format("%y").replace("%c1 = arith.constant 1 : i32", ""),
    )
    check(
        canonicalize,
        NXY,
        WHILE.format("%a, %y", "%q", "%s"),
        WHILE_ONE.format("%y").replace("%c1 = arith.constant 1 : i32", ""),
    )


def test_a_result_of_while_that_is_known_in_front() -> None:
    before = WHILE.format("%a, %y", "%q", "%s").replace("return %r#0 : i32", "return %r#0, %r#1 : i32, i32")
    after = WHILE_ONE.format("%y").replace("%c1 = arith.constant 1 : i32", "")
    check(canonicalize, NXY, before, after.replace("return %r : i32", "return %r, %y : i32, i32"))


def test_unneeded_value_of_while() -> None:
    check(canonicalize, NXY, WHILE.format("%a, %b", "%c1", "%s"), WHILE_ONE.format("%c1"))


def test_triton_keeps_what_goes_round_for_itself() -> None:
    check(canonicalize_as_triton, NXY, WHILE.format("%a, %b", "%c1", "%s"), None)


def test_changing_value_of_while_stays() -> None:
    before = WHILE.format("%a, %b", "%q", "%s").replace("%c1 = arith.constant 1 : i32", "")
    check(canonicalize, NXY, before, None)


def test_while_that_never_runs() -> None:
    before = """
      %f = arith.constant false
      %r = scf.while (%a = %x) : (i32) -> (i32) {
        %s = arith.muli %a, %a : i32
        scf.condition(%f) %s : i32
      } do {
      ^bb0(%p: i32):
        tt.store %q, %p : !tt.ptr<i32>
        scf.yield %p : i32
      }
      tt.return %r : i32"""
    check(canonicalize, "%x: i32, %q: !tt.ptr<i32>", before, "%s = arith.muli %x, %x : i32\ntt.return %s : i32")


WARPS = """
  {} = ttg.warp_specialize({})
  default {{
    ttg.warp_yield {} : {}
  }}
  partition0({}) num_warps(4) {{
    %s = arith.addi {} : i32
    tt.store %t, %s : !tt.ptr<i32>
    ttg.warp_return
  }} : ({}) -> ({})
  tt.return {} : i32"""


def test_results_and_captures_of_groups_of_warps() -> None:
    """Those that nobody uses go, and those that are there twice are one."""
    signature, types = f"{NXY}, %p: !tt.ptr<i32>", "i32, i32, i32, !tt.ptr<i32>"
    partition = "%a: i32, %b: i32, %c: i32, %t: !tt.ptr<i32>"
    before = WARPS.format(
        "%r:2", "%x, %y, %x, %p", "%x, %y", "i32, i32", partition, "%a, %c", types, "i32, i32", "%r#1"
    )
    small = "i32, !tt.ptr<i32>"
    after = WARPS.format("%r", "%x, %p", "%y", "i32", "%a: i32, %t: !tt.ptr<i32>", "%a, %a", small, "i32", "%r")
    check(canonicalize, signature, before, after)
    check(canonicalize, signature, after, None)
