"""Products in tensor memory: who waits for them, whom they tell that they are done, and where their scales are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from test_optimize_dot_operands import SCALES, TURNED, before, names

from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.operands import operand_groups
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.mma_lowering import mma_lowering
from tilewright.transforms.gpu.optimize_dot_operands import optimize_dot_operands


def test_products_are_waited_for(golden: Callable[[str, str], None]) -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((64, 128), (64, 64)))
    expected, found = np.zeros((128, 64), np.float32), np.zeros((128, 64), np.float32)
    module = before(TURNED, 100)
    run_ir(module, {"a": a, "b": b, "d": expected})
    mma_lowering(module)
    verify(module)
    golden(print_op(module), "transforms/mma_lowering/waited.ttgir")
    run_ir(module, {"a": a, "b": b, "d": found})
    assert expected.any()
    np.testing.assert_array_equal(found, expected)


def test_scales_are_copied() -> None:
    scales = np.random.default_rng(0).integers(120, 128, 512).astype(np.int8)
    expected, found = np.zeros(128, np.float32), np.zeros(128, np.float32)
    module = parse_module(SCALES)
    run_ir(module, {"s": scales, "d": expected})
    optimize_dot_operands(module)
    mma_lowering(module)
    verify(module)
    assert "ttng.tmem_copy" in names(module)
    run_ir(module, {"s": scales, "d": found})
    np.testing.assert_array_equal(found, expected)


def committed(between: str, predicate: str = "%true") -> Op:
    """A product, then `between`, then a commit to the second of two barriers."""
    barrier = "!ttg.memdesc<1xi64, #line, #smem, mutable>"
    text = f"""#a = #ttg.nvmma_shared<{{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 8}}>
#line = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32}} {{
tt.func @f(%a: !ttg.memdesc<128x128xf8E5M2, #a, #smem>, %d: !ttg.memdesc<128x128xf32, #tmem, #ttng.tensor_memory, mutable>,
           %r: !ttg.memdesc<2x1xi64, #line, #smem, mutable>, %p: i1, %other: i1) {{
    %true = arith.constant true
    %one = arith.constant 1 : i32
    ttng.tc_gen5_mma %a, %a, %d, %true, {predicate} {{is_async}} : !ttg.memdesc<128x128xf8E5M2, #a, #smem>, \
!ttg.memdesc<128x128xf8E5M2, #a, #smem>, !ttg.memdesc<128x128xf32, #tmem, #ttng.tensor_memory, mutable>
    %i = arith.addi %one, %one : i32
    {between}
    %b = ttg.memdesc_index %r[%i] : !ttg.memdesc<2x1xi64, #line, #smem, mutable> -> {barrier}
    ttng.tc_gen5_commit %b, %p : {barrier}
    tt.return
}}
}}
"""  # noqa: E501 - lines of IR
    module = parse_module(text)
    mma_lowering(module)
    verify(module)
    return module


@pytest.mark.quick
@pytest.mark.parametrize(
    ("between", "predicate", "merged"),
    [
        ("", "%true", True),
        ("", "%p", True),
        ("", "%other", False),
        ("ttng.fence_async_shared {bCluster = false}", "%true", False),
    ],
)
def test_commits_are_merged(between: str, predicate: str, *, merged: bool) -> None:
    """A product that is not computed tells nobody; commits do not pass what has effects."""
    module = committed(between, predicate)
    product = next(op for op in module.walk() if op.name == "ttng.tc_gen5_mma")
    assert len(operand_groups(product)["barriers"]) == merged
    assert ("ttng.tc_gen5_commit" in names(module)) != merged
