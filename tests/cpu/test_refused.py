"""Ops without CPU lowering are refused by name and place."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.costs import SINKS
from tilewright.backends.cpu.emit_function import FunctionEmitter
from tilewright.backends.cpu.emit_scalars import SCALARS
from tilewright.backends.cpu.nest import evaluate
from tilewright.backends.cpu.nest.moves import MOVES
from tilewright.backends.cpu.pipeline import lower_to_loops
from tilewright.backends.llvm.elementwise import LOWERINGS
from tilewright.backends.llvm.machine import host_target
from tilewright.ir.core import Op
from tilewright.ir.declare import OPS
from tilewright.ir.parser import parse_module

LANE_RULES, FUNCTION_RULES = evaluate.RULES, FunctionEmitter.TABLE


RECURSION = """module {
  tt.func public @kernel(%n: i32) {
    tt.call @endless(%n) : (i32) -> ()
    tt.return
  }
  tt.func private @endless(%n: i32) {
    tt.call @endless(%n) : (i32) -> () loc("kernel.py":3:5)
    tt.return
  }
}
"""


RECURSIVE_KERNEL = """module {
  tt.func public @kernel(%n: i32) {
    tt.call @kernel(%n) : (i32) -> () loc("kernel.py":3:5)
    tt.return
  }
}
"""


RECURSION_OF_TWO = """module {
  tt.func public @kernel(%n: i32) {
    tt.call @there(%n) : (i32) -> ()
    tt.return
  }
  tt.func private @there(%n: i32) attributes {noinline = true} {
    tt.call @back(%n) : (i32) -> () loc("kernel.py":3:5)
    tt.return
  }
  tt.func private @back(%n: i32) attributes {noinline = true} {
    tt.call @there(%n) : (i32) -> () loc("kernel.py":3:5)
    tt.return
  }
}
"""


@pytest.mark.quick
@pytest.mark.parametrize(
    "text", [RECURSION, RECURSIVE_KERNEL, RECURSION_OF_TWO], ids=["function", "kernel", "two functions"]
)
def test_refused_by_name(text: str) -> None:
    with pytest.raises(tw.Unsupported, match="calling a function that calls itself") as caught:
        lower_to_loops(parse_module(text), host_target())
    assert "kernel.py:3:5" in str(caught.value)


@tw.jit
def shifted_sum(a, b):
    return a + b + tl.program_id(0)


@tw.jit
def shifted(x, out, scans: tl.constexpr):
    i = tl.arange(0, 16)
    if scans:
        tl.store(out + i, tl.associative_scan(tl.load(x + i), 0, shifted_sum))
    else:
        tl.store(out, tl.reduce(tl.load(x + i), 0, shifted_sum))


@pytest.mark.parametrize("scans", [False, True])
def test_numbers_of_programs_are_refused_in_functions_of_elements(scans: bool) -> None:
    with pytest.raises(tw.Unsupported, match=r"tt\.get_program_id in a function of elements") as caught:
        shifted[(1,)](np.zeros(16, np.float32), np.zeros(16, np.float32), scans)
    assert "return a + b + tl.program_id(0)" in str(caught.value)


@pytest.mark.parametrize("captured", ["%n", "%a"])
def test_numbers_from_outside_are_refused_in_functions_of_elements(captured: str) -> None:
    """No kernel of ours has them; IR from elsewhere may. An element is one, and so is a constant."""
    text = f"""tt.func public @kernel(%x: !tt.ptr<i32>, %n: i32) {{
  %c3 = arith.constant 3 : i32
  %i = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
  %r = "tt.reduce"(%i) <{{axis = 0 : i32}}> ({{
  ^bb0(%a: i32, %b: i32):
    %sum = arith.addi {captured}, %b : i32
    %more = arith.addi %sum, %c3 : i32
    tt.reduce.return %more : i32
  }}) : (tensor<16xi32>) -> i32
  tt.store %x, %r : !tt.ptr<i32>
  tt.return
}}"""
    with pytest.raises(tw.Unsupported, match="in a function of elements") if captured == "%n" else nullcontext():
        lower_to_loops(parse_module(text), host_target())


def test_ops_of_gpus_are_refused_by_name() -> None:
    text = """tt.func public @kernel(%p: !tt.ptr<i8>) {
  %scratch = ttg.global_scratch_alloc {alignment = 128 : i32, nbytes = 128 : i32} : !tt.ptr<i8>
  tt.return
}"""
    with pytest.raises(tw.Unsupported, match=r"the op ttg\.global_scratch_alloc is not supported"):
        lower_to_loops(parse_module(text), host_target())


NOT_LOWERED = {
    "arith.index_castui": "nothing emits it",
    "builtin.module": "a container",
    "cpu.network": "expand_networks takes it away",
    "gluon.set_auto_layout": "Gluon is for GPUs: nothing of the tile language makes it",
    "builtin.unrealized_conversion_cast": "nothing makes it",
    "tt.advance": "rewrite_tensor_pointer takes it away",
    "tt.descriptor_gather": "the language emits loads of tiles of pointers",
    "tt.descriptor_load": "the language emits loads through block pointers",
    "tt.descriptor_reduce": "the language emits atomics",
    "tt.descriptor_scatter": "the language emits stores to tiles of pointers",
    "tt.descriptor_store": "the language emits stores through block pointers",
    "tt.dot": "dot/operands.py makes cpu.dot of it",
    "tt.dot_scaled": "the language widens the operands and emits tt.dot",
    "tt.func": "a container",
    "tt.make_tensor_descriptor": "the language keeps base, shape and strides",
    "tt.make_tensor_ptr": "rewrite_tensor_pointer takes it away",
    "tt.map_elementwise": "expand_map makes elementwise ops of it",
    "tt.assert": "expand_reports makes cpu.assert of it",
    "tt.print": "expand_reports makes cpu.print of it",
    "tt.unsplat": "expand_unsplat makes a reduction of it",
}
NOT_LOWERED_DIALECTS = {
    "ttg": "tiles with layouts, of GPUs: the CPU pipeline lowers TTIR",
    "ttng": "what NVIDIA's GPUs have: the CPU pipeline lowers TTIR",
    "amdg": "what AMD's GPUs have: nothing makes it",
    "amdgpu": "what AMD's GPUs have: nothing makes it",
    "nvws": "groups of warps of NVIDIA's GPUs: the CPU pipeline lowers TTIR",
    "tti": "Triton's sanitizers: nothing makes it",
    "llvm": "nothing makes it",
}
ROOT_NAMES = {name for name, definition in OPS.items() if issubclass(definition.kind or Op, SINKS)}
IN_EVALUATE = {"tt.split"}
IN_LOOP_PASSES = {
    *("cpu.accumulate", "cpu.assume", "cpu.clip", "cpu.nest", "cpu.dot", "cpu.matmul"),
    *("scf.parallel", "scf.reduce"),
}
OF_VECTORIZED_FUNCTIONS = {"tt.assert"}
EMITTED = FUNCTION_RULES.keys() - OF_VECTORIZED_FUNCTIONS
LOWERED = (LOWERINGS, MOVES, LANE_RULES, ROOT_NAMES, SCALARS, EMITTED, IN_EVALUATE, IN_LOOP_PASSES)


def test_every_op_is_lowered_or_refused_or_listed() -> None:
    known = set().union(*LOWERED)
    without = {name for name, definition in OPS.items() if name not in known and not definition.terminator}
    assert {name for name in without if name.split(".")[0] not in NOT_LOWERED_DIALECTS} == NOT_LOWERED.keys()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_the_only_element_becomes_a_scalar(dtype: str) -> None:
    @tw.jit
    def last(x_ptr, i, j):
        tile = tl.load(x_ptr + i + tl.arange(0, 1)[:, None] + tl.arange(0, 1)[None, :])
        tl.store(x_ptr + j, tile.item())

    x = np.arange(5, dtype=dtype)
    last[(1,)](x, 3, 1)
    assert x.tolist() == [0, 3, 2, 3, 4]
