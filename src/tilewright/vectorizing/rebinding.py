"""Rebinding: traced functions see versions of `math`'s and Python's functions that take elements.

    def f(x): return math.exp(x) + min(x, 1)          `math` and `min` are ours while `f` is traced

NumPy's functions dispatch to the element by themselves; Python functions that `f` calls are rebound, too.
"""

from __future__ import annotations

import builtins
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from tilewright.vectorizing.element import Element
from tilewright.vectorizing.functions import known


def with_known_functions(python: FunctionType) -> FunctionType:
    """A copy of the function that sees other globals."""
    return _Copies().copy(python)


class _Copies:
    """Copies of functions that may call each other."""

    def __init__(self) -> None:
        self.made: dict[int, FunctionType] = {}

    def copy(self, python: FunctionType) -> FunctionType:
        found = self.made.get(id(python))
        if found is not None:
            return found
        names = dict(python.__globals__)
        made = FunctionType(python.__code__, names, python.__name__, python.__defaults__, python.__closure__)
        made.__kwdefaults__ = python.__kwdefaults__
        self.made[id(python)] = made
        for name in python.__code__.co_names:
            value = names.get(name, getattr(builtins, name, None))
            if value is not None:
                names[name] = self.replacement(value)
        return made

    def replacement(self, value: Any) -> Any:
        """The value that takes the place of a global one."""
        if isinstance(value, ModuleType):
            return _Module(self, value) if _is_covered(value) else value
        if isinstance(value, FunctionType) and not (value.__module__ or "").startswith(("tilewright", "numpy")):
            return self.copy(value)
        if isinstance(value, (BuiltinFunctionType, type, FunctionType)) and known(value) is not None:
            return _dispatching(value)
        fn = getattr(value, "fn", None)
        return self.copy(fn) if isinstance(fn, FunctionType) else value


def _is_covered(module: ModuleType) -> bool:
    return module.__name__ == "math" or module.__name__.startswith("tilewright.language")


class _Module:
    """A module whose functions take elements."""

    def __init__(self, copies: _Copies, module: ModuleType) -> None:
        self._copies, self._module = copies, module

    def __getattr__(self, name: str) -> Any:
        return self._copies.replacement(getattr(self._module, name))


def _dispatching(function: Any) -> Any:
    ours = known(function)
    assert ours is not None, "asked before"

    def either(*arguments: Any, **keywords: Any) -> Any:
        chosen = ours if any(isinstance(argument, Element) for argument in arguments) else function
        return chosen(*arguments, **keywords)

    return either
