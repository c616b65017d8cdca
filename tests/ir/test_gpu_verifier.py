"""Layouts and buffers that do not fit: the error names the op and says what does not fit."""

from __future__ import annotations

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.errors import ParseError, VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify

BLOCKED = "sizePerThread = [1, {}], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [{}]"
ALIASES = f"""#row = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
#wide = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [8], order = [0]}}>
#half = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}}>
#two = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CGALayout = [[0]]}}>
#tile = #ttg.blocked<{{{BLOCKED.format(4, "1, 0")}}}>
#turned = #ttg.blocked<{{{BLOCKED.format(4, "0, 1")}}}>
#pair = #ttg.blocked<{{sizePerThread = [1, 2], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [1, 0]}}>
#mma = #ttg.nvidia_mma<{{versionMajor = 2, warpsPerCTA = [4, 1], instrShape = [16, 8]}}>
#mma3 = #ttg.nvidia_mma<{{versionMajor = 3, warpsPerCTA = [4, 1], instrShape = [16, 8, 16]}}>
#a = #ttg.dot_op<{{opIdx = 0, parent = #mma, kWidth = 2}}>
#a4 = #ttg.dot_op<{{opIdx = 0, parent = #mma, kWidth = 4}}>
#b = #ttg.dot_op<{{opIdx = 1, parent = #mma, kWidth = 2}}>
#line = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
#shared = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 16, order = [0, 1]}}>
#padded = #ttg.padded_shared<[4:+4] {{order = [1, 0], shape = [16, 16]}}>
#smem = #ttg.shared_memory
module attributes {{"ttg.num-warps" = 4 : i32}} {{
"""

