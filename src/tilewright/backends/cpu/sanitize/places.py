"""The addresses of an access: a scalar address plus a tile of element offsets, or only a tile of addresses.

    addptr(addptr(splat(%p), %row), %column)        start = %p, elements = %row + %column

A tile of this form stays affine, so its shadow is read and written with vectors as the memory itself.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.backends.cpu.sanitize.code import Code, Term
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import AddPtr, pointee_type
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat
from tilewright.ir.core import Value
from tilewright.ir.types import PointerType, TensorType, Type, i64, with_element


class Place(NamedTuple):
    """The addresses of an access.

    Attributes:
        start: an address, or None if the tile has no common one.
        elements: how many elements behind `start` each lane is; behind address 0 in bytes without `start`; i64.
        size: bytes per element.
    """

    start: Term | None
    elements: Term
    size: int

    @property
    def addresses(self) -> Term:
        """The address of each lane."""
        return self.offset(None)

    def offset(self, low: Term | None) -> Term:
        """Bytes from `low` on, or from address 0."""
        if self.start is None:
            return self.elements if low is None else self.elements - low
        start = self.start if low is None else self.start - low
        return start + (self.elements * self.size if self.size > 1 else self.elements)

    def element(self, low: Term, base: Term, shadow: Type, granule: int) -> Term:
        """The shadows of the elements, of which that for the element at `low` is at address `base`."""
        code, bits = self.elements.code, granule.bit_length() - 1
        if self.start is None or self.size != granule:
            return code.pointer(base, shadow).plus_elements(self.offset(low).shifted_down(bits))
        steps = (self.start - low).shifted_down(bits) * max(1, shadow.bits // 8)
        return code.pointer(base + steps, shadow).plus_elements(self.elements)


def place_of(code: Code, pointer: Value) -> Place:
    """The place of an access through `pointer`."""
    size = max(8, pointee_type(pointer.type.scalar).bits) // 8
    if pointer.type.shape is None:
        return Place(code.of(pointer).to(i64), code.number(0, i64), size)
    parts = _parts(code, pointer, size)
    if parts is None:
        return Place(None, code.of(pointer).to(i64), size)
    start, index = parts
    if index is None:
        index = code.number(0, with_element(pointer.type, i64))
    return Place(code.of(start).to(i64), index, size)


def _parts(code: Code, pointer: Value, size: int) -> tuple[Value, Term | None] | None:
    """The scalar pointer that a tile starts from, and the sum of the offsets."""
    op = pointer.op
    if op is None or _size(pointer) != size:
        return None
    parts: tuple[Value, Term | None] | None = None
    match op:
        case Splat():
            parts = op.source, None
        case Bitcast():
            parts = _parts(code, op.operand, size)
        case AddPtr() if parts := _parts(code, op.pointer, size):
            parts = parts[0], _sum(parts[1], code.of(op.offset).to(i64))
        case Broadcast() | ExpandDims() if parts := _parts(code, op.source, size):
            parts = parts[0], None if parts[1] is None else _moved(code, parts[1], op)
    return parts


def _sum(index: Term | None, offset: Term) -> Term:
    return offset if index is None else index + offset


def _size(pointer: Value) -> int:
    scalar = pointer.type.scalar
    return max(8, scalar.pointee.bits) // 8 if isinstance(scalar, PointerType) else 0


def _moved(code: Code, index: Term, op: Broadcast | ExpandDims) -> Term:
    """Offsets of pointers that `op` spreads to another shape."""
    type = TensorType(op.result.type.shape or (), i64)
    return code.emit(op.name, (index,), type, dict(op.attributes))
