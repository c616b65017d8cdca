"""Ops of NVIDIA's GPUs that cannot be: the error says which rule they break."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.ir.errors import VerificationError
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify

pytestmark = pytest.mark.quick

BAR = "!ttg.memdesc<1xi64, #bar, #smem, mutable>"
TILE = "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
KEPT = "!ttg.memdesc<64x64xf16, #shared, #smem>"
TURNED = "!ttg.memdesc<64x64xf16, #turned, #smem, mutable>"
SUM = "!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory, mutable>"
CONTENTS = "!ttg.memdesc<128x64xf32, #tmem, #ttng.tensor_memory>"
FACTOR = "!ttg.memdesc<128x64xf16, #shared, #smem, mutable>"
DESCRIPTOR = "!tt.tensordesc<64x64xf16, #shared>"
ACCUMULATOR = "tensor<64x64xf32, #mma>"
IN_REGISTERS = "#ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 1}>"

TEXT = """#linear = #ttg.linear<{{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]],
  lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}}>
#mma = #ttg.nvidia_mma<{{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}}>
#bar = #ttg.swizzled_shared<{{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}}>
#shared = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}}>
#turned = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}}>
#smem = #ttg.shared_memory
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 64, colStride = 1>
module attributes {{"ttg.num-warps" = 4 : i32}} {{
  tt.func @f(%i: i32, %c: i1, %s: i16, %x: {type}) {{
    %bar = ttg.local_alloc : () -> !ttg.memdesc<1xi64, #bar, #smem, mutable>
    {line}
    tt.return
  }}
}}
"""

OPS = {
    "count": ("i64", f"ttng.init_barrier %bar, 0 : {BAR}", "counts to 1 or more"),
    "arrivals": ("i64", f"ttng.arrive_barrier %bar, 0 : {BAR}", "counts to 1 or more"),
    "arrivals of warps": (
        "i64",
        f"ttng.arrive_barrier %bar, 8 {{perWarp}} : {BAR}",
        "count is not the number of warps",
    ),
    "arrivals elsewhere": (
        "i64",
        f"ttng.arrive_barrier %bar, 4 {{fromCTA = 1 : i32, perWarp}} : {BAR}",
        "the barrier of their own block",
    ),
    "barrier": (TILE, f"ttng.wait_barrier %x, %i : {TILE}", "a barrier is a buffer with one axis of i64"),
    "cluster": ("i64", "ttng.cluster_barrier", "needs a cluster of several blocks"),
    "copy to a constant": (
        DESCRIPTOR,
        f"%b = ub.poison : {KEPT}\n"
        f"ttng.async_tma_copy_global_to_local %x[%i, %i] %b, %bar, %c : {DESCRIPTOR}, {BAR} -> {KEPT}",
        "cannot write to .*, which is not mutable",
    ),
    "offsets": (
        DESCRIPTOR,
        f"%b = ub.poison : {TILE}\n"
        f"ttng.async_tma_copy_global_to_local %x[%i, %i] offsets = [%s] %b, %bar, %c : {DESCRIPTOR}, {BAR} -> {TILE}",
        "takes no offsets",
    ),
    "transposed": (
        DESCRIPTOR,
        f"%b = ub.poison : {TURNED}\nttng.async_tma_copy_local_to_global %x[%i, %i] %b : {DESCRIPTOR}, {TURNED}",
        "transposed buffer",
    ),
    "reduction": (
        DESCRIPTOR,
        f"%b = ub.poison : {TILE}\nttng.async_tma_reduce xor, %x[%i, %i] %b : {DESCRIPTOR}, {TILE}",
        "cannot reduce f16 by xor",
    ),
    "product in registers": (
        f"tensor<64x64xf16, {IN_REGISTERS}>",
        f"%b = ub.poison : {TILE}\n%acc = arith.constant dense<0.0> : {ACCUMULATOR}\n"
        f"%r = ttng.warp_group_dot %x, %b, %acc : tensor<64x64xf16, {IN_REGISTERS}> * {TILE} -> {ACCUMULATOR}",
        "kWidth of an operand in registers must be 2, not 1",
    ),
    "extents": (
        FACTOR,
        f"%acc = arith.constant dense<0.0> : {ACCUMULATOR}\n"
        f"%r = ttng.warp_group_dot %x, %x, %acc : {FACTOR} * {FACTOR} -> {ACCUMULATOR}",
        "inner extents differ: 64 and 128",
    ),
    "nothing to wait for": (
        "i64",
        '"ttng.warp_group_dot_wait"() <{pendings = 0 : i32}> : () -> ()',
        "something to wait",
    ),
    "told a barrier": (
        FACTOR,
        f"%b = ub.poison : {TILE}\n%d = ub.poison : {SUM}\n"
        f"ttng.tc_gen5_mma %x, %b, %d, %c, %c, %bar[%c] : {FACTOR}, {TILE}, {SUM}, {BAR}",
        "only one that is_async",
    ),
    "sum": (
        "!ttg.memdesc<128x64xbf16, #shared, #smem>",
        "%b = ub.poison : !ttg.memdesc<64x64xbf16, #shared, #smem>\n"
        "%d = ub.poison : !ttg.memdesc<128x64xf16, #tmem, #ttng.tensor_memory, mutable>\n"
        "ttng.tc_gen5_mma %x, %b, %d, %c, %c : !ttg.memdesc<128x64xbf16, #shared, #smem>,"
        " !ttg.memdesc<64x64xbf16, #shared, #smem>, !ttg.memdesc<128x64xf16, #tmem, #ttng.tensor_memory, mutable>",
        "products of bf16 cannot be summed in f16",
    ),
    "empty tensor memory": ("i64", f"%m = ttng.tmem_alloc : () -> {CONTENTS}", "without contents must be mutable"),
    "kept tensor memory": (
        "tensor<128x64xf32, #linear>",
        f"%m = ttng.tmem_alloc %x : (tensor<128x64xf32, #linear>) -> {CONTENTS}\n"
        f"ttng.tmem_store %x, %m, %c : tensor<128x64xf32, #linear> -> {CONTENTS}",
        "which is not mutable",
    ),
    "load": (SUM, f"%r = ttng.tmem_load %x : {SUM} -> tensor<128x32xf32, #linear>", "differ in shape or elements"),
    "reduction of rows": (
        SUM,
        f"%r = ttng.tmem_load %x {{abs = true}} : {SUM} -> tensor<128x64xf32, #linear>",
        "abs is for reductions",
    ),
    "columns": (
        SUM,
        f"%r = ttng.tmem_subslice %x {{offset = 16 : i32}} : {SUM}"
        " -> !ttg.memdesc<128x32xf32, #tmem, #ttng.tensor_memory, mutable, 128x64>",
        "offset 16 is inside a part of 32",
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", OPS)
def test_refused(name: str) -> None:
    type, line, problem = OPS[name]
    module = parse_module(TEXT.format(type=type, line=line))
    with pytest.raises(VerificationError, match=problem):
        verify(module)


@pytest.mark.parametrize("sizes", ["1, 1, 1, 0, 1", "2, 0, 1, 0, 1, 1, 0, 0", "1, 1, 1, 2, 0, 0, 0, 0"])
def test_groups_of_operands_must_be_right(sizes: str) -> None:
    line = f"""%b = ub.poison : {TILE}
    %d = ub.poison : {SUM}
    "ttng.tc_gen5_mma"(%x, %b, %d, %c, %c) <{{operandSegmentSizes = array<i32: {sizes}>}}>
      : ({FACTOR}, {TILE}, {SUM}, i1, i1) -> ()"""
    module = parse_module(TEXT.format(type=FACTOR, line=line))
    with pytest.raises(VerificationError, match="its operands do not divide into a, b, d"):
        verify(module)
    assert f'"ttng.tc_gen5_mma"(%x, %b, %d, %c, %c) <{{operandSegmentSizes = array<i32: {sizes}>}}>' in print_op(module)


WARPS = """ttg.warp_specialize()
default {{
  {}
  ttg.warp_yield
}}
partition0() num_warps(4) {{
  ttg.warp_return
}} : () -> ()"""
IN_A_BRANCH = "scf.if %c {{\n{}\n}}"
ARRIVES, WAITS = "ttng.cluster_arrive {relaxed = false}", "ttng.cluster_wait"


@pytest.mark.parametrize(
    ("blocks", "line", "problem"),
    [
        (None, WAITS, ""),  # a module that does not say how many warps there are
        ("", WAITS, "needs a cluster of several blocks"),
        (', "ttg.num-ctas" = 1 : i32', IN_A_BRANCH.format(ARRIVES), "needs a cluster of several blocks"),
        (', "ttg.num-ctas" = 2 : i32', IN_A_BRANCH.format(ARRIVES), ""),
        (', "ttg.num-ctas" = 2 : i32', WARPS.format(WAITS), "cannot stand inside ttg.warp_specialize"),
        (', "ttg.num-ctas" = 2 : i32', WARPS.format(IN_A_BRANCH.format(ARRIVES)), "cannot stand inside"),
        (', "ttg.num-ctas" = 2 : i32', WARPS.format("ttng.cluster_barrier"), ""),
    ],
)
def test_blocks_of_a_cluster_meet(blocks: str | None, line: str, problem: str) -> None:
    """There are several, and all their warps take part in the halves of a barrier."""
    known = "" if blocks is None else f'"ttg.num-warps" = 4 : i32{blocks}'
    module = parse_module(f"module attributes {{{known}}} {{\ntt.func @f(%c: i1) {{\n{line}\ntt.return\n}}\n}}")
    with pytest.raises(VerificationError, match=problem) if problem else nullcontext():
        verify(module)
