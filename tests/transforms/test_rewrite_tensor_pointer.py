"""Block pointers: accesses with and without checks, and the ways a block pointer can go. Read the goldens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright.dialects
from tilewright.dialects.scf import For, If
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import PointerType, f32, i64
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.cse import cse
from tilewright.transforms.rewrite_tensor_pointer import rewrite_tensor_pointer, rewrite_tensor_pointer_by_axis

assert tilewright.dialects.__all__

SIGNATURE = "%base: !tt.ptr<f32>, %m: i64, %n: i64, %s: i64, %i: i32, %j: i32, %out: !tt.ptr<f32>, %c: i1, %k: i32"
MAKE = """
  %c1 = arith.constant 1 : i64
  %p = tt.make_tensor_ptr %base, [%m, %n], [%s, %c1], [%i, %j] {order = array<i32: 1, 0>} : !tt.ptr<tensor<8x16xf32>>
"""
STORE = "\ntt.store %q, %x : !tt.ptr<tensor<8x16xf32>>\ntt.return"
BODIES = {
    "unchecked": MAKE + "%x = tt.load %p : !tt.ptr<tensor<8x16xf32>>\n" + STORE.replace("%q", "%p"),
    "checked": MAKE
    + "%x = tt.load %p {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32} : !tt.ptr<tensor<8x16xf32>>\n"
    + "tt.store %p, %x {boundaryCheck = array<i32: 1>} : !tt.ptr<tensor<8x16xf32>>\ntt.return",
    "padded_with_nan": MAKE
    + "%x = tt.load %p evictionPolicy = evict_first {boundaryCheck = array<i32: 1>, padding = 2 : i32} : "
    + "!tt.ptr<tensor<8x16xf32>>\n"
    + STORE.replace("%q", "%p"),
    "advanced": MAKE
    + "%q = tt.advance %p, [%k, %j] : !tt.ptr<tensor<8x16xf32>>\n%x = tt.load %q : !tt.ptr<tensor<8x16xf32>>\n"
    + STORE,
    "in_a_loop": MAKE
    + """
      %lo = arith.constant 0 : i32
      %st = arith.constant 16 : i32
      %q = scf.for %a = %lo to %k step %st iter_args(%r = %p) -> (!tt.ptr<tensor<8x16xf32>>) : i32 {
        %y = tt.load %r : !tt.ptr<tensor<8x16xf32>>
        tt.store %r, %y : !tt.ptr<tensor<8x16xf32>>
        %t = tt.advance %r, [%lo, %st] : !tt.ptr<tensor<8x16xf32>>
        scf.yield %t : !tt.ptr<tensor<8x16xf32>>
      }
      %x = arith.constant dense<0.0> : tensor<8x16xf32>"""
    + STORE,
    "out_of_arms": MAKE
    + """
      %q = scf.if %c -> (!tt.ptr<tensor<8x16xf32>>) {
        %t = tt.advance %p, [%k, %j] : !tt.ptr<tensor<8x16xf32>>
        scf.yield %t : !tt.ptr<tensor<8x16xf32>>
      } else {
        %u = tt.make_tensor_ptr %out, [%m, %n], [%s, %c1], [%k, %k] {order = array<i32: 1, 0>} :
             !tt.ptr<tensor<8x16xf32>>
        scf.yield %u : !tt.ptr<tensor<8x16xf32>>
      }
      %x = arith.constant dense<0.0> : tensor<8x16xf32>"""
    + STORE,
    "chosen": MAKE
    + """
      %t = tt.advance %p, [%k, %j] : !tt.ptr<tensor<8x16xf32>>
      %q = arith.select %c, %p, %t : !tt.ptr<tensor<8x16xf32>>
      %x = arith.constant dense<0.0> : tensor<8x16xf32>"""
    + STORE,
    "in_a_while": MAKE
    + """
      %x = arith.constant dense<0.0> : tensor<8x16xf32>
      %w:2 = scf.while (%r = %p, %v = %k) : (!tt.ptr<tensor<8x16xf32>>, i32) -> (!tt.ptr<tensor<8x16xf32>>, i32) {
        %d = arith.cmpi slt, %v, %i : i32
        scf.condition(%d) %r, %v : !tt.ptr<tensor<8x16xf32>>, i32
      } do {
      ^bb0(%o: !tt.ptr<tensor<8x16xf32>>, %v: i32):
        tt.store %o, %x : !tt.ptr<tensor<8x16xf32>>
        %t = tt.advance %o, [%v, %v] : !tt.ptr<tensor<8x16xf32>>
        %u = arith.addi %v, %k : i32
        scf.yield %t, %u : !tt.ptr<tensor<8x16xf32>>, i32
      }
      %q = tt.advance %w#0, [%w#1, %w#1] : !tt.ptr<tensor<8x16xf32>>"""
    + STORE,
    "one_axis": """
      %c1 = arith.constant 1 : i64
      %p = tt.make_tensor_ptr %base, [%n], [%c1], [%i] {order = array<i32: 0>} : !tt.ptr<tensor<16xf32>>
      %x = tt.load %p {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<16xf32>>
      tt.store %p, %x {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<16xf32>>
      tt.return""",
}


