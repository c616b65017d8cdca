"""Coalesce: which layout each memory access gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import TensorType
from tilewright.ir.verifier import verify
from tilewright.layouts.encodings import Blocked, Encoding, encoding
from tilewright.transforms.gpu.coalesce import coalesce
from tilewright.transforms.gpu.convert_to_ttgir import ConvertOptions, convert_to_ttgir

pytestmark = pytest.mark.quick

assert tilewright.dialects.__all__


def coalesced(signature: str, body: str, target: str = "cuda:80") -> Op:
    module = parse_module(f"module {{\n tt.func public @f({signature}) {{\n{body}\ntt.return\n}}\n}}")
    convert_to_ttgir(module, ConvertOptions(target))
    coalesce(module)
    verify(module)
    return module


def layouts(module: Op, name: str) -> list[Encoding]:
    """The layouts of the last operand of the ops called `name`."""
    types = [op.operands[-1].type for op in module.walk() if op.name == name]
    return [encoding(type.encoding or "") for type in types if isinstance(type, TensorType)]


def copy(pointee: str, out: str, *, aligned: int = 16) -> tuple[str, str]:
    hint = f"{{tt.divisibility = {aligned} : i32}}"
    return (
        f"%p: !tt.ptr<{pointee}> {hint}, %q: !tt.ptr<{out}> {hint}",
        f"""
        %r = tt.make_range {{start = 0 : i32, end = 4096 : i32}} : tensor<4096xi32>
        %a = tt.splat %p : !tt.ptr<{pointee}> -> tensor<4096x!tt.ptr<{pointee}>>
        %b = tt.addptr %a, %r : tensor<4096x!tt.ptr<{pointee}>>, tensor<4096xi32>
        %x = tt.load %b : tensor<4096x!tt.ptr<{pointee}>>
        %c = tt.splat %q : !tt.ptr<{out}> -> tensor<4096x!tt.ptr<{out}>>
        %d = tt.addptr %c, %r : tensor<4096x!tt.ptr<{out}>>, tensor<4096xi32>
        """,
    )


def line(count: int) -> Blocked:
    return Blocked((count,), (32,), (4,), (0,))


@pytest.mark.parametrize(
    ("pointee", "aligned", "count"), [("f32", 16, 4), ("f16", 16, 8), ("i8", 16, 16), ("f32", 8, 2), ("f64", 4, 1)]
)
def test_threads_take_what_one_instruction_can(pointee: str, aligned: int, count: int) -> None:
    signature, body = copy(pointee, pointee, aligned=aligned)
    module = coalesced(signature, f"{body}\ntt.store %d, %x : tensor<4096x!tt.ptr<{pointee}>>")
    assert layouts(module, "tt.load") == [line(count)]
    assert layouts(module, "tt.store") == [line(count)]


def test_loads_follow_what_depends_on_them_but_stores_do_not() -> None:
    signature, body = copy("f16", "f32")
    body += "%y = arith.extf %x : tensor<4096xf16> to tensor<4096xf32>\ntt.store %d, %y : tensor<4096x!tt.ptr<f32>>"
    module = coalesced(signature, body)
    assert layouts(module, "tt.load") == [line(8)]
    assert layouts(module, "tt.store") == [line(4)]
    signature, body = copy("f32", "f16")
    body += "%y = arith.truncf %x : tensor<4096xf32> to tensor<4096xf16>\ntt.store %d, %y : tensor<4096x!tt.ptr<f16>>"
    module = coalesced(signature, body)
    assert layouts(module, "tt.load") == layouts(module, "tt.store") == [line(8)]


def test_copies_with_nothing_in_common_but_their_function_do_not_follow_each_other() -> None:
    (signature, body), (other_signature, other) = copy("f32", "f32"), copy("f16", "f16")
    for name in "pqrabxcd":
        other, other_signature = (text.replace(f"%{name}", f"%{name}2") for text in (other, other_signature))
    body += "tt.store %d, %x : tensor<4096x!tt.ptr<f32>>"
    other += "tt.store %d2, %x2 : tensor<4096x!tt.ptr<f16>>"
    module = coalesced(f"{signature}, {other_signature}", body + other)
    assert layouts(module, "tt.load") == layouts(module, "tt.store") == [line(4), line(8)]


def test_columns_are_read_along_columns(golden: Callable[[str, str], None]) -> None:
    module = coalesced(
        "%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %s: i32 {tt.divisibility = 16 : i32}, %n: i32",
        """
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %other = arith.constant dense<0.0> : tensor<64x64xf32>
        %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
        %row = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
        %col = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
        %stride = tt.splat %s : i32 -> tensor<1x64xi32>
        %o = arith.muli %col, %stride : tensor<1x64xi32>
        %a = tt.broadcast %row : tensor<64x1xi32> -> tensor<64x64xi32>
        %b = tt.broadcast %o : tensor<1x64xi32> -> tensor<64x64xi32>
        %ab = arith.addi %a, %b : tensor<64x64xi32>
        %t = tt.splat %p : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>>
        %q = tt.addptr %t, %ab : tensor<64x64x!tt.ptr<f32>>, tensor<64x64xi32>
        %end = tt.splat %n : i32 -> tensor<64x64xi32>
        %m = arith.cmpi slt, %ab, %end : tensor<64x64xi32>
        scf.for %i = %c0 to %n step %c1 : i32 {
          %x = tt.load %q, %m, %other : tensor<64x64x!tt.ptr<f32>>
          tt.store %q, %x, %m : tensor<64x64x!tt.ptr<f32>>
        }
        """,
    )
    assert set(layouts(module, "tt.load")) == {Blocked((4, 1), (16, 2), (1, 4), (0, 1))}
    golden(print_op(module), "transforms/coalesce/columns.ttgir")


@pytest.mark.parametrize(
    ("target", "kind", "element", "count"),
    [
        ("cuda:80", "add", "i32", 1),
        ("cuda:80", "fadd", "f32", 1),
        ("cuda:90", "fadd", "f32", 4),
        ("cuda:80", "fadd", "f16", 2),
        ("cuda:80", "fadd", "bf16", 1),
        ("cuda:90", "fadd", "bf16", 8),
        ("hip:gfx942", "fadd", "f16", 2),
        ("hip:gfx942", "fadd", "f32", 1),
        ("cuda:90", "fadd", "f64", 1),
    ],
)
def test_atomics_take_what_their_instruction_updates(target: str, kind: str, element: str, count: int) -> None:
    signature, body = copy(element, element)
    body += (
        f"%y = tt.atomic_rmw {kind}, relaxed, gpu, %d, %x : (tensor<4096x!tt.ptr<{element}>>, tensor<4096x{element}>)"
    )
    module = coalesced(signature, f"{body} -> tensor<4096x{element}>", target)
    assert layouts(module, "tt.atomic_rmw") == [line(count)]


def test_tiles_of_descriptors_are_row_major() -> None:
    module = coalesced(
        "%d: !tt.tensordesc<tensor<64x64xf16>>, %i: i32",
        """
        %x = tt.descriptor_load %d[%i, %i] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16>
        tt.descriptor_store %d[%i, %i], %x : !tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16>
        """,
    )
    wanted = Blocked((1, 8), (4, 8), (4, 1), (1, 0))
    load = next(op for op in module.walk() if op.name == "tt.descriptor_load")
    assert isinstance(load.result.type, TensorType)
    assert encoding(load.result.type.encoding or "") is wanted
    assert layouts(module, "tt.descriptor_store") == [wanted]


def test_scalars_have_no_layout() -> None:
    module = coalesced("%p: !tt.ptr<f32>", "%x = tt.load %p : !tt.ptr<f32>\ntt.store %p, %x : !tt.ptr<f32>")
    assert not any(op.name == "ttg.convert_layout" for op in module.walk())
