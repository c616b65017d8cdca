"""Loop unroll: groups of steps, the rest, and loops without a factor."""

from __future__ import annotations

import operator

import pytest
from rewriting_cases import check, function

from tilewright.transforms.loop_unroll import unroll_and_tidy

pytestmark = pytest.mark.quick

LOOP = """
  %lo = arith.constant 0 : i32
  %hi = arith.constant {} : i32
  %st = arith.constant 1 : i32
  %r = scf.for %i = %lo to %hi step %st iter_args(%a = %x) -> (i32) : i32 {{
    %n = arith.muli %a, %i : i32
    scf.yield %n : i32
  }}{}
  tt.return %r : i32"""
FACTOR = " {{tt.loop_unroll_factor = {} : i32}}".format


def test_whole_groups() -> None:
    after = """
      %lo = arith.constant 0 : i32
      %hi = arith.constant 8 : i32
      %st = arith.constant 1 : i32
      %wide = arith.constant 2 : i32
      %r = scf.for %i = %lo to %hi step %wide iter_args(%a = %x) -> (i32) : i32 {
        %n = arith.muli %a, %i : i32
        %j = arith.addi %i, %st : i32
        %m = arith.muli %n, %j : i32
        scf.yield %m : i32
      }
      tt.return %r : i32"""
    check(unroll_and_tidy, "%x: i32", LOOP.format(8, FACTOR(2)), after)


def test_nothing_to_unroll() -> None:
    check(unroll_and_tidy, "%x: i32", LOOP.format(8, ""), None)
    check(unroll_and_tidy, "%x: i32", LOOP.format(8, FACTOR(1)), LOOP.format(8, ""))


RELATIONS = {"slt": operator.lt, "sle": operator.le, "sgt": operator.gt, "sge": operator.ge}


def run(body: str, **arguments: int) -> int:
    """A tiny evaluator of loops of adds and multiplications, to see that every step runs once and in order."""
    module = function("%x: i32, %n: i32", body)
    unroll_and_tidy(module)
    block = module.regions[0].block.terminator.regions[0].block
    values = dict(zip(block.args, arguments.values(), strict=True))

    def evaluate(block):
        for op in block:
            inputs = [values[v] for v in op.operands]
            name = op.name.split(".")[1]
            if name == "constant":
                values[op.result] = op.attributes["value"].value
            elif name == "for":
                low, high, step, *carried = inputs
                inner = op.regions[0].block
                for counter in range(low, high, step):
                    values.update(zip(inner.args, [counter, *carried], strict=True))
                    carried = evaluate(inner)
                values.update(zip(op.results, carried, strict=True))
            elif name in ("yield", "return"):
                return inputs
            elif name == "select":
                values[op.result] = inputs[1] if inputs[0] else inputs[2]
            elif name == "cmpi":
                values[op.result] = RELATIONS[op.attributes["predicate"].name](*inputs)
            else:
                a, b = inputs
                quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
                table = {
                    "addi": a + b,
                    "subi": a - b,
                    "muli": a * b,
                    "remsi": a - b * quotient,
                    "ceildivsi": -(-a // b) if b else 0,
                    "andi": a & b,
                }
                values[op.result] = (table[name] + 2**31) % 2**32 - 2**31
        return []

    return evaluate(block)[0]


STEPS = """
  %lo = arith.constant 3 : i32
  %st = arith.constant {} : i32
  %ten = arith.constant 10 : i32
  %r = scf.for %i = %lo to %n step %st iter_args(%a = %x) -> (i32) : i32 {{
    %b = arith.muli %a, %ten : i32
    %c = arith.addi %b, %i : i32
    scf.yield %c : i32
  }} {{tt.loop_unroll_factor = {} : i32}}
  tt.return %r : i32"""


FAR = """
  %st = arith.constant {} : i32
  %r = scf.for %i = %x to %n step %st iter_args(%a = %st) -> (i32) : i32 {{
    %b = arith.muli %a, %st : i32
    %c = arith.addi %b, %i : i32
    scf.yield %c : i32
  }} {{tt.loop_unroll_factor = {} : i32}}
  tt.return %r : i32"""


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        (2**31 - 5, -(2**31) + 4, 2),  # no turn, though the difference wraps to a positive number
        (0, 2**31 - 1, 2**30),  # the end of the groups wraps
        (-(2**30), 2**30 - 1, 2**30),  # the step of a group wraps
        (-(2**31), 2**31 - 1, 2**30),  # the difference wraps to a negative number
        (2**31 - 9, 2**31 - 1, 4),
    ],
)
def test_numbers_on_the_way_may_wrap(low: int, high: int, step: int, factor: int) -> None:
    expected = step
    for i in range(low, high, step):
        expected = (expected * step + i + 2**31) % 2**32 - 2**31
    assert run(FAR.format(step, factor), x=low, n=high) == expected


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("end", [-9, 2, 3, 4, 5, 7, 8, 11, 15, 16, 20])
def test_every_step_runs_once(step: int, factor: int, end: int) -> None:
    expected = 7
    for i in range(3, end, step):
        expected = (expected * 10 + i + 2**31) % 2**32 - 2**31
    assert run(STEPS.format(step, factor), x=7, n=end) == expected
