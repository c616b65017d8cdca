"""`constexpr`: a value known at compile time, marked as such. Every operation of the language unwraps it.

BLOCK = tl.constexpr(128)
BLOCK // 2          # constexpr(64)
BLOCK + tile        # a tile
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.semantics.active import is_in_python
from tilewright.semantics.tile import Tile

NUMBERS = frozenset((bool, int, float))
Operator = Callable[["constexpr", Any], Any]


def unwrap(value: Any) -> Any:
    """The value behind a constexpr; anything else as it is."""
    return value.value if type(value) is constexpr else value


def unwrap_all(values: Any) -> Any:
    """`unwrap` also inside tuples and lists, which become tuples."""
    values = unwrap(values)
    return tuple(unwrap_all(v) for v in values) if isinstance(values, (list, tuple)) else values


class constexpr_type:  # noqa: N801 - Triton's name
    """The type of a compile-time value: the value itself."""

    def __init__(self, value: Any) -> None:
        self.value = unwrap(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, constexpr_type) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"constexpr_type[{self.value}]"

    def mangle(self) -> str:
        """The part of a mangled function name for this value."""
        return f"c{self.value}"


def _binary(compute: Callable[[Any, Any], Any]) -> Operator:
    def method(self: constexpr, other: Any) -> Any:
        if isinstance(other, Tile):
            return NotImplemented
        return constexpr(compute(self.value, unwrap(other)))

    return method


def _reflected(compute: Callable[[Any, Any], Any]) -> Operator:
    def method(self: constexpr, other: Any) -> Any:
        return constexpr(compute(unwrap(other), self.value))

    return method


class const:  # noqa: N801 - Triton's name
    """Annotation of a pointer parameter through which nothing is written."""


class constexpr:  # noqa: N801 - Triton's name
    """A compile-time value; operators between constexprs and Python values give constexprs.

    Numbers have what a scalar tile has, too (`n.to(tl.float32)`), where Python runs the kernel; compiled kernels see
    to it themselves (`frontends.operations.attribute`).
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = unwrap(value)

    @property
    def type(self) -> constexpr_type:
        """The value, as a type."""
        return constexpr_type(self.value)

    def __repr__(self) -> str:
        return f"constexpr[{self.value}]"

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.value(*args, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        return self.value[unwrap(index)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if is_in_python() and type(self.value) in NUMBERS and not hasattr(self.value, name):
            return getattr(Tile.concrete.of_number(self.value), name)
        return getattr(self.value, name)

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        return constexpr, (self.value,)

    __add__, __radd__ = _binary(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod), _reflected(operator.mod)
    __pow__, __rpow__ = _binary(operator.pow), _reflected(operator.pow)
    __and__, __rand__ = _binary(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _binary(operator.or_), _reflected(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor), _reflected(operator.xor)
    __lshift__, __rlshift__ = _binary(operator.lshift), _reflected(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift), _reflected(operator.rshift)
    __lt__, __le__ = _binary(operator.lt), _binary(operator.le)
    __gt__, __ge__ = _binary(operator.gt), _binary(operator.ge)
    __rlt__, __rle__ = _reflected(operator.lt), _reflected(operator.le)
    __rgt__, __rge__ = _reflected(operator.gt), _reflected(operator.ge)
    __eq__ = _binary(operator.eq)
    __ne__ = _binary(operator.ne)

    def __neg__(self) -> constexpr:
        return constexpr(-self.value)

    def __pos__(self) -> constexpr:
        return constexpr(+self.value)

    def __invert__(self) -> constexpr:
        return constexpr(~self.value)

    def __not__(self) -> constexpr:
        return constexpr(not self.value)

    def logical_and(self, other: Any) -> constexpr:
        """`self and other` without short-circuit."""
        return constexpr(self.value and unwrap(other))

    def logical_or(self, other: Any) -> constexpr:
        """`self or other` without short-circuit."""
        return constexpr(self.value or unwrap(other))
