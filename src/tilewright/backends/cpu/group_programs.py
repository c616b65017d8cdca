"""Programs of a product that share columns of B run one after the other, a few rows of tiles at a time.

    %row = %pid // %n                        %first = %pid // %n & -8, %size = min(%rows - %first, 8)
    %column = %pid % %n              →       %rest = %pid - %first * %n
    … tt.dot (A at %row), (B at %column)     %row = %first + %rest % %size, %column = %rest / %size

Neighbours of the same row have other columns, so each packs its B anew, and all of B is read once for each row of
tiles. Of eight neighbours that have the same columns, the first one packs them for all (`keep_panels.py`), and the rows
of A of all eight come back from the caches. That is how kernels group their programs that know of it (Triton's tutorial
on products); programs have no order that a kernel could rely on. What is left of a grid behind its whole rows keeps
its programs.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.analysis.value_flow import propagate
from tilewright.backends.cpu.order_programs import sees_others
from tilewright.backends.llvm.cpu_costs import PRODUCT_ROWS
from tilewright.dialects.arith import Division
from tilewright.dialects.traits import DotLike
from tilewright.dialects.tt_function import Func
from tilewright.dialects.tt_program import ProgramId
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Op
from tilewright.ir.types import i32
from tilewright.transforms.functions import functions_of, is_public
from tilewright.transforms.matching import is_after
from tilewright.transforms.op_builder import OpBuilder

SHARES_COLUMNS = "b_shared"
"""Mark of a product whose B is that of the next programs, too."""
KINDS = ("arith.divsi", "arith.remsi"), ("arith.divui", "arith.remui")
"""Names of divisions that belong together."""


class _Grid(NamedTuple):
    """The row and the column of a program's tile, as it computes them from its number along x."""

    row: Division
    column: Division


def group_programs(module: Op) -> bool:
    """Let the programs of products in `module` (TTIR) that share columns follow one another; returns whether any do."""
    found = False
    for function in functions_of(module):
        grid = _grid_of(function) if is_public(function) else None
        dots = [] if grid is None else _products(function, grid)
        if grid is not None and dots:
            _group(grid)
            for dot in dots:
                dot.attributes[SHARES_COLUMNS] = True
            found = True
    return found


def _grid_of(function: Func) -> _Grid | None:
    """The quotient and the remainder that are all that is made of the program's number; None where there is more."""
    numbers = [op for op in function.ops_of(ProgramId) if op.name == "tt.get_program_id"]
    users = list(numbers[0].result.uses) if len(numbers) == 1 and numbers[0].axis == "x" else []
    if len(users) != 2 or not all(isinstance(op, Division) and op.block is function.body for op in users):
        return None
    row, column = sorted(users, key=lambda op: op.name)  # a quotient comes before a remainder
    if not isinstance(row, Division) or not isinstance(column, Division) or (row.name, column.name) not in KINDS:
        return None
    divides = row.lhs is column.lhs is numbers[0].result and row.rhs is column.rhs
    return _Grid(row, column) if divides else None


def _products(function: Func, grid: _Grid) -> list[DotLike]:
    """The products of the function, if each has its A by rows, and its B by columns, and programs see no others."""
    ops = list(function.walk())
    if any(sees_others(op) for op in ops):
        return []
    facts = propagate(ops, {grid.row.result: {"row"}, grid.column.result: {"column"}})
    dots = [op for op in ops if isinstance(op, DotLike)]
    return dots if all((facts[op.a], facts[op.b]) == ({"row"}, {"column"}) for op in dots) else []


def _group(grid: _Grid) -> None:
    """Let `PRODUCT_ROWS` rows of tiles be those of programs that follow one another, column by column."""
    here = grid.row if is_after(grid.column, grid.row) else grid.column
    at, number, width = OpBuilder(here), grid.row.lhs, grid.row.rhs
    programs = at.emit("tt.get_num_programs", (), i32, {"axis": Keyword("x")})
    rows, row = (at.compute(grid.row.name, count, width) for count in (programs, number))
    first = at.compute("arith.andi", row, at.literal(-PRODUCT_ROWS, i32))
    left = at.compute("arith.minsi", at.compute("arith.subi", rows, first), at.literal(PRODUCT_ROWS, i32))
    size = at.compute("arith.maxsi", left, at.literal(1, i32))
    rest = at.compute("arith.subi", number, at.compute("arith.muli", first, width))
    is_whole = at.compare("slt", row, rows)
    tile_row = at.compute("arith.addi", first, at.compute("arith.remsi", rest, size))
    column, own = at.compute("arith.divsi", rest, size), at.compute(grid.column.name, number, width)
    choices = (tile_row, row), (column, own)
    chosen = [at.emit("arith.select", (is_whole, *places), i32) for places in choices]
    for op, place in zip(grid, chosen, strict=True):
        op.replace([place])
