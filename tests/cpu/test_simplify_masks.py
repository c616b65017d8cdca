"""Choices and masks within others: what the outer conditions say decides them, and nothing else does."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilewright.backends.cpu.simplify_masks import simplify_masks
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

TEXT = """
tt.func public @f(%x: !tt.ptr<i32>, %p: !tt.ptr<f32>, %q: !tt.ptr<f32>, %out: !tt.ptr<f32>) {{
  %lane = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
  %xp = tt.addptr %xs, %lane : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
  %i = tt.load %xp : tensor<16x!tt.ptr<i32>>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %pp = tt.addptr %ps, %lane : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %qp = tt.addptr %qs, %lane : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %outs = tt.splat %out : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %outp = tt.addptr %outs, %lane : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %zero = arith.constant dense<0.0> : tensor<16xf32>
  {body}
  tt.return
}}
"""
SUMS = """
  %c{name} = arith.constant dense<{number}> : tensor<16xi32>
  %i{name} = arith.addi %i, %c{name} : tensor<16xi32>
"""
COMPARED = """
  %n{name} = arith.constant dense<{number}> : tensor<16xi32>
  %{name} = arith.cmpi {predicate}, {value}, %n{name} : tensor<16xi32>
"""
END = 1 << 31
CHOSEN = """
  %both = arith.andi %a, %b : tensor<16xi1>
  %v = tt.load %pp, %both, %zero : tensor<16x!tt.ptr<f32>>
  %w = tt.load %qp, %a, %zero : tensor<16x!tt.ptr<f32>>
  %r = arith.select %b, %v, %w : tensor<16xi1>, tensor<16xf32>
  %s = arith.select %a, %r, %zero : tensor<16xi1>, tensor<16xf32>
  tt.store %outp, %s : tensor<16x!tt.ptr<f32>>
"""


def sum_(name: str, number: int) -> str:
    return SUMS.format(name=name, number=number)


def compared(name: str, predicate: str, number: int, value: str = "%i") -> str:
    return COMPARED.format(name=name, predicate=predicate, number=number, value=value)


def module_of(body: str) -> Op:
    module = parse_module(TEXT.format(body=body))
    verify(module)
    return module


DECIDED = {
    "contrary": compared("a", "sge", 67) + compared("b", "slt", 67),
    "moved": sum_("m", -64) + compared("a", "sge", 67) + compared("b", "slt", 3, "%im"),
    "of a smaller range": compared("a", "slt", 3) + compared("b", "sge", 67),
}


@pytest.mark.parametrize("conditions", DECIDED.values(), ids=DECIDED)
def test_what_never_holds_is_neither_read_nor_chosen(conditions: str) -> None:
    module = module_of(conditions + CHOSEN)
    assert simplify_masks(module)
    verify(module)
    text = print_op(module)
    assert "tt.load %pp" not in text
    assert text.count("arith.select") == 1


@pytest.mark.parametrize(("element", "stays"), [("f32", False), ("i64", False), ("!tt.ptr<f32>", True)])
def test_numbers_that_nobody_asks_for_are_zeros(element: str, stays: bool) -> None:
    """There is no pointer that stands for any."""
    tile = f"tensor<16x!tt.ptr<{element}>>"
    module = parse_module(f"""
tt.func public @f(%i: tensor<16xi32>, %p: {tile}, %out: {tile}) {{
  {compared("a", "sge", 67)}
  {compared("b", "slt", 67)}
  %both = arith.andi %a, %b : tensor<16xi1>
  %v = tt.load %p, %both : {tile}
  tt.store %out, %v : {tile}
  tt.return
}}
""")
    verify(module)
    assert simplify_masks(module) is not stays
    verify(module)
    assert ("tt.load" in print_op(module)) is stays


def test_what_follows_is_not_asked() -> None:
    body = compared("a", "slt", 3) + compared("b", "slt", 70) + CHOSEN
    module = module_of(body)
    assert simplify_masks(module)
    verify(module)
    text = print_op(module)
    assert "tt.load %pp, %a, %zero" in text
    assert "tt.load %qp" not in text


OPEN = {
    "may wrap below": sum_("m", -64) + compared("a", "slt", 67) + compared("b", "slt", 3, "%im"),
    "may wrap above": sum_("m", 64) + compared("a", "sge", 3) + compared("b", "slt", 3, "%im"),
    "unsigned": compared("a", "sge", 67) + compared("b", "ult", 3),
    "overlapping": compared("a", "sge", 3) + compared("b", "slt", 67),
    "of another number": sum_("m", 1)
    + compared("a", "sge", 67)
    + "%j = arith.muli %i, %cm : tensor<16xi32>\n"
    + compared("b", "slt", 3, "%j"),
}


TRUTHS = {
    "a truth": "%a = arith.cmpi sge, %c, %yes : tensor<16xi1>\n" + compared("b", "slt", 3),
    "a truth that was widened": """
  %wide = arith.extsi %c : tensor<16xi1> to tensor<16xi32>
  %none = arith.constant dense<0> : tensor<16xi32>
  %a = arith.cmpi slt, %wide, %none : tensor<16xi32>
