"""Parallel loops as ordinary ones: text to text, and the same results in the interpreter before and after."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.backends.cpu.iteration_order import in_order
from tilewright.backends.cpu.unroll_and_jam import unroll_and_jam
from tilewright.dialects.scf import Parallel
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

SUM = """
      scf.reduce(%v) : vector<4xf32> {
      ^bb0(%a: f32, %b: f32):
        %ab = arith.addf %a, %b : f32
        scf.reduce.return %ab : f32
      }
"""
MOVING = """
      %moved = tt.addptr %q, %c0 : !tt.ptr<f32>, i64
      %half = arith.shrui %i, %c2 : i64
      %back = arith.subi %c0, %half : i64
      %base = tt.addptr %x, %back : !tt.ptr<f32>, i64
      %both = tt.addptr %base, %i : !tt.ptr<f32>, i64
      %w = vector.load %both[%c0] {alignment = 4 : i64} : !tt.ptr<f32> -> vector<4xf32>
      vector.store %w, %moved[%c0] {alignment = 4 : i64} : !tt.ptr<f32>, vector<4xf32>
"""
"""Addresses at the counter behind places that depend on it, too."""
SHARED = """
      %group = arith.shrui %i, %SHIFT : i64
      %t = tt.addptr %x, %group : !tt.ptr<f32>, i64
      %scale = vector.load %t[%c0] {alignment = 4 : i64} : !tt.ptr<f32> -> f32
      %twice = arith.addf %scale, %scale : f32
      %all = vector.broadcast %twice : f32 to vector<4xf32>
      %w = arith.mulf %v, %all : vector<4xf32>
      %to = tt.addptr %q, %c0 : !tt.ptr<f32>, i64
      vector.store %w, %to[%c0] {alignment = 4 : i64} : !tt.ptr<f32>, vector<4xf32>
"""
"""A scale for each group of 16 elements, or of four."""
LARGEST = """
      %lanes = vector.step : vector<4xi64>
      %start = vector.broadcast %i : i64 to vector<4xi64>
      %at = arith.addi %start, %lanes : vector<4xi64>
      scf.reduce(%v, %at) : vector<4xf32>, vector<4xi64> {
      ^bb0(%a: f32, %i0: i64, %b: f32, %i1: i64):
        %larger = arith.cmpf ogt, %b, %a : f32
        %value = arith.select %larger, %b, %a : f32
        %place = arith.select %larger, %i1, %i0 : i64
        scf.reduce.return %value, %place : f32, i64
      }
"""

FIRST_LARGEST = """
      %lanes = vector.step : vector<4xi64>
      %start = vector.broadcast %i : i64 to vector<4xi64>
      %at = arith.addi %start, %lanes : vector<4xi64>
      scf.reduce(%v, %at) : vector<4xf32>, vector<4xi64> {
      ^bb0(%a: f32, %i0: i64, %b: f32, %i1: i64):
        %equal = arith.cmpf oeq, %a, %b : f32
        %before = arith.cmpi slt, %i0, %i1 : i64
        %tie = arith.andi %equal, %before : i1
        %larger = arith.cmpf ogt, %a, %b : f32
        %stays = arith.ori %larger, %tie : i1
        %value = arith.select %stays, %a, %b : f32
        %place = arith.select %stays, %i0, %i1 : i64
        scf.reduce.return %value, %place : f32, i64
      }
