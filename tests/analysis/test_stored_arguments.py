"""The arguments that a kernel stores through: exact on loops that carry several pointers, never too few."""

from __future__ import annotations

import pytest

import tilewright.dialects  # noqa: F401 - declares the ops
from tilewright.analysis.value_flow import stored_arguments
from tilewright.ir.parser import parse_module

HEAD = "tt.func public @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: i1, %n: i32, %one: i32, %v: f32) {"

BODIES = {
    "nothing": ("%x = tt.load %a : !tt.ptr<f32>", set()),
    "directly": ("tt.store %a, %v : !tt.ptr<f32>", {0}),
    "through addptr": (
        "%p = tt.addptr %b, %n : !tt.ptr<f32>, i32\n tt.store %p, %v : !tt.ptr<f32>",
        {1},
    ),
    "a loaded value is no address": (
        "%x = tt.load %a : !tt.ptr<f32>\n tt.store %b, %x : !tt.ptr<f32>",
        {1},
    ),
    "selected": (
        "%p = arith.select %c, %a, %b : !tt.ptr<f32>\n tt.store %p, %v : !tt.ptr<f32>",
        {0, 1},
    ),
    "loop": (
        """%r:2 = scf.for %i = %n to %n step %one iter_args(%p = %a, %q = %b) -> (!tt.ptr<f32>, !tt.ptr<f32>) : i32 {
             %x = tt.load %p : !tt.ptr<f32>
             tt.store %q, %x : !tt.ptr<f32>
             %p2 = tt.addptr %p, %one : !tt.ptr<f32>, i32
             %q2 = tt.addptr %q, %one : !tt.ptr<f32>, i32
             scf.yield %p2, %q2 : !tt.ptr<f32>, !tt.ptr<f32>
           }""",
        {1},
    ),
    "loop that swaps": (
        """%r:2 = scf.for %i = %n to %n step %one iter_args(%p = %a, %q = %b) -> (!tt.ptr<f32>, !tt.ptr<f32>) : i32 {
             tt.store %q, %v : !tt.ptr<f32>
             scf.yield %q, %p : !tt.ptr<f32>, !tt.ptr<f32>
           }""",
        {0, 1},
    ),
    "after a loop": (
        """%r = scf.for %i = %n to %n step %one iter_args(%p = %a) -> (!tt.ptr<f32>) : i32 {
             scf.yield %p : !tt.ptr<f32>
           }
           tt.store %r, %v : !tt.ptr<f32>""",
        {0},
    ),
    "branch": (
        """%r = scf.if %c -> (!tt.ptr<f32>) {
             scf.yield %a : !tt.ptr<f32>
           } else {
             scf.yield %b : !tt.ptr<f32>
           }
           tt.store %r, %v : !tt.ptr<f32>""",
        {0, 1},
    ),
    "as a number and back": (
        """%x = tt.ptr_to_int %a : !tt.ptr<f32> -> i64
           %p = tt.int_to_ptr %x : i64 -> !tt.ptr<f32>
           tt.store %p, %v : !tt.ptr<f32>""",
        {0},
    ),
    "atomic": (
        "%t = arith.constant true\n%x = tt.atomic_rmw fadd, acq_rel, gpu, %b, %v, %t : (!tt.ptr<f32>, f32, i1) -> f32",
        {1},
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", BODIES)
def test_stored_arguments(case: str) -> None:
    body, expected = BODIES[case]
    module = parse_module(f"module {{ {HEAD}\n{body}\n tt.return\n}} }}")
    assert stored_arguments(module) == expected