"""
    + compared("b", "slt", 3),
}
OPEN |= {
    name: compared("c", "slt", 67) + "  %yes = arith.constant dense<true> : tensor<16xi1>\n" + conditions
    for name, conditions in TRUTHS.items()
}


@pytest.mark.parametrize("conditions", OPEN.values(), ids=OPEN)
def test_what_may_hold_stays(conditions: str) -> None:
    module = module_of(conditions + CHOSEN)
    before = print_op(module)
    assert not simplify_masks(module)
    assert print_op(module) == before


def test_choices_inside_of_a_reduction_that_goes_are_not_looked_at() -> None:
    """Nothing reads the reduction once the choice of it is decided, so it goes with the choice in its region."""
    module = module_of(
        compared("a", "sge", 67)
        + compared("b", "slt", 67)
        + """
  %most = "tt.reduce"(%zero) <{axis = 0 : i32}> ({
  ^bb0(%l: f32, %r: f32):
    %less = arith.cmpf olt, %l, %r : f32
    %more = arith.select %less, %r, %l : f32
    tt.reduce.return %more : f32
  }) : (tensor<16xf32>) -> f32
  %all = tt.splat %most : f32 -> tensor<16xf32>
  %v = tt.load %pp : tensor<16x!tt.ptr<f32>>
  %chosen = arith.select %b, %all, %v : tensor<16xi1>, tensor<16xf32>
  %s = arith.select %a, %chosen, %zero : tensor<16xi1>, tensor<16xf32>
  tt.store %outp, %s : tensor<16x!tt.ptr<f32>>
"""
    )
    assert simplify_masks(module)
    verify(module)
    text = print_op(module)
    assert "tt.reduce" not in text
    assert text.count("arith.select") == 1


def test_a_choice_that_others_see_stays() -> None:
    """It is decided for its user alone, which goes on without it."""
    seen = CHOSEN + "  tt.store %pp, %r : tensor<16x!tt.ptr<f32>>\n"
    module = module_of(compared("a", "sge", 67) + compared("b", "slt", 67) + seen)
    simplify_masks(module)
    assert print_op(module).count("arith.select") == 2


def test_the_rest_of_a_conjunction_that_does_not_hold_is_open() -> None:
    """Where `a and b` does not hold, either may."""
    body = (
        compared("a", "sge", 3)
        + compared("b", "slt", 67)
        + """
  %both = arith.andi %a, %b : tensor<16xi1>
  %v = tt.load %pp : tensor<16x!tt.ptr<f32>>
  %w = tt.load %qp : tensor<16x!tt.ptr<f32>>
  %r = arith.select %a, %v, %w : tensor<16xi1>, tensor<16xf32>
  %s = arith.select %both, %zero, %r : tensor<16xi1>, tensor<16xf32>
  tt.store %outp, %s : tensor<16x!tt.ptr<f32>>
"""
    )
    module = module_of(body)
    assert not simplify_masks(module)


def test_volatile_loads_stay() -> None:
    body = (DECIDED["contrary"] + CHOSEN).replace("%pp, %both, %zero", "%pp, %both, %zero {isVolatile = true}")
    module = module_of(body)
    simplify_masks(module)
    assert print_op(module).count("tt.load") == 3


@pytest.mark.parametrize(("number", "narrow"), [(5, True), (-END, True), (END, False)])
def test_what_was_widened_is_compared_as_it_was(number: int, narrow: bool) -> None:
    module = module_of(f"""
  %wide = arith.extsi %i : tensor<16xi32> to tensor<16xi64>
  %n = arith.constant dense<{number}> : tensor<16xi64>
  %a = arith.cmpi slt, %wide, %n : tensor<16xi64>
  tt.store %outp, %zero, %a : tensor<16x!tt.ptr<f32>>
