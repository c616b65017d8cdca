"""Python's built-in functions as kernels see them, and calls that need to know the front end.

`range` makes a `tl.range`, `print` prints on the device, `min`, `max` and `abs` also take tiles; the others are
Python's own and work on compile-time values.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from tilewright import language as tl
from tilewright.frontends.evaluate.values import NUMBERS, unwrapped
from tilewright.semantics.tile import Tile


def print_on_device(prefix: Any = "", *values: Any, **options: Any) -> None:
    """`print("x", x)`: like tl.device_print."""
    tl.device_print(prefix, *values, **options)


def minimum(*values: Any, **options: Any) -> Any:
    """`min(a, b, …)`, element by element if a tile is among them."""
    return _fold(tl.minimum, builtins.min, values, options)


def maximum(*values: Any, **options: Any) -> Any:
    """`max(a, b, …)`, element by element if a tile is among them."""
    return _fold(tl.maximum, builtins.max, values, options)


def absolute(value: Any) -> Any:
    """`abs(a)`."""
    return tl.abs(value) if isinstance(value, Tile) else abs(value)


def is_instance(value: Any, kinds: Any) -> bool:
    """`isinstance(value, kinds)`, where compile-time numbers and strings are `tl.constexpr` too."""
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    if tl.constexpr in kinds and (value is None or value.__class__ in NUMBERS or isinstance(value, (str, tl.dtype))):
        return True
    return isinstance(value, kinds)


def _fold(
    tiles: Callable[[Any, Any], Any], numbers: Callable[..., Any], values: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    items = [unwrapped(item) for item in (values[0] if len(values) == 1 and not options else values)]
    if not any(isinstance(item, Tile) for item in items):
        return numbers(items, **options)
    result = items[0]
    for item in items[1:]:
        result = tiles(result, item)
    return result


BUILTINS: dict[str, Any] = {
    "abs": absolute,
    "all": all,
    "any": any,
    "bool": bool,
    "divmod": divmod,
    "enumerate": enumerate,
    "float": float,
    "getattr": getattr,
    "hasattr": hasattr,
    "int": int,
    "isinstance": is_instance,
    "len": len,
    "list": list,
    "max": maximum,
    "min": minimum,
    "pow": pow,
    "print": print_on_device,
    "range": tl.range,
    "repr": repr,
    "reversed": reversed,
    "slice": slice,
    "str": str,
    "sum": sum,
    "tuple": tuple,
    "type": type,
    "zip": zip,
}
