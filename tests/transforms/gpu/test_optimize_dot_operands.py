"""Factors of products: views of tiles become views of buffers, and the product stays what it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright.dialects
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.layouts.encodings import NvmmaShared, SharedLinear, SwizzledShared
from tilewright.layouts.shared_choice import contiguous_offsets, reshaped_buffer
from tilewright.transforms.gpu.accelerate_matmul import accelerate_matmul
from tilewright.transforms.gpu.coalesce import coalesce
from tilewright.transforms.gpu.convert_to_ttgir import ConvertOptions, convert_to_ttgir
from tilewright.transforms.gpu.optimize_dot_operands import optimize_dot_operands
from tilewright.transforms.gpu.remove_layout_conversions import remove_layout_conversions

assert tilewright.dialects.__all__


def grid(name: str, rows: int, columns: int, type: str) -> str:
    """`%{name}p`: pointers to the elements of a matrix, row by row."""
    tile = f"tensor<{rows}x{columns}x"
    return f"""
    %{name}r = tt.make_range {{start = 0 : i32, end = {rows * columns} : i32}} : tensor<{rows * columns}xi32>
    %{name}o = tt.reshape %{name}r : tensor<{rows * columns}xi32> -> {tile}i32>
    %{name}b = tt.splat %{name} : !tt.ptr<{type}> -> {tile}!tt.ptr<{type}>>
    %{name}p = tt.addptr %{name}b, %{name}o : {tile}!tt.ptr<{type}>>, {tile}i32>
    """


def kernel(view: str, stored: tuple[int, int]) -> str:
    """d = %x @ b, where `view` makes the 128x64 tile %x of %v, which is stored as `stored`."""
    return f"""
    tt.func public @f(%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %d: !tt.ptr<f32>) {{
        {grid("a", *stored, "f16")}{grid("b", 64, 64, "f16")}{grid("d", 128, 64, "f32")}
        %v = tt.load %ap : tensor<{stored[0]}x{stored[1]}x!tt.ptr<f16>>
        {view}
        %y = tt.load %bp : tensor<64x64x!tt.ptr<f16>>
        %c = arith.constant dense<0.0> : tensor<128x64xf32>
        %z = tt.dot %x, %y, %c : tensor<128x64xf16> * tensor<64x64xf16> -> tensor<128x64xf32>
        tt.store %dp, %z : tensor<128x64x!tt.ptr<f32>>
        tt.return
    }}
    """


TURNED = kernel("%x = tt.trans %v {order = array<i32: 1, 0>} : tensor<64x128xf16> -> tensor<128x64xf16>", (64, 128))


def before(text: str, capability: int) -> Op:
    module = parse_module(text)
    convert_to_ttgir(module, ConvertOptions(f"cuda:{capability}"))
    coalesce(module)
    remove_layout_conversions(module)
    accelerate_matmul(module)
    return module


def names(module: Op) -> set[str]:
    return {op.name for op in module.walk()}


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_the_product_stays_what_it_was(capability: int) -> None:
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((64, 128), (64, 64)))
    expected, found = np.zeros((128, 64), np.float32), np.zeros((128, 64), np.float32)
    run_ir(parse_module(TURNED), {"a": a, "b": b, "d": expected})
    module = before(TURNED, capability)
    optimize_dot_operands(module)
    verify(module)
    assert "ttg.memdesc_trans" in names(module)
    assert "tt.trans" not in names(module)
    run_ir(module, {"a": a, "b": b, "d": found})
    np.testing.assert_allclose(expected, a.T.astype(np.float64) @ b, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("capability", [80, 90])
def test_golden(capability: int, golden: Callable[[str, str], None]) -> None:
    module = before(TURNED, capability)
    optimize_dot_operands(module)
    golden(print_op(module), f"transforms/optimize_dot_operands/sm_{capability}.ttgir")


SCALES = """#rows = #ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [1, 32], warpsPerCTA = [1, 4], order = [1, 0]}>
#sum = #ttg.blocked<{sizePerThread = [1, 128], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [0, 1]}>
#wide = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 8}>
#flat = #ttg.nvmma_shared<{swizzlingByteWidth = 0, transposed = false, elementBitWidth = 8}>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 128, colStride = 1>
#scales = #ttng.tensor_memory_scales_encoding<>
#parts = #ttg.linear<{register = [[0, 0, 0, 0, 1], [0, 0, 0, 0, 2], [0, 0, 0, 1, 0], [0, 0, 0, 2, 0]], \
lane = [[0, 0, 1, 0, 0], [0, 0, 2, 0, 0], [0, 0, 4, 0, 0], [0, 0, 8, 0, 0], [0, 0, 16, 0, 0]], \
warp = [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], block = []}>
#turned = #ttg.linear<{register = [[0, 0, 0, 0, 1], [0, 0, 0, 0, 2], [0, 1, 0, 0, 0], [0, 2, 0, 0, 0]], \
lane = [[0, 0, 1, 0, 0], [0, 0, 2, 0, 0], [0, 0, 4, 0, 0], [0, 0, 8, 0, 0], [0, 0, 16, 0, 0]], \
warp = [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], block = []}>
#line = #ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8]], lane = [[0, 16], [0, 32], [0, 64], [0, 128], [0, 256]], \
warp = [[0, 0], [0, 0]], block = []}>
#matrix = #ttg.linear<{register = [[0, 1], [0, 2], [32, 0], [64, 0]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], \
warp = [[0, 0], [0, 0]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:100",
                   "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%s: !tt.ptr<i8>, %d: !tt.ptr<f32>) {
    %true = arith.constant true
    %ones = arith.constant dense<1.0> : tensor<128x128xf8E4M3FN, #rows>
    %zero = arith.constant dense<0.0> : tensor<128x128xf32, #sum>
    %a = ttg.local_alloc %ones : (tensor<128x128xf8E4M3FN, #rows>) -> !ttg.memdesc<128x128xf8E4M3FN, #wide, #smem>
    %m = ttng.tmem_alloc %zero : (tensor<128x128xf32, #sum>) -> !ttg.memdesc<128x128xf32, #tmem, #ttng.tensor_memory, mutable>
    %r = tt.make_range {start = 0 : i32, end = 512 : i32} : tensor<512xi32, #ttg.slice<{dim = 0, parent = #line}>>
    %r1 = tt.expand_dims %r {axis = 0 : i32} : tensor<512xi32, #ttg.slice<{dim = 0, parent = #line}>> -> tensor<1x512xi32, #line>
    %b = tt.splat %s : !tt.ptr<i8> -> tensor<1x512x!tt.ptr<i8>, #line>
    %p = tt.addptr %b, %r1 : tensor<1x512x!tt.ptr<i8>, #line>, tensor<1x512xi32, #line>
    %v = tt.load %p : tensor<1x512x!tt.ptr<i8>, #line>
    %c = ttg.local_alloc %v : (tensor<1x512xi8, #line>) -> !ttg.memdesc<1x512xi8, #flat, #smem>
    %l = ttg.local_load %c : !ttg.memdesc<1x512xi8, #flat, #smem> -> tensor<1x512xi8, #line>
    %x = tt.reshape %l : tensor<1x512xi8, #line> -> tensor<1x1x32x4x4xi8, #parts>
    %t = tt.trans %x {order = array<i32: 0, 3, 2, 1, 4>} : tensor<1x1x32x4x4xi8, #parts> -> tensor<1x4x32x1x4xi8, #turned>
    %y = tt.reshape %t : tensor<1x4x32x1x4xi8, #turned> -> tensor<128x4xi8, #matrix>
    %q = ttng.tmem_alloc %y : (tensor<128x4xi8, #matrix>) -> !ttg.memdesc<128x4xi8, #scales, #ttng.tensor_memory>
    ttng.tc_gen5_mma_scaled %a, %a, %m, %q, %q, %true, %true lhs = e4m3 rhs = e4m3 : !ttg.memdesc<128x128xf8E4M3FN, #wide, #smem>, !ttg.memdesc<128x128xf8E4M3FN, #wide, #smem>, !ttg.memdesc<128x128xf32, #tmem, #ttng.tensor_memory, mutable>, !ttg.memdesc<128x4xi8, #scales, #ttng.tensor_memory>, !ttg.memdesc<128x4xi8, #scales, #ttng.tensor_memory>
    %z = ttng.tmem_load %m : !ttg.memdesc<128x128xf32, #tmem, #ttng.tensor_memory, mutable> -> tensor<128x128xf32, #sum>
    %n = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32, #ttg.slice<{dim = 1, parent = #sum}>>
    %e = "tt.reduce"(%z) <{axis = 1 : i32}> ({
    ^bb0(%u: f32, %w: f32):
      %k = arith.addf %u, %w : f32
      tt.reduce.return %k : f32
    }) : (tensor<128x128xf32, #sum>) -> tensor<128xf32, #ttg.slice<{dim = 1, parent = #sum}>>
    %f = tt.splat %d : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #sum}>>
    %g = tt.addptr %f, %n : tensor<128x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #sum}>>, tensor<128xi32, #ttg.slice<{dim = 1, parent = #sum}>>
    tt.store %g, %e : tensor<128x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #sum}>>
    tt.return
}
}
"""  # noqa: E501 - lines of IR


def test_scales_stay_in_shared_memory() -> None:
    scales = np.random.default_rng(0).integers(120, 128, 512).astype(np.int8)
    expected, found = np.zeros(128, np.float32), np.zeros(128, np.float32)
    module = parse_module(SCALES)
    verify(module)
    run_ir(module, {"s": scales, "d": expected})
    optimize_dot_operands(module)
    verify(module)
    assert {"ttg.memdesc_reshape", "ttg.memdesc_trans"} <= names(module)
    assert not {"ttg.local_load", "tt.trans"} & names(module)
    run_ir(module, {"s": scales, "d": found})
    assert np.unique(expected).size > 50
    np.testing.assert_array_equal(found, expected)


def test_views_of_buffers() -> None:
    nvmma = NvmmaShared(64, False, 16)
    assert reshaped_buffer(nvmma, (128, 64), (32, 1, 4, 64)) is NvmmaShared(64, False, 16, False, 4)
    assert isinstance(reshaped_buffer(nvmma, (128, 64), (128, 2, 32)), SharedLinear)
    assert contiguous_offsets(SwizzledShared(1, 1, 1, (1, 0)), (2, 512)) == 1024
    assert contiguous_offsets(SwizzledShared(1, 1, 1, (0, 1)), (2, 512)) == 1
    assert contiguous_offsets(SwizzledShared(4, 1, 2, (1, 0)), (2, 512)) == 512


def test_scales_in_a_buffer_with_holes_are_loaded() -> None:
    flat = "#ttg.nvmma_shared<{swizzlingByteWidth = 0, transposed = false, elementBitWidth = 8}>"
    assert flat in SCALES
    module = parse_module(SCALES.replace(flat, "#ttg.padded_shared<[256:+16] {order = [1, 0], shape = [1, 512]}>"))
    verify(module)
    optimize_dot_operands(module)
    verify(module)
    assert {"ttg.local_load", "tt.trans"} <= names(module)
