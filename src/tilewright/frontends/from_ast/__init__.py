"""Python source → HIR, by way of Python's own syntax tree. Syntax only: no types, no values."""

from __future__ import annotations

from types import FunctionType

from tilewright.frontends import hir
from tilewright.frontends.from_ast.expressions import EXPRESSIONS
from tilewright.frontends.from_ast.reader import read_with
from tilewright.frontends.from_ast.statements import STATEMENTS
from tilewright.frontends.python_function import memoise, parse


def read_function(python: FunctionType) -> hir.Function:
    """Read a Python function into HIR; callers keep the result, it depends on nothing but the source.

    Raises:
        CompilationError: the source is not available.
        Unsupported: the function uses Python that kernels do not have.
    """
    source, tree = parse(python)
    return read_with(source, tree, python, EXPRESSIONS, STATEMENTS)


read_function_once = memoise(read_function, "ast")
"""`read_function`, remembered for as long as the function lives."""
