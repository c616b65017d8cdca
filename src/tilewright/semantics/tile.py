"""`Tile`: a typed handle, the operand and result of every operation; `build` makes one from a new op.

The language's `tensor` is a `Tile` with operators and methods; semantics make instances of it through `Tile.concrete`
without depending on it. Other values that are one SSA value, such as a buffer in shared memory, are a `Held`, too.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.semantics.active import active

if TYPE_CHECKING:  # the runtime, which compares with these classes, does without the types and the IR
    from tilewright.ir.attributes import Attribute
    from tilewright.ir.core import Value
    from tilewright.semantics.types import AnyType, dtype


class ValueType:
    """The base of the types that tiles and scalars have: `dtype` and `block_type`."""

    __slots__ = ()

    @property
    def cache_key_part(self) -> str:
        """The type in a cache key: `int32`, `*fp32`, `*kfp32` (const)."""
        raise NotImplementedError


class Held:
    """One SSA value of the kernel, with its type in the language.

    Attributes:
        handle: the value in the IR.
        type: its type in the language, which has `ir`, its type in the IR, and `mangle()`.
    """

    __slots__ = ("handle", "type")
    type: Any

    def __init__(self, handle: Value, type: Any) -> None:
        self.handle = handle
        self.type = type


class Tile(Held):
    """A value of the kernel: a tile, or a scalar (which has the shape `()`).

    The type knows more than `handle.type`: the sign of integers, `const`.
    """

    __slots__ = ()
    type: AnyType
    concrete: ClassVar[builtins.type[Tile]]

    def __init_subclass__(cls) -> None:
        Tile.concrete = cls

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return self.type.scalar

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape as plain numbers; `()` for scalars."""
        return self.type.shape

    @classmethod
    def of_number(cls, value: bool | int | float) -> Tile:
        """The number as a scalar of the type that Python numbers have; the language's `tensor` knows how."""
        raise NotImplementedError


Tile.concrete = Tile


def build(name: str, operands: list[Value], type: AnyType, attributes: dict[str, Attribute] | None = None) -> Tile:
    """Emit the op `name`, and wrap its only result as a tile of `type`."""
    return Tile.concrete(active().emit(name, operands, (type.ir,), attributes)[0], type)


def retyped(tile: Tile, type: AnyType) -> Tile:
    """The same value under another type of the language with the same IR type (int32 as uint32)."""
    return Tile.concrete(tile.handle, type)


def constant(value: Any, type: AnyType) -> Tile:
    """The number `value` (already fit for the element type) as a scalar, or in every element of a tile."""
    return Tile.concrete(active().constant(value, type.ir), type)
