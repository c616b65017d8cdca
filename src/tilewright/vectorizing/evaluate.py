"""HIR on elements: a Python function becomes ops on scalars, for every front end.

    def f(x, y):                    %0 = arith.cmpf ogt, %x, %y
        if x > y:                   %1 = scf.if %0 -> (f64) { … scf.yield %x } else { … scf.yield %y }
            x = y                   …
        return x * 2

Plain Python functions that it calls are inlined. Values known at compile time are computed by Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FunctionType
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.errors import NotCallable, UndefinedName, WrongUnpacking
from tilewright.frontends.evaluate.branches import branch, choose
from tilewright.frontends.evaluate.carried import repeat
from tilewright.frontends.evaluate.explain import called_from
from tilewright.frontends.evaluate.frame import Handler
from tilewright.frontends.evaluate.inlining import checked_arguments, evaluate_in_place
from tilewright.frontends.evaluate.steps import bind, call_parts, collect, give_back, go_on, load
from tilewright.frontends.operations import pack
from tilewright.ir.attributes import FileLocation
from tilewright.language.python_code import UnsupportedSyntax
from tilewright.semantics.constexpr import unwrap
from tilewright.support.diagnostics import CompilationError
from tilewright.vectorizing import control
from tilewright.vectorizing.casting import describe
from tilewright.vectorizing.domain import ElementFrame
from tilewright.vectorizing.element import Element
from tilewright.vectorizing.errors import EndlessCalls, NotVectorizable
from tilewright.vectorizing.functions import known

MAX_DEPTH = 64
CONTAINER_FUNCTIONS = (enumerate, len, list, pack, reversed, sum, tuple, zip)
"""Functions of Python that do not depend on the numbers in a tuple, or only add them."""


def _operate(frame: ElementFrame, step: hir.Operate) -> None:
    frame.mark(step.location)
    frame.values[step.result] = step.function(*[frame.values[register] for register in step.operands])


def _call(frame: ElementFrame, step: hir.Call) -> None:
    callee, arguments, keywords = call_parts(frame, step)
    frame.mark(step.location)
    frame.values[step.result] = unwrap(called(frame, callee, arguments, keywords, step.location))


def called(
    frame: ElementFrame, callee: Any, arguments: list[Any], keywords: dict[str, Any], location: FileLocation
) -> Any:
    """The value of a call: an operation on elements, a Python function in place, or what Python computes.

    Args:
        frame: the frame of the caller.
        callee: the function.
        arguments, keywords: values of its parameters.
        location: the place of the call.
    """
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
    frame: ElementFrame, python: FunctionType, arguments: list[Any], keywords: dict[str, Any], location: FileLocation
) -> Any:
    domain = frame.domain
    function = domain.read(python)
    if domain.depth >= MAX_DEPTH:
        raise frame.fail(EndlessCalls(function.name), location)
    bound = checked_arguments(frame, function, arguments, keywords, location)
    domain.depth += 1
    try:
        result = evaluate_in_place(frame, function, bound)
    except CompilationError as error:
        if isinstance(error.diagnostic, EndlessCalls):
            raise
        raise called_from(error, location) from error.__cause__
    domain.depth -= 1
    return result


def _delete(frame: ElementFrame, step: hir.Delete) -> None:
    if frame.names.pop(step.name, frame) is frame:
        raise frame.fail(UndefinedName(step.name), step.location)
    frame.lost[step.name] = "it was deleted"


def _unpack(frame: ElementFrame, step: hir.Unpack) -> None:
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


def _refuse(frame: ElementFrame, step: hir.Refuse) -> None:
    raise frame.fail(UnsupportedSyntax(step.what, "not part of what can be compiled"), step.location)


HANDLERS: Mapping[type, Handler] = {
    hir.Assert: control.check_assertion,
    hir.Bind: bind,
    hir.Call: _call,
    hir.Choose: choose,
    hir.Collect: collect,
    hir.Continue: go_on,
    hir.Delete: _delete,
    hir.For: control.loop,
    hir.If: branch,
    hir.Leave: lambda frame, step: None,
    hir.Load: load,
    hir.Operate: _operate,
    hir.Refuse: _refuse,
    hir.Return: give_back,
    hir.ShortCircuit: control.short_circuit,
    hir.Store: bind,
    hir.Unpack: _unpack,
    hir.While: repeat,
}
