"""The format in which `tt.print` shows an element, by its type.

i32 → %d        f16 → %f        hex of an i16 → 0x%04x        a pointer → 0x%x
"""

from __future__ import annotations

from tilewright.ir.types import FloatType, PointerType, Type, i1


def print_format(element: Type, *, as_hex: bool) -> str:
    """The format of one element, for Python's `%`; whether an integer has a sign shows in its value."""
    if isinstance(element, PointerType):
        return "0x%x"
    if as_hex:
        return "0x%x" if element is i1 else f"0x%0{element.bits // 4}x"
    return "%f" if isinstance(element, FloatType) else "%d"
