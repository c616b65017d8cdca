"""Blocks of a cluster load the operands of their own part of a product."""

from __future__ import annotations

import pytest

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.layouts.encodings import Blocked, encoding
from tilewright.transforms.gpu.cta_local_layouts import assign_cga_layouts, division_of_product

assert tilewright.dialects.__all__

BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]"
    ", CGALayout = [[1, 0]]}>"
)


def program(between: str = "%f = ttg.convert_layout %b : {tile} -> {right}", extra: str = "") -> Op:
    tile, sum = f"tensor<64x64xf16, {BLOCKED}>", f"tensor<128x64xf32, {BLOCKED}>"
    left, right = (
        f"tensor<{n}x64xf16, #ttg.dot_op<{{opIdx = {i}, parent = {BLOCKED}}}>>" for i, n in enumerate((128, 64))
    )
    names = {"tile": tile, "right": right}
    return parse_module(
        f"""
        module attributes {{"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
          tt.func public @f(%a: {left}, %c: {sum}, %p: tensor<64x64x!tt.ptr<f16>, {BLOCKED}>) -> {sum} {{
            %b = tt.load %p : tensor<64x64x!tt.ptr<f16>, {BLOCKED}>
            {between.format(**names)}
            {extra.format(**names)}
            %d = tt.dot %a, %f, %c : {left} * {right} -> {sum}
            tt.return %d : {sum}
          }}
        }}"""
    )


def load_of(module: Op) -> Op:
    return next(op for op in module.walk() if op.name == "tt.load")


def cga_of_load(module: Op) -> tuple[tuple[int, ...], ...]:
    layout = encoding(load_of(module).result.type.encoding)
    assert isinstance(layout, Blocked)
    return layout.cga


def test_each_block_loads_all_rows_of_the_right_factor() -> None:
    module = program()
    assert assign_cga_layouts(module)
    verify(module)
    assert cga_of_load(module) == ((0, 0),)
    assert not assign_cga_layouts(module)


@pytest.mark.parametrize(
    ("between", "extra"),
    [
        ("%s = arith.addf %b, %b : {tile}\n%f = ttg.convert_layout %s : {tile} -> {right}", ""),
        ("%f = ttg.convert_layout %b : {tile} -> {right}", "%s = arith.addf %b, %b : {tile}"),
    ],
    ids=["computed", "used twice"],
)
def test_other_factors_stay(between: str, extra: str) -> None:
    module = program(between, extra)
    assert not assign_cga_layouts(module)
    assert cga_of_load(module) == ((1, 0),)


def of_descriptors(second: str) -> Op:
    """A product of what is loaded through `%a` and `second`."""
    tile, sum = f"tensor<64x64xf16, {BLOCKED}>", f"tensor<64x64xf32, {BLOCKED}>"
    left, right = (f"tensor<64x64xf16, #ttg.dot_op<{{opIdx = {side}, parent = {BLOCKED}}}>>" for side in (0, 1))
    box = "!tt.tensordesc<tensor<64x64xf16>>"
    return parse_module(
        f"""
        module attributes {{"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
          tt.func public @f(%a: {box}, %b: {box}, %i: i32, %c: {sum}) -> {sum} {{
            %x = tt.descriptor_load %a[%i, %i] : {box} -> {tile}
            %y = tt.descriptor_load {second}[%i, %i] : {box} -> {tile}
            %u = ttg.convert_layout %x : {tile} -> {left}
            %v = ttg.convert_layout %y : {tile} -> {right}
            %d = tt.dot %u, %v, %c : {left} * {right} -> {sum}
            tt.return %d : {sum}
          }}
        }}"""
    )


@pytest.mark.parametrize(("second", "divisions"), [("%b", [((0, 0),), ((0, 1),)]), ("%a", [((1, 0),), ((1, 0),)])])
def test_a_descriptor_has_one_division(second: str, divisions: list[tuple[tuple[int, ...], ...]]) -> None:
    module = of_descriptors(second)
    assert assign_cga_layouts(module)
    verify(module)
    loads = [op for op in module.walk() if op.name == "tt.descriptor_load"]
    layouts = [encoding(load.result.type.encoding) for load in loads]
    assert [layout.cga for layout in layouts if isinstance(layout, Blocked)] == divisions


@pytest.mark.quick
@pytest.mark.parametrize(
    ("rows", "columns", "ctas", "halved_columns"),
    [
        *((64, 64, 2, 1), (64, 64, 8, 3), (128, 64, 2, 0), (128, 64, 4, 1), (128, 128, 2, 1), (128, 128, 4, 1)),
        *((128, 256, 8, 2), (256, 128, 2, 0), (256, 128, 8, 1), (256, 64, 4, 0), (32, 128, 8, 3)),
        pytest.param(64, 16, 4, 1, id="columns too few for an instruction"),
    ],
)
def test_products_are_divided_as_in_triton(rows: int, columns: int, ctas: int, halved_columns: int) -> None:
    """Figures of Triton 3.9, but for the last row, where two blocks would have four columns each."""
    steps = [(0, 1 << bit) for bit in range(halved_columns)]
    steps += [(1 << bit, 0) for bit in range(ctas.bit_length() - 1 - halved_columns)]
    assert division_of_product((rows, columns), ctas) == tuple(steps)
