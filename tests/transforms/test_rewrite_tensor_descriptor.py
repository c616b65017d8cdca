"""Descriptors and block pointers become pointers: the same elements are read and written, whatever way they go."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from rewriting_cases import function, nameless

from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.errors import VerificationError
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.canonicalize import canonicalize
from tilewright.transforms.rewrite_tensor_descriptor_to_pointer import (
    DescriptorOptions,
    rewrite_tensor_descriptor_to_pointer,
)
from tilewright.transforms.rewrite_tensor_pointer import rewrite_tensor_pointer, rewrite_tensor_pointer_by_axis

SIGNATURE = "%p: !tt.ptr<{0}>, %q: !tt.ptr<{0}>, %c: i1, %n: i32, %i: i32"
D = "!tt.tensordesc<tensor<4x8x{0}>>"
DESCRIPTORS = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %rows = arith.constant 9 : i32
  %columns = arith.constant 11 : i32
  %s0 = arith.constant 12 : i64
  %s1 = arith.constant 1 : i64
  %a = tt.make_tensor_descriptor %p, [%rows, %columns], [%s0, %s1] : !tt.ptr<{0}>, {D}
  %b = tt.make_tensor_descriptor %q, [%columns, %rows], [%s0, %s1] : !tt.ptr<{0}>, {D}
  %d = scf.if %c -> ({D}) {{
    scf.yield %a : {D}
  }} else {{
    scf.yield %b : {D}
  }}
  %e:2 = scf.for %k = %c0 to %n step %c1 iter_args(%f = %d, %g = %b) -> ({D}, {D}) : i32 {{
    %o = arith.muli %k, %c4 : i32
    %x = tt.descriptor_load %f[%o, %i] : {D} -> tensor<4x8x{0}>
    tt.descriptor_store %g[%i, %o], %x : {D}, tensor<4x8x{0}>
    scf.yield %g, %f : {D}, {D}
  }}
  tt.return"""
