"""A row of the table of kernels in the style of libraries: what a kernel is compiled with."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """One row, for every compute capability.

    Attributes:
        name: the row's name.
        kernel: the function's name.
        types: of its run-time arguments, in order.
        constants: values of its other parameters.
        warps, stages: how it is compiled.
    """

    name: str
    kernel: str
    types: dict[str, str]
    constants: dict[str, Any]
    warps: int = 4
    stages: int = 3


def types(text: str) -> dict[str, str]:
    """Types of arguments from a text such as "*fp16 x_ptr y_ptr; i32 n"."""
    found = {}
    for group in text.split(";"):
        kind, *names = group.split()
        found |= dict.fromkeys(names, kind)
    return found
