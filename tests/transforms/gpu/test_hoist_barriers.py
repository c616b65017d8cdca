"""Barriers that each step of a loop makes are made once."""

from __future__ import annotations

import re

import pytest

from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.mma_lowering import hoist_barriers

BARRIER = "!ttg.memdesc<1xi64, #shared, #ttg.shared_memory, mutable>"
LOOP = f"""
#shared = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"}} {{
  tt.func public @wait(%n: i32, %p: i1) {{
    %true = arith.constant true
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.for %i = %zero to %n step %one : i32 {{
      %r = ttg.local_alloc : () -> {BARRIER}
      ttng.init_barrier %r, 1 : {BARRIER}
      ttng.barrier_expect %r, 64, %true : {BARRIER}
      ttng.wait_barrier %r, %zero, %true : {BARRIER}
      ttng.inval_barrier %r : {BARRIER}
    }}
    tt.return
  }}
}}
"""


def hoisted(text: str) -> tuple[bool, str]:
    module = parse_module(text)
    moved = hoist_barriers(module)
    verify(module)
    return moved, print_op(module)


def test_barrier_is_made_once() -> None:
    moved, text = hoisted(LOOP)
    assert moved
    ops = ("local_alloc", "init_barrier", "scf.for", "barrier_expect", "wait_barrier", "xori", "yield", "inval_barrier")
    assert re.findall("|".join(ops), text) == list(ops)
    phase = re.search(r"iter_args\((%\w+) = %", text)
    assert phase
    assert f"wait_barrier %r, {phase[1]}, %true" in text


@pytest.mark.quick
@pytest.mark.parametrize(
    ("old", "new"),
    [("%zero, %true", "%zero, %p"), ("%r, %zero", "%r, %one"), (f"ttng.inval_barrier %r : {BARRIER}", "")],
    ids=["waits sometimes", "other phase", "stays"],
)
def test_others_are_left_alone(old: str, new: str) -> None:
    assert old in LOOP
    assert not hoisted(LOOP.replace(old, new))[0]
