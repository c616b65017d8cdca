"""The output of kernels: one line per element, as Triton's GPU back ends write it.

>>> print(printed((0, 0, 0), " x: ", (2,), [7, 9], "%d"), end="")
pid (0, 0, 0) idx (0) x: 7
pid (0, 0, 0) idx (1) x: 9
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

Program = tuple[int, int, int]


def printed(program: Program, text: str, shape: Sequence[int], values: Sequence[int | float], format: str) -> str:
    """The lines for one operand of a print.

    Args:
        text: what stands between the index and the value, spaces included.
        shape: the shape of the tile; empty for a scalar.
        values: its elements, the last axis fastest.
        format: for a value, as `%` wants it.
    """
    head = f"pid {program} idx "
    pairs = zip(_indices(shape), values, strict=True)
    return "".join([f"{head}({index}){text}{format % value}\n" for index, value in pairs])


def printed_text(program: Program, text: str) -> str:
    """The line of a print without operands."""
    return f"pid {program}{text}\n"


def operand_text(prefix: str, number: int, count: int) -> str:
    """The text before the values of operand `number` of `count`: several are distinguished by their number."""
    return f"{prefix}(operand {number}) " if count > 1 else prefix


def _indices(shape: Sequence[int]) -> Iterator[str]:
    """Every index of a tile as text; numbers are as wide as the last one of their axis."""
    axes = [[str(i).rjust(len(str(extent - 1))) for i in range(extent)] for extent in shape]
    return map(", ".join, product(*axes))
