"""Python's built-in functions that kernels may also call on tiles."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from math import copysign, isnan
from types import CodeType, FunctionType
from typing import Any

from tilewright.language import math, operations
from tilewright.language.python_code import check_helper
from tilewright.language.tuples import tuple as language_tuple
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import BadArgument
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import SemanticError


def minimum(*values: Any, **options: Any) -> Any:
    """`min(a, b, …)`, element by element if a tile is among them."""
    return _fold(operations.minimum, builtins.min, values, options)


def maximum(*values: Any, **options: Any) -> Any:
    """`max(a, b, …)`, element by element if a tile is among them."""
    return _fold(operations.maximum, builtins.max, values, options)


def absolute(value: Any) -> Any:
    """`abs(a)`."""
    return math.abs(value) if isinstance(value, Tile) else builtins.abs(unwrap(value))


def is_instance(value: Any, kinds: Any) -> bool:
    """`isinstance(value, kinds)`, where tuples are `tl.tuple`, and constants are what they hold, not `tl.constexpr`."""
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return isinstance(unwrap(value), (*kinds, tuple) if language_tuple in kinds else kinds)


class Rebound:
    """Functions of a kernel with the built-in functions that kernels have; each is made once."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.functions: dict[CodeType, FunctionType] = {}
        self._names = names

    def __call__(self, function: FunctionType) -> FunctionType:
        """`function`, which sees these names where its module does not have them.

        Raises:
            Unsupported: it assigns to variables outside, or is `async`.
        """
        found = self.functions.get(function.__code__)
        if found is None or found.__closure__ is not function.__closure__:
            check_helper(function.__code__)
            names = {**self._names, **function.__globals__}
            found = FunctionType(
                function.__code__, names, function.__name__, function.__defaults__, function.__closure__
            )
            found.__kwdefaults__ = function.__kwdefaults__
            self.functions[function.__code__] = found
        return found


def _fold(
    tiles: Callable[[Any, Any], Any], numbers: Callable[..., Any], values: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    items = [unwrap(item) for item in (values[0] if len(values) == 1 else values)]
    if not any(isinstance(item, Tile) for item in items):
        for item in items:
            _check_ordered(numbers, item)
        return numbers(items, **options)
    result = items[0]
    for item in items[1:]:
        result = tiles(result, item)
    return result


def _check_ordered(function: Callable[..., Any], number: Any) -> None:
    """Refuse what Python orders otherwise than tiles do.

    Raises:
        SemanticError: the number is NaN or -0.0.
    """
    if isinstance(number, float) and (isnan(number) or (number == 0 and copysign(1, number) < 0)):
        raise SemanticError(BadArgument(function.__name__, "a value", number, "no NaN and no negative zero"))
