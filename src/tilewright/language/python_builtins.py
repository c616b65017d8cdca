"""Python's built-in functions that kernels may also call on tiles."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from tilewright.language import math, operations
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.tile import Tile


def minimum(*values: Any, **options: Any) -> Any:
    """`min(a, b, …)`, element by element if a tile is among them."""
    return _fold(operations.minimum, builtins.min, values, options)


def maximum(*values: Any, **options: Any) -> Any:
    """`max(a, b, …)`, element by element if a tile is among them."""
    return _fold(operations.maximum, builtins.max, values, options)


def absolute(value: Any) -> Any:
    """`abs(a)`."""
    return math.abs(value) if isinstance(value, Tile) else builtins.abs(value)


def _fold(
    tiles: Callable[[Any, Any], Any], numbers: Callable[..., Any], values: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    items = [unwrap(item) for item in (values[0] if len(values) == 1 and not options else values)]
    if not any(isinstance(item, Tile) for item in items):
        return numbers(items, **options)
    result = items[0]
    for item in items[1:]:
        result = tiles(result, item)
    return result
