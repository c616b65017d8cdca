"""Ops that compute each element from the elements at its place: one register at a time.

    %c = arith.addf %a, %b      %v9 = fadd contract float %v7, %v8

Most are what `backends/llvm/elementwise.py` says, for one lane.
"""

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
        for operands in zip(*map(lowerer.registers, op.operands), strict=True):
            if operands not in known:
                known[operands] = rule(lowerer, op, operands)
            found.append(known[operands])
        lowerer.bind(op.result, found)

    return lower


def shared_rule(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
    """The rule that back ends share."""
    return elementwise.lower_elementwise(lowerer.w, op, operands, 1)


def _select(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
    element = lowerer.element(op.result.type)
    condition, yes, no = operands
    return lowerer.w.emit(f"select i1 {condition}, {element} {yes}, {element} {no}")


def _converted(opcode: str) -> Rule:
    def rule(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
        source, result = lowerer.element(op.operands[0].type), lowerer.element(op.result.type)
        return lowerer.w.convert(opcode, operands[0], source, result)

    return rule


RULES: dict[str, Rule] = {
    **dict.fromkeys(elementwise.LOWERINGS, shared_rule),
    "arith.select": _select,
    "tt.int_to_ptr": _converted("inttoptr"),
    "tt.ptr_to_int": _converted("ptrtoint"),
}
LOWERINGS: dict[str, Lowering] = {name: per_register(rule) for name, rule in RULES.items()}
