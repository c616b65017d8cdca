"""Steps with a meaning of their own in kernels: stores, operators, calls, conditions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.errors import (
    BadCondition,
    ConstantRedefined,
    NotAKernelFunction,
    NotCallable,
    PythonMathematics,
    WrongUnpacking,
)
from tilewright.frontends.evaluate.branches import branch, choose
from tilewright.frontends.evaluate.carried import repeat
from tilewright.frontends.evaluate.frame import Handler
from tilewright.frontends.evaluate.inlining import call_kernel_function
from tilewright.frontends.evaluate.loops import loop
from tilewright.frontends.evaluate.steps import call_parts, collect, give_back, go_on, load
from tilewright.frontends.evaluate.tiles import TileFrame
from tilewright.frontends.operations import contains, lacks
from tilewright.language.aggregates import FIELDS
from tilewright.language.callable import MUST_USE, JITCallable, ResultUnused
from tilewright.language.core import BUILTIN
from tilewright.language.counterparts import advice_for
from tilewright.language.extensions import as_constants, is_extension, with_semantic, without_marks
from tilewright.language.python_code import UnsupportedSyntax
from tilewright.language.values import at_run_time, describe, is_compile_time, set_name
from tilewright.semantics.arithmetic import logical_and, logical_or
from tilewright.semantics.constexpr import NUMBERS, constexpr, unwrap
from tilewright.semantics.debug import device_assert
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import StaticAssertionFailed

_SEARCHES: dict[Callable[..., Any], str] = {contains: "`in`", lacks: "`not in`"}


def store(frame: TileFrame, step: hir.Store) -> None:
    """The variable = value; numbers become run-time values unless the program says `: tl.constexpr`.

    A value that is only known at run time stays so, whatever the program says.
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


def bind(frame: TileFrame, step: hir.Bind) -> None:
    """The variable = value, as it is."""
    value = frame.values[step.value]
    if " " not in step.name:
        set_name(value, step.name)
    frame.names[step.name] = value


def delete(frame: TileFrame, step: hir.Delete) -> None:
    """`del x`, which kernels have not."""
    raise frame.fail(UnsupportedSyntax("`del`"), step.location)


def refuse(frame: TileFrame, step: hir.Refuse) -> None:
    """A statement that no kernel may reach."""
    raise frame.fail(UnsupportedSyntax(step.what), step.location)


def leave(frame: TileFrame, step: hir.Leave) -> None:
    """A loop is left early, which Triton has not: the variables that say so follow."""
    if not frame.domain.options.leaves_loops:
        raise frame.fail(UnsupportedSyntax(step.what), step.location)


def unpack(frame: TileFrame, step: hir.Unpack) -> None:
    """results = the items of a tuple."""
    value = frame.values[step.value]
    if step.star >= 0:
        raise frame.fail(UnsupportedSyntax("`*` on the left of `=`"), step.location)
    if isinstance(value, Tile) or not isinstance(value, (tuple, list, range)):
        expected = str(len(step.results))
        raise frame.fail(WrongUnpacking(describe(value), expected, "this is no tuple"), step.location)
    items, count = [unwrap(item) for item in value], len(step.results)
    if len(items) != count:
        raise frame.fail(WrongUnpacking("a tuple", str(count), f"it has {len(value)} items"), step.location)
    for register, item in zip(step.results, items, strict=True):
        frame.values[register] = item


def operate(frame: TileFrame, step: hir.Operate) -> None:
    """result = function(*operands)."""
    values = frame.values
    operands = [values[register] for register in step.operands]
    frame.mark(step.location)
    first = next(iter(operands), None)
    if hasattr(first.__class__, FIELDS) and (method := _kernel_method(step.function, first)):
        values[step.result] = call_kernel_function(frame, method, operands, {}, step.location)
        return
    if step.function in _SEARCHES:
        raise frame.fail(UnsupportedSyntax(_SEARCHES[step.function]), step.location)
    if isinstance(first, (tuple, list)):
        operands = _alike(operands)
    result = step.function(*operands)
    values[step.result] = result.value if result.__class__ is constexpr else result


def _alike(operands: list[Any]) -> list[Any]:
    """The operands, as tuples if lists are among them: those that stand in a kernel are tuples, as in Triton."""
    is_mixed = any(isinstance(operand, list) for operand in operands)
    is_mixed &= any(isinstance(operand, tuple) for operand in operands)
    return [tuple(operand) if isinstance(operand, list) else operand for operand in operands] if is_mixed else operands


