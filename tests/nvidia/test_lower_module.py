"""TTGIR as LLVM IR: what a vector add becomes, and what has no lowering."""

from __future__ import annotations

import tilewright.dialects
from tilewright.backends.nvidia.lower.lowerer import Target
from tilewright.backends.nvidia.lower.module import Lowered, LowerOptions, lower_module
from tilewright.ir.parser import parse_module
from tilewright.ir.pass_manager import run_passes
from tilewright.transforms.gpu.pipeline import TtgirOptions, ttgir_passes
from tilewright.transforms.pipeline import optimize_ttir

assert tilewright.dialects.__all__

ADD = """
module {
  tt.func public @add(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32},
                      %n: i32 {tt.divisibility = 16 : i32}) {
    %c = arith.constant 1024 : i32
    %pid = tt.get_program_id x : i32
    %b = arith.muli %pid, %c : i32
    %r = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
    %bs = tt.splat %b : i32 -> tensor<1024xi32>
    %i = arith.addi %bs, %r : tensor<1024xi32>
    %ns = tt.splat %n : i32 -> tensor<1024xi32>
    %m = arith.cmpi slt, %i, %ns : tensor<1024xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %i : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
    %a = tt.load %xp, %m : tensor<1024x!tt.ptr<f32>>
    %s = arith.addf %a, %a : tensor<1024xf32>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %i : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
    tt.store %yp, %s, %m : tensor<1024x!tt.ptr<f32>>
    tt.return
  }
}
"""


def lowered(text: str, capability: int = 80) -> Lowered:
    module = optimize_ttir(parse_module(text))
    run_passes(module, ttgir_passes(TtgirOptions(capability)))
    return lower_module(module, LowerOptions(Target(capability, 80)))


def test_a_vector_add_moves_sixteen_bytes_at_once() -> None:
    found = lowered(ADD)
    assert found.facts == {"name": "add", "shared": 0, "num_warps": 4}
    assert found.text.count("ld.global.v4.b32") == 2  # 1024 elements over 128 threads, four each
    assert found.text.count("@$5 st.global.v4.b32 [ $0 + 0 ]") == 2
    assert "define ptx_kernel void @add(ptr addrspace(1) %arg0, ptr addrspace(1) %arg1, i32 %arg2, " in found.text
    assert '"nvvm.reqntid"="128"' in found.text
