"""Descriptor encodings: which layout a descriptor gets from those who use it."""

from __future__ import annotations

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.types import FunctionType, TensorDescType
from tilewright.ir.verifier import verify
from tilewright.layouts.encodings import Encoding, NvmmaShared, encoding
from tilewright.layouts.shared_choice import cga_with_rank, nvmma_for, with_rank
from tilewright.transforms.gpu.optimize_descriptor_encoding import optimize_descriptor_encoding

assert tilewright.dialects.__all__

HEADER = """
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#wide = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#narrow = #ttg.nvmma_shared<{swizzlingByteWidth = 32, transposed = false, elementBitWidth = 16}>
#turned = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>
#plain = #ttg.shared_linear<{offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0]]}, alignment = 128>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
"""
D = "!tt.tensordesc<tensor<64x64xf16>>"
T = "tensor<64x64xf16, #blocked>"
LOAD = f"tt.descriptor_load {{}}[%i, %i] : {D} -> {T}".format
ALLOC = f"ttg.local_alloc %x : ({T}) -> !ttg.memdesc<64x64xf16, #{{}}, #smem>".format


def optimized(signature: str, body: str, kind: str = "public") -> Op:
    text = f"{HEADER} tt.func {kind} @f({signature}) {{\n{body}\ntt.return\n}}\n}}"
    module = parse_module(text)
    verify(module)
    optimize_descriptor_encoding(module)
    verify(module)
    return module


def layouts(module: Op) -> list[Encoding]:
    """The layouts of the descriptors, arguments first."""
    function = module.regions[0].block.first
    assert function is not None
    values = [*function.regions[0].block.args, *(value for op in function.walk() for value in op.results)]
    types = [value.type for value in values if isinstance(value.type, TensorDescType)]
    return [encoding(type.block.encoding or "") for type in types]


WIDE = NvmmaShared(128, False, 16)
NARROW = NvmmaShared(32, False, 16)


def test_the_buffer_that_a_tile_goes_to() -> None:
    module = optimized(f"%d: {D}, %i: i32", f"%x = {LOAD('%d')}\n%b = {ALLOC('narrow')}")
    assert layouts(module) == [NARROW]
    function = module.regions[0].block.first
    assert function is not None
    type = function.attributes["function_type"]
    assert isinstance(type, FunctionType)
    assert type.inputs[0].text == f"!tt.tensordesc<tensor<64x64xf16, {NARROW.text}>>"


def test_what_hardware_cannot_write_does_not_count() -> None:
    module = optimized(f"%d: {D}, %i: i32", f"%x = {LOAD('%d')}\n%b = {ALLOC('turned')}")
    assert layouts(module) == [WIDE]


def test_users_that_differ_get_what_suits_the_shape() -> None:
    body = f"%x = {LOAD('%d')}\n%b = {ALLOC('narrow')}\n"
    body += f"%y = {LOAD('%d')}\n%c = {ALLOC('wide').replace('%x', '%y')}"
    assert layouts(optimized(f"%d: {D}, %i: i32", body)) == [WIDE]


def test_linear_buffers_that_are_the_same() -> None:
    small = "!tt.tensordesc<tensor<4x16xf16>>"
    body = f"""
        %x = tt.descriptor_load %d[%i, %i] : {small} -> tensor<4x16xf16, #blocked>
        %b = ttg.local_alloc %x : (tensor<4x16xf16, #blocked>) -> !ttg.memdesc<4x16xf16, #plain, #smem>
        """
    assert layouts(optimized(f"%d: {small}, %i: i32", body)) == [NvmmaShared(0, False, 16)]


def test_loops_and_branches_share_a_layout() -> None:
    body = f"""
        %one = arith.constant 1 : i32
        %e = scf.if %c -> ({D}) {{
          scf.yield %d : {D}
        }} else {{
          scf.yield %d : {D}
        }}
        %r = scf.for %k = %i to %i step %one iter_args(%g = %e) -> ({D}) : i32 {{
          %x = {LOAD("%g")}
          %b = {ALLOC("narrow")}
          scf.yield %g : {D}
        }}
        """
    assert layouts(optimized(f"%d: {D}, %i: i32, %c: i1", body)) == [NARROW, NARROW, NARROW]


def test_arguments_of_other_functions_follow_from_their_type() -> None:
    module = optimized(f"%d: {D}, %i: i32", f"%x = {LOAD('%d')}\n%b = {ALLOC('narrow')}", kind="private")
    assert layouts(module) == [WIDE]


def test_rows_of_a_gather_are_swizzled_as_the_tile_is() -> None:
    rows = "!tt.tensordesc<tensor<1x32xi8>>"
    body = f"""
        %x = tt.descriptor_gather %d[%r, %i] : ({rows}, tensor<32xi32>, i32) -> tensor<32x32xi8, #blocked>
        """
    assert layouts(optimized(f"%d: {rows}, %r: tensor<32xi32>, %i: i32", body)) == [NvmmaShared(32, False, 8)]


def test_buffers_for_shapes() -> None:
    assert nvmma_for((64, 64), (1, 0), bits=16) is WIDE
    assert nvmma_for((64, 64), (0, 1), bits=16) is NvmmaShared(128, True, 16)
    assert nvmma_for((64, 48), (1, 0), bits=16) is NARROW
    assert nvmma_for((4, 64), (1, 0), bits=16) is NvmmaShared(0, False, 16)
    assert nvmma_for((64,), (0,), bits=16) is NvmmaShared(0, False, 16, tile_rank=1)
    assert nvmma_for((64, 64), (1, 0), bits=8, cga=((0, 1),)) is NvmmaShared(32, False, 8, cga=((0, 1),))
    assert with_rank(WIDE, 3) is NvmmaShared(128, False, 16, tile_rank=3)
    assert cga_with_rank(((1, 0),), 3) == ((0, 1, 0),)
    assert cga_with_rank(((0, 1, 0),), 2) == ((1, 0),)
