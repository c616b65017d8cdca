"""Step 2: the way of Triton. Read the function's source text, let Python parse it, walk the syntax tree.

What the author wrote is all there, names and places included. But there must be a source, and the walker has to know
every construct: `ast.If` would be the next one. The real thing: src/tilewright/frontends/from_ast/.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable

from decorator_jits.expressions import Argument, Constant, Operation, Tree, decorator

SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def read(function: Callable[..., float]) -> Tree:
    """The tree of a function whose last statement returns an expression; others give names to expressions."""
    module = ast.parse(textwrap.dedent(inspect.getsource(function)))
    definition = module.body[0]
    assert isinstance(definition, ast.FunctionDef), "the source of a function is its `def`"
    names: dict[str, Tree] = {argument.arg: Argument(i) for i, argument in enumerate(definition.args.args)}
    for statement in definition.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = walk(value, names)
            case ast.Return(value=ast.expr() as value):
                return walk(value, names)
            case _:
                raise SyntaxError(f"line {statement.lineno}: only assignments and `return` are known here")
    raise SyntaxError(f"{function.__name__} returns nothing")


def walk(node: ast.expr, names: dict[str, Tree]) -> Tree:
    """The tree of one expression."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return Constant(float(value))
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SYMBOLS:
            return Operation(SYMBOLS[type(op)], walk(left, names), walk(right, names))
    raise SyntaxError(f"line {node.lineno}: {ast.unparse(node)} is not known here")


astjit = decorator(read)
