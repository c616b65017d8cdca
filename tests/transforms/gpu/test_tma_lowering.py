"""TMA lowering: kernels with descriptors copy the right parts, and what becomes of each op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.types import FLOATS, IntType, f16, f32, f64, i8, i16, i32, i64
from tilewright.ir.verifier import verify
from tilewright.layouts.encodings import LayoutError, NvmmaShared, SwizzledShared
from tilewright.transforms.gpu.coalesce import coalesce
from tilewright.transforms.gpu.convert_to_ttgir import ConvertOptions, convert_to_ttgir
from tilewright.transforms.gpu.optimize_descriptor_encoding import optimize_descriptor_encoding
from tilewright.transforms.gpu.tma_lowering import box_of, element_type, tma_lowering

assert tilewright.dialects.__all__

D = "!tt.tensordesc<tensor<16x32xf32>>"
ROW = "!tt.tensordesc<tensor<1x32xf32>>"
DEEP = "!tt.tensordesc<tensor<1x16x32xf32>>"
T = "tensor<16x32xf32>"
MAKE = "tt.make_tensor_descriptor {}, [%c64, %c64], [%l64, %l1] : <f32>, {}".format

BODIES = {
    "copy": f"""
        %d = {MAKE("%p", "<tensor<16x32xf32>>")}
        %e = {MAKE("%q", "<tensor<16x32xf32>>")}
        %x = tt.descriptor_load %d[%c16, %c8] : {D} -> {T}
        tt.descriptor_store %e[%c8, %c16], %x : {D}, {T}
        """,
    "edges_and_sums": f"""
        %d = {MAKE("%p", "<tensor<16x32xf32>>")}
        %e = {MAKE("%q", "<tensor<16x32xf32>>")}
        %x = tt.descriptor_load %d[%c56, %c48] : {D} -> {T}
        tt.descriptor_reduce add, %e[%c56, %c8], %x : {D}, {T}
        """,
    "rows": f"""
        %d = {MAKE("%p", "<tensor<1x32xf32>>")}
        %e = {MAKE("%q", "<tensor<1x32xf32>>")}
        %r = tt.make_range {{start = 8 : i32, end = 24 : i32}} : tensor<16xi32>
        %three = arith.constant dense<3> : tensor<16xi32>
        %s = arith.muli %r, %three : tensor<16xi32>
        %x = tt.descriptor_gather %d[%s, %c8] : ({ROW}, tensor<16xi32>, i32) -> {T}
        tt.descriptor_scatter %e[%r, %c16], %x : {ROW}, tensor<16xi32>, i32, {T}
        """,
    "other_rank": f"""
        %d = tt.make_tensor_descriptor %p, [%c2, %c16, %c64], [%l1024, %l64, %l1] : <f32>, <tensor<1x16x32xf32>>
        %e = {MAKE("%q", "<tensor<16x32xf32>>")}
        %x = tt.descriptor_load %d[%c1, %c0, %c8] : {DEEP} -> {T}
        tt.descriptor_store %e[%c0, %c0], %x : {D}, {T}
        """,
    "loop": f"""
        %d = {MAKE("%p", "<tensor<16x32xf32>>")}
        %e = {MAKE("%q", "<tensor<16x32xf32>>")}
        scf.for %i = %c0 to %c64 step %c16 : i32 {{
          %x = tt.descriptor_load %d[%i, %c8] : {D} -> {T}
          %y = arith.addf %x, %x : {T}
          tt.descriptor_store %e[%c0, %i], %y : {D}, {T}
        }}
        """,
}


Tile = np.ndarray[Any, Any]


def test_numbers_of_elements() -> None:
    """Those of `CUtensorMapDataType`, which tell signs where sums in memory may; f8 travels as bytes."""
    numbers = {name: element_type(FLOATS[name]) for name in ("bf16", "f16", "f32", "f64", "f8E5M2", "f8E4M3FN")}
    assert numbers == {"bf16": 10, "f16": 6, "f32": 7, "f64": 9, "f8E5M2": 0, "f8E4M3FN": 0}
    assert [element_type(type) for type in (i8, i16, i32, i64)] == [0, 1, 3, 5]
    assert [element_type(IntType(bits, "u")) for bits in (8, 16, 32, 64)] == [0, 1, 2, 4]


def expected(name: str, given: Tile, out: Tile) -> None:
    """The values that the kernel writes to `out`, by NumPy."""
    match name:
        case "copy":
            out[8:24, 16:48] = given[16:32, 8:40]
        case "edges_and_sums":
            out[56:, 8:24] += given[56:, 48:]
        case "rows":
            rows = np.arange(8, 24) * 3
            out[8:24, 16:48] = np.where((rows < 64)[:, None], given[rows % 64, 8:40], 0)
        case "other_rank":
            out[:16, :32] = given[16:32, 8:40]
        case "loop":
            for i in range(0, 64, 16):
                out[:16, i : i + 32] = (2 * given[i : i + 16, 8:40])[:, : 64 - i]


def module_of(body: str) -> Op:
    numbers = "\n".join(f"%c{n} = arith.constant {n} : i32" for n in (0, 1, 2, 8, 16, 48, 56, 64))
    longs = "\n".join(f"%l{n} = arith.constant {n} : i64" for n in (1, 64, 1024))
    head = "module {\n tt.func public @f(%p: !tt.ptr<f32>, %q: !tt.ptr<f32>) {\n"
    module = parse_module(f"{head}{numbers}\n{longs}\n{body}\ntt.return\n}}\n}}")
    verify(module)
    convert_to_ttgir(module, ConvertOptions("cuda:90"))
    coalesce(module)
    optimize_descriptor_encoding(module)
    verify(module)
    return module


@pytest.mark.quick
@pytest.mark.parametrize("name", BODIES)
def test_the_right_parts_are_copied(name: str) -> None:
    module = module_of(BODIES[name])
    tma_lowering(module)
    verify(module)
    assert not any(op.name.startswith(("tt.descriptor", "tt.make_tensor")) for op in module.walk())
    given = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    out, wanted = np.ones((64, 64), np.float32), np.ones((64, 64), np.float32)
    run_ir(module, {"p": given, "q": out})
    expected(name, given, wanted)
    np.testing.assert_array_equal(out, wanted)


def test_text(golden: Callable[[str, str], None]) -> None:
    module = module_of(BODIES["edges_and_sums"])
    tma_lowering(module)
    golden(print_op(module, triton="3.9"), "transforms/tma_lowering/edges_and_sums.ttgir")


HELD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#other = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32} {
tt.func public @f(%d: !tt.tensordesc<tensor<64x64xf16, #shared>>, %i: i32) {
  %x = tt.descriptor_load %d[%i, %i] : !tt.tensordesc<tensor<64x64xf16, #shared>> -> tensor<64x64xf16, #blocked>
  %a = ttg.local_alloc %x : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64xf16, #shared, #smem>
  %v = ttg.memdesc_trans %a {order = array<i32: 1, 0>}
    : !ttg.memdesc<64x64xf16, #shared, #smem> -> !ttg.memdesc<64x64xf16, #turned, #smem>
  %b = ttg.local_alloc %x : (tensor<64x64xf16, #blocked>) -> !ttg.memdesc<64x64xf16, #KIND, #smem>
  tt.return
}
}
""".replace("#turned,", "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>,")


def buffers(kind: str) -> list[str]:
    module = parse_module(HELD.replace("#KIND", kind))
    verify(module)
    tma_lowering(module)
    verify(module)
    return [op.name for op in module.walk() if op.name in ("ttg.local_alloc", "ttg.local_load")]


def test_buffers_with_the_layout_of_the_descriptor_are_its_buffer() -> None:
    assert buffers("#shared") == ["ttg.local_alloc"] * 2, "the buffer and the barrier"
    assert buffers("#other") == ["ttg.local_alloc", "ttg.local_alloc", "ttg.local_load", "ttg.local_alloc"]


def test_what_the_accelerator_is_told() -> None:
    assert [element_type(type) for type in (f16, f32, f64, i8, i32)] == [6, 7, 9, 0, 3]
    assert box_of(NvmmaShared(128, False, 16), (64, 256)) == (64, 64)
    assert box_of(NvmmaShared(0, False, 16), (64, 512)) == (64, 256)
    assert box_of(SwizzledShared(1, 1, 1, (1, 0)), (512, 64)) == (256, 64)
    with pytest.raises(LayoutError, match="cannot have the layout"):
        box_of(SwizzledShared(8, 1, 8, (1, 0)), (64, 64))
