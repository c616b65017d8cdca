"""Python callables for the operations of the language that have none in `operator`.

Readers put them into `Operate` steps; each takes plain compile-time values or tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from tilewright.language.callable import JITCallable
from tilewright.language.tuples import type_of_tuple
from tilewright.language.values import is_compile_time
from tilewright.semantics.arithmetic import invert, to_bool, to_tensor
from tilewright.semantics.constexpr import constexpr_type
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import NotSupported, SemanticError


class Method(NamedTuple):
    """A kernel function found in the class of `owner`, which becomes its first argument."""

    function: JITCallable
    owner: Any


def attribute(owner: Any, name: str) -> Any:
    """`owner.name`. Compile-time values also have what a tl.constexpr has, numbers what a scalar tile has."""
    if name == "value" and _is_marked(owner):
        return owner
    if owner.__class__ in _PLAIN:
        if name == "type":
            return constexpr_type(owner)
        if owner.__class__ is not str and not hasattr(owner, name):
            return getattr(to_tensor(owner), name)
    if name == "type" and isinstance(owner, tuple) and not hasattr(owner, name):
        return constexpr_type(owner) if is_compile_time(owner) else type_of_tuple(owner)
    found = getattr(owner, name)
    if not isinstance(found, JITCallable):
        return found
    of_class = getattr(type(owner), name, None) is found  # and not a field that holds it
    return Method(found, owner) if of_class else found


def _is_marked(owner: Any) -> bool:
    """Whether Triton hands this value to functions as a tl.constexpr: a number, a type, a function, None, …"""
    if owner.__class__ in _PLAIN:
        return True
    return not (isinstance(owner, ModuleType) or hasattr(owner, "value")) and is_compile_time(owner)


def pack(*items: Any) -> tuple[Any, ...]:
    """`(a, b, c)`; lists are tuples as well."""
    return items


def logical_not(value: Any) -> Any:
    """`not value`; a tensor answers element by element."""
    negate = getattr(value, "__not__", None)
    return negate() if negate is not None else not value


def opposite(value: Any) -> Any:
    """Whether a condition does not hold, also one that is a number, where bytecode has turned the branches round."""
    return invert(to_bool(value)) if isinstance(value, Tile) else logical_not(value)


def contains(item: Any, items: Any) -> bool:
    """`item in items`.

    Raises:
        SemanticError: the item is not known at compile time.
    """
    if isinstance(item, Tile):
        raise SemanticError(NotSupported("`in` with a run-time value", f"this one is {item.type}"))
    return item in items


def lacks(item: Any, items: Any) -> bool:
    """`item not in items`; see `contains`."""
    return not contains(item, items)


def formatted(value: Any, conversion: int, specification: str) -> str:
    """One `{value!r:>8}` of an f-string; `conversion` is the character's code or -1.

    Raises:
        SemanticError: the value is not known at compile time.
    """
    if isinstance(value, Tile):
        raise SemanticError(NotSupported("an f-string of run-time values", f"this one is {value.type}"))
    convert = _CONVERSIONS.get(conversion)
    return format(value if convert is None else convert(value), specification)


def joined(*parts: str) -> str:
    """The parts of an f-string, put together."""
    return "".join(parts)


_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
_PLAIN = frozenset((bool, int, float, str))
