"""Programs: a Python function and the kinds of its arguments as a module of TTIR, through any of the three front ends.

program = make_program(f, (Kind("float32"), WEAK_INT), frontend="ast")
program.module          builtin.module with one tt.func on scalars: (f32, i64) -> f32
program.result          Kind("float32")
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any, NamedTuple

from tilewright.frontends import hir
from tilewright.frontends.choice import READERS, TRACE
from tilewright.frontends.evaluate.frame import Frame
from tilewright.frontends.evaluate.inlining import finish_function, function_op
from tilewright.frontends.from_trace import Tracer
from tilewright.frontends.traced_errors import explained
from tilewright.ir.attributes import UNKNOWN, FileLocation, span_of
from tilewright.ir.builder import Builder
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.language.python_code import definition_of
from tilewright.semantics.active import emitting_into
from tilewright.support.diagnostics import located
from tilewright.transforms.cse import cse
from tilewright.vectorizing.casting import cast, describe, kind_of
from tilewright.vectorizing.domain import ElementDomain
from tilewright.vectorizing.element import IR_TYPES, Element, is_number
from tilewright.vectorizing.errors import NotOneNumber
from tilewright.vectorizing.evaluate import HANDLERS
from tilewright.vectorizing.kinds import Kind
from tilewright.vectorizing.rebinding import with_known_functions


class Program(NamedTuple):
    """A function on scalars, and the kind of its result."""

    module: Op
    result: Kind


def make_program(
    python: FunctionType, kinds: Sequence[Kind], *, frontend: str = "auto", exact: bool = False, fold: bool = False
) -> Program:
    """Compile a function to TTIR.

    Args:
        python: the function.
        kinds: of its arguments, by position.
        frontend: one of `frontends.choice`.
        exact: all arguments are Python's numbers; what only Python knows is left to it.
        fold: for reductions: the first argument is what the function returned before, so it is of the result's kind.

    Raises:
        CompilationError: the function is wrong.
    """
    location = definition_of(python.__code__)
    kinds = list(kinds)
    while True:
        block = Block([IR_TYPES[kind.name] for kind in kinds])
        arguments = [Element(handle, kind) for handle, kind in zip(block.args, kinds, strict=True)]
        result = _evaluated(python, arguments, block, location, frontend=frontend, exact=exact)
        if not is_number(result):
            raise located(NotOneNumber(describe(result)), span_of(location))
        kind = kind_of(result)
        if not fold or kind.strong == kinds[0]:
            break
        kinds[0] = kind.strong
    module = module_of(python.__name__, block, [result.handle], location)
    cse(module)
    return Program(module, kind)


def _evaluated(
    python: FunctionType, arguments: list[Element], block: Block, location: FileLocation, *, frontend: str, exact: bool
) -> Any:
    if frontend == TRACE:
        with emitting_into(Tracer(block), checks_overflow=exact), explained(location):
            return _settled(with_known_functions(python)(*arguments))
    read = READERS[frontend]
    emitter = Builder(block)
    function = read(python)
    with emitting_into(emitter, checks_overflow=exact):
        names = _bound(function, arguments)
        return _settled(Frame(ElementDomain(read, HANDLERS), function, emitter, names).evaluate())


def _settled(result: Any) -> Any:
    """A constant result as an element, while ops can be recorded."""
    return cast(result, kind_of(result)) if is_number(result) else result


def _bound(function: hir.Function, arguments: Sequence[Any]) -> dict[str, Any]:
    names = {parameter.name: value for parameter, value in zip(function.parameters, arguments, strict=False)}
    return {**function.defaults(), **names}


def module_of(name: str, block: Block, results: Sequence[Value], location: FileLocation = UNKNOWN) -> Op:
    """A module with one function, whose body is `block`."""
    declared = hir.Function(name, (), hir.Block(()), (), None, location)
    function = function_op(declared, name, block, public=True, noinline=False)
    finish_function(function, results)
    body = Block()
    body.append(function)
    return Op.create("builtin.module", regions=[Region([body])], location=location)


def function_of(module: Op) -> Block:
    """The body of the one function of a module."""
    function = module.regions[0].block.first
    assert function is not None, "made by `module_of`"
    return function.regions[0].block
