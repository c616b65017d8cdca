"""Pipelined loops that load and store by descriptor compute what they computed before, for any number of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.pipelining.pipeline_loops import pipeline_loops
from tilewright.transforms.gpu.pipelining.schedule_loops import schedule_loops
from tilewright.transforms.gpu.tma_lowering import tma_lowering

assert tilewright.dialects.__all__

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>
!tile = tensor<16x32xf32, #blocked>
!desc = !tt.tensordesc<16x32xf32, #shared>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
tt.func public @f(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32},
    %n: i32, %rows: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c16 = arith.constant 16 : i32
  %c32 = arith.constant 32 : i32
  %l1 = arith.constant 1 : i64
  %l32 = arith.constant 32 : i64
  %zeros = arith.constant dense<0.0> : !tile
  %dx = tt.make_tensor_descriptor %x, [%rows, %c32], [%l32, %l1] : <f32>, <16x32xf32, #shared>
  %dy = tt.make_tensor_descriptor %y, [%rows, %c32], [%l32, %l1] : <f32>, <16x32xf32, #shared>
"""
TAIL = "\ntt.return\n}\n}"
LOOP = (
    "%sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zeros) -> (!tile) : i32 {\n%r = arith.muli %k, %c16 : i32"
)
LOAD = "tt.descriptor_load %dx[%r, %c0] {tt.latency = 2 : i32} : !desc -> !tile"
STORE = "tt.descriptor_store %dy[%r, %c0], %t : !desc, !tile"
OWN = STORE.replace("%dy", "%own")
MAKE = "%own = tt.make_tensor_descriptor %y, [%rows, %c32], [%l32, %l1] : <f32>, <16x32xf32, #shared>"
LOOPS = {
    "loads": f"""
  {LOOP}
    %v = {LOAD}
    %t = arith.addf %s, %v : !tile
    scf.yield %t : !tile
  }}
  tt.descriptor_store %dy[%c0, %c0], %sum : !desc, !tile""",
    "two loads, a store": f"""
  {LOOP}
    %v = {LOAD}
    %w = {LOAD}
    %u = arith.addf %w, %v : !tile
    %t = arith.addf %s, %u : !tile
    {STORE}
    scf.yield %t : !tile
  }}""",
    "a descriptor of each step": f"""
  {LOOP}
    %v = {LOAD}
    %t = arith.addf %s, %v : !tile
    {MAKE}
    {OWN}
    scf.yield %t : !tile
  }}""",
    "a descriptor of some steps": f"""
  {LOOP}
    %v = {LOAD}
    %t = arith.addf %s, %v : !tile
    %m = arith.remsi %k, %c2 : i32
    %b = arith.cmpi eq, %m, %c0 : i32
    scf.if %b {{
      {MAKE}
      {OWN}
    }}
    scf.yield %t : !tile
  }}""",
}


def program(name: str) -> Op:
    module = parse_module(HEAD + LOOPS[name] + TAIL)
    verify(module)
    return module


def result(module: Op, steps: int) -> Any:
    rows = 16 * max(1, steps)
    x = np.arange(rows * 32, dtype=np.float32).reshape(rows, 32) % 41
    y = np.full((rows, 32), -1, np.float32)
    run_ir(module, {"x": x, "y": y, "n": steps, "rows": rows})
    return y


@pytest.mark.parametrize("name", LOOPS)
def test_pipelined_loops_compute_the_same(name: str) -> None:
    before, module = program(name), program(name)
    schedule_loops(module)
    pipeline_loops(module)
    verify(module)
    names = [op.name for op in module.walk()]
    assert names.count("ttng.wait_barrier") == 1, "one barrier counts all loads of a step"
    for steps in (0, 1, 2, 3, 8):
        np.testing.assert_array_equal(result(module, steps), result(before, steps), err_msg=f"{steps} steps")
    tma_lowering(module)
    verify(module)
    for steps in (0, 1, 5):
        np.testing.assert_array_equal(result(module, steps), result(before, steps), err_msg=f"{steps} steps")


def test_stores_share_a_buffer_and_descriptors_take_turns() -> None:
    module = program("a descriptor of some steps")
    schedule_loops(module)
    pipeline_loops(module)
    (memory,) = (op for op in module.walk() if op.name == "ttg.global_scratch_alloc")
    assert str(memory.attributes["nbytes"].value) == "256"


def test_stores_in_while_loops_run_on() -> None:
    """Up to the end of that loop, not of the one around it."""
    loop = f"""
    scf.for %o = %c0 to %n step %c1 : i32 {{
      %end = scf.while (%k = %c0) : (i32) -> i32 {{
        %b = arith.cmpi slt, %k, %c2 : i32
        scf.condition(%b) %k : i32
      }} do {{
      ^bb0(%k: i32):
        %at = arith.addi %o, %k : i32
        %r = arith.muli %at, %c16 : i32
        %v = tt.descriptor_load %dx[%r, %c0] : !desc -> !tile
        %t = arith.addf %v, %v : !tile
        {STORE}
        %next = arith.addi %k, %c1 : i32
        scf.yield %next : i32
      }}
    }}"""
    before, module = (parse_module(HEAD + loop + TAIL) for _ in range(2))
    pipeline_loops(module)
    verify(module)
    (waiting,) = (op for op in module.walk() if op.name == "scf.while")
    assert waiting.next is not None
    assert waiting.next.name == "ttng.async_tma_store_wait"
    for steps in (0, 1, 3):
        np.testing.assert_array_equal(result(module, steps), result(before, steps))
