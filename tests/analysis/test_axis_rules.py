"""The axis info of each op's result, for operands of all kinds, as a golden: a claim that gets weaker shows, too."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from test_axis_info import facts

from tilewright.analysis.axis_info import AxisInfo
from tilewright.analysis.axis_lattice import UNBOUNDED

TILE = "tensor<8xi32>"
SIGNATURE = (
    "%n: i32 {tt.divisibility = 16 : i32}, %few: tensor<8xi1> {tt.constancy = 2 : i32}, %one: i1,"
    f"%fours: {TILE} {{tt.contiguity = 4 : i32, tt.divisibility = 16 : i32}},"
    f"%pairs: {TILE} {{tt.constancy = 2 : i32, tt.divisibility = 2 : i32}},"
    f"%eights: {TILE} {{tt.divisibility = 8 : i32}}, %pointers: tensor<8x!tt.ptr<f16>> {{tt.contiguity = 4 : i32,"
    "tt.divisibility = 16 : i32}, %same: tensor<8x!tt.ptr<f16>> {tt.constancy = 4 : i32, tt.divisibility = 8 : i32}"
)
CONSTANTS = {"k0": 0, "k1": 1, "k4": 4, "k6": 6, "k40": 40, "k_8": -8}
OPERANDS = ("range", "later", "fours", "pairs", "eights", "splat", *CONSTANTS)
BODY = "\n".join(
    [
        f"%range = tt.make_range {{start = 0 : i32, end = 8 : i32}} : {TILE}",
        f"%later = tt.make_range {{start = 4 : i32, end = 12 : i32}} : {TILE}",
        f"%splat = tt.splat %n : i32 -> {TILE}",
        *(f"%{name} = arith.constant dense<{value}> : {TILE}" for name, value in CONSTANTS.items()),
    ]
)
OPS = (
    *("addi", "subi", "muli", "divsi", "remsi", "andi", "ori", "xori", "minsi", "maxui", "shli", "shrsi"),
    *(f"cmpi {name}," for name in ("eq", "slt", "sle", "sgt", "sge")),
)


def shown(known: AxisInfo) -> str:
    """Contiguity, divisibility and constancy of each axis, without those that are 1, and the constant."""
    axes = []
    for numbers in zip(*known[:3], strict=True):
        said = (f"{name}{number}" for name, number in zip("cdk", numbers, strict=True) if number != 1)
        axes.append("".join(said).replace(str(UNBOUNDED), "∞"))
    return f"{','.join(axes) or '-'}{'' if known.constant is None else f'={known.constant}'}"


def test_two_operands(golden: Callable[[str, str], None]) -> None:
    """Each row has the results for one left operand and all right operands."""
    lines = [f"%r{number} = arith.{op} %{left}, %{right} : {TILE}" for number, (op, left, right) in enumerate(pairs())]
    known = facts(SIGNATURE, "\n".join([BODY, *lines]))
    results = [shown(known[f"r{number}"]) for number in range(len(lines))]
    rows = [f"{name:8} {shown(known[name])}" for name in OPERANDS]
    for number, (op, left) in enumerate(product(OPS, OPERANDS)):
        begin = number * len(OPERANDS)
        rows.append(f"{op.strip(','):8} {left:8} {' '.join(results[begin : begin + len(OPERANDS)])}")
    golden("\n".join(rows) + "\n", "analysis/axis_info_of_two.txt")


def pairs() -> list[tuple[str, str, str]]:
    """The ops with their operands."""
    return list(product(OPS, OPERANDS, OPERANDS))