B = "!tt.ptr<tensor<4x8x{0}>>"
POINTERS = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c4 = arith.constant 4 : i32
  %rows = arith.constant 9 : i64
  %columns = arith.constant 11 : i64
  %s0 = arith.constant 12 : i64
  %s1 = arith.constant 1 : i64
  %a = tt.make_tensor_ptr %p, [%rows, %columns], [%s0, %s1], [%c0, %i] {{order = array<i32: 1, 0>}} : {B}
  %b = tt.make_tensor_ptr %q, [%columns, %rows], [%s0, %s1], [%i, %c0] {{order = array<i32: 1, 0>}} : {B}
  %d = scf.if %c -> ({B}) {{
    scf.yield %a : {B}
  }} else {{
    scf.yield %b : {B}
  }}
  %e:2 = scf.for %k = %c0 to %n step %c1 iter_args(%f = %d, %g = %b) -> ({B}, {B}) : i32 {{
    %x = tt.load %f {{boundaryCheck = array<i32: 0, 1>, padding = 1 : i32}} : {B}
    tt.store %g, %x {{boundaryCheck = array<i32: 0, 1>}} : {B}
    %h = tt.advance %f, [%c4, %c0] : {B}
    %j = tt.advance %g, [%c0, %c1] : {B}
    scf.yield %h, %j : {B}, {B}
  }}
  tt.return"""


def memory_after(module: Op, type: str, choice: int, steps: int, column: int) -> list[list[float]]:
    numbers = np.arange(160).astype({"f32": np.float32, "i32": np.int32}[type])
    first, second = numbers, numbers * 2
    run_ir(module, {"p": first, "q": second, "c": choice, "n": steps, "i": column})
    return [first.tolist(), second.tolist()]


def descriptors_without_rounding(module: Op) -> bool:
    return rewrite_tensor_descriptor_to_pointer(module, DescriptorOptions(rounding=False))


CASES = (
    (rewrite_tensor_descriptor_to_pointer, DESCRIPTORS, D),
    (descriptors_without_rounding, DESCRIPTORS, D),
    (rewrite_tensor_pointer, POINTERS, B),
    (rewrite_tensor_pointer_by_axis, POINTERS, B),
)


@pytest.mark.parametrize(("rewrite", "body", "type"), CASES)
@pytest.mark.parametrize("element", ["f32", "i32"])
def test_the_same_elements(rewrite: Callable[[Op], bool], body: str, type: str, element: str) -> None:
    text = body.replace("{D}", type).replace("{B}", type).format(element)
    module, other = (function(SIGNATURE.format(element), text) for _ in range(2))
    assert rewrite(module)
    verify(module)
    assert not any(mark in print_op(module) for mark in ("tensordesc", "descriptor", "tensor_ptr", "advance"))
    for choice, steps, column in product((0, 1), (0, 3), (-2, 0, 5)):
        arguments = element, choice, steps, column
        assert memory_after(module, *arguments) == memory_after(other, *arguments)
    canonicalize(module)
    verify(module)
    assert memory_after(module, element, 1, 3, 1) == memory_after(other, element, 1, 3, 1)


OTHERS = """
  %x = tt.descriptor_gather %d[%r, %y] : (!tt.tensordesc<tensor<1x32xf32>>, tensor<16xi32>, i32) -> tensor<16x32xf32>
  tt.descriptor_scatter %d[%r, %y], %x : !tt.tensordesc<tensor<1x32xf32>>, tensor<16xi32>, i32, tensor<16x32xf32>
  %z = tt.descriptor_load %f[%y, %y, %y] : !tt.tensordesc<tensor<1x4x8xf32>> -> tensor<4x8xf32>
  tt.descriptor_reduce {0}, %e[%y, %y], %v : !tt.tensordesc<tensor<4x8xi32>>, tensor<4x8xi32>
  tt.return"""
OTHERS_SIGNATURE = (
    "%d: !tt.tensordesc<tensor<1x32xf32>>, %e: !tt.tensordesc<tensor<4x8xi32>>,"
    " %f: !tt.tensordesc<tensor<1x4x8xf32>>, %r: tensor<16xi32>, %y: i32, %v: tensor<4x8xi32>"
)


def test_other_accesses(golden: Callable[[str, str], None]) -> None:
    module = function(OTHERS_SIGNATURE, OTHERS.format("add"))
    rewrite_tensor_descriptor_to_pointer(module)
    verify(module)
    golden(nameless(module), "transforms/rewrite_tensor_descriptor/other_accesses.ttir")


def test_reductions_that_pointers_do_not_have() -> None:
    with pytest.raises(VerificationError, match="inc of i32 has no atomic op"):
        rewrite_tensor_descriptor_to_pointer(function(OTHERS_SIGNATURE, OTHERS.format("inc")))


def test_rounding_to_tf32() -> None:
    """Half of the numbers are ties: they go to the even neighbour; infinities and NaN stay."""
    body = """
      %c0 = arith.constant 0 : i32
      %rows = arith.constant 1 : i32
      %columns = arith.constant 8 : i32
      %s0 = arith.constant 8 : i64
      %s1 = arith.constant 1 : i64
      %a = tt.make_tensor_descriptor %p, [%rows, %columns], [%s0, %s1] : !tt.ptr<f32>, {D}
      %b = tt.make_tensor_descriptor %q, [%rows, %columns], [%s0, %s1] : !tt.ptr<f32>, {D}
      %x = tt.descriptor_load %a[%c0, %c0] : {D} -> tensor<1x8xf32>
      tt.descriptor_store %b[%c0, %c0], %x : {D}, tensor<1x8xf32>
      tt.return""".format(D="!tt.tensordesc<tensor<1x8xf32>>")
    module = function(SIGNATURE.format("f32"), body)
    rewrite_tensor_descriptor_to_pointer(module)
    (choice,) = [op for op in module.walk() if op.name == "scf.if"]
    choice.set_operand(0, choice.parent.regions[0].block.args[2])
    bits = [0x3F801000, 0x3F803000, 0x3F801001, 0xBF800FFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0x3F7FF000]
    rounded = [0x3F800000, 0x3F804000, 0x3F802000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00001, 0x3F800000]
    source, target = np.array(bits, np.uint32).view(np.float32), np.zeros(8, np.float32)
    run_ir(module, {"p": source, "q": target, "c": 1, "n": 0, "i": 0})
    assert target.view(np.uint32).tolist() == rounded
