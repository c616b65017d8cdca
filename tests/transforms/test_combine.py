"""Combine: each rule where it applies and where it must not."""

from __future__ import annotations

import pytest
from rewriting_cases import check

from tilewright.transforms.combine import combine, combine_keeping_bases, combine_without_fusion

M = "tensor<16x16x{}>"
DOT = """
  %z = arith.constant dense<{zero}> : tensor<16x16x{type}>
  %d = tt.dot %a, %b, %z{options} : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16x{type}>
  %r = arith.{add} {operands} : tensor<16x16x{type}>
  tt.return %r : tensor<16x16x{type}>"""
DOT_AFTER = """
  %r = tt.dot %a, %b, %c : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16x{type}>
  tt.return %r : tensor<16x16x{type}>"""


def dot(zero: str = "0.0", type: str = "f32", add: str = "addf", operands: str = "%d, %c", options: str = "") -> str:
    return DOT.format(zero=zero, type=type, add=add, operands=operands, options=options)


def dot_signature(type: str = "f32") -> str:
    return f"%a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x16x{type}>"


@pytest.mark.parametrize("operands", ["%d, %c", "%c, %d"])
def test_sum_with_dot(operands: str) -> None:
    check(combine, dot_signature(), dot(operands=operands), DOT_AFTER.format(type="f32"))
    check(combine, dot_signature(), dot(zero="-0.0", operands=operands), DOT_AFTER.format(type="f32"))


def test_sum_with_dot_that_accumulates_already() -> None:
    check(combine, dot_signature(), dot(zero="1.0"), None)
    check(combine, dot_signature(), dot(add="mulf"), None)
    check(combine, dot_signature(), dot(operands="%d, %d"), None)
    check(combine, dot_signature(), dot(options=" {maxNumImpreciseAcc = 32 : i32}"), None)


def test_sum_with_dot_without_fusion() -> None:
    """The sum of floats is rounded by itself; integers are exact either way."""
    check(combine_without_fusion, dot_signature(), dot(), None)
    check(combine_without_fusion, dot_signature(), dot(operands="%c, %d"), None)
    signature = "%a: tensor<16x16xi8>, %b: tensor<16x16xi8>, %c: tensor<16x16xi32>"
    before = dot(zero="0", type="i32", add="addi").replace("tensor<16x16xf16>", "tensor<16x16xi8>")
    after = DOT_AFTER.format(type="i32").replace("tensor<16x16xf16>", "tensor<16x16xi8>")
    check(combine_without_fusion, signature, before, after)


def test_sum_of_integer_dot() -> None:
    signature = "%a: tensor<16x16xi8>, %b: tensor<16x16xi8>, %c: tensor<16x16xi32>"
    before = dot(zero="0", type="i32", add="addi").replace("tensor<16x16xf16>", "tensor<16x16xi8>")
    check(combine, signature, before, DOT_AFTER.format(type="i32").replace("tensor<16x16xf16>", "tensor<16x16xi8>"))


CHAIN = """
  %c = arith.constant dense<{}> : tensor<4xi32>
  %d = arith.constant dense<{}> : tensor<4xi32>
  %q = tt.addptr %p, {} : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
  %r = tt.addptr %q, %d : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
  tt.return %r : tensor<4x!tt.ptr<f32>>"""


def test_addptr_of_addptr() -> None:
    signature = "%p: tensor<4x!tt.ptr<f32>>, %o: tensor<4xi32>"
    after = """
      %c = arith.constant dense<7> : tensor<4xi32>
      %r = tt.addptr %p, %c : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
      tt.return %r : tensor<4x!tt.ptr<f32>>"""
    check(combine, signature, CHAIN.format(3, 4, "%c"), after)
    for c, d in ((2147483646, 1), (-2147483647, -1)):
        check(combine, signature, CHAIN.format(c, d, "%c"), after.replace("7", str(c + d)))
    check(combine, signature, CHAIN.format(2147483647, 1, "%c"), None)
    check(combine, signature, CHAIN.format(-2147483648, -1, "%c"), None)
    varying = CHAIN.format(3, 4, "%o").replace("%c = arith.constant dense<3> : tensor<4xi32>", "")
    check(combine, signature, varying, None)


