"""HIR on elements: a Python function becomes ops on scalars, whichever front end read it.

    def f(x, y):                    %0 = arith.cmpf ogt, %x, %y
        if x > y:                   %1 = scf.if %0 -> (f64) { … scf.yield %x } else { … scf.yield %y }
            x = y                   …
        return x * 2

Plain Python functions that are called become part of their caller. What is known at compile time is computed by Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.errors import BadArguments, NotCallable, UndefinedName, WrongUnpacking
from tilewright.frontends.evaluate.explain import called_from
from tilewright.frontends.evaluate.inlining import bind_arguments
from tilewright.frontends.operations import Method, pack
from tilewright.frontends.python_function import is_python_builtin
from tilewright.ir.attributes import FileLocation
from tilewright.language.python_code import UnsupportedSyntax
from tilewright.semantics.constexpr import unwrap
from tilewright.support.diagnostics import CompilationError
from tilewright.vectorizing import control
from tilewright.vectorizing.casting import describe
from tilewright.vectorizing.element import Element
from tilewright.vectorizing.errors import EndlessCalls, NotVectorizable, NoValue
from tilewright.vectorizing.frame import Frame
from tilewright.vectorizing.functions import known

MAX_DEPTH = 64
CONTAINER_FUNCTIONS = (enumerate, len, list, pack, reversed, sum, tuple, zip)
"""Functions of Python's own that ask nothing of the numbers in a tuple, or only add them."""


def _load(frame: Frame, step: hir.Load) -> None:
    name = step.name
    if name in frame.names:
        frame.values[step.result] = frame.names[name]
        return
    if name in frame.lost:
        raise frame.fail(NoValue(name, frame.lost[name]), step.location)
    captured, module = frame.outer
    for namespace in (captured, module):
        if name in namespace:
            frame.values[step.result] = unwrap(namespace[name])
            return
    if not is_python_builtin(name):
        raise frame.fail(UndefinedName(name), step.location)
    builtins = module["__builtins__"]
    frame.values[step.result] = builtins[name] if isinstance(builtins, dict) else getattr(builtins, name)


def _store(frame: Frame, step: hir.Store | hir.Bind) -> None:
    frame.names[step.name] = unwrap(frame.values[step.value])


def _operate(frame: Frame, step: hir.Operate) -> None:
    frame.mark(step.location)
    frame.values[step.result] = step.function(*[frame.values[register] for register in step.operands])


def _call(frame: Frame, step: hir.Call) -> None:
    values = frame.values
    callee: Any = values[step.callee]
    arguments: list[Any] = []
    for number, register in enumerate(step.arguments):
        if number in step.starred:
            arguments.extend(values[register])
        else:
            arguments.append(values[register])
    keywords: dict[str, Any] = {}
    for name, register in step.keywords:
        keywords.update(values[register] if name is None else {name: values[register]})
    if isinstance(callee, Method):
        arguments.insert(0, callee.owner)
        callee = callee.function
    frame.mark(step.location)
    values[step.result] = unwrap(called(frame, callee, arguments, keywords, step.location))


def called(frame: Frame, callee: Any, arguments: list[Any], keywords: dict[str, Any], location: FileLocation) -> Any:
    """The value of a call: an operation on elements, a Python function in place, or what Python computes."""
    if callee is range:
        return control.bounds(*arguments)
    computes = _has_element((*arguments, *keywords.values()))
    operation = known(callee)
    if operation is not None and (computes or (callee.__module__ or "").startswith("tilewright.")):
        return operation(*arguments, **keywords)
    python = callee if isinstance(callee, FunctionType) else getattr(callee, "fn", None)
    if isinstance(python, FunctionType) and not (python.__module__ or "").startswith("tilewright."):
        return _inlined(frame, python, arguments, keywords, location)
    if not callable(callee):
        raise frame.fail(NotCallable(describe(callee)), location)
    is_method = isinstance(getattr(callee, "__self__", None), Element)
    if computes and not is_method and not any(callee is known for known in CONTAINER_FUNCTIONS):
        raise frame.fail(NotVectorizable(getattr(callee, "__name__", describe(callee))), location)
    return callee(*arguments, **keywords)


def _has_element(values: Any) -> bool:
    return any(isinstance(value, Element) or (isinstance(value, tuple) and _has_element(value)) for value in values)


def _inlined(
    frame: Frame, python: FunctionType, arguments: list[Any], keywords: dict[str, Any], location: FileLocation
) -> Any:
    function = frame.evaluation.read(python)
    if frame.depth >= MAX_DEPTH:
        raise frame.fail(EndlessCalls(function.name), location)
    try:
        bound = bind_arguments(function, arguments, keywords)
    except TypeError as error:
        raise frame.fail(BadArguments(function.name, str(error)), location) from None
    caller = frame.emitter.location
    try:
        return Frame(frame.evaluation, function, bound, frame).evaluate()
    except CompilationError as error:
        if isinstance(error.diagnostic, EndlessCalls):
            raise
        raise called_from(error, location) from error.__cause__
    finally:
        frame.emitter.location = caller


def _delete(frame: Frame, step: hir.Delete) -> None:
    if frame.names.pop(step.name, frame) is frame:
        raise frame.fail(UndefinedName(step.name), step.location)
    frame.lost[step.name] = "it was deleted"


def _unpack(frame: Frame, step: hir.Unpack) -> None:
    value, count = frame.values[step.value], len(step.results)
    items = list(value) if isinstance(value, (tuple, list, str)) else None
    fits = items is not None and (len(items) == count if step.star < 0 else len(items) >= count - 1)
    if items is None or not fits:
        actual = describe(value) if items is None else f"it has {len(items)}"
        raise frame.fail(WrongUnpacking(describe(value), str(count), actual), step.location)
    if step.star >= 0:
        surplus = len(items) - count + 1
        items[step.star : step.star + surplus] = [tuple(items[step.star : step.star + surplus])]
    for register, item in zip(step.results, items, strict=True):
        frame.values[register] = unwrap(item)


def _collect(frame: Frame, step: hir.Collect) -> None:
    collected = []
    for item in control.known_items(frame, frame.values[step.iterable], step.location):
        frame.values[step.item] = item
        frame.run(step.target)
        if all(control.known_truth(frame, frame.valued(*test), step.location) for test in step.filters):
            collected.append(frame.valued(step.body, step.value))
    frame.values[step.result] = tuple(collected)


def _return(frame: Frame, step: hir.Return) -> None:
    frame.result = frame.values[step.value]


def _refuse(frame: Frame, step: hir.Refuse) -> None:
    raise frame.fail(UnsupportedSyntax(step.what, "not part of what can be compiled"), step.location)


def _go_on(frame: Frame, step: hir.Continue) -> None:
    frame.run(step.block)


HANDLERS: Mapping[type, Callable[[Frame, Any], None]] = {
    hir.Assert: control.check_assertion,
    hir.Bind: _store,
    hir.Call: _call,
    hir.Choose: control.choose,
    hir.Collect: _collect,
    hir.Continue: _go_on,
    hir.Delete: _delete,
    hir.For: control.repeat,
    hir.If: control.branch,
    hir.Load: _load,
    hir.Operate: _operate,
    hir.Refuse: _refuse,
    hir.Return: _return,
    hir.ShortCircuit: control.short_circuit,
    hir.Store: _store,
    hir.Unpack: _unpack,
    hir.While: control.loop,
}
