"""Variables, and the world around the function: closure, globals, built-ins.

A kernel may read a global only if changing it later makes no difference: modules, functions, classes, types, and
values marked as `tl.constexpr`. As in Triton, a variable that has no value yet reads such a global of the same name,
where Python raises UnboundLocalError; but not in run-time loops and branches, where a later round would find another.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.errors import (
    ConstantRedefined,
    GlobalNotConstant,
    PythonNotForKernels,
    UndefinedName,
    WrongUnpacking,
)
from tilewright.frontends.evaluate.builtins import BUILTINS, INSTEAD
from tilewright.frontends.evaluate.frame import Frame
from tilewright.frontends.evaluate.inlining import call_kernel_function
from tilewright.frontends.operations import contains, lacks
from tilewright.frontends.python_function import globals_of, is_python_builtin
from tilewright.ir.attributes import FileLocation
from tilewright.language.aggregates import FIELDS
from tilewright.language.callable import JITCallable, KeyedCallable
from tilewright.language.core import BUILTIN
from tilewright.language.python_code import UnsupportedSyntax
from tilewright.language.values import (
    NUMBERS,
    at_run_time,
    describe,
    set_name,
    unwrapped,
)
from tilewright.semantics.constexpr import constexpr
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import block_type, dtype

_MISSING = object()
_SAFE = (ModuleType, KeyedCallable, dtype, block_type, constexpr, type(None))
_OF_ARRAYS = ("__array_interface__", "__dlpack__")
_FOR_FUNCTIONS = "mark it with @jit, or with @constexpr_function if it computes with constants"
_FOR_CLASSES = "mark it with @aggregate, or take a NamedTuple; what is known of it can be a tl.constexpr"
_PYTHON = (
    ((FunctionType, BuiltinFunctionType), ("function", _FOR_FUNCTIONS)),
    ((type,), ("class", _FOR_CLASSES)),
)
_SEARCHES: dict[Callable[..., Any], str] = {contains: "`in`", lacks: "`not in`"}


def load(frame: Frame, step: hir.Load) -> None:
    """result = the variable."""
    value = frame.names.get(step.name, _MISSING)
    if value is _MISSING:
        value = frame.outer.get(step.name, _MISSING)
        if value is _MISSING:
            value = _look_outside(frame, step.name, step.location)
    frame.values[step.result] = value


def store(frame: Frame, step: hir.Store) -> None:
    """The variable = value; numbers become run-time values unless the program says `: tl.constexpr`.

    What is only known at run time stays so, whatever the program says.
    """
    value = frame.values[step.value]
    kind = value.__class__
    if step.new:
        if step.name in frame.names and frame.declared.get(step.name) != step.location:
            raise frame.fail(ConstantRedefined(step.name), step.location)
        frame.declared[step.name] = step.location
    if not step.constant and (kind in NUMBERS or isinstance(value, tuple)):
        frame.mark(step.location)
        value = at_run_time(value)
    set_name(value, step.name)
    frame.names[step.name] = value


def bind(frame: Frame, step: hir.Bind) -> None:
    """The variable = value, as it is."""
    value = frame.values[step.value]
    set_name(value, step.name)
    frame.names[step.name] = value


def delete(frame: Frame, step: hir.Delete) -> None:
    """`del x`, which kernels have not."""
    raise frame.fail(UnsupportedSyntax("`del`"), step.location)


def unpack(frame: Frame, step: hir.Unpack) -> None:
    """results = the items of a tuple."""
    value = frame.values[step.value]
    if step.star >= 0:
        raise frame.fail(UnsupportedSyntax("`*` on the left of `=`"), step.location)
    if isinstance(value, Tile) or not isinstance(value, (tuple, list, range)):
        expected = str(len(step.results))
        raise frame.fail(WrongUnpacking(describe(value), expected, "this is no tuple"), step.location)
    items, count = [unwrapped(item) for item in value], len(step.results)
    if len(items) != count:
        raise frame.fail(WrongUnpacking("a tuple", str(count), f"it has {len(value)} items"), step.location)
    for register, item in zip(step.results, items, strict=True):
        frame.values[register] = item


def operate(frame: Frame, step: hir.Operate) -> None:
    """result = function(*operands)."""
    values = frame.values
    operands = [values[register] for register in step.operands]
    frame.mark(step.location)
    if operands and hasattr(operands[0].__class__, FIELDS) and (method := _kernel_method(step.function, operands[0])):
        values[step.result] = call_kernel_function(frame, method, operands, {}, step.location)
        return
    if step.function in _SEARCHES:
        raise frame.fail(UnsupportedSyntax(_SEARCHES[step.function]), step.location)
    result = step.function(*operands)
    values[step.result] = result.value if result.__class__ is constexpr else result


def _kernel_method(operation: Any, owner: Any) -> JITCallable | None:
    """The kernel function with which the class of an aggregate defines one of Python's operators."""
    name = f"__{operation.__name__.strip('_')}__"
    method = getattr(owner.__class__, name, None) if operation.__module__ == operator.add.__module__ else None
    return method if isinstance(method, JITCallable) else None


def _look_outside(frame: Frame, name: str, location: FileLocation) -> Any:
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
            frame.outer[name] = unwrapped(value)
            return frame.outer[name]
    if name in BUILTINS:
        return BUILTINS[name]
    raise frame.fail(_undefined(frame, name, {**captured, **module}), location)


def _check_constant(frame: Frame, name: str, value: Any, location: FileLocation) -> None:
    if isinstance(value, _SAFE) or _is_language(value):
        return
    if frame.evaluation.options.allow_globals and not any(hasattr(value, name) for name in _OF_ARRAYS):
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


def _undefined(frame: Frame, name: str, outside: dict[str, Any]) -> UndefinedName:
    if is_python_builtin(name):
        advice = INSTEAD.get(name, "look for a tl function instead")
        return UndefinedName(name, "this Python built-in does not exist in kernels", advice)
    close = difflib.get_close_matches(name, [*frame.names, *outside, *BUILTINS], 1)
    return UndefinedName(name, advice=f"did you mean `{close[0]}`?") if close else UndefinedName(name)