"""


def kernel(
    *, body: str = "", results: str = "", after: str = "", order: str = "", high: int = 32, unroll: int = 2
) -> str:
    """A loop that stores twice what it loads, in which `body` stands, and what follows it."""
    named = "%r = " if results == "vector<4xf32>" else "%r:2 = " if results else ""
    return f"""module {{
  tt.func public @kernel(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %sums: !tt.ptr<f32>, %flag: i1) {{
    %c0 = arith.constant 0 : i64
    %high = arith.constant {high} : i64
    %c2 = arith.constant 2 : i64
    %c4 = arith.constant 4 : i64
    %c16 = arith.constant 16 : i64
    {named}scf.parallel %i = %c0 to %high step %c4 {order}
        {f"-> ({results})" if results else ""} : i64 {{
      %p = tt.addptr %x, %i : !tt.ptr<f32>, i64
      %q = tt.addptr %out, %i : !tt.ptr<f32>, i64
      vector.prefetch %p[%c16] {{locality = 3 : i64}} : !tt.ptr<f32>
      %v = vector.load %p[%c0] {{alignment = 4 : i64}} : !tt.ptr<f32> -> vector<4xf32>
      %y = arith.addf %v, %v : vector<4xf32>
      {body}
      vector.store %y, %q[%c0] {{alignment = 4 : i64}} : !tt.ptr<f32>, vector<4xf32>
    }} {{vector.unroll = {unroll} : i64}}
    {after}
    tt.return
  }}
}}
"""


STORE = "vector.store %r, %sums[%c0] {alignment = 4 : i64} : !tt.ptr<f32>, vector<4xf32>"
BOTH = """
    vector.store %r#0, %sums[%c0] {alignment = 4 : i64} : !tt.ptr<f32>, vector<4xf32>
    %f = arith.sitofp %r#1 : vector<4xi64> to vector<4xf32>
    vector.store %f, %sums[%c16] {alignment = 4 : i64} : !tt.ptr<f32>, vector<4xf32>
