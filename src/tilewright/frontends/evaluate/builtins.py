"""Python's built-in functions as kernels see them, and calls that need to know the front end.

`range` makes a `tl.range`, `print` prints on the device, `min` and `max` also take tiles; the others are Python's own
and work on compile-time values.
"""

from __future__ import annotations

from typing import Any

from tilewright import language as tl
from tilewright.language.python_builtins import is_instance, maximum, minimum
from tilewright.language.values import describe
from tilewright.semantics.errors import BadArgument
from tilewright.support.diagnostics import SemanticError


def print_on_device(prefix: Any = "", *values: Any, **options: Any) -> None:
    """`print("x", x)`: like tl.device_print."""
    tl.device_print(prefix, *values, **options)


def least(*values: Any) -> Any:
    """`min(a, b, …)`, which takes no tuple here."""
    return minimum(*_several("min", values))


def greatest(*values: Any) -> Any:
    """`max(a, b, …)`, which takes no tuple here."""
    return maximum(*_several("max", values))


def _several(function: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(values) < 2:
        raise SemanticError(BadArgument(function, "values", describe(values), "two or more of them"))
    return values


BUILTINS: dict[str, Any] = {
    "float": float,
    "getattr": getattr,
    "hasattr": hasattr,
    "int": int,
    "isinstance": is_instance,
    "len": len,
    "list": list,
    "max": greatest,
    "min": least,
    "print": print_on_device,
    "range": tl.range,
}
INSTEAD = {
    "abs": "use tl.abs",
    "all": "use `and`; tl.min of a tile",
    "any": "use `or`; tl.max of a tile",
    "bool": "compare with 0",
    "divmod": "use `//` and `%`",
    "enumerate": "count with tl.static_range(len(…)), and take the item of that number",
    "pow": "use `**` of constants; tl.extra.libdevice.pow of tiles",
    "repr": "use an f-string",
    "reversed": "count with tl.static_range, and take the item of that number",
    "round": "use tl.extra.libdevice.rint",
    "slice": "use brackets with `:`",
    "str": "use an f-string",
    "sum": "use `+`; tl.sum of a tile",
    "tuple": "use a list comprehension",
    "type": "ask for `.dtype`, or use isinstance",
    "zip": "count with tl.static_range(len(…)), and take the items of that number",
}
"""Replacements for functions that Python has and kernels have not."""
