"""`tuple`: Triton's tuple of kernel values; a Python tuple that also adds lists and has `values` and `type`."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, SupportsIndex

from tilewright.semantics.constexpr import constexpr_type, unwrap


class tuple_type:  # noqa: N801 - Triton's name
    """The type of a tuple: those of its values, possibly with names.

    Attributes:
        types: one for each value.
        fields: the names of the values, or None.
    """

    def __init__(self, types: Any, fields: Any = None) -> None:
        self.types = list(types)
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple_type) and (self.types, self.fields) == (other.types, other.fields)

    def __hash__(self) -> int:
        return hash(tuple(self.types))

    def __repr__(self) -> str:
        return f"[{','.join(map(str, self.types))}]"


def type_of_tuple(values: builtins.tuple[Any, ...]) -> tuple_type:
    """The types of the values in a tuple; that of a constant is its value."""
    types = [getattr(value, "type", None) or constexpr_type(value) for value in values]
    return tuple_type(types, getattr(values, "_fields", None))


class tuple(builtins.tuple[Any, ...]):  # noqa: N801 - Triton's name
    """`tuple([a, b])`; `type` is only accepted for compatibility."""

    __slots__ = ()

    def __new__(cls, args: Iterable[Any] = (), type: Any = None) -> tuple:
        return builtins.tuple.__new__(cls, args)

    @property
    def values(self) -> list[Any]:
        return list(self)

    @property
    def type(self) -> tuple_type:
        """The types of the values."""
        return type_of_tuple(self)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(unwrap(index))
        return tuple(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> tuple:
        return tuple([*self, *other])

    def __radd__(self, other: Any) -> tuple:
        return tuple([*other, *self])

    def __mul__(self, count: SupportsIndex) -> tuple:
        return tuple(list(self) * unwrap(count).__index__())


def named(kind: builtins.type[builtins.tuple[Any, ...]], items: Sequence[Any]) -> tuple:
    """A tuple of the language, whose items also have the names that a class of named tuples gives them.

    Args:
        kind: any class of tuples.
    """
    return (_with_names(kind) if hasattr(kind, "_fields") and not issubclass(kind, tuple) else tuple)(items)


@cache
def _with_names(kind: builtins.type[builtins.tuple[Any, ...]]) -> builtins.type[tuple]:
    return builtins.type(kind.__name__, (tuple, kind), {"__slots__": ()})
