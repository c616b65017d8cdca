"""The function that a reduction or a scan combines elements with: its region, written once for each use.

combine = Combination(lowerer, op)
combine(["%a0", "%a1"], ["%b0", "%b1"])      # two operands: each element is a row of two values
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tilewright.backends.nvidia.lower.lowerer import Lowerer
from tilewright.dialects.tt_reduce import Fold

Row: TypeAlias = list[str]
"""One element of each operand."""


class Combination:
    """The function that makes two elements one.

    Attributes:
        elements: the LLVM types of a row.
    """

    def __init__(self, lowerer: Lowerer, op: Fold) -> None:
        self.lowerer, self.op = lowerer, op
        self.elements = [lowerer.element(value.type) for value in op.operands]

    def __call__(self, first: Row, second: Row) -> Row:
        """`first` combined with `second`, in this order."""
        return self.lowerer.region_values(self.op.regions[0], [*first, *second])

    def between_lanes(self, own: Row, others: Row) -> Row:
        """The combined row, the same in every lane, whichever of the two it had itself.

        So nothing is fused: a product of this lane would lose its rounding, that of the other lane has it behind it.
        """
        w = self.lowerer.w
        fusion, w.fusion = w.fusion, ""
        found = self(own, others)
        w.fusion = fusion
        return found

    def rows(self) -> list[Row]:
        """The operands' elements, per register."""
        return [list(row) for row in zip(*map(self.lowerer.registers, self.op.operands), strict=True)]

    def bind(self, rows: Sequence[Row]) -> None:
        """Give the op's results their registers."""
        for result, registers in zip(self.op.results, zip(*rows, strict=True), strict=True):
            self.lowerer.bind(result, registers)

    def choose(self, condition: str, if_true: Row, if_false: Row) -> Row:
        """One of two rows by an i1."""
        w = self.lowerer.w
        return [
            w.emit(f"select i1 {condition}, {element} {a}, {element} {b}") if a != b else a
            for element, a, b in zip(self.elements, if_true, if_false, strict=True)
        ]
