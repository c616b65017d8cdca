"""Pipelined loops: their form, and that they compute what they computed before, for any number of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_truth import normal

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import i32
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.gpu.accelerate_matmul import accelerate_matmul
from tilewright.transforms.gpu.coalesce import coalesce
from tilewright.transforms.gpu.convert_to_ttgir import ConvertOptions, convert_to_ttgir
from tilewright.transforms.gpu.pipelining.assign_latencies import StageOptions, assign_latencies
from tilewright.transforms.gpu.pipelining.lower_loops import lower_loops
from tilewright.transforms.gpu.pipelining.pipeline_loops import pipeline_loops
from tilewright.transforms.gpu.pipelining.schedule_loops import schedule_loops
from tilewright.transforms.gpu.remove_layout_conversions import remove_layout_conversions
from tilewright.transforms.pipeline import optimize_ttir

assert tilewright.dialects.__all__

MODULES = Path(__file__).parents[1] / "modules"
SIZE = 128
HEAD = """
#row = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
!pointers = tensor<128x!tt.ptr<f32>, #row>
!indices = tensor<128x!tt.ptr<i32>, #row>
!tile = tensor<128xf32, #row>
!offsets = tensor<128xi32, #row>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32},
    %i: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %step = arith.constant dense<128> : !offsets
  %fill = arith.constant dense<2.5> : !tile
  %zeros = arith.constant dense<0.0> : !tile
  %r = tt.make_range {start = 0 : i32, end = 128 : i32} : !offsets
  %limit = arith.constant dense<100> : !offsets
  %mask = arith.cmpi slt, %r, %limit : !offsets
  %xs = tt.splat %x : !tt.ptr<f32> -> !pointers
  %ys = tt.splat %y : !tt.ptr<f32> -> !pointers
  %is = tt.splat %i : !tt.ptr<i32> -> !indices
  %xp = tt.addptr %xs, %r : !pointers, !offsets
  %yp = tt.addptr %ys, %r : !pointers, !offsets
  %ip = tt.addptr %is, %r : !indices, !offsets