P, F = "tensor<4x!tt.ptr<f32>>", "tensor<4xf32>"
SELECT = """
  {mask}
  %x = tt.load {load} : tensor<4x!tt.ptr<f32>>
  {between}
  %r = arith.select {select} : {types}tensor<4xf32>
  tt.return %r : tensor<4xf32>"""


def select(
    mask: str = "", load: str = "%p, %m", between: str = "", select: str = "%m, %x, %y", types: str = "tensor<4xi1>, "
) -> str:
    return SELECT.format(mask=mask, load=load, between=between, select=select, types=types)


def test_select_of_masked_load() -> None:
    signature = f"%p: {P}, %m: tensor<4xi1>, %n: tensor<4xi1>, %y: {F}, %c: i1"
    after = f"%r = tt.load %p, %m, %y : {P}\ntt.return %r : {F}"
    check(combine, signature, select(), after)
    check(combine, signature, select(load="%p, %m, %y"), after)
    check(combine, signature, select(select="%n, %x, %y"), None)
    check(combine, signature, select(select="%m, %y, %x"), None)
    check(combine, signature, select(load="%p"), None)
    check(combine, signature, select(between=f"tt.store %p, %y : {P}"), None)
    check(combine, signature, select(load="%p, %m {isVolatile = true}"), None)
    inside = select().replace("tt.return", "scf.yield").replace("%r =", f"%r = scf.if %c -> ({F}) {{\n%s =")
    otherwise = f"\n}} else {{\nscf.yield %y : {F}\n}}\ntt.return %r : {F}"
    check(combine, signature, inside.replace("scf.yield %r", "scf.yield %s") + otherwise, None)
    splat = "%s = tt.splat %c : i1 -> tensor<4xi1>\n"
    uniform = select(mask=splat, load="%p, %s", select="%c, %x, %y", types="")
    check(combine, signature, uniform, splat + after.replace("%m", "%s"))


PRODUCTS = """
  %e = tt.expand_dims %x {{axis = {a} : i32}} : tensor<16x32xf32> -> tensor<16x32x1xf32>
  %f = tt.expand_dims %y {{axis = {b} : i32}} : tensor<32x64xf32> -> tensor<1x32x64xf32>
  %g = tt.broadcast %e : tensor<16x32x1xf32> -> tensor<16x32x64xf32>
  %h = tt.broadcast %f : tensor<1x32x64xf32> -> tensor<16x32x64xf32>
  %p = arith.{mul} %g, %h : tensor<16x32x64xf32>
  %r = "tt.reduce"(%p) <{{axis = {axis} : i32}}> ({{
  ^bb0(%l: f32, %s: f32):
    %t = arith.{add} %l, %s : f32
    tt.reduce.return %t : f32
  }}) : (tensor<16x32x64xf32>) -> tensor<{result}xf32>
  tt.return %r : tensor<{result}xf32>"""


def products(a: int = 2, b: int = 0, mul: str = "mulf", axis: int = 1, add: str = "addf", result: str = "16x64") -> str:
    return PRODUCTS.format(a=a, b=b, mul=mul, axis=axis, add=add, result=result)


def test_sum_of_products() -> None:
    signature = "%x: tensor<16x32xf32>, %y: tensor<32x64xf32>"
    after = """
      %z = arith.constant dense<0.0> : tensor<16x64xf32>
      %r = tt.dot %x, %y, %z, inputPrecision = ieee : tensor<16x32xf32> * tensor<32x64xf32> -> tensor<16x64xf32>
      tt.return %r : tensor<16x64xf32>"""
    check(combine, signature, products(), after)
    check(combine, signature, products(mul="addf"), None)
    check(combine, signature, products(add="maxnumf"), None)
    check(combine, signature, products(axis=2, result="16x32"), None)
    for side in ("%e%g", "%f%h"):
        lines = (line for line in products().splitlines() if line.strip()[:2] not in (side[:2], side[2:]))
        whole = f"{signature}, %w: tensor<16x32x64xf32>"
        check(combine, whole, "\n".join(lines).replace(side[2:], "%w"), None)
    narrow = products(result="16x8").replace("64xf32", "8xf32")
    check(combine, signature.replace("64xf32", "8xf32"), narrow, None)
    halves = products().replace("f32", "f16")
    check(combine, signature.replace("f32", "f16"), halves, None)
    small = products().replace("16x", "8x")
    check(combine, signature.replace("16x", "8x"), small, None)


