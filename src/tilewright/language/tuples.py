"""`tuple`: Triton's tuple of kernel values; a Python tuple that also adds lists and knows `values` and `type`."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Any, SupportsIndex

from tilewright.language.signatures import tuple_type
from tilewright.semantics.constexpr import constexpr_type, unwrap


def type_of_tuple(values: builtins.tuple[Any, ...]) -> tuple_type:
    """The types of the values in a tuple; that of a constant is its value."""
    types = [getattr(value, "type", None) or constexpr_type(value) for value in values]
    return tuple_type(types, getattr(values, "_fields", None))


class tuple(builtins.tuple[Any, ...]):  # noqa: N801 - Triton's name
    """`tuple([a, b])`; `type` is only accepted for compatibility."""

    __slots__ = ()

    def __new__(cls, args: Iterable[Any] = (), type: Any = None) -> tuple:
        return super().__new__(cls, args)

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
