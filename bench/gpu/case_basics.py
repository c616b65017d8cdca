"""A launch: its arguments and its expected results. NumPy only, so that it works on every machine."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from launches import Array, floats


class Case(NamedTuple):
    """One launch.

    Attributes:
        grid: programs along each axis.
        arguments: numbers and arrays, in the order of the kernel.
        expected: arrays by position among the arrays.
        error: the largest absolute one; the relative one is `RELATIVE`.
        operations, moved: floating point operations and bytes, of launches that are timed.
        elements: types of elements that NumPy lacks, by position among the arrays.
        persistent: on a GPU, as many programs as it has multiprocessors.
    """

    grid: tuple[int, ...]
    arguments: list[Any]
    expected: dict[int, Array]
    error: float = 0.0
    operations: float = 0.0
    moved: float = 0.0
    elements: dict[int, str] = {}  # noqa: RUF012 - never changed
    persistent: bool = False

    def grid_on(self, facts: dict[str, Any]) -> tuple[int, ...]:
        """The grid on a device with these facts."""
        return (facts.get("multiprocessors", self.grid[0]),) if self.persistent else self.grid


RELATIVE = 2e-3
RANDOM = np.random.default_rng(7)
SIZES = {
    "elements": 1 << 26,
    "softmax rows": 1 << 15,
    "side": 8192,
    "heads": 64,
    "rows": 4096,
    "normalized rows": 1 << 15,
    "groups": 16,
    "grouped rows": 16384,
    "grouped side": 4096,
}
"""The sizes of timed launches."""
REPEATED = 1 << 16
"""The number of different numbers in a large array: drawing all of them would take longer than the launches."""


def halves(*shape: int) -> Array:
    """Random float16."""
    return RANDOM.standard_normal(shape).astype(np.float16)


def large_halves(*shape: int) -> Array:
    """Random float16, of which few differ."""
    return np.resize(halves(REPEATED), shape)


def numbers(element: str, *shape: int) -> Array:
    """Random numbers of a type, as what NumPy has of that width, of which few differ."""
    count = min(REPEATED, int(np.prod(shape)))
    drawn = RANDOM.standard_normal(count).astype(np.float32)
    if element == "bf16":
        return np.resize((drawn.view(np.uint32) >> 16).astype(np.uint16), shape)
    if element == "fp8e4nv":  # of sizes 2⁻³ to 2: what a product sums up stays far from the largest fp16
        codes = RANDOM.integers(0, 2, count) << 7 | RANDOM.integers(4, 8, count) << 3 | RANDOM.integers(0, 8, count)
        return np.resize(codes.astype(np.uint8), shape)
    return np.resize(drawn.astype({"fp16": np.float16, "fp32": np.float32}[element]), shape)


def widened(array: Array, element: str) -> Array:
    """Elements as float32."""
    return floats(array.reshape(-1).view(np.uint8), element).astype(np.float32).reshape(array.shape)


def largest_error(case: Case, results: list[Array]) -> float:
    """The error of a result as a share of what is allowed: right is at most 1, NaN in a wrong place infinite."""
    worst = 0.0
    for number, expected in case.expected.items():
        element = case.elements.get(number)
        found = widened(results[number], element) if element else results[number]
        allowed = case.error + RELATIVE * np.abs(expected.astype(float))
        with np.errstate(invalid="ignore", divide="ignore"):
            off = np.abs(found.astype(float) - expected) / np.maximum(allowed, 1e-30)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        off = np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))
        worst = max(worst, float(off.max(initial=0.0)))
    return worst
