"""Latencies of the loads in a loop: which loads, and how many stages each."""

from __future__ import annotations

import pytest

import tilewright.dialects
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.pipelining.assign_latencies import StageOptions, assign_latencies

assert tilewright.dialects.__all__

HEAD = """
#row = #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>
#lhs = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#rhs = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>
!pointers = tensor<32x32x!tt.ptr<f16>, #blocked>
!tile = tensor<32x32xf16, #blocked>
!sum = tensor<32x32xf32, #mma>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%n: index, %step: tensor<32x32xi32, #blocked>,
    %p0: !pointers {tt.divisibility = dense<16> : tensor<2xi32>, tt.contiguity = dense<[1, 32]> : tensor<2xi32>},
    %ip: tensor<32x32x!tt.ptr<i32>, #blocked>
      {tt.divisibility = dense<16> : tensor<2xi32>, tt.contiguity = dense<[1, 32]> : tensor<2xi32>},
    %alone: !pointers) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %acc = arith.constant dense<0.0> : !sum
"""
DOT = """
  %a = ttg.convert_layout %x : !tile -> tensor<32x32xf16, #lhs>
  %b = ttg.convert_layout %x : !tile -> tensor<32x32xf16, #rhs>
  %d = tt.dot %a, %b, %c : tensor<32x32xf16, #lhs> * tensor<32x32xf16, #rhs> -> !sum
"""


def loop(body: str, attributes: str = "") -> Op:
    module = parse_module(
        f"""{HEAD}
        %r:2 = scf.for %i = %zero to %n step %one iter_args(%c = %acc, %p = %p0) -> (!sum, !pointers) {{
          {body}
          %next = tt.addptr %p, %step : !pointers, tensor<32x32xi32, #blocked>
          scf.yield %d, %next : !sum, !pointers
        }} {attributes}
        tt.return
        }}
        }}"""
    )
    verify(module)
    return module


def latencies(module: Op) -> list[int]:
    """The latency of every load in order, 0 where there is none."""
    loads = [op for op in module.walk() if op.name == "tt.load"]
    found = [op.attributes.get("tt.latency") for op in loads]
    return [int(number.value) if isinstance(number, Number) else 0 for number in found]


DIRECT = f"%x = tt.load %p0 : !pointers{DOT}"
INDIRECT = f"""
  %at = tt.load %ip : tensor<32x32x!tt.ptr<i32>, #blocked>
  %q = tt.addptr %p0, %at
    {{tt.contiguity = dense<[1, 32]> : tensor<2xi32>, tt.divisibility = dense<16> : tensor<2xi32>}}
    : !pointers, tensor<32x32xi32, #blocked>
  %x = tt.load %q : !pointers{DOT}
"""
SMALL = f"%x = tt.load %alone : !pointers{DOT}"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("body", "stages", "expected"),
    [
        pytest.param(DIRECT, 3, [2], id="all stages but the last"),
        pytest.param(DIRECT, 5, [4], id="more stages"),
        pytest.param(DIRECT, 1, [0], id="one stage: nothing runs ahead"),
        pytest.param(INDIRECT, 3, [1, 1], id="a chain shares the stages"),
        pytest.param(INDIRECT, 2, [0, 1], id="too few stages for the chain"),
        pytest.param(SMALL, 3, [0], id="too small for an asynchronous copy"),
    ],
)
def test_stages_are_shared_by_the_loads_of_a_chain(body: str, stages: int, expected: list[int]) -> None:
    module = loop(body)
    assert assign_latencies(module, StageOptions(stages)) == any(expected)
    verify(module)
    assert latencies(module) == expected


def test_a_loop_has_its_own_number_of_stages() -> None:
    module = loop(DIRECT, "{tt.num_stages = 4 : i32}")
    assign_latencies(module)
    assert latencies(module) == [3]


def test_latencies_that_are_there_stay() -> None:
    module = loop(DIRECT.replace(": !pointers", "{tt.latency = 1 : i32} : !pointers", 1))
    assert not assign_latencies(module)
    assert latencies(module) == [1]


def test_other_uses_of_a_load_do_not_count() -> None:
    """A tile that is only added to the result gets no buffer, unless the loop asks for stages."""
    body = f"{DIRECT}\n%y = tt.load %p0 : !pointers\n%z = arith.addf %y, %y : !tile"
    module = loop(body)
    assign_latencies(module)
    assert latencies(module) == [2, 0]
    module = loop(body, "{tt.num_stages = 3 : i32}")
    assign_latencies(module)
    assert latencies(module) == [2, 2]
