"""Loop peeling: the last step behind the loop."""

from __future__ import annotations

import numpy as np
import pytest
from rewriting_cases import function

from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.verifier import verify
from tilewright.transforms.loop_unroll import peel_marked_loops

LOOP = """
  %q = tt.addptr %p, %hi : !tt.ptr<i32>, i32
  %r = scf.for %i = %lo to %hi step %st iter_args(%a = %lo) -> (i32) : i32 {{
    %t = tt.addptr %p, %i : !tt.ptr<i32>, i32
    %b = arith.muli %a, %st : i32
    %c = arith.addi %b, %i : i32
    tt.store %t, %c : !tt.ptr<i32>
    scf.yield %c : i32
  }}{}
  tt.store %q, %r : !tt.ptr<i32>
  tt.return"""


@pytest.mark.quick
@pytest.mark.parametrize(("low", "high", "step"), [(0, 9, 2), (1, 9, 2), (3, 4, 5), (4, 4, 1), (7, 2, 3)])
def test_every_step_runs_once(low: int, high: int, step: int) -> None:
    signature = "%p: !tt.ptr<i32>, %lo: i32, %hi: i32, %st: i32"
    plain, peeled = (function(signature, LOOP.format(mark)) for mark in ("", " {__test_peel_epilogue}"))
    assert not peel_marked_loops(plain)
    assert peel_marked_loops(peeled)
    verify(peeled)
    assert [op.name for op in peeled.walk()].count("scf.if") == 1
    found = []
    for module in (plain, peeled):
        memory = np.zeros(16, np.int32)
        run_ir(module, {"p": memory, "lo": low, "hi": high, "st": step})
        found.append(memory.tolist())
    assert found[0] == found[1]
