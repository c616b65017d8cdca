"""The outside values that traced functions read and could change: a trace happens once, so they must not.

    SEEN = []

    def kernel(x, n):
        SEEN.append(n)          refused when the trace has ended: SEEN is not what it was before

Lists, dicts and sets must hold what they held; other objects must not hold values of the trace.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from tilewright.frontends.errors import OutsideChanged
from tilewright.frontends.python_function import globals_of
from tilewright.ir.attributes import FileLocation
from tilewright.ir.spans import span_of
from tilewright.language.callable import JITCallable
from tilewright.support.diagnostics import located


class Watched(NamedTuple):
    """One value outside, read by `function`, and what it held."""

    function: FunctionType
    name: str
    value: Any
    items: list[Any]


class Outside:
    """The values that the functions of one trace could change."""

    def __init__(self) -> None:
        self._watched: dict[tuple[int, str], Watched] = {}

    def watch(self, python: FunctionType) -> None:
        """Remember what the values that `python` reads hold, if they can change."""
        code = python.__code__
        captured, module = globals_of(python)
        for scope, names in ((captured, code.co_freevars), (module, code.co_names)):
            for name in names:
                value = scope.get(name)
                if _may_change(value) and (id(value), name) not in self._watched:
                    self._watched[id(value), name] = Watched(python, name, value, _items(value))

    def check(self, is_traced: Callable[[Any], bool]) -> None:
        """Raise if one of them has changed.

        Args:
            is_traced: whether a value belongs to the trace.

        Raises:
            CompilationError: one has.
        """
        for function, name, value, before in self._watched.values():
            after = _items(value)
            if value.__class__ in _CONTAINERS:
                changed = len(after) != len(before) or any(map(operator.is_not, after, before))
            else:
                changed = any(map(is_traced, after))
            if changed:
                code = function.__code__
                place = FileLocation(code.co_filename, code.co_firstlineno, 1)
                raise located(OutsideChanged(code.co_name, name, type(value).__name__), span_of(place))


def _may_change(value: Any) -> bool:
    """Whether a value is a container, or a class or object of the user's program."""
    if value.__class__ in _CONTAINERS:
        return True
    if isinstance(value, _FIXED) or not hasattr(value, "__dict__"):
        return False
    home = value if isinstance(value, type) else type(value)
    return not home.__module__.startswith("tilewright.")


def _items(value: Any) -> list[Any]:
    """The values that a list, dict, set or object holds."""
    if value.__class__ not in _CONTAINERS:
        return list(vars(value).values())
    return [*value, *value.values()] if isinstance(value, dict) else list(value)


_CONTAINERS = (list, dict, set)
_FIXED = (FunctionType, JITCallable, ModuleType)