OPS = {
    "warps": ("tensor<128xf32, #wide>", "", "is for 8 warps, but here are 4"),
    "threads": ("tensor<128xf32, #half>", "", "is for 16 threads per warp, but here are 32"),
    "blocks": ("tensor<128xf32, #two>", "", "is for 2 blocks per cluster, but here are 1"),
    "rank": ("tensor<128x4xf32, #row>", "", "is for 1 dimensions, not 2"),
    "buffer": ("tensor<128xf32, #line>", "", "is no layout of tensors"),
    "extent": ("tensor<96xf32, #row>", "", "must be powers of two"),
    "transpose": (
        "tensor<16x32xf32, #tile>",
        "%r = tt.trans %x {order = array<i32: 1, 0>} : tensor<16x32xf32, #tile> -> tensor<32x16xf32, #tile>",
        "the result's layout must be #ttg.blocked",
    ),
    "expand": (
        "tensor<32xf32, #ttg.slice<{dim = 1, parent = #tile}>>",
        "%r = tt.expand_dims %x {axis = 0 : i32}"
        " : tensor<32xf32, #ttg.slice<{dim = 1, parent = #tile}>> -> tensor<1x32xf32, #tile>",
        "is a slice along 1, not 0",
    ),
    "no result layout": (
        "tensor<128xf32, #row>",
        "%r = tt.join %x, %x : tensor<128xf32, #row> -> tensor<128x2xf32>",
        "either both types have a layout or none",
    ),
    "join": (
        "tensor<128xf32, #row>",
        "%r = tt.join %x, %x : tensor<128xf32, #row> -> tensor<128x2xf32, #tile>",
        "tt.join: ",
    ),
    "split": (
        "tensor<128x2xf32, #tile>",
        "%r, %s = tt.split %x : tensor<128x2xf32, #tile> -> tensor<128xf32, #row>",
        "tt.split: ",
    ),
    "broadcast": (
        "tensor<16x1xf32, #tile>",
        "%r = tt.broadcast %x : tensor<16x1xf32, #tile> -> tensor<16x32xf32, #turned>",
        "layouts differ",
    ),
    "conversion": (
        "tensor<16x32xf32, #tile>",
        "%r = arith.truncf %x : tensor<16x32xf32, #tile> to tensor<16x32xf16, #turned>",
        "differ in layout",
    ),
    "convert elements": (
        "tensor<16x32xf32, #tile>",
        "%r = ttg.convert_layout %x : tensor<16x32xf32, #tile> -> tensor<16x32xf16, #turned>",
        "element types differ",
    ),
    "reduce": (
        "tensor<16x32xf32, #tile>",
        '%r = "tt.reduce"(%x) <{axis = 1 : i32}> ({\n^bb0(%a: f32, %b: f32):\n  tt.reduce.return %a : f32\n'
        "}) : (tensor<16x32xf32, #tile>) -> tensor<16xf32, #ttg.slice<{dim = 0, parent = #tile}>>",
        "tt.reduce: results: expected",
    ),
    "k width": (
        "tensor<16x16xf16, #a4>",
        "%b = arith.constant dense<0.0> : tensor<16x16xf16, #b>\n"
        "%c = arith.constant dense<0.0> : tensor<16x16xf32, #mma>\n"
        "%r = tt.dot %x, %b, %c : tensor<16x16xf16, #a4> * tensor<16x16xf16, #b> -> tensor<16x16xf32, #mma>",
        "kWidth differs: 4 and 2",
    ),
    "cat": (
        "tensor<128xf32, #row>",
        "%r = tt.cat %x, %x : tensor<128xf32, #row> -> tensor<256xf32, #ttg.slice<{dim = 1, parent = #tile}>>",
        "must have as many elements as in both operands",
    ),
    "cat without a layout": (
        "tensor<128xf32, #row>",
        "%r = tt.cat %x, %x : tensor<128xf32, #row> -> tensor<256xf32>",
        "layouts differ",
    ),
    "one layout of an operand": (
        "tensor<16x16xf16, #tile>",
        "%b = arith.constant dense<0.0> : tensor<16x16xf16, #b>\n"
        "%c = arith.constant dense<0.0> : tensor<16x16xf32, #mma>\n"
        "%r = tt.dot %x, %b, %c : tensor<16x16xf16, #tile> * tensor<16x16xf16, #b> -> tensor<16x16xf32, #mma>",
        "both operands have the layout of an operand or none",
    ),
    "kinds of products": (
        "tensor<16x16xf16, #a>",
        "%b = arith.constant dense<0.0> : tensor<16x16xf16, #b>\n"
        "%c = arith.constant dense<0.0> : tensor<16x16xf32, #mma3>\n"
        "%r = tt.dot %x, %b, %c : tensor<16x16xf16, #a> * tensor<16x16xf16, #b> -> tensor<16x16xf32, #mma3>",
        "one kind of matrix instruction",
    ),
    "immutable": (
        "tensor<16x16xf32, #tile>",
        "%b = ttg.local_alloc %x : (tensor<16x16xf32, #tile>) -> !ttg.memdesc<16x16xf32, #shared, #smem>\n"
        "ttg.local_store %x, %b : tensor<16x16xf32, #tile> -> !ttg.memdesc<16x16xf32, #shared, #smem>",
        "not mutable",
    ),
    "empty buffer": ("i32", "%b = ttg.local_alloc : () -> !ttg.memdesc<8xf32, #line, #smem>", "must be mutable"),
    "bits": ("i32", "%b = ttg.local_alloc : () -> !ttg.memdesc<8xi1, #line, #smem, mutable>", "1 bits do not fill"),
    "load": (
        "!ttg.memdesc<16x16xf32, #shared, #smem>",
        "%r = ttg.local_load %x : !ttg.memdesc<16x16xf32, #shared, #smem> -> tensor<16x32xf32, #tile>",
        "differ in shape or elements",
    ),
    "swizzling": (
        "!ttg.memdesc<8x16xf32, #shared, #smem>",
        "%r = ttg.memdesc_subslice %x[0, 0]"
        " : !ttg.memdesc<8x16xf32, #shared, #smem> -> !ttg.memdesc<8x4xf32, #shared, #smem, 8x16>",
        "axis 1 cannot be cut inside the swizzling pattern",
    ),
    "stages with holes": (
        "!ttg.memdesc<2x16x16xf32, #padded, #smem>",
        "%r = ttg.memdesc_subslice %x[0, 0, 0]"
        " : !ttg.memdesc<2x16x16xf32, #padded, #smem> -> !ttg.memdesc<1x16x16xf32, #padded, #smem, 2x16x16>",
        "a padded buffer of several stages cannot be cut",
    ),
    "offset": (
        "!ttg.memdesc<8x16xf32, #shared, #smem>",
        "%r = ttg.memdesc_subslice %x[2, 0]"
        " : !ttg.memdesc<8x16xf32, #shared, #smem> -> !ttg.memdesc<4x16xf32, #shared, #smem, 8x16>",
        "offset 2 is inside a part of 4 along axis 0",
    ),
    "index": (
        "!ttg.memdesc<8x16xf32, #line, #smem>",
        "%i = arith.constant 0 : i32\n"
        "%r = ttg.memdesc_index %x[%i] : !ttg.memdesc<8x16xf32, #line, #smem> -> !ttg.memdesc<32xf32, #line, #smem>",
        "an element of .* along the first axis is not",
    ),
    "holes": (
        "!ttg.memdesc<16x16xf32, #shared, #smem>",
        "%r = ttg.memdesc_reinterpret %x"
        " : !ttg.memdesc<16x16xf32, #shared, #smem> -> !ttg.memdesc<16x16xf32, #padded, #smem>",
        "different holes",
    ),
    "size": (
        "!ttg.memdesc<8x16xf16, #shared, #smem>",
        "%r = ttg.memdesc_reinterpret %x"
        " : !ttg.memdesc<8x16xf16, #shared, #smem> -> !ttg.memdesc<8x16xf32, #shared, #smem>",
        "it has 4096 bits, and what it is made of 2048 in a row",
    ),
    "warps of a partition": (
        "i32",
        "ttg.warp_specialize()\ndefault {\n  ttg.warp_yield\n}\npartition0() num_warps(2) {\n"
        "  %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #row>\n"
        "  ttg.warp_return\n} : () -> ()",
        "is for 4 warps, but here are 2",
    ),
    "warps not a power of two": (
        "i32",
        "ttg.warp_specialize()\ndefault {\n  ttg.warp_yield\n}\npartition0() num_warps(3) {\n"
        "  ttg.warp_return\n} : () -> ()",
        "3 warps: no power of two",
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", OPS)
def test_refused(name: str) -> None:
    argument, line, problem = OPS[name]
    line = line or f'"tt.print"(%x) <{{prefix = ""}}> : ({argument}) -> ()'
    text = f"{ALIASES}tt.func @f(%x: {argument}) {{\n{line}\ntt.return\n}}\n}}"
    module = parse_module(text)
    with pytest.raises(VerificationError, match=problem):
        verify(module)


def test_a_broadcast_may_call_its_layout_by_two_names() -> None:
    """Triton 3.9 prints that where a conversion of the operand would move nothing."""
    first = "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [1, 0]}>"
    second = first.replace("[1, 0]", "[0, 1]")
    line = f"%r = tt.broadcast %x : tensor<128x1xf32, {first}> -> tensor<128x8xf32, {second}>"
    verify(parse_module(f"{ALIASES}tt.func @f(%x: tensor<128x1xf32, {first}>) {{\n{line}\ntt.return\n}}\n}}"))


TYPES = {
    "!ttg.memdesc<f32, #line, #smem>": "needs one dimension or more",
    "!ttg.memdesc<2x3xf32, #shared, #smem>": "must be powers of two",
    "!ttg.memdesc<8x16xf32, #shared, #smem, 4x16>": "is not a part of the allocation",
    "!ttg.memdesc<8x16xf32, #shared, #ttng.tensor_memory>": "is a layout of #ttg.shared_memory",
    "!ttg.memdesc<8x8xf32, #padded, #smem>": "is for the shape",
    "!ttg.memdesc<4x4x4x4xf32, #padded, #smem>": "is for 2 dimensions, not 4",
}


@pytest.mark.quick
@pytest.mark.parametrize("type", TYPES)
def test_types_that_cannot_be(type: str) -> None:
    with pytest.raises(ParseError, match=TYPES[type]):
        parse_module(f"{ALIASES}tt.func @f({type})\n}}")
