"""Calls: of other kernels, of the language, of Python at compile time."""

from __future__ import annotations

from types import BuiltinFunctionType, FunctionType
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.errors import NotAKernelFunction, NotCallable, PythonMathematics
from tilewright.frontends.evaluate.frame import Frame
from tilewright.frontends.evaluate.inlining import call_kernel_function
from tilewright.frontends.operations import Method
from tilewright.language.callable import MUST_USE, JITCallable
from tilewright.language.core import BUILTIN
from tilewright.language.counterparts import advice_for
from tilewright.language.extensions import as_constants, is_extension, with_semantic, without_marks
from tilewright.language.values import describe, is_compile_time, unwrapped
from tilewright.semantics.errors import ResultUnused


def call(frame: Frame, step: hir.Call) -> None:
    """result = callee(*arguments, **keywords)."""
    values = frame.values
    callee: Any = values[step.callee]
    arguments = [values[register] for register in step.arguments]
    if step.starred:
        arguments = _spread(arguments, step.starred)
    keywords: dict[str, Any] = {}
    for name, register in step.keywords:
        if name is None:
            keywords.update(values[register])
        else:
            keywords[name] = values[register]
    if isinstance(callee, Method):
        arguments.insert(0, callee.owner)
        callee = callee.function
    if step.unused and (words := getattr(callee, MUST_USE, False)):
        raise frame.fail(ResultUnused.of(step.unused, words), step.location)
    if isinstance(callee, JITCallable):
        values[step.result] = call_kernel_function(frame, callee, arguments, keywords, step.location)
        return
    _check_callable(frame, callee, [*arguments, *keywords.values()], step)
    frame.mark(step.location)
    if is_extension(callee):
        values[step.result] = _extended(frame, callee, arguments, keywords)
    else:
        values[step.result] = unwrapped(callee(*arguments, **with_semantic(callee, keywords)))


def _extended(frame: Frame, callee: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """A call of what extends the language, which gets constants marked as such, and may give them back so."""
    held = [frame.names.get(parameter.name) for parameter in frame.function.parameters]
    positional = [as_constants(value, held) for value in arguments]
    named = {name: as_constants(value, held) for name, value in keywords.items()}
    return without_marks(callee(*positional, **with_semantic(callee, named)))


def _spread(arguments: list[Any], starred: frozenset[int]) -> list[Any]:
    """The arguments with the `*starred` ones replaced by their items."""
    spread: list[Any] = []
    for number, value in enumerate(arguments):
        if number in starred:
            spread.extend(unwrapped(item) for item in value)
        else:
            spread.append(value)
    return spread


def _check_callable(frame: Frame, callee: Any, arguments: list[Any], step: hir.Call) -> None:
    """Raise unless `callee` may be called: ordinary Python functions only see compile-time values."""
    if not callable(callee):
        raise frame.fail(NotCallable(describe(callee)), step.location)
    if callee.__class__ is BuiltinFunctionType and callee.__module__ in ("math", "cmath"):
        _check_mathematics(frame, callee, arguments, step)
    if callee.__class__ is not FunctionType or callee.__module__.startswith("tilewright."):
        return
    if getattr(callee, BUILTIN, False) or getattr(callee, "__wrapped__", None) is not None:
        return
    run_time = next((argument for argument in arguments if not is_compile_time(argument)), None)
    if run_time is not None:
        name = callee.__name__
        raise frame.fail(NotAKernelFunction(name, "Python function", describe(run_time)), step.location)


def _check_mathematics(frame: Frame, callee: Any, arguments: list[Any], step: hir.Call) -> None:
    run_time = next((argument for argument in arguments if not is_compile_time(argument)), None)
    if run_time is not None:
        name = f"{callee.__module__}.{callee.__name__}"
        advice = advice_for(callee.__name__)
        raise frame.fail(PythonMathematics(name, describe(run_time), advice), step.location)
