"""Keys of compile-time constants: equal for constants that compile alike, different for all others.

    constant_key(1), constant_key(1.0), constant_key(True)      differ
    constant_key([1, 2])            (list, (…)): by value, so a changed list has another key
    constant_key(config)            its class, and the present values of its attributes
    is_fixed(config)                False: each launch with it must compute its key again
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

from tilewright.language.callable import KeyedCallable
from tilewright.runtime.dependencies import class_constants, is_immutable
from tilewright.runtime.foreign import is_installed
from tilewright.semantics.constexpr import constexpr

STREAM_ATTRIBUTES = ("__cuda_stream__", "cuda_stream")
"""Attributes that mark a stream: it stays the queue that it is, whatever else changes in it."""


def constant_key(value: Any, within: tuple[int, ...] = ()) -> Hashable:
    """A key that differs for constants that compile differently, also for `1`, `1.0` and `True`.

    Args:
        within: the identities of the objects that it is an attribute of.

    Raises:
        TypeError: something in it can change, and cannot be compared by value.
    """
    if isinstance(value, constexpr):
        return constant_key(value.value, within)
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, tuple | list):
        return type(value), tuple(constant_key(part, within) for part in value)
    if isinstance(value, KeyedCallable):
        return KeyedCallable, value.cache_key
    if isinstance(value, type) and _is_programs(value):
        return type, value, tuple((name, constant_key(held)) for name, held in class_constants(value))
    key: Hashable = (type(value), value)
    return key if is_immutable(value) else _object_key(value, key, within)


def _object_key(value: Any, key: Hashable, within: tuple[int, ...]) -> Hashable:
    """The key of an object, by its attributes, also of one that is compared by identity or by some of them.

    Args:
        key: what is its key if it has no attributes, or if those cannot be compared and its class can.
    """
    state = _state(value)
    if id(value) in within or state is None:
        return key if state is None else ("itself", within.index(id(value)))
    try:
        found: Hashable = (type(value), _state_key(state, (*within, id(value))))
        hash(found)
    except TypeError:
        kind: Any = type(value)
        if kind.__hash__ is object.__hash__:  # it is compared by identity
            raise
        return key  # its class says what makes it equal to others
    return found


def _state(value: Any) -> Any:
    """The state of an object, in its dict and its slots, or as a partial function; None if it cannot have any."""
    if isinstance(value, partial):
        return value.func, value.args, value.keywords, vars(value)
    return object.__getstate__(value) or (() if hasattr(value, "__dict__") else None)


def _state_key(state: Any, within: tuple[int, ...]) -> Hashable:
    if isinstance(state, dict):
        return dict, tuple((constant_key(name), _state_key(held, within)) for name, held in state.items())
    if isinstance(state, set | frozenset):
        return set, frozenset(constant_key(held, within) for held in state)
    if isinstance(state, tuple | list):
        return type(state), tuple(_state_key(held, within) for held in state)
    return constant_key(state, within)


def _is_programs(kind: type) -> bool:
    """Whether a class is a program's own."""
    return kind.__module__ != "builtins" and not is_installed(kind.__module__)


def is_fixed(value: Any) -> bool:
    """Whether the same object always has the same key."""
    if isinstance(value, tuple | frozenset):
        return all(map(is_fixed, value))
    if isinstance(value, type):
        return not _is_programs(value)
    if is_immutable(value) or any(hasattr(value, name) for name in STREAM_ATTRIBUTES):
        return True
    if _is_frozen_dataclass(value):
        return all(map(is_fixed, vars(value).values()))
    return not isinstance(value, constexpr) and type(value).__hash__ is not None and _state(value) is None


def _is_frozen_dataclass(value: Any) -> bool:
    parameters = getattr(type(value), "__dataclass_params__", None)
    return parameters is not None and parameters.frozen and hasattr(value, "__dict__")
