"""Tracing: the kernel runs once as a Python function, on tiles that record operations.

    def kernel(x, n, N: tl.constexpr):          %n is a tile, N is 3
        for i in range(N):                      Python's own loop: three times
            tl.store(x + i, n * i)              recorded three times

All of Python works on the way: closures, classes, generators, data structures. Tracing does not see control flow that
depends on run-time values; `tl.cond`, `tl.fori_loop` and `tl.while_loop` express it.

A trace happens once, so it must not change objects outside of the kernel:

    SEEN = []

    def kernel(x, n):
        SEEN.append(n)          refused at the end of the trace: SEEN has changed

Lists, dicts and sets must hold what they held; other objects must not hold values of the trace.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from tilewright.frontends import hir
from tilewright.frontends.errors import BadArguments, KernelReturnsValue, LeakedValue, OutsideChanged, TraceTooLong
from tilewright.frontends.evaluate.inlining import bind_arguments, finish_function, function_op
from tilewright.frontends.evaluate.kernel import bind_parameters
from tilewright.frontends.evaluate.tiles import EvaluateOptions
from tilewright.frontends.from_bytecode import parameters_of
from tilewright.frontends.python_function import globals_of
from tilewright.frontends.signature import Parameter
from tilewright.frontends.traced_errors import PACKAGE, explained
from tilewright.ir.attributes import UNKNOWN, Attribute, FileLocation, Location, span_of
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import Type
from tilewright.language.callable import JITCallable
from tilewright.language.python_builtins import Rebound, absolute, is_instance, maximum, minimum
from tilewright.language.python_code import arguments_of, definition_of, place_of, refuse_generators
from tilewright.language.values import describe, origin
from tilewright.semantics.active import active, emitting_into
from tilewright.semantics.errors import NoSingleTruth
from tilewright.semantics.tile import Tile
from tilewright.support.diagnostics import SemanticError, located


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
    location = definition_of(code)
    refuse_generators(code)
    declared = _declared(python, location)
    block = Block()
    attributes: list[dict[str, Attribute]] = []
    values = bind_parameters(declared, {parameter.name: parameter for parameter in parameters}, block, attributes)
    kernel = function_op(declared, name, block, public=True, noinline=False)
    kernel.argument_attributes = attributes
    tracer = Tracer(block)
    context = emitting_into(tracer, call=_call, in_python=True, **options.facts())
    with context, explained(location):
        result = _called(python, *arguments_of(code, values))
        tracer.outside.check(tracer.knows)
    if result is not None:
        raise located(KernelReturnsValue(describe(result)), span_of(location))
    finish_function(kernel, ())
    module = Block()
    module.append(kernel)
    return Op.create("builtin.module", regions=[Region([module])], location=location)


def _declared(python: FunctionType, location: FileLocation) -> hir.Function:
    """The function without its body, which is not read."""
    return hir.Function(python.__name__, parameters_of(python, location), hir.Block(()), (), python, location)


MAX_VALUES = 250_000
"""Traces of more values, or of more ops, are taken for loops without end; back ends would need hours for them."""


class Tracer(Builder):
    """Records ops; each gets the place in the user's program that is being run."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self._known = set(block.args)
        self._emitted = 0
        self.outside = Outside()
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

    def knows(self, value: Any) -> bool:
        """Whether a value belongs to this trace."""
        return isinstance(value, Tile) and value.handle in self._known

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
            SemanticError: an operand comes from another trace, or there are too many values.
        """
        for operand in operands:
            if operand not in self._known:
                raise SemanticError(LeakedValue(str(operand.type), origin(operand)))
        results = super().emit(name, operands, result_types, attributes, regions, successors=successors)
        self._known.update(results)
        self._emitted += 1
        if max(self._emitted, len(self._known)) > MAX_VALUES:
            raise SemanticError(TraceTooLong(MAX_VALUES))
        return results

    def constant(self, value: int | float, type: Type) -> Value:
        """A constant of this function."""
        made = super().constant(value, type)
        self._known.add(made)
        return made

    @contextmanager
    def recording(self, block: Block) -> Iterator[None]:
        """Send ops to the end of `block` until the end of the `with`."""
        self._known.update(block.args)
        with super().recording(block):
            yield


def _traced_range(*bounds: Any) -> Any:
    """`range` of traced kernels: Python's own, if the bounds are known."""
    for bound in bounds:
        if isinstance(bound, Tile):
            raise SemanticError(NoSingleTruth(bound.type, origin(bound.handle)))
    return range(*bounds)


_START = FileLocation("", 1, 1)
BUILTINS = {"abs": absolute, "isinstance": is_instance, "max": maximum, "min": minimum, "range": _traced_range}


def _call(function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """A `@jit` function that the kernel calls: traced, too."""
    return _called(function.fn, arguments, keywords)


def _called(python: FunctionType, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    tracer = active()
    assert isinstance(tracer, Tracer), "the emitter of this context"
    tracer.outside.watch(python)
    try:
        return tracer.prepared(python)(*arguments, **keywords)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        reason = _misfit(python, arguments, keywords) or str(error)
    raise SemanticError(BadArguments(python.__name__, reason))


def _misfit(python: FunctionType, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """The reason why arguments do not fit a function's parameters, in the words of the other front ends; "" if none."""
    try:
        bind_arguments(_declared(python, _START), list(arguments), dict(keywords))
    except TypeError as error:
        return str(error)
    return ""


class Watched(NamedTuple):
    """One value outside, read by `function`, and what it held."""

    function: FunctionType
    name: str
    value: Any
    items: list[Any]


class Outside:
    """The values that the functions of one trace could change."""

    def __init__(self) -> None:
        self._watched: dict[tuple[int, str], Watched] = {}

    def watch(self, python: FunctionType) -> None:
        """Remember what the values that `python` reads hold, if they can change."""
        code = python.__code__
        captured, module = globals_of(python)
        for scope, names in ((captured, code.co_freevars), (module, code.co_names)):
            for name in names:
                value = scope.get(name)
                if _may_change(value) and (id(value), name) not in self._watched:
                    self._watched[id(value), name] = Watched(python, name, value, _items(value))

    def check(self, is_traced: Callable[[Any], bool]) -> None:
        """Raise if one of them has changed.

        Args:
            is_traced: whether a value belongs to the trace.

        Raises:
            CompilationError: one has.
        """
        for function, name, value, before in self._watched.values():
            after = _items(value)
            if value.__class__ in _CONTAINERS:
                changed = len(after) != len(before) or any(map(operator.is_not, after, before))
            else:
                changed = any(map(is_traced, after))
            if changed:
                code = function.__code__
                problem = OutsideChanged(code.co_name, name, type(value).__name__)
                raise located(problem, span_of(definition_of(code)))


def _may_change(value: Any) -> bool:
    """Whether a value is a container, or a class or object of the user's program."""
    if value.__class__ in _CONTAINERS:
        return True
    if isinstance(value, _FIXED) or not hasattr(value, "__dict__"):
        return False
    home = value if isinstance(value, type) else type(value)
    return not home.__module__.startswith("tilewright.")


def _items(value: Any) -> list[Any]:
    """The values that a list, dict, set or object holds."""
    if value.__class__ not in _CONTAINERS:
        return list(vars(value).values())
    return [*value, *value.values()] if isinstance(value, dict) else list(value)


_CONTAINERS = (list, dict, set)
_FIXED = (FunctionType, JITCallable, ModuleType)
