"""The sink: what only one side of a branch needs is computed there, what nobody needs goes, and nothing else moves."""

from __future__ import annotations

import pytest

from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.control_flow_sink import control_flow_sink

TEXT = """
tt.func public @f(%p: !tt.ptr<f32>, %n: i64, %c: i1, %d: i1) {{
  %c1 = arith.constant 1 : i64
  {before}
  scf.if %c {{
    {then}
  }} else {{
    {otherwise}
  }}
  {behind}
  tt.return
}}
"""
STORE = "vector.store %v, %p[{}] : !tt.ptr<f32>, f32"
NUMBER = "%v = arith.constant 1.0 : f32\n  "


def sunk(before: str, then: str = "", otherwise: str = "", behind: str = "") -> tuple[bool, str]:
    """Whether something has moved, and what stands in front of the branch then."""
    module = parse_module(TEXT.format(before=NUMBER + before, then=then, otherwise=otherwise, behind=behind))
    found = control_flow_sink(module)
    verify(module)
    return found, print_op(module).partition("scf.if")[0]


def test_a_chain_moves_with_its_only_user() -> None:
    found, front = sunk("%a = arith.addi %n, %c1 : i64\n  %b = arith.muli %a, %n : i64", otherwise=STORE.format("%b"))
    assert found
    assert "addi" not in front
    assert "muli" not in front


def test_it_moves_to_the_innermost_side() -> None:
    found, front = sunk("%a = arith.addi %n, %c1 : i64", then=f"scf.if %d {{ scf.if %c {{ {STORE.format('%a')} }} }}")
    assert found
    assert "addi" not in front


@pytest.mark.quick
@pytest.mark.parametrize(
    "where",
    [
        {"then": STORE.format("%a"), "otherwise": STORE.format("%a")},
        {"then": STORE.format("%a"), "behind": STORE.format("%a")},
        {"behind": f"scf.for %i = %n to %c1 step %c1 : i64 {{ {STORE.format('%a')} }}"},
    ],
    ids=["both", "behind", "a loop"],
)
def test_what_others_need_stays(where: dict[str, str]) -> None:
    found, front = sunk("%a = arith.addi %n, %c1 : i64", **where)
    assert not found
    assert "addi" in front


def test_what_reads_memory_stays_in_front_of_what_writes_it() -> None:
    found, front = sunk(
        "%w = vector.load %p[%n] : !tt.ptr<f32> -> f32\n  " + STORE.format("%n"),
        then="vector.store %w, %p[%c1] : !tt.ptr<f32>, f32",
    )
    assert not found
    assert "vector.load" in front


def test_constants_stay() -> None:
    assert not sunk("%a = arith.constant 7 : i64", then=STORE.format("%a"))[0]


def test_a_chain_that_nobody_needs_goes() -> None:
    before = "%a = arith.addi %n, %c1 : i64\n  %w = vector.load %p[%a] : !tt.ptr<f32> -> f32"
    found, front = sunk(before, then=STORE.format("%n"))
    assert found
    assert "addi" not in front
    assert "load" not in front


def test_what_writes_stays_though_nobody_needs_its_result() -> None:
    found, front = sunk("%w = tt.atomic_rmw fadd, relaxed, gpu, %p, %v : (!tt.ptr<f32>, f32) -> f32")
    assert not found
    assert "atomic_rmw" in front


def test_the_last_of_several_results_is_asked_for() -> None:
    tile = "%t = tt.splat %v : f32 -> tensor<4x2xf32>\n  %a, %b = tt.split %t : tensor<4x2xf32> -> tensor<4xf32>\n  "
    places = "%q = tt.splat %p : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>"
    found, front = sunk(tile + places, behind="tt.store %q, %b : tensor<4x!tt.ptr<f32>>")
    assert not found
    assert "tt.split" in front