""")
    assert simplify_masks(module) == narrow
    verify(module)
    assert ("arith.cmpi slt, %i, " in print_op(module)) == narrow


def drawn_body(draw: random.Random) -> str:
    """Choices within choices by comparisons of sums, with the ends of the type among the numbers."""
    numbers = [-END, 60 - END, -64, -3, 0, 3, 7, 64, 67, END - 70, END - 1]
    lines, names = [], []
    for name in "abcdef":
        value = draw.choice(["%i", f"%i{name}"])
        lines.append(sum_(name, draw.choice(numbers)) if value != "%i" else "")
        lines.append(
            compared(name, draw.choice(["slt", "sle", "sgt", "sge", "ult", "eq"]), draw.choice(numbers), value)
        )
        names.append(f"%{name}")
    values = ["%zero"]
    for number in range(8):
        first, second = draw.sample(names, 2)
        lines.append(f"%m{number} = arith.andi {first}, {second} : tensor<16xi1>\n")
        names.append(f"%m{number}")
        pointer, mask = draw.choice(["%pp", "%qp"]), draw.choice(names)
        lines.append(f"%v{number} = tt.load {pointer}, {mask}, {draw.choice(values)} : tensor<16x!tt.ptr<f32>>\n")
        values.append(f"%v{number}")
        chosen = [draw.choice(values[-4:]) for _ in range(2)]
        lines.append(
            f"%s{number} = arith.select {draw.choice(names)}, {', '.join(chosen)} : tensor<16xi1>, tensor<16xf32>\n"
        )
        lines.append(f"%t{number} = arith.addf %s{number}, %v{number} : tensor<16xf32>\n")
        values += [f"%s{number}", f"%t{number}"]
    mask = draw.choice(["", f", {draw.choice(names)}"])
    return "".join([*lines, f"tt.store %outp, {values[-2]}{mask} : tensor<16x!tt.ptr<f32>>"])


@pytest.mark.parametrize("seed", range(20))
def test_results_stay_what_they_were(seed: int) -> None:
    draw = random.Random(seed)
    numbers = [
        -(1 << 31),
        -(1 << 31) + 5,
        -65,
        -4,
        2,
        3,
        6,
        7,
        63,
        66,
        67,
        68,
        131,
        (1 << 31) - 68,
        (1 << 31) - 5,
        (1 << 31) - 1,
    ]
    x = np.array(draw.sample(numbers, 16), np.int32)
    p, q = (np.arange(16, dtype=np.float32) * sign + 0.5 for sign in (1, -1))
    p[3], q[5] = np.nan, np.inf
    for _ in range(10):
        body = drawn_body(draw)
        found = []
        for change in (False, True):
            module = module_of(body)
            if change:
                simplify_masks(module)
                verify(module)
            out = np.full(16, 99, np.float32)
            run_ir(module, [x, p, q, out])
            found.append(out)
        np.testing.assert_array_equal(*found)


def test_what_a_range_says_by_itself_is_not_asked() -> None:
    """Lanes are 0 … 15: all are below 16, and none is below 0."""
    body = compared("a", "slt", 3) + compared("b", "slt", 16, "%lane") + CHOSEN.replace("%qp, %a", "%qp, %b")
    module = module_of(body)
    assert simplify_masks(module)
    verify(module)
    text = print_op(module)
    assert "arith.select %a, %v, %zero" in text, "%b is true, so %both is %a, and %r is %v"
    assert "tt.load %pp, %a, %zero" in text

    module = module_of(compared("a", "slt", 3) + compared("b", "slt", 0, "%lane") + CHOSEN)
    assert simplify_masks(module)
    assert "tt.load %pp" not in print_op(module)


@pytest.mark.parametrize(("predicate", "number"), [("slt", 15), ("sge", 1), ("sgt", 14)])
def test_what_some_lanes_of_a_range_say_is_asked(predicate: str, number: int) -> None:
    module = module_of(compared("a", "slt", 3) + compared("b", predicate, number, "%lane") + CHOSEN)
    simplify_masks(module)
    text = print_op(module)
    assert "tt.load %pp, %both, %zero" in text
    assert "arith.select %b, %v, %w" in text
