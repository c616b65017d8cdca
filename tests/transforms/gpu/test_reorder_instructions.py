"""The order of ops on TTGIR, and operands of dots that go through a buffer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.optimize_dot_operands import reduce_data_duplication
from tilewright.transforms.gpu.reorder_instructions import reorder_instructions

assert tilewright.dialects.__all__

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#blocked1 = #ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [0, 1]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>
#lhs = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#rhs = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 2, maxPhase = 4, order = [1, 0]}>
#smem = #ttg.shared_memory
!buffer = !ttg.memdesc<32x32xf16, #shared, #smem>
!changing = !ttg.memdesc<32x32xf16, #shared, #smem, mutable>
!ring = !ttg.memdesc<2x32x32xf16, #shared, #smem, mutable>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%p: tensor<32x32x!tt.ptr<f16>, #blocked>, %x: tensor<32x32xf16, #blocked>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %acc = arith.constant dense<0.0> : tensor<32x32xf32, #mma>
"""


def parse(body: str) -> Op:
    module = parse_module(f"{HEAD}{body}\n  tt.return\n}}\n}}")
    verify(module)
    return module


def names(module: Op) -> list[str]:
    """The interesting ops in order, inner ones indented."""
    kinds = ("ttg.", "tt.load", "tt.dot", "scf.for", "tt.trans")
    found = []
    for op in module.walk():
        if op.name.startswith(kinds):
            inside = op.parent is not None and op.parent.name == "scf.for"
            found.append("  " * inside + op.name.partition(".")[2])
    return found


DOT = "tensor<32x32xf16, #lhs> * tensor<32x32xf16, #rhs> -> tensor<32x32xf32, #mma>"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            f"""
            %a = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #lhs>
            %b = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #rhs>
            %r = scf.for %i = %zero to %n step %one iter_args(%c = %acc) -> (tensor<32x32xf32, #mma>) {{
              %d = tt.dot %a, %b, %c : {DOT}
              scf.yield %d : tensor<32x32xf32, #mma>
            }}
            """,
            ["for", "  convert_layout", "  convert_layout", "  dot"],
            id="operands of dots move into the loop",
        ),
        pytest.param(
            """
            %v = tt.load %p : tensor<32x32x!tt.ptr<f16>, #blocked>
            %w = tt.load %p : tensor<32x32x!tt.ptr<f16>, #blocked>
            %b = ttg.local_alloc %v : (tensor<32x32xf16, #blocked>) -> !buffer
            """,
            ["load", "local_alloc", "load"],
            id="a buffer is filled at once",
        ),
        pytest.param(
            """
            %v = tt.load %p : tensor<32x32x!tt.ptr<f16>, #blocked>
            %w = tt.load %p : tensor<32x32x!tt.ptr<f16>, #blocked>
            %b = ttg.local_alloc %v : (tensor<32x32xf16, #blocked>) -> !changing
            ttg.local_store %w, %b : tensor<32x32xf16, #blocked> -> !changing
            """,
            ["load", "local_alloc", "load", "local_store"],
            id="also one that changes",
        ),
        pytest.param(
            """
            %s = ttg.local_alloc : () -> !ring
            %c = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #blocked1>
            ttg.local_dealloc %s : !ring
            %y = arith.addf %c, %c : tensor<32x32xf16, #blocked1>
            """,
            ["local_alloc", "local_dealloc", "convert_layout"],
            id="a conversion waits for memory that is given back",
        ),
        pytest.param(
            """
            %s = ttg.local_alloc : () -> !ring
            %c = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #blocked1>
            %y = arith.addf %c, %c : tensor<32x32xf16, #blocked1>
            ttg.local_dealloc %s : !ring
            """,
            ["local_alloc", "convert_layout", "local_dealloc"],
            id="but not beyond its first use",
        ),
        pytest.param(
            f"""
            %m = ttg.local_alloc %x : (tensor<32x32xf16, #blocked>) -> !buffer
            %b = ttg.local_load %m : !buffer -> tensor<32x32xf16, #rhs>
            %a = ttg.local_load %m : !buffer -> tensor<32x32xf16, #lhs>
            %d = tt.dot %a, %b, %acc : {DOT}
            """,
            ["local_alloc", "local_load", "local_load", "dot"],
            id="first operand first",
        ),
        pytest.param(
            """
            %a = ttg.local_alloc %x : (tensor<32x32xf16, #blocked>) -> !changing
            %y = ttg.local_load %a : !changing -> tensor<32x32xf16, #blocked>
            scf.for %i = %zero to %n step %one {
              %z = arith.addf %y, %x : tensor<32x32xf16, #blocked>
              ttg.local_store %z, %a : tensor<32x32xf16, #blocked> -> !changing
            }
            """,
            ["local_alloc", "local_load", "for", "  local_store"],
            id="a buffer that the loop changes is read before",
        ),
        pytest.param(
            """
            %d = tt.load %p : tensor<32x32x!tt.ptr<f16>, #blocked>
            scf.for %i = %zero to %n step %one {
              %a = ttg.local_alloc %d : (tensor<32x32xf16, #blocked>) -> !changing
              ttg.local_store %x, %a : tensor<32x32xf16, #blocked> -> !changing
            }
            """,
            ["load", "for", "  local_alloc", "  local_store"],
            id="a buffer that a round changes is fresh in each",
        ),
    ],
)
def test_order(body: str, expected: list[str]) -> None:
    module = parse(body)
    before = print_op(module)
    assert reorder_instructions(module) == (print_op(module) != before)
    verify(module)
    assert names(module) == expected


def test_the_first_operand_is_loaded_first() -> None:
    module = parse(
        f"""
        %m = ttg.local_alloc %x : (tensor<32x32xf16, #blocked>) -> !buffer
        %b = ttg.local_load %m : !buffer -> tensor<32x32xf16, #rhs>
        %a = ttg.local_load %m : !buffer -> tensor<32x32xf16, #lhs>
        %d = tt.dot %a, %b, %acc : {DOT}
        """
    )
    assert reorder_instructions(module)
    loads = [op.results[0].name for op in module.walk() if op.name == "ttg.local_load"]
    assert loads == ["a", "b"]
    assert not reorder_instructions(module)


def test_operands_that_change_their_warp_go_through_a_buffer(golden: Callable[[str, str], None]) -> None:
    module = parse(
        f"""
        %a = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #lhs>
        %b = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #rhs>
        %d = tt.dot %a, %b, %acc : {DOT}
        %o = ttg.convert_layout %x : tensor<32x32xf16, #blocked> -> tensor<32x32xf16, #blocked1>
        """
    )
    assert reduce_data_duplication(module)
    verify(module)
    golden(print_op(module), "transforms/reduce_data_duplication/operands.ttgir")
    assert not reduce_data_duplication(module)
