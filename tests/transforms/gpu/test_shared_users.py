"""The buffer that a loaded tile goes to, by its users."""

from __future__ import annotations

import pytest

import tilewright.dialects
from tilewright.ir.parser import parse_module
from tilewright.transforms.gpu.pipelining.assign_latencies import has_compatible_users, shared_layout_for

assert tilewright.dialects.__all__

HEAD = """
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>
#lhs = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#wide = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 4}>
#rows = #ttg.linear<{register = [[0, 1], [0, 8], [0, 16], [0, 32], [8, 0], [16, 0], [32, 0]],
  lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [[0, 0], [0, 0]], block = []}>
#other = #ttg.linear<{register = [[0, 1], [0, 8], [0, 16], [0, 32], [8, 0], [16, 0], [32, 0]],
  lane = [[0, 2], [0, 4], [2, 0], [1, 0], [4, 0]], warp = [[0, 0], [0, 0]], block = []}>
!tile = tensor<64x64xf16, #blocked>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func public @f(%x: !tile) {
"""
SWIZZLED = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("layouts", "expected", "compatible"),
    [
        pytest.param(["#lhs"], SWIZZLED, True, id="an operand"),
        pytest.param(["#rows"], SWIZZLED, True, id="rows of eight, held as an operand holds them"),
        pytest.param(["#other"], None, True, id="rows in another order"),
        pytest.param(["#lhs", "#rows"], SWIZZLED, True, id="two that agree"),
        pytest.param(["#lhs", "#wide"], None, False, id="two that do not"),
        pytest.param(["#blocked"], None, True, id="no operand"),
    ],
)
def test_layouts(layouts: list[str], expected: str | None, compatible: bool) -> None:
    uses = "\n".join(
        f"%y{i} = ttg.convert_layout %x : !tile -> tensor<64x64xf16, {to}>" for i, to in enumerate(layouts)
    )
    module = parse_module(f"{HEAD}{uses}\ntt.return\n}}\n}}")
    function = module.regions[0].block.first
    assert function is not None
    (tile,) = function.regions[0].block.args
    assert has_compatible_users(tile) is compatible
    if compatible:
        found = shared_layout_for(tile)
        assert (found.text if found else None) == expected
