"""Python functions: their source text with its positions, and the names around them.

>>> source, tree = parse(kernel)
>>> source.first_line, source.text
(12, '@tw.jit\ndef kernel(x):\n    ...\n')

A reader reads a function once: the result is stored on the function, and freed with it. A table outside, even one with
weak keys, would keep functions alive for ever, because HIR refers to the function from which it was read.

>>> read_once = memoise(read_function, "ast")
>>> read_once(kernel) is read_once(kernel)
True
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

from tilewright.frontends import hir
from tilewright.frontends.errors import NoSource
from tilewright.language.python_code import TOO_DEEP, UnsupportedSyntax
from tilewright.support.diagnostics import CompilationError, located
from tilewright.support.source import Span, function_lines, lines_around, syntax_tree

LAMBDA = "<lambda>"
"""The name of code whose lines are those of something else: a table, a call, a `def` that has it for a default."""


class Source(NamedTuple):
    """The lines of one function (with its decorators), as they stand in the file."""

    file: str
    first_line: int
    text: str


class SyntaxTree(NamedTuple):
    """A function's syntax tree. Its columns are those of the file, its line numbers are after adding `shift`."""

    function: ast.FunctionDef
    shift: int


def parse(python: FunctionType) -> tuple[Source, SyntaxTree]:
    """The source of a function and its syntax tree.

    Raises:
        CompilationError: there is no source, or it is not that of a `def`.
        Unsupported: it is that of an `async def`, or Python needs more depth for its syntax tree than there is.
    """
    try:
        source, tree = _read(python)
    except RecursionError:
        code = python.__code__
        span = Span(code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 1)
        raise located(UnsupportedSyntax(TOO_DEEP), span) from None
    definition: ast.AST = tree.function
    if isinstance(definition, ast.AsyncFunctionDef):
        line = definition.lineno + tree.shift
        raise located(UnsupportedSyntax("`async def`"), Span(source.file, line, 1, line, 1))
    if not isinstance(definition, ast.FunctionDef):
        raise CompilationError(NoSource(python.__name__, source.file))
    return source, tree


def globals_of(python: FunctionType) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """(the names captured by the closure, the module's globals); an empty cell has no entry."""
    captured = {}
    for name, cell in zip(python.__code__.co_freevars, python.__closure__ or (), strict=True):
        try:
            captured[name] = cell.cell_contents
        except ValueError:  # the variable has no value yet
            continue
    return captured, python.__globals__


def is_python_builtin(name: str) -> bool:
    """Whether plain Python knows `name` without any definition."""
    return hasattr(builtins, name)


def _read(python: FunctionType) -> tuple[Source, SyntaxTree]:
    code = python.__code__
    file, first = code.co_filename, code.co_firstlineno
    lines = lines_around(python)
    if len(lines) < first or code.co_name == LAMBDA:
        raise CompilationError(NoSource(python.__name__, file))
    text = "".join(function_lines(code, lines))
    try:
        return Source(file, first, text), _parse_at(text, first)
    except SyntaxError:  # the quick guess at the last line was wrong; ask the slow but exact way
        text = "".join(inspect.getblock(lines[first - 1 :]))
        return Source(file, first, text), _parse_at(text, first)


def _parse_at(text: str, first_line: int) -> SyntaxTree:
    """Parse a piece of a file.

    An indented piece is put under an `if`, which keeps its columns. The lines before it are made up for by
    counting, because parsing thousands of newlines would cost time.
    """
    if text[:1].isspace():
        (outer,) = syntax_tree("if 1:\n" + text).body
        assert isinstance(outer, ast.If), "put there in the line above"
        return SyntaxTree(outer.body[0], first_line - 2)  # type: ignore[arg-type]  # a definition
    return SyntaxTree(syntax_tree(text).body[0], first_line - 1)  # type: ignore[arg-type]  # a definition


Reader: TypeAlias = Callable[[FunctionType], hir.Function]


def memoise(read: Reader, name: str) -> Reader:
    """`read`, which does not read a function again.

    Args:
        name: of the reader, which no other has.
    """
    slot = f"_tilewright_hir_{name}"

    def read_once(python: FunctionType) -> hir.Function:
        found: hir.Function | None = python.__dict__.get(slot)
        if found is None or found.python is not python:  # functools.wraps copies what lies with a function
            found = python.__dict__[slot] = read(python)
        return found

    return read_once
