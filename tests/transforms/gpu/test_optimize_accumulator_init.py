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


def loop(front: str = "", behind: str = "") -> str:
    """Four steps that add a product; `front` and `behind` clear the sum in the third, or in the last."""
    adds, next = ("%u" if front else "%s"), ("%w" if behind else "%z")
    return f"""
    tt.func public @f(%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %d: !tt.ptr<f32>) {{
        {grid("a", 128, 64, "f16")}{grid("b", 64, 64, "f16")}{grid("d", 128, 64, "f32")}
        %x = tt.load %ap : tensor<128x64x!tt.ptr<f16>>
        %y = tt.load %bp : tensor<64x64x!tt.ptr<f16>>
        %zero = arith.constant dense<0.0> : tensor<128x64xf32>
        %none = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %two = arith.constant {3 if behind else 2} : i32
        %four = arith.constant 4 : i32
        %r = scf.for %i = %none to %four step %one iter_args(%s = %zero) -> (tensor<128x64xf32>) : i32 {{
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
    return asked is not None and (asked.op is None or asked.op.name == "arith.select")


@pytest.mark.parametrize("capability", [90, 100])
@pytest.mark.parametrize(("front", "behind"), [("", ""), (BEFORE, ""), ("", BEHIND)])
def test_the_result_stays_what_it_was(front: str, behind: str, capability: int) -> None:
    text = loop(front, behind)
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((128, 64), (64, 64)))
    expected, found = np.full((128, 64), 7, np.float32), np.full((128, 64), 8, np.float32)
    run_ir(parse_module(text), {"a": a, "b": b, "d": expected})
    module = prepared(text, capability)
    optimize_accumulator_init(module)
    verify(module)
    assert flag(module)
    cleared = [op for op in module.walk() if op.name == "arith.select" and op.results[0].type.shape]
    assert len(cleared) == bool(behind)  # what the loop gives may be clear
    run_ir(module, {"a": a, "b": b, "d": found})
    assert expected.any() != bool(behind)  # cleared in the last step
    np.testing.assert_array_equal(found, expected)


def test_golden(golden: Callable[[str, str], None]) -> None:
    module = prepared(loop(), 90)
    optimize_accumulator_init(module)
    golden(print_op(module), "transforms/optimize_accumulator_init/loop.ttgir")
