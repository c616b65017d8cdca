"""Iteration over arrays of a common shape: axes in memory order, neighbours merged, the last one innermost.

x (1000, 1000) C, y (1000, 1) → out (1000, 1000)      1000 rows of 1000: x and out contiguous, y constant in a row
x (50, 60) F, out (50, 60) F                          one row of 3000
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.support.named_tuple import NamedTuple

Array = np.ndarray[Any, Any]
Strides = Sequence[int]
SIDE_BY_SIDE, SPACED, UNIFORM = "v", "s", "u"
_CHUNK_BYTES = 1 << 15


class Plan(NamedTuple):
    """The plan of an iteration: axes, outermost first.

    Attributes:
        extents: per axis, at least one.
        strides: per operand and axis, in bytes; those of a new result, the last operand, in elements.
    """

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    def pattern(self, sizes: Sequence[int]) -> str:
        """The letters for how a span walks each operand; `sizes` in bytes of an element."""
        inner = (strides[-1] for strides in self.strides)
        letters = [UNIFORM if s == 0 else SIDE_BY_SIDE if s == n else SPACED for s, n in zip(inner, sizes, strict=True)]
        if letters[-1] == UNIFORM:  # one element: any distance will do
            letters[-1] = SIDE_BY_SIDE
        return "".join(letters)

    def with_result(self, size: int, *, twice: bool) -> Plan:
        """The plan with the result's strides times `size`, and the result as an input before it if needed `twice`."""
        *inputs, result = self.strides
        scaled = tuple(stride * size for stride in result)
        return Plan(self.extents, (*inputs, scaled, scaled) if twice else (*inputs, scaled))


def memory_order(shape: tuple[int, ...], arrays: Sequence[Array]) -> list[int]:
    """The axes as they lie in memory, those with the longest steps first."""
    order = list(range(len(shape)))
    if all(array.flags.c_contiguous for array in arrays):
        return order
    return sorted(order, key=lambda axis: -max(abs(array.strides[axis]) for array in arrays))


def plan(shape: tuple[int, ...], order: Sequence[int], inputs: Sequence[Strides], result: Strides | None) -> Plan:
    """The axes to go over, for operands with these strides; without strides the result is new, in the given order."""
    if result is None:
        result = _steps(shape, order)
    operands = (*inputs, result)
    extents: list[int] = []
    columns: list[list[int]] = []
    for axis in order:
        extent = shape[axis]
        if extent == 1:
            continue
        column = [strides[axis] for strides in operands]
        if columns and all(outer == inner * extent for outer, inner in zip(columns[-1], column, strict=True)):
            extents[-1] *= extent
            columns[-1] = column
        else:
            extents.append(extent)
            columns.append(column)
    if not columns:
        return Plan((1,), tuple((0,) for _ in operands))
    return Plan(tuple(extents), tuple(zip(*columns, strict=True)))


def _steps(shape: tuple[int, ...], order: Sequence[int]) -> list[int]:
    """The strides of a new array, in elements."""
    steps, step = [0] * len(shape), 1
    for axis in reversed(order):
        steps[axis] = step
        step *= shape[axis]
    return steps


def chunk_for(lanes: int, widest: int) -> int:
    """Elements per program: a few dozen KiB of the widest operand, in whole vectors."""
    return max(lanes, _CHUNK_BYTES // widest // lanes * lanes)
