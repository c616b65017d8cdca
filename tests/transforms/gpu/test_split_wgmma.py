"""Products with their left operand in registers become two, each over half of the common dimension."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.dialects  # noqa: F401  (declares the ops)
from tilewright.dialects.ttng_mma import WarpGroupDot
from tilewright.interpreter.run_ir import run_ir
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.pipelining.wgmma_waits import split_wgmma

BLOCKED = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>"
HEAD = f"""#blocked = {BLOCKED}
#rows = #ttg.slice<{{dim = 1, parent = #blocked}}>
#columns = #ttg.slice<{{dim = 0, parent = #blocked}}>
#mma = #ttg.nvidia_mma<{{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}}>
#left = #ttg.dot_op<{{opIdx = 0, parent = #mma, kWidth = 2}}>
#shared = #ttg.nvmma_shared<{{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}}>
#smem = #ttg.shared_memory
module attributes {{"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32}} {{
"""


def addresses(name: str, pointer: str, element: str, rows: int, columns: int) -> str:
    """The addresses `%name` of a tile that lies in memory row by row."""
    tile = f"tensor<{rows}x{columns}x{{}}, #blocked>"
    first, second = f"tensor<{rows}xi32, #rows>", f"tensor<{columns}xi32, #columns>"
    column, row = f"tensor<{rows}x1xi32, #blocked>", f"tensor<1x{columns}xi32, #blocked>"
    return f"""
      %{name}_i = tt.make_range {{end = {rows} : i32, start = 0 : i32}} : {first}
      %{name}_j = tt.make_range {{end = {columns} : i32, start = 0 : i32}} : {second}
      %{name}_row = tt.expand_dims %{name}_i {{axis = 1 : i32}} : {first} -> {column}
      %{name}_width = arith.constant dense<{columns}> : {column}
      %{name}_start = arith.muli %{name}_row, %{name}_width : {column}
      %{name}_starts = tt.broadcast %{name}_start : {column} -> {tile.format("i32")}
      %{name}_c = tt.expand_dims %{name}_j {{axis = 0 : i32}} : {second} -> {row}
      %{name}_cs = tt.broadcast %{name}_c : {row} -> {tile.format("i32")}
      %{name}_at = arith.addi %{name}_starts, %{name}_cs : {tile.format("i32")}
      %{name}_base = tt.splat %{pointer} : !tt.ptr<{element}> -> {tile.format(f"!tt.ptr<{element}>")}
      %{name} = tt.addptr %{name}_base, %{name}_at : {tile.format(f"!tt.ptr<{element}>")}, {tile.format("i32")}"""


def product(depth: int, *, flag: str = "") -> Op:
    """A kernel that multiplies 64 × depth by depth × 64, and adds 1 where `flag` is not false."""
    left, buffer = f"tensor<64x{depth}xf16, #left>", f"!ttg.memdesc<{depth}x64xf16, #shared, #smem>"
    text = f"""{HEAD}
    tt.func public @kernel(%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %out: !tt.ptr<f32>) {{
      {addresses("pa", "a", "f16", 64, depth)}
      {addresses("pb", "b", "f16", depth, 64)}
      {addresses("po", "out", "f32", 64, 64)}
      %x = tt.load %pa : tensor<64x{depth}x!tt.ptr<f16>, #blocked>
      %y = tt.load %pb : tensor<{depth}x64x!tt.ptr<f16>, #blocked>
      %l = ttg.convert_layout %x : tensor<64x{depth}xf16, #blocked> -> {left}
      %r = ttg.local_alloc %y : (tensor<{depth}x64xf16, #blocked>) -> {buffer}
      %c = arith.constant dense<1.0> : tensor<64x64xf32, #mma>
      %adds = arith.constant {flag or "true"}
      %d = ttng.warp_group_dot %l, %r, %c{", %adds" if flag else ""} : {left} * {buffer} -> tensor<64x64xf32, #mma>
      %e = ttg.convert_layout %d : tensor<64x64xf32, #mma> -> tensor<64x64xf32, #blocked>
      tt.store %po, %e : tensor<64x64x!tt.ptr<f32>, #blocked>
      tt.return
    }}
    }}"""
    module = parse_module(text)
    verify(module)
    return module


def products_of(module: Op) -> list[WarpGroupDot]:
    return [op for op in module.walk() if isinstance(op, WarpGroupDot)]


@pytest.mark.parametrize("flag", ["", "true", "false"])
@pytest.mark.parametrize("depth", [32, 64])
def test_halves_give_the_same_product(depth: int, flag: str) -> None:
    module = product(depth, flag=flag)
    (whole,) = products_of(module)
    parts = split_wgmma(whole)
    verify(module)
    assert products_of(module) == parts
    assert [part.a.type.shape for part in parts] == [(64, depth // 2)] * 2
    assert [part.b.type.shape for part in parts] == [(depth // 2, 64)] * 2
    draw = np.random.default_rng(depth)
    a, b = (draw.integers(-4, 5, shape).astype(np.float16) for shape in ((64, depth), (depth, 64)))
    out = np.zeros((64, 64), np.float32)
    run_ir(module, {"a": a, "b": b, "out": out})
    np.testing.assert_array_equal(out, a.astype(np.float32) @ b.astype(np.float32) + (flag != "false"))


def test_what_one_instruction_multiplies_stays_whole() -> None:
    module = product(16)
    (whole,) = products_of(module)
    assert split_wgmma(whole) == [whole]
