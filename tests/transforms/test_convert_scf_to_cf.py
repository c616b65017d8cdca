"""Structured control flow becomes jumps, and computes the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from random_programs import MEMORY, RandomProgram

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.convert_scf_to_cf import convert_scf_to_cf

assert tilewright.dialects.__all__

LOOPS = """
tt.func public @f(%p: !tt.ptr<i32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %sum = scf.for %i = %zero to %n step %one iter_args(%s = %zero) -> (i32) : i32 {
    %odd = arith.andi %i, %one : i32
    %is_odd = arith.cmpi eq, %odd, %one : i32
    %next = scf.if %is_odd -> i32 {
      %t = arith.addi %s, %i : i32
      scf.yield %t : i32
    } else {
      scf.yield %s : i32
    }
    scf.yield %next : i32
  }
  %r:2 = scf.while (%x = %sum, %k = %zero) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi sgt, %x, %one : i32
    scf.condition(%more) %x, %k : i32, i32
  } do {
  ^bb0(%x: i32, %k: i32):
    %half = arith.shrui %x, %one : i32
    %up = arith.addi %k, %one : i32
    scf.yield %half, %up : i32, i32
  }
  tt.store %p, %r#1 : !tt.ptr<i32>
  tt.return
}
"""


def run(module: Op, n: int) -> int:
    out = np.zeros(1, np.int32)
    run_ir(module, {"p": out, "n": n})
    return int(out[0])


def test_loops_and_conditions(golden: Callable[[str, str], None]) -> None:
    module = parse_module(LOOPS)
    expected = [run(module, n) for n in (0, 1, 7, 100)]
    assert convert_scf_to_cf(module)
    verify(module)
    assert [run(module, n) for n in (0, 1, 7, 100)] == expected == [0, 0, 3, 11]
    golden(print_op(module), "transforms/convert_scf_to_cf/loops.ttir")
    assert not convert_scf_to_cf(module)


PARTITIONS = """
tt.func public @f(%p: !tt.ptr<i32>, %n: i32) {
  ttg.warp_specialize(%p, %n)
  default {
    ttg.warp_yield
  }
  partition0(%q: !tt.ptr<i32>, %m: i32) num_warps(4) {
    %zero = arith.constant 0 : i32
    %more = arith.cmpi sgt, %m, %zero : i32
    scf.if %more {
      tt.store %q, %m : !tt.ptr<i32>
    }
    ttg.warp_return
  } : (!tt.ptr<i32>, i32) -> ()
  tt.return
}
"""


def test_conditions_of_one_partition() -> None:
    module = parse_module(PARTITIONS)
    assert convert_scf_to_cf(module)
    verify(module)
    names = [op.name for op in module.walk()]
    assert "cf.cond_br" in names
    assert "scf.if" not in names
    assert not convert_scf_to_cf(module)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_compute_the_same(seed: int) -> None:
    def outcome(module: Op) -> list[int]:
        memory = np.arange(MEMORY, dtype=np.int32) * 3 - 40
        run_ir(module, {"a": 5, "b": -3, "m": memory})
        return memory.tolist()

    module = parse_module(RandomProgram(seed).text)
    expected = outcome(module)
    convert_scf_to_cf(module)
    verify(module)
    assert not any(op.name.startswith("scf.") for op in module.walk())
    assert outcome(module) == expected
