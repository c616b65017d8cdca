"""Functions that Python itself runs, in traced and interpreted kernels: source positions and restrictions.

    def kernel(x, n):        a kernel runs as a function once per program (traced: once). Values that it yields
        yield n              would be lost, and so would assignments to names outside

Generators, classes and closures inside of a kernel work as in Python.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any, ClassVar

from tilewright.ir.attributes import FileLocation, span_of
from tilewright.support.diagnostics import Limit, located


class UnsupportedSyntax(Limit):
    """A piece of Python that the Triton language does not have."""

    title: ClassVar[str] = "{what} cannot be used in a kernel"
    label: ClassVar[str] = "{why}"
    what: str
    reason: str = ""

    @property
    def why(self) -> str:
        """The reason, or what to write instead."""
        return self.reason or INSTEAD.get(self.what, "not part of the Triton language")


TOO_DEEP = "code that is nested this deeply"
"""The name of code that readers would need more calls within calls for than Python allows."""
_OUTSIDE_UNSEEN = "a kernel stores to memory, and helpers return values; variables outside stay as they are"
INSTEAD: Mapping[str, str] = {
    "`:=` on the right of `and` or `or`": "whether it happens is only known at run time: assign before",
    "`async def`": "a kernel runs from start to end: use `def`",
    "`break`": "put it into the condition of a `while`, or mask what the remaining iterations do",
    "`continue`": "put the rest of the body under an `if`",
    "`*` on the left of `=`": "give every item a variable, or take slices",
    "`del`": "a variable that is not used costs nothing",
    "`in`": "compare with one after the other: `x == a or x == b`",
    "`not in`": "compare with one after the other: `x != a and x != b`",
    "`del` of anything but a variable": "values cannot be changed in place",
    "`else` of a loop": "without `break` it always runs: put it behind the loop",
    "`global`": _OUTSIDE_UNSEEN,
    "`import`": "import at the top of the file",
    "`match`": "use `if` and `elif`",
    "`nonlocal`": _OUTSIDE_UNSEEN,
    "`raise`": "nothing catches it on the device: use tl.device_assert, or tl.static_assert",
    "`return` inside a loop": "leave the loop first, then return",
    "`try`": "nothing can be caught on the device",
    "`return` inside `with`": "leave the block first, then return",
    "`break` or `continue` inside `with`": "leave the block first",
    "`yield`": "a kernel stores its results, a helper returns a tuple",
    TOO_DEEP: "give a part of it a name, or make it a function of its own",
    "a class": "define it outside of the kernel",
    "a comprehension over a range": "write the items out, or count with tl.static_range",
    "a loop over a tuple": "count with tl.static_range(len(t)), and take the item t[i]",
    "a comprehension with several `for`": "put one comprehension into another",
    "a condition of this form": "write it as several statements",
    "a dict comprehension": "use a list comprehension over a tuple",
    "a dict": "use a tuple, or a named tuple",
    "a generator expression": "use a list comprehension over a tuple",
    "a lambda": "define a function outside, with @jit",
    "a nested function": "define it outside, with @jit",
    "a set comprehension": "use a list comprehension over a tuple",
    "a set": "use a tuple",
    "a template string": "use an f-string",
    "assignment to a subscript": "tiles are values: use tl.where or tl.store",
    "assignment to an attribute": "values cannot be changed in place",
    "the operator `@`": "use tl.dot",
}
"""Syntax that cannot be used → what to write instead, or why there is nothing."""


def definition_of(code: CodeType) -> FileLocation:
    """The start of the line in the file where a function begins."""
    return FileLocation(code.co_filename, code.co_firstlineno, 1)


def place_of(code: CodeType, offset: int) -> FileLocation:
    """The place in the file of the instruction at an offset in the bytecode."""
    line, end_line, column, end_column = _positions(code)[offset // 2]
    if line is None:
        return definition_of(code)
    if column is None or end_column is None:
        return FileLocation(code.co_filename, line, 1)
    return FileLocation(code.co_filename, line, column + 1, end_line or line, end_column + 1)


@lru_cache(maxsize=256)
def _positions(code: CodeType) -> tuple[tuple[int | None, int | None, int | None, int | None], ...]:
    return tuple(code.co_positions())


def arguments_of(code: CodeType, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The values of all parameters as a call takes them: by position, and by name; `*rest` gets nothing."""
    count = code.co_argcount
    positional, named = code.co_varnames[:count], code.co_varnames[count : count + code.co_kwonlyargcount]
    return [values[name] for name in positional], {name: values[name] for name in named}


def has_opcodes(code: CodeType, names: Sequence[str]) -> bool:
    """Whether one of the instructions is among `names`; much faster than taking the code apart."""
    opcodes = code.co_code[::2]
    return any(dis.opmap[name] in opcodes for name in names)


def refuse_generators(code: CodeType) -> None:
    """Raise if a function does not run when it is called.

    Raises:
        Unsupported: it is a generator, or `async`.
    """
    found = next((what for flag, what in _FLAGS if code.co_flags & flag), None)
    if found is None:
        return
    suspending = (offset for offset, name in _instructions(code) if name in _SUSPENDING) if found == _YIELD else ()
    start = FileLocation(code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 1)
    place = next((place_of(code, offset) for offset in suspending), start)
    raise located(UnsupportedSyntax(found), span_of(place))


def check_helper(code: CodeType) -> None:
    """Raise if Python cannot run a function that a kernel calls; generators are all right.

    Raises:
        Unsupported: it assigns to variables outside, or is `async`.
    """
    if not code.co_flags & inspect.CO_GENERATOR:
        refuse_generators(code)
    refuse_assignments_outside(code)


def refuse_assignments_outside(code: CodeType) -> None:
    """Raise if a function, or one inside of it, assigns to variables of its module or of functions around it.

    Raises:
        Unsupported: it does.
    """
    _refuse_assignments(code, frozenset(code.co_freevars))


def _refuse_assignments(code: CodeType, outside: frozenset[str]) -> None:
    if has_opcodes(code, _OF_MODULES) or (outside and has_opcodes(code, _OF_FUNCTIONS)):
        for instruction in dis.get_instructions(code):
            what = _OUTSIDE.get(instruction.opname)
            if what == "`global`" or (what and instruction.argval in outside):
                raise located(UnsupportedSyntax(what), span_of(place_of(code, instruction.offset)))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _refuse_assignments(constant, outside & frozenset(constant.co_freevars))


def _instructions(code: CodeType) -> Iterator[tuple[int, str]]:
    for instruction in dis.get_instructions(code):
        yield instruction.offset, instruction.opname


_YIELD = "`yield`"
_SUSPENDING = frozenset(("GET_YIELD_FROM_ITER", "YIELD_VALUE"))
_FLAGS = (
    (inspect.CO_ASYNC_GENERATOR, "`async def`"),
    (inspect.CO_COROUTINE, "`async def`"),
    (inspect.CO_GENERATOR, _YIELD),
)
_OUTSIDE = {
    "DELETE_DEREF": "`nonlocal`",
    "DELETE_GLOBAL": "`global`",
    "STORE_DEREF": "`nonlocal`",
    "STORE_GLOBAL": "`global`",
}
_OF_FUNCTIONS = ("DELETE_DEREF", "STORE_DEREF")
_OF_MODULES = ("DELETE_GLOBAL", "STORE_GLOBAL")
