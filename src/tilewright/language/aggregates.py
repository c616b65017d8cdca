"""Aggregates: classes of values that kernels construct, pass to functions and take apart.

    @aggregate
    class Pair:
        first: tl.tensor
        second: tl.tensor

        @jit
        def total(self):
            return self.first + self.second

    Pair(x, y).total()                              # inside a kernel
    aggregate_replace(pair, second=z)               # a new one: aggregates are immutable

Fields are annotated; those annotated `tl.constexpr` hold constants, those annotated `tl.tuple` tuples, in which numbers
are constants. A class without `__init__` gets one that takes its fields in order, with the values in the class as
defaults. Its plain functions may be called from kernels, in which they count as built-in functions.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from tilewright.language.callable import KeyedCallable
from tilewright.language.core import BUILTIN
from tilewright.language.tuples import named, tuple
from tilewright.semantics.constexpr import NUMBERS, constexpr

Class = TypeVar("Class", bound=type)
FIELDS = "__aggregate_fields__"
_MARK = "__triton_aggregate__"


@dataclass_transform()
def aggregate(cls: Class) -> Class:
    """Make `cls` a class of values for kernels.

    Raises:
        TypeError: a base class is no aggregate.
    """
    for base in cls.__mro__[1:-1]:
        if _MARK not in vars(base):
            raise TypeError(f"Aggregates can only inherit from other aggregates, and {base.__qualname__} is none")
    fields = get_type_hints(cls)
    defaults = {name: getattr(cls, name) for name in fields if hasattr(cls, name)}
    init = vars(cls).get("__init__") or _init(cls, fields, defaults)
    members = [
        value for _, value in inspect.getmembers(cls) if inspect.isfunction(value) or isinstance(value, KeyedCallable)
    ]
    for function in filter(inspect.isfunction, members):
        setattr(function, BUILTIN, True)
    for name, value in {
        _MARK: True,
        BUILTIN: True,
        FIELDS: (*fields,),
        "__init__": _checked(cls, init, fields),
        "__setattr__": _setter(cls, fields),
        "hash_attrs": [init, *members],
    }.items():
        setattr(cls, name, value)
    return cls


def aggregate_replace(instance: Any, **changes: Any) -> Any:
    """A copy of an aggregate with other values in some fields.

    Args:
        instance: of a class with `@aggregate`.
        changes: the new values by field.

    Raises:
        TypeError: `instance` is no aggregate, or has no such field.
    """
    fields = getattr(type(instance), FIELDS, None)
    if fields is None:
        raise TypeError(f"aggregate_replace() expects an aggregate instance, not a {type(instance).__name__}")
    for name in changes:
        if name not in fields:
            raise TypeError(f"{type(instance).__name__} has no field {name!r}")
    return type(instance)(**{name: getattr(instance, name) for name in fields} | changes)


def _init(cls: type, fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> Callable[..., None]:
    """The `__init__` of a class that has none."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind, default=defaults.get(name, inspect.Parameter.empty)) for name in fields]
    order = sorted(parameters, key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    signature = inspect.Signature(order)

    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}.__init__(): {error}") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    return initialize


def _checked(cls: type, init: Callable[..., None], fields: Mapping[str, Any]) -> Callable[..., None]:
    """`init`, and the check that it gave every field a value."""

    @wraps(init)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        missing = next((name for name in fields if name not in vars(self)), None)
        if missing is not None:
            raise AttributeError(f"the constructor of {cls.__name__} gave the field {missing!r} no value")

    return initialize


def _setter(cls: type, fields: Mapping[str, Any]) -> Callable[[Any, str, Any], None]:
    """The `__setattr__` of a class: it sets a field once, to a value of the field's type."""

    def set_once(self: Any, name: str, value: Any) -> None:
        if name not in fields:
            raise AttributeError(f"{cls.__name__} has no field {name!r}")
        if name in vars(self):
            raise AttributeError(
                f"cannot assign to field {name!r} on immutable aggregate {cls.__name__}; "
                "aggregate_replace() makes another one"
            )
        wanted = fields[name]
        if wanted is constexpr and not isinstance(value, constexpr):
            value = constexpr(value)
        elif wanted is tuple:
            value = _language_tuple(value)
        if isinstance(wanted, type) and not isinstance(value, wanted):
            raise TypeError(
                f"the field {name!r} of {cls.__name__} is a {wanted.__name__}, not a {type(value).__name__}"
            )
        vars(self)[name] = value

    return set_once


def _language_tuple(value: Any) -> Any:
    """A Python tuple as the language's, with constants for its numbers; anything else as it is."""
    if not isinstance(value, builtins.tuple):
        return value
    items = [constexpr(item) if type(item) in NUMBERS else _language_tuple(item) for item in value]
    return named(type(value), items)
