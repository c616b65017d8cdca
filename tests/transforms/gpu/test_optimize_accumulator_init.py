"""Products in loops that start from zero: the zeros are not written, and the result stays what it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from test_optimize_dot_operands import before, grid

from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.operands import operand
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.optimize_accumulator_init import optimize_accumulator_init
from tilewright.transforms.gpu.remove_layout_conversions import remove_layout_conversions

BEFORE = """%k = arith.cmpi eq, %i, %two : i32
        %u = arith.select %k, %zero, %s : tensor<128x64xf32>"""
BEHIND = """%k = arith.cmpi eq, %i, %two : i32
        %w = arith.select %k, %zero, %z : tensor<128x64xf32>"""
BRANCH = """%k = arith.cmpi PREDICATE, %i, %two : i32
        RESULT = scf.if %k -> (tensor<128x64xf32>) {
          tt.store %dp, SUM : tensor<128x64x!tt.ptr<f32>>
          scf.yield THEN : tensor<128x64xf32>
        } else {
          scf.yield ELSE : tensor<128x64xf32>
        }"""


def branch(place: str, *, inverted: bool) -> str:
    """A branch that clears the sum where a select in `BEFORE` or `BEHIND` would, and stores it."""
    result, sum = ("%u", "%s") if place == "before" else ("%w", "%z")
    choices = (sum, "%zero") if inverted else ("%zero", sum)
    predicate = "ne" if inverted else "eq"
    texts = {"PREDICATE": predicate, "RESULT": result, "SUM": sum, "THEN": choices[0], "ELSE": choices[1]}
    text = BRANCH
    for name, value in texts.items():
        text = text.replace(name, value)
    return text


def loop(front: str = "", behind: str = "") -> str:
    """Steps that add a product; `front` and `behind` clear the sum in the third, or in the fourth."""
    adds, next = ("%u" if front else "%s"), ("%w" if behind else "%z")
    return f"""
    tt.func public @f(%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %d: !tt.ptr<f32>, %n: i32) {{
        {grid("a", 128, 64, "f16")}{grid("b", 64, 64, "f16")}{grid("d", 128, 64, "f32")}
        %x = tt.load %ap : tensor<128x64x!tt.ptr<f16>>
        %y = tt.load %bp : tensor<64x64x!tt.ptr<f16>>
        %zero = arith.constant dense<0.0> : tensor<128x64xf32>
        %none = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %two = arith.constant {3 if behind else 2} : i32
        %r = scf.for %i = %none to %n step %one iter_args(%s = %zero) -> (tensor<128x64xf32>) : i32 {{
          {front}
          %z = tt.dot %x, %y, {adds} : tensor<128x64xf16> * tensor<64x64xf16> -> tensor<128x64xf32>
          {behind}
          scf.yield {next} : tensor<128x64xf32>
        }}
        tt.store %dp, %r : tensor<128x64x!tt.ptr<f32>>
        tt.return
    }}
    """


def prepared(text: str, capability: int) -> Op:
    module = before(text, capability)
    remove_layout_conversions(module)
    canonicalize(module)
    return module


def flag(module: Op) -> bool:
    """Whether a product asks something that is not known before it runs."""
    product = next(op for op in module.walk() if op.name in ("ttng.warp_group_dot", "ttng.tc_gen5_mma"))
    asked = operand(product, "useC" if product.name == "ttng.warp_group_dot" else "useD")
    return asked is not None and (asked.op is None or asked.op.name in ("arith.cmpi", "arith.select"))


CLEARED = {
    "not": ("", ""),
    "before": (BEFORE, ""),
    "behind": ("", BEHIND),
    "before, by a branch": (branch("before", inverted=False), ""),
    "before, by the other arm": (branch("before", inverted=True), ""),
    "behind, by a branch": ("", branch("behind", inverted=False)),
    "behind, by the other arm": ("", branch("behind", inverted=True)),
    "before and behind": (BEFORE, branch("behind", inverted=True).replace("%k", "%l")),
}


@pytest.mark.parametrize("steps", [0, 1, 3, 4])
@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize("where", CLEARED)
def test_the_result_stays_what_it_was(where: str, capability: int, steps: int) -> None:
    """Sums are cleared in the last of four steps, if behind their product: the result may be clear."""
    text = loop(*CLEARED[where])
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((128, 64), (64, 64)))
    expected, found = np.full((128, 64), 7, np.float32), np.full((128, 64), 8, np.float32)
    run_ir(parse_module(text), {"a": a, "b": b, "d": expected, "n": steps})
    module = prepared(text, capability)
    assert optimize_accumulator_init(module)
    verify(module)
    assert flag(module)
    selected = [op for op in module.walk() if op.name == "arith.select" and op.results[0].type.shape]
    # Behind the loop one is left, as what the loop gives may be clear.
    assert [op.parent and op.parent.name for op in selected] == ["tt.func"] * where.startswith("behind")
    run_ir(module, {"a": a, "b": b, "d": found, "n": steps})
    assert expected.any() != (steps == 0 or ("behind" in where and steps == 4))
    np.testing.assert_array_equal(found, expected)


def test_a_product_that_asks_already_is_left_alone() -> None:
    module = prepared(loop(BEFORE), 90)
    optimize_accumulator_init(module)
    text = print_op(module)
    assert not optimize_accumulator_init(module)
    assert print_op(module) == text


@pytest.mark.parametrize("value", ["-0.0", "1.0"])
def test_only_zeros_that_add_nothing_are_left_out(value: str) -> None:
    """A sum that begins with something else is added to."""
    text = loop("", branch("behind", inverted=False).replace("scf.yield %zero", "scf.yield %other"))
    other = f"%other = arith.constant dense<{value}> : tensor<128x64xf32>"
    module = prepared(text.replace("%none =", other + "\n%none ="), 90)
    optimize_accumulator_init(module)
    assert sum(op.name == "arith.select" for op in module.walk()) == 0
    (branch_op,) = (op for op in module.walk() if op.name == "scf.if")
    assert branch_op.results[0].uses


def test_a_sum_that_others_use_is_cleared() -> None:
    """The next step adds what its predecessor left to another sum, too: that must be zeros."""
    text = loop("tt.store %dp, %s : tensor<128x64x!tt.ptr<f32>>", BEHIND).replace("%x, %y, %u", "%x, %y, %s")
    module = prepared(text, 90)
    optimize_accumulator_init(module)
    (select,) = (op for op in module.walk() if op.name == "arith.select")
    assert select.parent is not None
    assert select.parent.name == "scf.for"


def test_golden(golden: Callable[[str, str], None]) -> None:
    module = prepared(loop(), 90)
    optimize_accumulator_init(module)
    golden(print_op(module), "transforms/optimize_accumulator_init/loop.ttgir")
