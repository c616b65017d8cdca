"""The names visible in a kernel function besides its variables: closure, globals, built-ins.

A kernel may read a global only if changing it later makes no difference: modules, functions, classes, types, and values
marked as `tl.constexpr`. As in Triton, a variable that has no value yet reads such a global of the same name, where
Python raises UnboundLocalError; but not in run-time loops and branches, where a later iteration would find another
value.

Python's `range` makes a `tl.range`, its `print` prints on the device, and its `min` and `max` also take tiles; its
other functions work on compile-time values, as in Python.
"""

from __future__ import annotations

import difflib
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from tilewright import language as tl
from tilewright.frontends.errors import GlobalNotConstant, PythonNotForKernels, UndefinedName
from tilewright.frontends.evaluate.frame import Frame
from tilewright.frontends.python_function import globals_of, is_python_builtin
from tilewright.ir.attributes import FileLocation
from tilewright.language.aggregates import FIELDS
from tilewright.language.callable import KeyedCallable
from tilewright.language.core import BUILTIN
from tilewright.language.python_builtins import is_instance, maximum, minimum
from tilewright.language.values import describe
from tilewright.semantics.constexpr import constexpr, unwrap
from tilewright.semantics.errors import BadArgument
from tilewright.semantics.types import block_type, dtype
from tilewright.support.diagnostics import SemanticError

_MISSING = object()
_SAFE = (ModuleType, KeyedCallable, dtype, block_type, constexpr, type(None))
_OF_ARRAYS = ("__array_interface__", "__dlpack__")
_FOR_FUNCTIONS = "mark it with @jit, or with @constexpr_function if it computes with constants"
_FOR_CLASSES = "mark it with @aggregate, or take a NamedTuple; what is known of it can be a tl.constexpr"
_PYTHON = (
    ((FunctionType, BuiltinFunctionType), ("function", _FOR_FUNCTIONS)),
    ((type,), ("class", _FOR_CLASSES)),
)


def look_outside(frame: Frame[Any], name: str, location: FileLocation) -> Any:
    """The value of a name that is no variable of the function (now)."""
    if name in frame.lost:
        raise frame.fail(UndefinedName(name, frame.lost[name], "give it a value on every path to here"), location)
    captured, module = globals_of(frame.function.python)
    if name in frame.function.python.__code__.co_varnames:
        if isinstance(module.get(name), constexpr) and not frame.regions:
            return module[name].value
        raise frame.fail(UndefinedName(name, "it gets its value later, or not at all"), location)
    for scope in (captured, module):
        value = scope.get(name, _MISSING)
        if value is not _MISSING:
            _check_constant(frame, name, value, location)
            frame.outer[name] = unwrap(value)
            return frame.outer[name]
    if name in BUILTINS:
        return BUILTINS[name]
    raise frame.fail(_undefined(frame, name, {**captured, **module}), location)


def _check_constant(frame: Frame[Any], name: str, value: Any, location: FileLocation) -> None:
    if isinstance(value, _SAFE) or _is_language(value):
        return
    if frame.domain.options.allow_globals and not any(hasattr(value, name) for name in _OF_ARRAYS):
        return
    found = next((PythonNotForKernels(name, *words) for kinds, words in _PYTHON if isinstance(value, kinds)), None)
    raise frame.fail(found or GlobalNotConstant(name, type(value).__name__), location)


def _is_language(value: Any) -> bool:
    """Whether a value belongs to the language (or says so, as Triton's extensions do), or is a class of its tuples."""
    module = getattr(value, "__module__", None) or ""
    if module.startswith("tilewright.") or getattr(value, BUILTIN, False):
        return True
    return isinstance(value, type) and (
        hasattr(value, FIELDS) or (issubclass(value, tuple) and hasattr(value, "_fields"))
    )


def _undefined(frame: Frame[Any], name: str, outside: dict[str, Any]) -> UndefinedName:
    if is_python_builtin(name):
        advice = INSTEAD.get(name, "look for a tl function instead")
        return UndefinedName(name, "this Python built-in does not exist in kernels", advice)
    close = difflib.get_close_matches(name, [*frame.names, *outside, *BUILTINS], 1)
    return UndefinedName(name, advice=f"did you mean `{close[0]}`?") if close else UndefinedName(name)


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