RESHAPE = """
  %a = tt.reshape %x{} : tensor<4x8xi32> -> tensor<32xi32>
  {}"""
SUM = """%r = "tt.reduce"(%a) <{axis = 0 : i32}> ({
  ^bb0(%l: i32, %s: i32):
    %t = arith.addi %l, %s : i32
    tt.reduce.return %t : i32
  }) : (tensor<32xi32>) -> i32
  tt.return %r : i32"""


def test_reshape_before_reduce() -> None:
    signature = "%x: tensor<4x8xi32>"
    check(combine, signature, RESHAPE.format("", SUM), RESHAPE.format(" allow_reorder", SUM))
    check(combine, signature, RESHAPE.format("", "tt.return %a : tensor<32xi32>"), None)


def test_sum_with_scaled_dot() -> None:
    block, scale = "tensor<32x32xf8E5M2>", "tensor<32x1xi8>"
    signature = f"%a: {block}, %b: {block}, %s: {scale}, %c: tensor<32x32xf32>"
    dot = "%{0} = tt.dot_scaled %a scale %s, %b scale %s, %{1} lhs = e5m2 rhs = e5m2 {{fastMath = false}}"
    dot += f" : {block}, {scale} * {block}, {scale} -> tensor<32x32xf32>\n"
    zero, end = "%z = arith.constant dense<0.0> : tensor<32x32xf32>\n", "tt.return %r : tensor<32x32xf32>"
    sum = "%r = arith.addf %d, %c : tensor<32x32xf32>\n"
    check(combine, signature, zero + dot.format("d", "z") + sum + end, dot.format("r", "c") + end)


def test_wide_offsets_are_added_first() -> None:
    signature = "%p: !tt.ptr<f32>, %i: {0}, %j: {0}"
    before = "%q = tt.addptr %p, %i : !tt.ptr<f32>, {0}\n%r = tt.addptr %q, %j{1} : !tt.ptr<f32>, {0}\n"
    after = "%k = arith.addi %i, %j : i64\n%r = tt.addptr %p, %k {tt.divisibility = 16 : i32} : !tt.ptr<f32>, i64\n"
    end = "tt.return %r : !tt.ptr<f32>"
    facts = " {tt.divisibility = 16 : i32, tt.other}"
    check(combine, signature.format("i64"), before.format("i64", facts) + end, after + end)
    check(combine, signature.format("i32"), before.format("i32", facts) + end, None)
    check(combine_keeping_bases, signature.format("i64"), before.format("i64", facts) + end, None)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("loaded", "shape", "combines"),
    [("1x1x32", "32", True), ("2x16", "32", False), ("1x32", "1x1x32", False), ("1x2x16", "32", False)],
)
def test_reshaped_descriptor_loads(loaded: str, shape: str, combines: bool) -> None:
    signature = f"%d: !tt.tensordesc<tensor<{loaded}xf32>>, %i: i32"
    place = f"%d[{', '.join(['%i'] * (loaded.count('x') + 1))}] : !tt.tensordesc<tensor<{loaded}xf32>>"
    before = f"%x = tt.descriptor_load {place} -> tensor<{loaded}xf32>\n"
    before += f"%r = tt.reshape %x : tensor<{loaded}xf32> -> tensor<{shape}xf32>\n"
    after = f"%r = tt.descriptor_load {place} -> tensor<{shape}xf32>\n"
    end = f"tt.return %r : tensor<{shape}xf32>"
    check(combine, signature, before + end, after + end if combines else None)
