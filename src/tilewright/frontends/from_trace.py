"""Tracing: the kernel runs once, as the Python function that it is, on tiles that record what is done with them.

    def kernel(x, n, N: tl.constexpr):          %n is a tile, N is 3
        for i in range(N):                      Python's own loop: three times
            tl.store(x + i, n * i)              recorded three times

Whatever Python does on the way works: closures, classes, generators, data structures. What it cannot see is control
flow that depends on values at run time: `tl.cond`, `tl.fori_loop` and `tl.while_loop` are for that.
"""

from __future__ import annotations

import dis
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.errors import KernelReturnsValue, LeakedValue, UnsupportedSyntax
from tilewright.frontends.evaluate.explain import as_compilation_error
from tilewright.frontends.evaluate.frame import EvaluateOptions
from tilewright.frontends.evaluate.inlining import finish_function, function_op
from tilewright.frontends.evaluate.kernel import bind_parameters
from tilewright.frontends.from_bytecode import parameters_of
from tilewright.frontends.signature import Parameter
from tilewright.ir.attributes import UNKNOWN, Attribute, FileLocation, Location
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.spans import span_of
from tilewright.ir.types import Type
from tilewright.language.python_builtins import Rebound, absolute, maximum, minimum
from tilewright.language.values import describe, origin
from tilewright.semantics.active import active, emitting_into
from tilewright.semantics.errors import NoSingleTruth
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import CompilationError, SemanticError, located

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120 - compared often


def trace_kernel(
    python: FunctionType, parameters: Sequence[Parameter], *, name: str, options: EvaluateOptions | None = None
) -> Op:
    """Trace a kernel for the given parameters.

    Args:
        python: the kernel.
        parameters: one per parameter of the function that has no default, in any order.
        name: the symbol of the kernel.
        options: what else the result depends on.

    Returns:
        A builtin.module with the kernel; what it calls is part of it.

    Raises:
        CompilationError: the program is wrong.
        Unsupported: it does what no kernel can.
    """
    options = options or EvaluateOptions()
    code = python.__code__
    location = FileLocation(code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 1)
    _refuse_globals(code, location)
    declared = hir.Function(python.__name__, parameters_of(python, location), hir.Block(()), (), python, location)
    block = Block()
    attributes: list[dict[str, Attribute]] = []
    values = bind_parameters(declared, {parameter.name: parameter for parameter in parameters}, block, attributes)
    kernel = function_op(declared, name, block, public=True, noinline=False)
    kernel.attributes["arg_attrs"] = tuple(attributes)
    tracer = Tracer(block)
    context = emitting_into(
        tracer,
        call=_call,
        debug=options.debug,
        dot_precision=options.dot_precision,
        checks_overflow=options.debug and options.sanitize_overflow,
    )
    with context, _explained(location):
        result = _called(python, values)
    if result is not None:
        raise located(KernelReturnsValue(describe(result)), span_of(location))
    finish_function(kernel, ())
    module = Block()
    module.append(kernel)
    return Op.create("builtin.module", regions=[Region([module])], location=location)


class Tracer(Builder):
    """Records ops; each gets the place in the user's program that is being run."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self._known = set(block.args)
        self.prepared = Rebound(BUILTINS)

    @property
    def location(self) -> Location:
        """The innermost line of the user's program."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        return UNKNOWN if frame is None else place_of(frame.f_code, frame.f_lasti)

    @location.setter
    def location(self, location: Location) -> None:
        """The program says itself where it is."""

    def emit(
        self,
        name: str,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        *,
        successors: Sequence[Block] = (),
    ) -> list[Value]:
        """Record an op.

        Raises:
            SemanticError: an operand comes from another trace.
        """
        for operand in operands:
            if operand not in self._known:
                raise SemanticError(LeakedValue(str(operand.type), origin(operand)))
        results = super().emit(name, operands, result_types, attributes, regions, successors=successors)
        self._known.update(results)
        return results

    def constant(self, value: int | float, type: Type) -> Value:
        """A constant of this function."""
        made = super().constant(value, type)
        self._known.add(made)
        return made

    @contextmanager
    def recording(self, block: Block) -> Iterator[None]:
        """Until the end of the `with`, ops go to the end of `block`."""
        self._known.update(block.args)
        with super().recording(block):
            yield


@lru_cache(maxsize=4096)
def place_of(code: CodeType, instruction: int) -> FileLocation:
    """The place of an instruction (its offset) in the file."""
    positions = list(code.co_positions())
    line, end_line, column, end_column = positions[instruction // 2]
    if line is None:
        return FileLocation(code.co_filename, code.co_firstlineno, 1)
    if column is None or end_column is None:
        return FileLocation(code.co_filename, line, 1)
    return FileLocation(code.co_filename, line, column + 1, end_line or line, end_column + 1)


def _traced_range(*bounds: Any) -> Any:
    """`range` of traced kernels: Python's own, if the bounds are known."""
    for bound in bounds:
        if isinstance(bound, Tile):
            raise SemanticError(NoSingleTruth(bound.type, origin(bound.handle)))
    return range(*bounds)


MAX_PLACES = 16
"""So many calls are shown; endless recursion has more."""
BUILTINS = {"abs": absolute, "max": maximum, "min": minimum, "range": _traced_range}


def _call(function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """A `@jit` function that the kernel calls: traced, too."""
    return _called(function.fn, keywords, arguments)


def _called(python: FunctionType, keywords: Mapping[str, Any], arguments: Sequence[Any] = ()) -> Any:
    tracer = active()
    assert isinstance(tracer, Tracer), "the emitter of this context"
    return tracer.prepared(python)(*arguments, **keywords)


@contextmanager
def _explained(start: FileLocation) -> Iterator[None]:
    """Mistakes get their place in the user's program."""
    try:
        yield
    except CompilationError:
        raise
    except Exception as error:
        places = _user_places(error.__traceback__) or [start]
        found = as_compilation_error(error, places[-1], "")
        if isinstance(found, CompilationError) and found.span is not None:
            span = found.span
            for place in reversed(places[:-1]):
                span = span.called(span_of(place))
            found = located(found.diagnostic, span)
        raise found from error


def _user_places(traceback: TracebackType | None) -> list[FileLocation]:
    """The places in the user's program where an exception came through, the outermost first."""
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(PACKAGE):
            found.append(place_of(code, traceback.tb_lasti))
        traceback = traceback.tb_next
    return found if len(found) <= MAX_PLACES else [*found[: MAX_PLACES // 2], *found[-MAX_PLACES // 2 :]]


def _refuse_globals(code: CodeType, location: FileLocation) -> None:
    """A trace happens once: assignments to globals would not be part of the kernel."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            line = instruction.positions.lineno if instruction.positions else None
            raise located(UnsupportedSyntax("`global`"), span_of(location._replace(line=line or location.line)))