"""
TAIL = """
  tt.store %yp, %sum : !pointers
  tt.return
}
}
"""
LOOP = "%sum, %end = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zeros, %p = %xp) -> (!tile, !pointers) : i32 {"
NEXT = "%q = tt.addptr %p, %step : !pointers, !offsets"
LOOPS = {
    "a sum": f"""
  {LOOP}
    %v = tt.load %p {{tt.latency = 2 : i32}} : !pointers
    %t = arith.addf %s, %v : !tile
    {NEXT}
    scf.yield %t, %q : !tile, !pointers
  }}""",
    "something else where the mask is false": f"""
  {LOOP}
    %v = tt.load %p, %mask, %fill {{tt.latency = 3 : i32}} : !pointers
    %t = arith.addf %s, %v : !tile
    {NEXT}
    scf.yield %t, %q : !tile, !pointers
  }}""",
    "a chain of loads": f"""
  {LOOP.replace("%p = %xp) -> (!tile, !pointers)", "%p = %ip) -> (!tile, !indices)")}
    %at = tt.load %p {{tt.latency = 1 : i32}} : !indices
    %vp = tt.addptr %xs, %at : !pointers, !offsets
    %v = tt.load %vp {{tt.latency = 2 : i32}} : !pointers
    %t = arith.addf %s, %v : !tile
    %q = tt.addptr %p, %step : !indices, !offsets
    scf.yield %t, %q : !tile, !indices
  }}""",
    "a store, a branch, the counter": f"""
  {LOOP}
    %v = tt.load %p {{tt.latency = 2 : i32}} : !pointers
    %odd = arith.remsi %k, %c1 : i32
    %b = arith.cmpi eq, %odd, %c0 : i32
    %kt = tt.splat %k : i32 -> !offsets
    %kf = arith.sitofp %kt : !offsets to !tile
    %w = arith.mulf %v, %kf : !tile
    %t = arith.addf %s, %w : !tile
    scf.if %b {{ tt.store %yp, %t : !pointers }}
    {NEXT}
    scf.yield %t, %q : !tile, !pointers
  }}""",
    "numbers": f"""
  {LOOP.replace("%p = %xp) -> (!tile, !pointers)", "%p = %x) -> (!tile, !tt.ptr<f32>)")}
    %v = tt.load %p {{tt.latency = 2 : i32}} : !tt.ptr<f32>
    %vt = tt.splat %v : f32 -> !tile
    %t = arith.addf %s, %vt : !tile
    %q = tt.addptr %p, %c1 : !tt.ptr<f32>, i32
    scf.yield %t, %q : !tile, !tt.ptr<f32>
  }}""",
    "no asynchronous copy": f"""
  {LOOP}
    %v = tt.load %p {{tt.latency = 2 : i32}} : !pointers
    %h = arith.truncf %v : !tile to tensor<128xf16, #row>
    %u = tt.load %p, %mask {{tt.latency = 1 : i32}} : !pointers
    %f = arith.extf %h : tensor<128xf16, #row> to !tile
    %m = arith.mulf %f, %u : !tile
    %t = arith.addf %s, %m : !tile
    {NEXT}
    scf.yield %t, %q : !tile, !pointers
  }}""",
}


def program(loop: str) -> Op:
    module = parse_module(HEAD + loop + TAIL)
    verify(module)
    return module


def results(module: Op, steps: int) -> tuple[np.ndarray[Any, Any], ...]:
    count = max(1, steps)
    x = np.arange(SIZE * count, dtype=np.float32) % 37
    y = np.full(SIZE, -1, np.float32)
    indices = (np.arange(SIZE * count, dtype=np.int32) * 7) % (SIZE * count)
    run_ir(module, {"x": x, "y": y, "i": indices, "n": steps})
    return x, y


@pytest.mark.parametrize("name", LOOPS)
def test_pipelined_loops_compute_the_same(name: str) -> None:
    before, module = program(LOOPS[name]), program(LOOPS[name])
    schedule_loops(module)
    pipeline_loops(module)
    verify(module)
    assert sum(op.name == "ttg.async_copy_global_to_local" for op in module.walk()) > 2, "the loop is pipelined"
    for steps in (0, 1, 2, 3, 7):
        for expected, found in zip(results(before, steps), results(module, steps), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"{steps} steps")


def test_form(golden: Any) -> None:
    module = program(LOOPS["a sum"])
    schedule_loops(module)
    pipeline_loops(module)
    canonicalize(module)
    golden(print_op(module), "transforms/pipelining/a_sum_in_three_stages.ttgir")


def test_copies_of_scheduled_loops(golden: Any) -> None:
    module = program(LOOPS["a chain of loads"])
    schedule_loops(module)
    lower_loops(module)
    verify(module)
    golden(print_op(module), "transforms/pipelining/lowered_chain_of_loads.ttgir")


def test_a_loop_with_ops_that_always_run_is_left_alone() -> None:
    """`tt.atomic_cas` cannot be told not to run: it must not be in a stage that is ahead."""
    cas = "%old = tt.atomic_cas acq_rel, gpu, %i, %c0, %c1 {tt.latency = 1 : i32} : (!tt.ptr<i32>, i32, i32) -> i32"
    user = "%o = tt.splat %old : i32 -> !offsets\n%f = arith.sitofp %o : !offsets to !tile"
    loop = LOOPS["a sum"].replace("%t = arith.addf %s, %v : !tile", f"{cas}\n{user}\n%t = arith.addf %s, %f : !tile")
    module = program(loop)
    schedule_loops(module)
    pipeline_loops(module)
    verify(module)
    assert sum(op.name == "tt.atomic_cas" for op in module.walk()) == 1


def matmul(capability: int) -> Op:
    module = optimize_ttir(parse_module((MODULES / "matmul.ttir").read_text()))
    convert_to_ttgir(module, ConvertOptions(f"cuda:{capability}", 4, 32, 1))
    coalesce(module)
    remove_layout_conversions(module)
    accelerate_matmul(module)
    remove_layout_conversions(module)
    canonicalize(module)
    return module


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("stages", [2, 3, pytest.param(4, marks=pytest.mark.spared)])
def test_matmul(capability: int, stages: int) -> None:
    before, module = matmul(capability), matmul(capability)
    assign_latencies(module, StageOptions(stages))
    schedule_loops(module)
    pipeline_loops(module, StageOptions(stages))
    verify(module)
    assert sum(op.name == "ttg.async_copy_global_to_local" for op in module.walk()) == 2 * stages
    for k in (0, 16, 32, 64, 80, 160):
        expected, found = np.ones((80, 96), np.float32), np.ones((80, 96), np.float32)
        a, b = normal(80, max(k, 1)), normal(max(k, 1), 96)
        sizes = {"M": 80, "N": 96, "K": k, "stride_am": k, "stride_bk": 96, "stride_cm": 96}
        run_ir(before, {"a_ptr": a, "b_ptr": b, "c_ptr": expected, **sizes}, (1,))
        run_ir(module, {"a_ptr": a, "b_ptr": b, "c_ptr": found, **sizes}, (1,))
        np.testing.assert_array_equal(found, expected, err_msg=f"K = {k}")


def test_a_wait_for_one_group_less_shows() -> None:
    """The interpreter lets copies arrive as late as they may: the comparisons above see waits that are too weak."""
    before, module = program(LOOPS["a sum"]), program(LOOPS["a sum"])
    schedule_loops(module)
    pipeline_loops(module)
    (wait,) = (op for op in module.walk() if op.name == "ttg.async_wait" and op.operands)
    number = wait.attributes["num"]
    assert number == Number(1, i32)
    wait.attributes = {**wait.attributes, "num": Number(2, i32)}
    assert not np.array_equal(results(module, 7)[1], results(before, 7)[1])


WAITED_FOR = """
#row = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#line = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
!buffer = !ttg.memdesc<128x64xf16, #shared, #ttg.shared_memory>
!barrier = !ttg.memdesc<1xi64, #line, #ttg.shared_memory, mutable>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
  tt.func @f(%p: tensor<128x64x!tt.ptr<f16>, #row> {tt.divisibility = dense<[16, 16]> : tensor<2xi32>,
      tt.contiguity = dense<[1, 16]> : tensor<2xi32>}, %b: !barrier, %phase: i32, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      %x = tt.load %p {loop.cluster = 1 : i32, loop.stage = 0 : i32} : tensor<128x64x!tt.ptr<f16>, #row>
      %a = ttg.local_alloc %x {loop.cluster = 0 : i32, loop.stage = 1 : i32} : (tensor<128x64xf16, #row>) -> !buffer
      ttng.wait_barrier %b, %phase deps %a {loop.cluster = 2 : i32, loop.stage = 2 : i32} : !barrier, !buffer
    } {tt.scheduled_max_stage = 2 : i32}
    tt.return
  }
}
"""


@pytest.mark.parametrize(("cluster", "copy"), [(2, 3), (0, 1)])
def test_a_copy_starts_behind_the_wait_for_its_place(cluster: int, copy: int) -> None:
    """In front of it the copy would overwrite what is still read, or need a place more."""
    module = parse_module(WAITED_FOR.replace("loop.cluster = 2", f"loop.cluster = {cluster}"))
    assert lower_loops(module)
    verify(module)
    (started,) = (op for op in module.walk() if op.name == "ttg.async_copy_global_to_local")
    (wait,) = (op for op in module.walk() if op.name == "ttng.wait_barrier")
    clusters = [op.attributes["loop.cluster"] for op in (wait, started)]
    assert clusters == [Number(cluster, i32), Number(copy, i32)]
    assert "!ttg.memdesc<2x128x64xf16" in print_op(module)


@pytest.mark.parametrize(("cluster", "stage"), [(0, 2), (4, 1)])
def test_threads_read_a_tile_when_they_need_it_if_its_place_is_kept_until_then(cluster: int, stage: int) -> None:
    """Behind the copy of a later step the place has other numbers, so they are read with the first user."""
    slot = f"{{loop.cluster = {cluster} : i32, loop.stage = 2 : i32}}"
    use = f"tt.store %p, %x {slot} : tensor<128x64x!tt.ptr<f16>, #row>"
    module = parse_module(WAITED_FOR.replace("    } {tt.sched", f"      {use}\n    }} {{tt.sched"))
    assert lower_loops(module)
    verify(module)
    assert "!ttg.memdesc<2x128x64xf16" in print_op(module)
    (read,) = (op for op in module.walk() if op.name == "ttg.local_load")
    assert read.attributes["loop.stage"] == Number(stage, i32)
