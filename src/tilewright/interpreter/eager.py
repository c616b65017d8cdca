"""Runs kernels as Python functions: `print`, `pdb` and ordinary control flow work inside.

    arguments = {"x": Argument(pointer_type(float32), address), "n": Argument(int32, 100)}
    run_eagerly(kernel, (4, 1, 1), arguments, buffers, checks_overflow=False)

Programs run one after the other. In kernels and their functions `range` makes run-time counters, and `min`, `max` and
`abs` take tiles, as in compiled kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType, TracebackType
from typing import Any, NamedTuple

import numpy as np

from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.interpreter import accesses, control, dots, folding, reports
from tilewright.interpreter.emitter import EagerEmitter, known_value
from tilewright.interpreter.machine import Extents, Interpreter
from tilewright.interpreter.memory import HostBuffer, Memory
from tilewright.interpreter.run_ir import programs
from tilewright.ir.core import Block
from tilewright.ir.literals import canonical
from tilewright.ir.types import PointerType
from tilewright.language.loops import range as run_time_range
from tilewright.language.python_builtins import Rebound, absolute, is_instance, maximum, minimum
from tilewright.language.python_code import arguments_of, refuse_generators
from tilewright.semantics.active import active, emitting_into
from tilewright.semantics.tile import Tile
from tilewright.semantics.types import AnyType
from tilewright.support.diagnostics import DeviceAssertError, SemanticError, located
from tilewright.support.source import Span

EXECUTED_IN = (accesses, control, folding, dots, reports)
"""The modules whose import enters the executors."""
BUILTINS = {"abs": absolute, "isinstance": is_instance, "max": maximum, "min": minimum, "range": run_time_range}


class Argument(NamedTuple):
    """A run-time argument: a number, or the address of an array."""

    type: AnyType
    value: int | float


class Made(NamedTuple):
    """An argument that a function makes of its parts: a tuple of some class, or a tensor descriptor."""

    make: Callable[[list[Any]], Any]
    parts: Sequence[Any]


class EagerRun(EagerEmitter):
    """The emitter of one program, which also knows how to call the functions of the kernel."""

    def __init__(self, machine: Interpreter, prepared: Rebound) -> None:
        super().__init__(machine)
        self.prepared = prepared


def run_eagerly(
    function: FunctionType,
    grid: Extents,
    arguments: Mapping[str, Any],
    buffers: Sequence[HostBuffer] = (),
    *,
    checks_overflow: bool,
) -> None:
    """Run every program of `grid` in Python.

    Args:
        function: the kernel.
        grid: its extents.
        arguments: per parameter an `Argument`, a `Made` with `Argument`s inside, or a compile-time value.
        buffers: the memory that pointers point into.
        checks_overflow: integers that overflow fail an assertion.

    Raises:
        CompilationError: the kernel does what no kernel can.
        OutOfBoundsError: a program touches memory outside of its arrays.
        DeviceAssertError: a `tl.device_assert` does not hold.
    """
    refuse_generators(function.__code__)
    memory = Memory(buffers)
    prepared = Rebound(BUILTINS)
    values = {name: _value(argument) for name, argument in arguments.items()}
    positional, named = arguments_of(function.__code__, values)
    for program in programs(grid):
        run = EagerRun(Interpreter(memory, program=program, grid=grid, functions={}), prepared)
        context = emitting_into(run, call=_call_back, debug=True, checks_overflow=checks_overflow, in_python=True)
        with context, _explained(prepared.functions):
            run.prepared(function)(*positional, **named)


def _call_back(function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """A `@jit` function that the kernel calls."""
    run = active()
    assert isinstance(run, EagerRun), "the emitter of this context"
    return run.prepared(function.fn)(*arguments, **keywords)


def _value(argument: Any) -> Any:
    if isinstance(argument, Made):
        return argument.make([_value(part) for part in argument.parts])
    if not isinstance(argument, Argument):
        return argument
    kind = argument.type.ir
    if isinstance(kind, PointerType):
        array: Any = np.int64(argument.value)
    else:
        array = np.array(canonical(argument.value, kind)).astype(numpy_dtype(kind))[()]
    return Tile.concrete(known_value(array, kind, Block(), 0), argument.type)


@contextmanager
def _explained(functions: Mapping[CodeType, FunctionType]) -> Iterator[None]:
    """Mistakes of the user's program get their place in it."""
    try:
        yield
    except SemanticError as error:
        raise located(error.diagnostic, _innermost(error.__traceback__, functions)) from error
    except DeviceAssertError as error:
        span = _innermost(error.__traceback__, functions)
        raise DeviceAssertError(error.message, error.program, error.index, span) from None


def _innermost(traceback: TracebackType | None, functions: Mapping[CodeType, FunctionType]) -> Span | None:
    """The place in the last function of the kernel that was running."""
    span = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code in functions:
            span = _span(code, traceback.tb_lasti).called(span)
        traceback = traceback.tb_next
    return span


def _span(code: CodeType, instruction: int) -> Span:
    start, end, column, end_column = list(code.co_positions())[instruction // 2]
    return Span(code.co_filename, start or 0, (column or 0) + 1, end or 0, (end_column or 0) + 1)
