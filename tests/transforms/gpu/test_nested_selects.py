"""Nested selects: which become one, and that they choose the same."""

from __future__ import annotations

import pytest

import tilewright.dialects
from tilewright.ir.core import Op
from tilewright.ir.parser import parse_module
from tilewright.ir.printer import print_op
from tilewright.ir.verifier import verify
from tilewright.transforms.gpu.combine_select_if import nested_selects

assert tilewright.dialects.__all__

HEADER = (
    "#large = #ttg.blocked<{sizePerThread = [128], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>\n"
    'module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, '
    'ttg.target = "cuda:80", "ttg.threads-per-warp" = 32 : i32}'
)


def function(body: str, extent: int = 16384) -> Op:
    tile, flags = (f"tensor<{extent}x{element}, #large>" for element in ("i32", "i1"))
    body = body.replace("TILE", tile).replace("FLAGS", flags)
    signature = f"%m: {flags}, %c: {flags}, %u: i1, %a: {tile}, %b: {tile}"
    module = parse_module(f"{HEADER} {{\n tt.func public @f({signature}) {{\n{body}\ntt.return\n}}\n}}")
    verify(module)
    return module


USE = "\n%z = arith.addi %s, %s : TILE"


def check(before: str, after: str) -> None:
    module = function(before + USE)
    nested_selects(module)
    verify(module)
    assert print_op(module) == print_op(function(after + USE))


INNER = "%n = arith.select %c, %a, %b : FLAGS, TILE\n"


def test_the_other_arm_is_kept() -> None:
    check(
        INNER + "%s = arith.select %m, %n, %b : FLAGS, TILE",
        "%0 = arith.andi %m, %c : FLAGS\n%s = arith.select %0, %a, %b : FLAGS, TILE",
    )


def test_the_chosen_arm_is_kept() -> None:
    check(
        INNER + "%s = arith.select %m, %n, %a : FLAGS, TILE",
        "%0 = arith.cmpi ult, %c, %m : FLAGS\n%s = arith.select %0, %b, %a : FLAGS, TILE",
    )


@pytest.mark.quick
@pytest.mark.parametrize(
    ("before", "extent"),
    [
        (INNER + "%s = arith.select %m, %n, %a : FLAGS, TILE", 64),
        (INNER + "%x = arith.addi %n, %n : TILE\n%s = arith.select %m, %n, %a : FLAGS, TILE", 16384),
        (INNER + "%x = arith.addi %a, %a : TILE\n%s = arith.select %m, %n, %x : FLAGS, TILE", 16384),
        ("%n = arith.select %u, %a, %b : i1, TILE\n%s = arith.select %m, %n, %a : FLAGS, TILE", 16384),
    ],
    ids=["small", "used twice", "another arm", "scalar condition"],
)
def test_others_stay(before: str, extent: int) -> None:
    module = function(before + USE, extent)
    expected = print_op(module)
    nested_selects(module)
    assert print_op(module) == expected
