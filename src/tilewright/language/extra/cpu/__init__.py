"""Triton-cpu's path: its library, with the same functions on every target, and the order of packed matrices."""

from __future__ import annotations

from typing import Any

from tilewright.language import shaping
from tilewright.language.extra import libdevice
from tilewright.semantics.errors import WrongOperandType
from tilewright.support.diagnostics import SemanticError

__all__ = [
    "libdevice",
    "vnni_decode",
]


def vnni_decode(arg0: Any) -> Any:
    """A matrix whose rows were packed, in their usual order: K / p rows of p N elements become K rows of N.

    Element [k, p n + i] becomes [p k + i, n]; p elements are 32 bits.

    Raises:
        SemanticError: the elements are neither of 8 nor of 16 bits.
    """
    element = arg0.type.scalar
    packed = {8: 4, 16: 2}.get(element.primitive_bitwidth)
    if packed is None:
        raise SemanticError(WrongOperandType("vnni_decode", str(element), "elements of 8 or 16 bits"))
    rows, columns = (int(extent) for extent in arg0.type.shape)
    groups = shaping.reshape(arg0, (rows, columns // packed, packed))
    return shaping.reshape(shaping.permute(groups, (0, 2, 1)), (rows * packed, columns // packed))
