"""Makes a program with a problem smaller, as long as it keeps the problem: fewer statements, simpler expressions.

small = shrunk(program, lambda smaller: disagreement(smaller, folder) == problem)
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

from statements import Program


class HasText(Protocol):
    """A frozen dataclass with the source of a module."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def text(self) -> str:
        """The source."""


P = TypeVar("P", bound=HasText)


def shrunk(program: Program, has_problem: Callable[[Program], bool], *, attempts: int = 2000) -> Program:
    """The smallest program found that still has the problem."""
    simple: list[dict[str, Any]] = [{"grid": (1,)}, {"aliased": False}, {"options": {}}]
    return smaller_while(program, has_problem, simple, attempts=attempts)


def smaller_while(program: P, has_problem: Callable[[P], bool], simple: list[dict[str, Any]], *, attempts: int) -> P:
    """The smallest program found that still has the problem; `simple` are fields to change first."""
    for change in simple:
        if replace(program, **change) != program and has_problem(replace(program, **change)):
            program = replace(program, **change)
    left, place = attempts, 0
    while left > 0:
        candidates = list(smaller(program.text))
        for index in range(place, len(candidates)):
            left -= 1
            candidate = replace(program, text=candidates[index])
            if left <= 0 or has_problem(candidate):
                break
        else:
            if place == 0:
                break
            place = 0
            continue
        if left > 0:
            program, place = candidate, index
    return program


def smaller(text: str) -> Iterator[str]:
    """Programs with one statement or expression less, the largest steps first."""
    tree = ast.parse(text)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)][::-1]
    for function in functions:
        yield from filter(is_program, without_statements(tree, function))
    for function in functions:
        yield from filter(is_program, simpler_expressions(tree, function))


def is_program(text: str) -> bool:
    """Whether Python takes a text: a `break` may stand where its loop was."""
    try:
        compile(text, "smaller", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def without_statements(tree: ast.Module, owner: ast.AST) -> Iterator[str]:
    """Programs without one statement, or with the body of a block instead of it."""
    for field in ("body", "orelse"):
        block: list[ast.stmt] = getattr(owner, field, [])
        for index in range(len(block) - 1, -1, -1):
            statement = block[index]
            kept = [ast.Pass()] if len(block) == 1 and field == "body" else []
            if not isinstance(statement, ast.Pass):
                block[index : index + 1] = kept
                yield ast.unparse(tree)
                block[index : index + len(kept)] = [statement]
            if isinstance(statement, (ast.If, ast.For, ast.While)):
                block[index : index + 1] = statement.body
                yield ast.unparse(tree)
                block[index : index + len(statement.body)] = [statement]
                yield from without_statements(tree, statement)


def simpler_expressions(tree: ast.Module, owner: ast.AST) -> Iterator[str]:
    """Programs with an operand in the place of an operation."""
    for parent in ast.walk(owner):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.expr):
                for operand in operands(value):
                    setattr(parent, field, operand)
                    yield ast.unparse(tree)
                setattr(parent, field, value)
            elif isinstance(value, list) and field == "args":
                for index, item in enumerate(value):
                    for operand in operands(item):
                        value[index] = operand
                        yield ast.unparse(tree)
                    value[index] = item
            elif isinstance(value, list) and field == "keywords" and not any(k.arg == "other" for k in value):
                for index in range(len(value)):
                    item = value.pop(index)
                    yield ast.unparse(tree)
                    value.insert(index, item)


def operands(node: ast.AST) -> Iterator[ast.expr]:
    """Replacements for an expression: its parts, and a constant for the result of a call with a dtype."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            yield node.func.value
        yield from (argument for argument in node.args if not isinstance(argument, (ast.Constant, ast.List)))
    elif isinstance(node, (ast.BinOp, ast.Compare)):
        yield node.left
        yield from [node.right] if isinstance(node, ast.BinOp) else node.comparators
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
        yield node.value
