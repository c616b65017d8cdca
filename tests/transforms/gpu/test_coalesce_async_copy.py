"""Asynchronous copies: how many neighbours each thread copies."""

from __future__ import annotations

import pytest

import tilewright.dialects
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.layouts.encodings import Blocked, Encoding
from tilewright.transforms.gpu.coalesce import coalesce_async_copy
from tilewright.transforms.gpu.tile_ops import layout_of

assert tilewright.dialects.__all__

HEADER = """
#wide = #ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#line = #ttg.blocked<{sizePerThread = [16], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#groups = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#plain = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#matrix = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32} {
"""
HINTS = (
    "{tt.contiguity = dense<[1, 16]> : tensor<2xi32>, tt.divisibility = dense<[1, 16]> : tensor<2xi32>,"
    " tt.constancy = dense<[1, 1]> : tensor<2xi32>}"
)


def copied(tile: str, element: str, layout: str, buffer: str, hints: str = "") -> tuple[bool, Op]:
    pointers = f"tensor<{tile}x!tt.ptr<{element}>, #{layout}>"
    memory = f"<{tile}x{element}, #{buffer}, #smem, mutable>"
    text = f"""{HEADER}
        tt.func public @f(%p: {pointers} {hints}, %b: !ttg.memdesc{memory},
                          %m: tensor<{tile}xi1, #{layout}> {{tt.constancy = 16 : i32}}) {{
          %c = ttg.async_copy_global_to_local %p, %b mask %m : {pointers} -> {memory}
          tt.return
        }}
        }}"""
    module = parse_module(text)
    verify(module)
    changed = coalesce_async_copy(module)
    verify(module)
    return changed, next(op for op in module.walk() if op.name == "ttg.async_copy_global_to_local")


def layouts(op: Op) -> set[Encoding]:
    return {layout_of(op.operands[0]), layout_of(op.operands[2])}


def test_no_more_neighbours_than_can_be_written_at_once() -> None:
    changed, op = copied("64x16", "i8", "wide", "groups", HINTS)
    assert changed
    assert layouts(op) == {Blocked((1, 8), (16, 2), (4, 1), (1, 0))}
    contiguity = op.attributes["contiguity"]
    assert isinstance(contiguity, Number)
    assert contiguity.value == 8


def test_pointers_that_may_be_anywhere_are_read_one_by_one() -> None:
    _, op = copied("64x16", "i8", "wide", "groups")
    contiguity = op.attributes["contiguity"]
    assert isinstance(contiguity, Number)
    assert contiguity.value == 1


def test_small_tiles_are_spread_over_all_threads() -> None:
    changed, op = copied("64", "i32", "line", "plain")
    assert changed
    assert layouts(op) == {Blocked((1,), (32,), (4,), (0,))}


@pytest.mark.parametrize(("tile", "element", "layout", "buffer"), [("64", "i8", "line", "plain")])
def test_small_elements_need_their_neighbours(tile: str, element: str, layout: str, buffer: str) -> None:
    changed, _ = copied(tile, element, layout, buffer)
    assert not changed


def test_other_buffers_stay() -> None:
    changed, _ = copied("64x64", "f16", "wide", "matrix")
    assert not changed
