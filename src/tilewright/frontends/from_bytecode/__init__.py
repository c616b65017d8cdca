"""CPython bytecode → HIR: for functions without source (the prompt, `exec`, frozen programs).

`x: tl.constexpr = …` inside a function leaves no trace in its bytecode. If the lines of the file are available, the
annotation is read from them; if not, values computed from constants alone are constants wherever one is required
(`evaluate/inlining.py`).
"""

from __future__ import annotations

import inspect
import sys
from types import FunctionType
from typing import Any

from tilewright.frontends import hir
from tilewright.frontends.from_bytecode.reader import Reader
from tilewright.ir.attributes import FileLocation
from tilewright.language.python_code import (
    UnsupportedSyntax,
    definition_of,
    refuse_assignments_outside,
    refuse_generators,
)
from tilewright.semantics.constexpr import constexpr
from tilewright.support.annotations import annotations_of
from tilewright.support.diagnostics import located
from tilewright.support.source import Span, lines_around
from tilewright.support.tested_versions import python_problem


def read_function(python: FunctionType) -> hir.Function:
    """Read a Python function into HIR from its bytecode.

    Raises:
        Unsupported: the function uses Python that kernels do not have.
    """
    code = python.__code__
    location = definition_of(code)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        raise located(UnsupportedSyntax("a parameter with `**`", "a kernel's parameters have names"), Span(*location))
    if python_problem():  # its instructions may mean something else
        version = ".".join(map(str, sys.version_info[:2]))
        raise located(UnsupportedSyntax(f"the bytecode of Python {version}", "give the source text"), Span(*location))
    refuse_generators(code)
    refuse_assignments_outside(code)
    reader = Reader(code, lines_around(python))
    parameters = parameters_of(python, location)
    body = reader.block(reader.function)
    return hir.Function(
        python.__name__, parameters, body, tuple(reader.initial), python, location, reader.text.is_at_hand
    )


def parameters_of(python: FunctionType, location: FileLocation) -> tuple[hir.Parameter, ...]:
    """The parameters of a function, all of them at `location`."""
    code = python.__code__
    positional, named = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    ordered = [(name, False, False) for name in names[:positional]]
    if code.co_flags & inspect.CO_VARARGS:
        ordered.append((names[positional + named], True, False))
    ordered += [(name, False, True) for name in names[positional : positional + named]]
    annotations = annotations_of(python)
    return tuple(
        hir.Parameter(name, _is_constexpr(annotations.get(name)), variadic, keyword_only, location)
        for name, variadic, keyword_only in ordered
    )


def _is_constexpr(annotation: Any) -> bool:
    """Whether an annotation says `tl.constexpr`, as a class, as a string, or as an alias with brackets."""
    if isinstance(annotation, str):
        return annotation.partition("[")[0].rpartition(".")[2] == "constexpr"
    return getattr(annotation, "__origin__", annotation) is constexpr
