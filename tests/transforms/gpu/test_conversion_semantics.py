"""Canonical forms of TTGIR on the interpreter: conversions that go, those that stay, and what programs compute."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import Parser, parse_module
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize

pytestmark = pytest.mark.quick

assert tilewright.dialects.__all__

MODULE = """
#a = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
#b = #ttg.blocked<{{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
#c = #ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}}>
#d = #ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 4], order = [1, 0]}}>
#e = #ttg.slice<{{dim = 1, parent = #c}}>
#s = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
#m = #ttg.shared_memory
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @kernel(%p: !tt.ptr<i32>) {{
    %r = tt.make_range {{end = 128 : i32, start = 0 : i32}} : tensor<128xi32, #a>
    %base = tt.splat %p : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #a>
    %q = tt.addptr %base, %r : tensor<128x!tt.ptr<i32>, #a>, tensor<128xi32, #a>
    %x = tt.load %q : tensor<128x!tt.ptr<i32>, #a>
    {0}
    tt.store %q, %y : tensor<128x!tt.ptr<i32>, #a>
    tt.return
  }}
}}
"""
TO_B = "%{0} = ttg.convert_layout %{1} : tensor<128xi32, #a> -> tensor<128xi32, #b>\n"
TO_A = "%{0} = ttg.convert_layout %{1} : tensor<128xi32, #b> -> tensor<128xi32, #a>\n"
BUFFER = "!ttg.memdesc<128xi32, #s, #m, mutable>"
BODIES = {
    "there_and_back": (TO_B.format("u", "x") + TO_A.format("y", "u"), 0),
    "of_a_range": (
        "%k = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #b>\n"
        + TO_A.format("l", "k")
        + "%y = arith.addi %l, %x : tensor<128xi32, #a>",
        0,
    ),
    "that_is_needed": (
        TO_B.format("u", "x") + "%v = arith.addi %u, %u : tensor<128xi32, #b>\n" + TO_A.format("y", "v"),
        2,
    ),
    "through_memory": (
        TO_B.format("u", "x")
        + f"%b = ttg.local_alloc : () -> {BUFFER}\n"
        + f"ttg.local_store %u, %b : tensor<128xi32, #b> -> {BUFFER}\n"
        + f"%v = ttg.local_load %b : {BUFFER} -> tensor<128xi32, #b>\n"
        + f"ttg.local_store %r, %b : tensor<128xi32, #a> -> {BUFFER}\n"
        + TO_A.format("y", "v"),
        0,
    ),
    "of_a_reshape": (
        TO_B.format("u", "x") + "%y = tt.reshape %u allow_reorder : tensor<128xi32, #b> -> tensor<128xi32, #a>",
        0,
    ),
    "of_a_transposition": (
        "%w = ttg.convert_layout %x : tensor<128xi32, #a> -> tensor<128xi32, #e>\n"
        "%e = tt.expand_dims %w {axis = 1 : i32} : tensor<128xi32, #e> -> tensor<128x1xi32, #c>\n"
        "%t = tt.trans %e {order = array<i32: 1, 0>} : tensor<128x1xi32, #c> -> tensor<1x128xi32, #d>\n"
        "%u = tt.trans %t {order = array<i32: 1, 0>} : tensor<1x128xi32, #d> -> tensor<128x1xi32, #c>\n"
        "%y = tt.reshape %u allow_reorder : tensor<128x1xi32, #c> -> tensor<128xi32, #a>",
        1,
    ),
    "of_a_histogram": (
        TO_B.format("u", "x")
        + "%h = tt.histogram %u : tensor<128xi32, #b> -> tensor<128xi32, #b>\n"
        + TO_A.format("y", "h"),
        0,
    ),
}


def memory_after(module: Op) -> list[int]:
    memory = (np.arange(128, dtype=np.int32) * 7) % 50
    run_ir(module, {"p": memory})
    return [int(number) for number in memory]


@pytest.mark.parametrize("name", BODIES)
def test_conversions(name: str) -> None:
    body, left = BODIES[name]
    module = parse_module(MODULE.format(body))
    verify(module)
    expected = memory_after(module)
    canonicalize(module)
    verify(module)
    assert [op.name for op in module.walk()].count("ttg.convert_layout") == left
    assert memory_after(module) == expected


@pytest.mark.parametrize(("flags", "left"), [("", 1), (" allow_reorder", 0), (" allow_reorder efficient_layout", 1)])
def test_reshapes_give_what_a_conversion_wants_if_they_may(flags: str, left: int) -> None:
    text = f"""
      #a = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}}>
      #c = #ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 1], order = [0, 1]}}>
      #l = #ttg.linear<{{register = [], lane = [[2, 0], [1, 0], [4, 0], [8, 0], [16, 0]], warp = [], block = []}}>
      module attributes {{"ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
        tt.func @kernel(%x: tensor<32xi32, #a>) -> tensor<32x1xi32, #l> {{
          %w = tt.reshape %x{flags} : tensor<32xi32, #a> -> tensor<32x1xi32, #c>
          %v = ttg.convert_layout %w : tensor<32x1xi32, #c> -> tensor<32x1xi32, #l>
          tt.return %v : tensor<32x1xi32, #l>
        }}
      }}"""
    module = parse_module(text)
    canonicalize(module)
    verify(module)
    assert [op.name for op in module.walk()].count("ttg.convert_layout") == left


def test_constants_of_partitions_stay_inside() -> None:
    text = """
      tt.func @kernel(%n: i32, %m: i32) -> i32 {
        %r:2 = ttg.warp_specialize(%n, %n, %m)
        default {
          %one = arith.constant 1 : i32
          %a = arith.addi %n, %one : i32
          ttg.warp_yield %a, %n : i32, i32
        }
        partition0(%x: i32, %y: i32, %z: i32) num_warps(4) {
          %two = arith.constant 2 : i32
          %b = arith.addi %two, %y : i32
          %c = arith.addi %b, %two : i32
          "use"(%x, %c) : (i32, i32) -> ()
          ttg.warp_return
        } : (i32, i32, i32) -> (i32, i32)
        tt.return %r#0 : i32
      }"""
    module = Parser(text, unregistered=True).module()
    canonicalize(module)
    verify(module)
    (partitions,) = [op for op in module.walk() if op.name == "ttg.warp_specialize.partitions"]
    constant, sum, use, _ = partitions.regions[0].block
    assert (constant.name, constant.attributes["value"].value, sum.name) == ("arith.constant", 4, "arith.addi")
    assert [argument.type.text for argument in partitions.regions[0].block.args] == ["i32"]
    assert use.operands == [partitions.regions[0].block.args[0], sum.result]
    assert len(partitions.parent.results) == 1
