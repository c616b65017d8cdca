"""Places of buffers in tensor memory."""

from __future__ import annotations

import pytest

import tilewright.dialects
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.support.diagnostics import OutOfResources
from tilewright.transforms.gpu.allocate_memory import allocate_tensor_memory

assert tilewright.dialects.__all__

HEADER = """
#tmem = #ttng.tensor_memory_encoding<blockM = 128, blockN = 128, colStride = 1>
#half = #ttng.tensor_memory_encoding<blockM = 128, blockN = 32, colStride = 1>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.shared = 0 : i32} {
"""
LAYOUT = (
    "#ttg.linear<{register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [0, 64]], "
    "lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0], [64, 0]], block = []}>"
)
TILE = f"tensor<128x128xf32, {LAYOUT}>"
WIDE = "!ttg.memdesc<128x128xf32, #tmem, #ttng.tensor_memory, mutable>"
NARROW = "!ttg.memdesc<128x32xf32, #half, #ttng.tensor_memory, mutable>"
BUFFERS = "!ttg.memdesc<3x128x128xf32, #tmem, #ttng.tensor_memory, mutable>"


def load(buffer: str) -> str:
    return f"ttng.tmem_load {buffer} : {WIDE} -> {TILE}"


def placed(body: str) -> Op:
    module = parse_module(f"{HEADER} tt.func public @f() {{\n{body}\ntt.return }} }}")
    allocate_tensor_memory(module)
    return module


def columns(module: Op) -> list[int]:
    found = [op.attributes["tensor_memory_col_offset"] for op in module.walk() if op.name == "ttng.tmem_alloc"]
    return [int(offset.value) for offset in found if isinstance(offset, Number)]


def size(module: Op) -> tuple[int, int]:
    """Columns of tensor memory, bytes of shared memory."""
    found = module.attributes["ttg.tensor_memory_size"], module.attributes["ttg.shared"]
    columns, bytes = (int(number.value) for number in found if isinstance(number, Number))
    return columns, bytes


def test_buffers_that_live_together_lie_apart() -> None:
    module = placed(
        f"%a = ttng.tmem_alloc : () -> {WIDE}\n%b = ttng.tmem_alloc : () -> {NARROW}\n%x = {load('%a')}\n"
        "%v = ttng.tmem_subslice %b {N = 0 : i32} : "
        f"{NARROW} -> !ttg.memdesc<128x16xf32, #half, #ttng.tensor_memory, mutable, 128x32>"
    )
    assert columns(module) == [0, 128]
    assert size(module) == (256, 4)  # as many as are dealt out at once; the address goes to shared memory


def test_buffers_that_follow_each_other_share_a_place() -> None:
    buffers = [f"%{name} = ttng.tmem_alloc : () -> {WIDE}\n%of_{name} = {load(f'%{name}')}" for name in "ab"]
    body = "\n".join(buffers)
    assert columns(placed(body)) == [0, 0]


def test_a_view_keeps_its_buffer_alive() -> None:
    module = placed(
        f"%zero = arith.constant 0 : i32\n%a = ttng.tmem_alloc : () -> {BUFFERS}\n"
        f"%v = ttg.memdesc_index %a[%zero] : {BUFFERS} -> {WIDE}\n%b = ttng.tmem_alloc : () -> {WIDE}\n"
        f"%x = {load('%v')}\n%y = {load('%b')}"
    )
    assert sorted(columns(module)) == [0, 384]
    assert size(module) == (512, 4)


def test_too_many_buffers() -> None:
    buffers = "\n".join(f"%a{i} = ttng.tmem_alloc : () -> {WIDE}" for i in range(5))
    loads = "\n".join(f"%x{i} = {load(f'%a{i}')}" for i in range(5))
    with pytest.raises(OutOfResources, match="tensor memory, Required: 640, Hardware limit: 512"):
        placed(f"{buffers}\n{loads}")


def test_programs_without_tensor_memory_stay_as_they_are() -> None:
    assert "ttg.tensor_memory_size" not in placed("").attributes