@pytest.mark.parametrize("name", BODIES)
def test_block_pointers(name: str, golden: Callable[[str, str], None]) -> None:
    module = parse_module(f"module {{\ntt.func public @f({SIGNATURE}) {{\n{BODIES[name]}\n}}\n}}")
    verify(module)
    assert rewrite_tensor_pointer(module)
    verify(module)
    assert "tensor_ptr" not in print_op(module)
    assert "!tt.ptr<tensor" not in print_op(module)
    canonicalize(module)
    cse(module)
    verify(module)
    golden(print_op(module), f"transforms/rewrite_tensor_pointer/{name}.ttir")


@pytest.mark.quick
@pytest.mark.parametrize("name", BODIES)
def test_block_pointers_by_axis(name: str) -> None:
    module = parse_module(f"module {{\ntt.func public @f({SIGNATURE}) {{\n{BODIES[name]}\n}}\n}}")
    assert rewrite_tensor_pointer_by_axis(module)
    verify(module)
    assert "!tt.ptr<tensor" not in print_op(module)


def test_loops_and_branches_carry_by_axis_only_what_changes() -> None:
    for name, kind, types in (("in_a_loop", For, [i64, i64]), ("out_of_arms", If, [PointerType(f32), i64, i64])):
        module = parse_module(f"module {{\ntt.func public @f({SIGNATURE}) {{\n{BODIES[name]}\n}}\n}}")
        rewrite_tensor_pointer_by_axis(module)
        (op,) = (op for op in module.walk() if isinstance(op, kind))
        assert [result.type for result in op.results] == types


def test_functions_that_take_and_give_block_pointers() -> None:
    module = parse_module(f"""
    module {{
      tt.func public @f({SIGNATURE}) {{
        {MAKE}
        %q = tt.call @g(%p, %k) : (!tt.ptr<tensor<8x16xf32>>, i32) -> !tt.ptr<tensor<8x16xf32>>
        %x = tt.load %q : !tt.ptr<tensor<8x16xf32>>
        tt.store %p, %x : !tt.ptr<tensor<8x16xf32>>
        tt.return
      }}
      tt.func private @g(%p: !tt.ptr<tensor<8x16xf32>>, %k: i32) -> !tt.ptr<tensor<8x16xf32>>
          attributes {{noinline = true}} {{
        %q = tt.advance %p, [%k, %k] : !tt.ptr<tensor<8x16xf32>>
        tt.return %q : !tt.ptr<tensor<8x16xf32>>
      }}
    }}""")
    verify(module)
    assert rewrite_tensor_pointer(module)
    verify(module)
    assert "!tt.ptr<tensor" not in print_op(module)


def test_modules_without_block_pointers_stay() -> None:
    module = parse_module(
        "module {\ntt.func public @f(%p: !tt.ptr<f32>) {\n%x = tt.load %p : !tt.ptr<f32>\ntt.return\n}\n}"
    )
    assert not rewrite_tensor_pointer(module)