"""
CASES = {
    "plain": kernel(unroll=1),
    "stores": kernel(),
    "backwards": kernel(order="backwards %flag"),
    "base_that_moves": kernel(body=MOVING),
    "shared": kernel(body=SHARED.replace("%SHIFT", "%c4")),
    "sums": kernel(body=SUM, results="vector<4xf32>", after=STORE),
    "largest": kernel(body=LARGEST, results="vector<4xf32>, vector<4xi64>", after=BOTH),
    "first_largest": kernel(body=FIRST_LARGEST, results="vector<4xf32>, vector<4xi64>", after=BOTH),
    "odd": kernel(high=24, unroll=4, order="backwards %flag"),
    "straight": kernel(body=SUM, results="vector<4xf32>", after=STORE, high=16, unroll=4),
}


def module_of(text: str) -> Op:
    module = parse_module(text)
    verify(module)
    return module


def executed(module: Op, flag: int) -> list[Any]:
    x = np.random.default_rng(1).permutation(64).astype(np.float32)
    out = [np.zeros(64, np.float32), np.zeros(8, np.float32)]
    run_ir(module, [x, *out, flag])
    return out


@pytest.mark.parametrize("name", CASES)
def test_text(name: str, golden: Callable[[str, str], None]) -> None:
    module = module_of(CASES[name])
    assert print_op(module_of(print_op(module))) == print_op(module)
    before = [executed(module, flag) for flag in (0, 1)]
    assert unroll_and_jam(module)
    verify(module)
    golden(print_op(module), f"cpu/unroll_and_jam/{name}.ttir")
    for flag, wanted in enumerate(before):
        for found, array in zip(executed(module, flag), wanted, strict=True):
            np.testing.assert_allclose(found, array)
    assert unroll_and_jam(module) is False


@pytest.mark.quick
@pytest.mark.parametrize(("op", "loads"), [("muli", 2), ("andi", 2), ("addi", 1), ("ori", 1)])
def test_as_many_turns_as_go_together_are_told_by_a_product_or_by_bits_that_are_off(op: str, loads: int) -> None:
    high = f"%eight = arith.constant 8 : i64\n    %high = arith.{op} %n, %eight : i64"
    text = kernel().replace("%high = arith.constant 32 : i64", high).replace("%flag: i1)", "%flag: i1, %n: i64)")
    module = module_of(text)
    unroll_and_jam(module)
    assert print_op(module).count("vector.load") == loads


def test_later_turns_step_on_from_the_first_one() -> None:
    module = module_of(CASES["sums"])
    unroll_and_jam(module)
    assert print_op(module).count("arith.addi") == 0
    module = module_of(CASES["base_that_moves"])
    unroll_and_jam(module)
    text = print_op(module)
    assert len(re.findall(r"tt.addptr %base\S*, ", text)) == 2
    assert text.count("tt.addptr %x, ") == 3


@pytest.mark.parametrize(
    ("shift", "unroll", "high", "scales"),
    [("%c4", 2, 32, 1), ("%c4", 4, 32, 1), ("%c4", 4, 16, 1), ("%c2", 2, 32, 2), ("%c4", 8, 64, 8), ("%c4", 3, 24, 3)],
)
def test_turns_share_what_all_of_them_compute(shift: str, unroll: int, high: int, scales: int) -> None:
    """A scale is loaded once where all turns that become one lie in its group, whose end is the end of one of them."""
    module = module_of(kernel(body=SHARED.replace("%SHIFT", shift), unroll=unroll, high=high))
    before = executed(module, 0)
    unroll_and_jam(module)
    assert len(re.findall("vector.load .* -> f32", print_op(module))) == scales
    for found, wanted in zip(executed(module, 0), before, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_sums_are_those_of_all_turns() -> None:
    out, sums = executed(module_of(CASES["sums"]), 0)
    np.testing.assert_array_equal(sums[:4], out.reshape(16, 4).sum(0) / 2)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("-> (vector<4xf32>)", "-> (vector<4xf32>, f32)", "results and reduced values"),
        ("scf.reduce.return %ab", "scf.reduce.return %ab, %ab", "values of its region"),
        ("^bb0(%a: f32, %b: f32)", "^bb0(%a: f32)", "arguments of its region"),
    ],
)
def test_wrong_loops_are_refused(old: str, new: str, what: str) -> None:
    text = CASES["sums"].replace(old, new)
    if "return" in old:
        text = text.replace("%ab, %ab : f32", "%ab, %ab : f32, f32")
    text = (
        text.replace("%r = scf", "%r:2 = scf").replace("vector.store %r,", "vector.store %r#0,")
        if "->" in old
        else text
    )
    text = text.replace("%ab = arith.addf %a, %b", "%ab = arith.addf %a, %a") if "bb0" in old else text
    with pytest.raises(VerificationError, match=what):
        verify(parse_module(text))


OUT_OF_ORDER = {
    "backwards": ("%c0 to %high step %c4", "%c0 to %high step %c4 backwards %flag"),
    "falls": ("addi %start, %lanes", "subi %lanes, %start"),
    "stays": ("addi %start, %lanes", "addi %lanes, %lanes"),
    "may wrap": ("addi %start, %lanes", "addi %start, %unknown"),
    "wraps": ("constant 32 : i64", "constant 9223372036854775804 : i64"),
    "ends anywhere": ("%c0 to %high", "%c0 to %end"),
    "begins below 0": ("%c0 to %high", "%below to %high"),
    "made anew": ("%value, %place : f32, i64\n      }", "%value, %more : f32, i64\n      }"),
}
"""By name, a text and the one that replaces it, after which nothing is known of the order of places."""


def first_largest(old: str = "", new: str = "") -> Op:
    """A loop for the first of the largest numbers."""
    text = CASES["first_largest"].replace("%place = ", "%more = arith.addi %i0, %i1 : i64\n        %place = ")
    text = text.replace("%c4 = ", "%below = arith.constant -4 : i64\n    %c4 = ").replace(
        "%flag: i1", "%flag: i1, %end: i64, %unknown: vector<4xi64>"
    )
    assert old in text
    return module_of(text.replace(old, new) if old else text)


@pytest.mark.parametrize("why", ["", *OUT_OF_ORDER])
def test_places_are_compared_unless_they_are_in_order(why: str) -> None:
    module = first_largest(*OUT_OF_ORDER.get(why, ()))
    (loop,) = [op for op in module.walk() if isinstance(op, Parallel)]
    (reduce,) = loop.reductions
    ordered = in_order(reduce, loop)
    assert (ordered is reduce) == bool(why)
    assert [op.name for op in ordered.combine].count("arith.cmpi") == bool(why)


@pytest.mark.parametrize("high", [16, 32])
@pytest.mark.parametrize("unroll", [1, 2, 4])
def test_the_first_of_equal_numbers_is_found(high: int, unroll: int) -> None:
    """Both zeros are equal; each lane has its own places."""
    text = kernel(body=FIRST_LARGEST, results="vector<4xf32>, vector<4xi64>", after=BOTH, high=high, unroll=unroll)
    random = np.random.default_rng(2)
    for _ in range(20):
        x = random.choice([-1.0, -0.0, 0.0], 32).astype(np.float32)
        module, sums = module_of(text), np.zeros(8, np.float32)
        unroll_and_jam(module)
        run_ir(module, [x, np.zeros(32, np.float32), sums, 0])
        rows = x[:high].reshape(-1, 4)
        np.testing.assert_array_equal(sums[4:], rows.argmax(0) * 4 + np.arange(4))
        np.testing.assert_array_equal(sums[:4], rows.max(0))
