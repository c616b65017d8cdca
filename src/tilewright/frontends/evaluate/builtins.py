"""Python's built-in functions as kernels see them, and calls that need to know the front end.

`range` makes a `tl.range`, `print` prints on the device, `min`, `max` and `abs` also take tiles; the others are
Python's own and work on compile-time values.
"""

from __future__ import annotations

from typing import Any

from tilewright import language as tl
from tilewright.language.python_builtins import absolute, is_instance, maximum, minimum


def print_on_device(prefix: Any = "", *values: Any, **options: Any) -> None:
    """`print("x", x)`: like tl.device_print."""
    tl.device_print(prefix, *values, **options)


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
