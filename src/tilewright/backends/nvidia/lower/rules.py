"""Lowering rules for one element, and the function that applies them to the registers of tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

from tilewright.backends.llvm import elementwise
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering, shared_results
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType
from tilewright.layouts.linear_layout import LinearLayout

Rule: TypeAlias = Callable[[Lowerer, Any, Sequence[str]], str]
"""A function from an element's operands to its result; its second parameter is of the class of the ops it is for."""


def per_register(rule: Rule) -> Lowering:
    """The lowering that applies `rule` to each register; registers that must be equal share their result."""

    def lower(lowerer: Lowerer, op: Op) -> None:
        every = element_operands(lowerer, op)
        wanted = [every[number] for number in broadcast_registers(lowerer, op.result)]
        lowerer.bind(op.result, shared_results(wanted, lambda operands: rule(lowerer, op, operands)))

    return lower


def broadcast_registers(lowerer: Lowerer, value: Value) -> list[int]:
    """Per register the first one with the same value, as far as axis info knows of runs of equal elements.

    A mask `i < n` with n a multiple of 16 has runs of 16 equal elements, so one comparison serves them all.
    """
    info = lowerer.axis_info(value)
    if not isinstance(value.type, TensorType):
        return [0]
    layout = lowerer.layout(value)
    if info is None or max(info.constancy) == 1:
        return list(range(layout.in_size("register")))
    return first_of_runs(layout, tuple(run & -run for run in info.constancy))


@cache
def first_of_runs(layout: LinearLayout, runs: tuple[int, ...]) -> list[int]:
    """Per register the first one in the same aligned run along every axis; `runs` are powers of two."""
    first: dict[tuple[int, ...], int] = {}
    found = []
    for number in range(layout.in_size("register")):
        place = tuple(c // run for c, run in zip(layout.apply(register=number), runs, strict=True))
        found.append(first.setdefault(place, number))
    return found


def element_operands(lowerer: Lowerer, op: Op) -> list[tuple[str, ...]]:
    """The operands of each element; scalars beside tiles are there for all."""
    registers = [lowerer.registers(value) for value in op.operands]
    count = max(map(len, registers))
    return list(zip(*(own * count if len(own) == 1 else own for own in registers), strict=True))


def shared_rule(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
    """The rule that back ends share."""
    return elementwise.lower_elementwise(lowerer.w, op, operands, 1)
