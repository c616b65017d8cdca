"""Fences: in front of which matrix instructions they stand."""

from __future__ import annotations

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.fence_insertion import FenceOptions, fence_insertion

assert tilewright.dialects.__all__

HEADER = """
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90"} {
"""
B = "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
T = "tensor<64x64xf16, #blocked>"
DOT = f"ttng.warp_group_dot {{}}, {{}}, %z : {B} * {B} -> tensor<64x64xf32, #mma>".format
STORE = f"ttg.local_store %x, {{}} : {T} -> {B}".format
BUFFER = f"ttg.local_alloc : () -> {B}"
STAGES = "!ttg.memdesc<3x64x64xf16, #shared, #smem, mutable>"


def fenced(body: str, signature: str = "", capability: int = 90) -> Op:
    module = parse_module(f"""{HEADER}
        tt.func public @f(%x: {T}, %n: i32, %c: i1{signature}) {{
          %z = arith.constant dense<0.0> : tensor<64x64xf32, #mma>
          %one = arith.constant 1 : i32
          {body}
          tt.return
        }}
        }}""")
    verify(module)
    fence_insertion(module, FenceOptions(capability))
    verify(module)
    return module


def order(module: Op) -> list[str]:
    """Stores, fences, dots and loops as they follow one another."""
    kinds = {
        "ttg.local_store": "store",
        "ttng.fence_async_shared": "fence",
        "ttng.warp_group_dot": "dot",
        "scf.for": "loop",
    }
    return [kinds[op.name] for op in module.walk() if op.name in kinds]


def test_between_store_and_dot() -> None:
    body = f"%a = {BUFFER}\n%b = {BUFFER}\n{STORE('%b')}\n%d = {DOT('%a', '%b')}"
    assert order(fenced(body)) == ["store", "fence", "dot"]
    assert order(fenced(body, capability=80)) == ["store", "dot"]


def test_buffers_that_nobody_stored_to_need_none() -> None:
    assert order(fenced(f"%a = {BUFFER}\n%d = {DOT('%a', '%a')}")) == ["dot"]


def test_in_front_of_loops_that_store_nothing() -> None:
    loop = "scf.for %i = %one to %n step %one : i32 {{\n{}\n}}".format
    dots = loop(f"%d = {DOT('%a', '%a')}\n%e = {DOT('%a', '%a')}")
    assert order(fenced(f"%a = {BUFFER}\n{STORE('%a')}\n{loop(dots).replace('%i', '%j', 1)}")) == [
        *("store", "fence", "loop", "loop", "dot", "dot")
    ]
    inner = loop(f"{STORE('%a')}\n%d = {DOT('%a', '%a')}")
    assert order(fenced(f"%a = {BUFFER}\n{inner}")) == ["loop", "store", "fence", "dot"]


def test_through_views_loops_and_branches() -> None:
    body = f"""
        %s = ttg.local_alloc : () -> {STAGES}
        %a = {BUFFER}
        %v = ttg.memdesc_index %s[%n] : {STAGES} -> {B}
        {STORE("%v")}
        %w = ttg.memdesc_index %s[%one] : {STAGES} -> {B}
        %r = scf.if %c -> ({B}) {{
          scf.yield %w : {B}
        }} else {{
          scf.yield %a : {B}
        }}
        %e = scf.for %i = %one to %n step %one iter_args(%k = %a) -> ({B}) : i32 {{
          %d = {DOT("%k", "%a")}
          scf.yield %r : {B}
        }}
        """
    assert order(fenced(body)) == ["store", "fence", "loop", "dot"]
    assert order(fenced(body.replace("%w : ", "%a : "))) == ["store", "loop", "dot"]


def test_buffers_of_which_nothing_is_known() -> None:
    assert order(fenced(f"%d = {DOT('%u', '%u')}", f", %u: {B}")) == ["fence", "dot"]


def test_asynchronous_copies_of_threads_are_stores() -> None:
    copy = f"ttg.async_copy_global_to_local %p, %v : tensor<64x64x!tt.ptr<f16>, #blocked> -> {B}"
    view = f"%v = ttg.memdesc_index %a[%one] : {STAGES} -> {B}"
    body = f"%a = ttg.local_alloc : () -> {STAGES}\n{view}\n%t = {copy}\n%d = {DOT('%v', '%v')}"
    found = fenced(body, ", %p: tensor<64x64x!tt.ptr<f16>, #blocked>")
    assert order(found) == ["fence", "dot"]
