"""Ops that compute the same have one line of LLVM IR, and what they give is what they gave."""

from __future__ import annotations

import re

import numpy as np
import pytest
from loop_native import compiled, llvm_text

from tilewright.backends.llvm.machine import Target, host_target
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify


def module_of(body: str) -> Op:
    """A function of two addresses of floats and a number, which stores what `body` calls %out."""
    module = parse_module(f"""module {{
      tt.func public @loops(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i64) {{
        %c0 = arith.constant 0 : i64
        %c1 = arith.constant 1 : i64
        %c2 = arith.constant 2 : i64
        %two = arith.constant 2.0 : f32
        {body}
        tt.return
      }}
    }}""")
    verify(module)
    return module


def lines(module: Op, pattern: str, target: Target | None = None) -> int:
    return len(re.findall(pattern, llvm_text(module, target or host_target())))


def check(module: Op, n: int = 3) -> None:
    """Machine code and interpreter agree."""
    wanted, found = ([np.arange(1, 9, dtype=np.float32), np.zeros(8, np.float32)] for _ in range(2))
    run_ir(module, [*wanted, n])
    compiled(module, host_target())(*(array.ctypes.data for array in found), n)
    np.testing.assert_array_equal(found, wanted)


LOAD = "vector.load {} {{alignment = 4 : i64}} : !tt.ptr<f32> -> f32"
STORE = "vector.store {} {{alignment = 4 : i64}} : !tt.ptr<f32>, f32"


def test_equal_ops_are_one_line_also_where_their_operands_are_results_of_equal_ops() -> None:
    module = module_of(f"""
        %a = arith.addi %n, %c1 : i64
        %b = arith.muli %a, %n : i64
        %c = arith.addi %n, %c1 : i64
        %d = arith.muli %c, %n : i64
        %p = tt.addptr %y, %c1 : !tt.ptr<f32>, i64
        %q = tt.addptr %y, %c1 : !tt.ptr<f32>, i64
        %s = arith.addi %b, %d : i64
        %f = arith.sitofp %s : i64 to f32
        {STORE.format("%f, %p[%c0]")}
        {STORE.format("%f, %q[%c1]")}
    """)
    assert lines(module, r"add i64 %a2, 1\b") == 1
    assert lines(module, "mul i64") == 1
    assert lines(module, r"getelementptr float, ptr %a1, i64 1\b") == 1
    check(module)


def test_what_memory_holds_may_have_changed() -> None:
    module = module_of(f"""
        %a = {LOAD.format("%x[%c1]")}
        %b = arith.mulf %a, %two : f32
        {STORE.format("%b, %x[%c1]")}
        %c = {LOAD.format("%x[%c1]")}
        {STORE.format("%c, %y[%c1]")}
    """)
    assert lines(module, "load float") == 2
    check(module)


@pytest.mark.parametrize("predicates", [("slt", "sle"), ("slt", "slt")])
def test_attributes_count(predicates: tuple[str, str]) -> None:
    first, second = predicates
    module = module_of(f"""
        %a = arith.cmpi {first}, %n, %c2 : i64
        %b = arith.cmpi {second}, %n, %c2 : i64
        %v = arith.select %a, %two, %two : f32
        %zero = arith.constant 0.0 : f32
        %w = arith.select %b, %two, %zero : f32
        %s = arith.addf %v, %w : f32
        {STORE.format("%s, %y[%c0]")}
    """)
    assert lines(module, "icmp") == len(set(predicates))
    check(module, 2)


def test_types_of_results_count() -> None:
    module = module_of(f"""
        %a = arith.trunci %n : i64 to i32
        %b = arith.trunci %n : i64 to i8
        %c = arith.extsi %b : i8 to i32
        %d = arith.addi %a, %c : i32
        %f = arith.sitofp %d : i32 to f32
        {STORE.format("%f, %y[%c0]")}
    """)
    assert lines(module, "trunc") == 2
    check(module, 200)


def test_nothing_is_known_across_loops_and_branches() -> None:
    """Values of a branch are not there behind it, and those that a loop needs had better not live outside of it."""
    module = module_of(f"""
        %is = arith.cmpi sgt, %n, %c2 : i64
        %before = arith.addi %n, %c1 : i64
        %f0 = arith.sitofp %before : i64 to f32
        {STORE.format("%f0, %y[%c0]")}
        scf.if %is {{
          %inside = arith.addi %n, %c1 : i64
          %f1 = arith.sitofp %inside : i64 to f32
          {STORE.format("%f1, %y[%c1]")}
        }}
        %behind = arith.addi %n, %c1 : i64
        %f2 = arith.sitofp %behind : i64 to f32
        {STORE.format("%f2, %y[%c2]")}
    """)
    assert lines(module, r"add i64 %a2, 1\b") == 3
    check(module, 1)
    check(module, 3)


def test_slots_on_the_stack_are_different_ones() -> None:
    module = module_of(f"""
        %a = vector.alloca 4 : !tt.ptr<i8>
        %b = vector.alloca 4 : !tt.ptr<i8>
        %p = tt.bitcast %a : !tt.ptr<i8> -> !tt.ptr<f32>
        %q = tt.bitcast %b : !tt.ptr<i8> -> !tt.ptr<f32>
        {STORE.format("%two, %p[%c0]")}
        %v = {LOAD.format("%x[%c1]")}
        {STORE.format("%v, %q[%c0]")}
        %w = {LOAD.format("%p[%c0]")}
        {STORE.format("%w, %y[%c0]")}
    """)
    assert lines(module, "alloca") == 2
    check(module)


def test_bfloats_go_their_own_way() -> None:
    """They are kept as integers for other blocks, so each op writes its own."""
    module = module_of(f"""
        %h = arith.truncf %two : f32 to bf16
        %a = arith.addf %h, %h : bf16
        %b = arith.addf %h, %h : bf16
        %c = arith.mulf %a, %b : bf16
        %f = arith.extf %c : bf16 to f32
        {STORE.format("%f, %y[%c0]")}
    """)
    check(module)
