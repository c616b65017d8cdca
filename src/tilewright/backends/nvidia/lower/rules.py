"""Rules for one element, and what applies them to the registers of tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tilewright.backends.llvm import elementwise
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering
from tilewright.ir.core import Op

Rule: TypeAlias = Callable[[Lowerer, Op, Sequence[str]], str]
"""From the operands of one element to its result."""


def per_register(rule: Rule) -> Lowering:
    """The lowering that applies `rule` to each register; registers with the same operands share their result."""

    def lower(lowerer: Lowerer, op: Op) -> None:
        known: dict[tuple[str, ...], str] = {}
        found = []
        for operands in element_operands(lowerer, op):
            if operands not in known:
                known[operands] = rule(lowerer, op, operands)
            found.append(known[operands])
        lowerer.bind(op.result, found)

    return lower


def element_operands(lowerer: Lowerer, op: Op) -> list[tuple[str, ...]]:
    """The operands of each element; scalars beside tiles are there for all."""
    registers = [lowerer.registers(value) for value in op.operands]
    count = max(map(len, registers))
    return list(zip(*(own * count if len(own) == 1 else own for own in registers), strict=True))


def shared_rule(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
    """The rule that back ends share."""
    return elementwise.lower_elementwise(lowerer.w, op, operands, 1)