def _kernel_method(operation: Any, owner: Any) -> JITCallable | None:
    """The kernel function with which the class of an aggregate defines one of Python's operators."""
    name = f"__{operation.__name__.strip('_')}__"
    method = getattr(owner.__class__, name, None) if operation.__module__ == operator.add.__module__ else None
    return method if isinstance(method, JITCallable) else None


def call(frame: TileFrame, step: hir.Call) -> None:
    """result = callee(*arguments, **keywords)."""
    callee, arguments, keywords = call_parts(frame, step)
    if step.unused and (words := getattr(callee, MUST_USE, False)):
        raise frame.fail(ResultUnused.of(step.unused, words), step.location)
    if isinstance(callee, JITCallable):
        frame.values[step.result] = call_kernel_function(frame, callee, arguments, keywords, step.location)
        return
    _check_callable(frame, callee, [*arguments, *keywords.values()], step)
    frame.mark(step.location)
    if is_extension(callee):
        frame.values[step.result] = _extended(frame, callee, arguments, keywords)
    else:
        result = callee(*arguments, **with_semantic(callee, keywords))
        frame.values[step.result] = result.value if result.__class__ is constexpr else result


def _extended(frame: TileFrame, callee: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """A call of what extends the language, which gets constants marked as such, and may give them back so."""
    held = [frame.names.get(parameter.name) for parameter in frame.function.parameters]
    positional = [as_constants(value, held) for value in arguments]
    named = {name: as_constants(value, held) for name, value in keywords.items()}
    return without_marks(callee(*positional, **with_semantic(callee, named)))


def _check_callable(frame: TileFrame, callee: Any, arguments: list[Any], step: hir.Call) -> None:
    """Raise unless `callee` may be called: ordinary Python functions only see compile-time values."""
    if not callable(callee):
        raise frame.fail(NotCallable(describe(callee)), step.location)
    of_python = callee.__class__ is BuiltinFunctionType and callee.__module__ in ("math", "cmath")
    if not of_python and (
        callee.__class__ is not FunctionType
        or callee.__module__.startswith("tilewright.")
        or getattr(callee, BUILTIN, False)
        or getattr(callee, "__wrapped__", None) is not None
    ):
        return
    run_time = next((argument for argument in arguments if not is_compile_time(argument)), None)
    if run_time is None:
        return
    name, what = callee.__name__, describe(run_time)
    if of_python:
        raise frame.fail(PythonMathematics(f"{callee.__module__}.{name}", what, advice_for(name)), step.location)
    raise frame.fail(NotAKernelFunction(name, "Python function", what), step.location)


def short_circuit(frame: TileFrame, step: hir.ShortCircuit) -> None:
    """`a and b`, `a or b`: what is known at compile time decides alone, or has no say; else both are evaluated."""
    left = frame.values[step.left]
    if not isinstance(left, Tile) and bool(left) is not step.conjunction:
        frame.values[step.result] = left
        return
    if isinstance(left, Tile) and step.right.stores:
        raise frame.fail(UnsupportedSyntax("`:=` on the right of `and` or `or`"), step.location)
    right = frame.valued(step.right, step.right_value)
    if isinstance(left, Tile) and isinstance(right, Tile):
        frame.mark(step.location)
        right = (logical_and if step.conjunction else logical_or)(left, right)
    elif isinstance(left, Tile) and bool(right) is step.conjunction:
        right = left
    frame.values[step.result] = right


def check(frame: TileFrame, step: hir.Assert) -> None:
    """`assert`, which counts only while debugging: of a known condition that is sure to be reached, at compile time."""
    test = frame.values[step.test]
    if isinstance(test, (str, tuple)):
        raise frame.fail(BadCondition(describe(test), "it always holds: assert what is to be checked"), step.location)
    if not isinstance(test, Tile) and (test or not frame.regions):
        if not test and frame.domain.options.debug:
            message = frame.valued(step.message, step.message_value)
            raise frame.fail(StaticAssertionFailed(str(message)), step.location)
        return
    message = frame.valued(step.message, step.message_value)
    frame.mark(step.location)
    device_assert(test, message)


HANDLERS: dict[type, Handler] = {
    hir.Assert: check,
    hir.Bind: bind,
    hir.Call: call,
    hir.Choose: choose,
    hir.Collect: collect,
    hir.Continue: go_on,
    hir.Delete: delete,
    hir.For: loop,
    hir.If: branch,
    hir.Leave: leave,
    hir.Load: load,
    hir.Operate: operate,
    hir.Refuse: refuse,
    hir.Return: give_back,
    hir.ShortCircuit: short_circuit,
    hir.Store: store,
    hir.Unpack: unpack,
    hir.While: repeat,
}
