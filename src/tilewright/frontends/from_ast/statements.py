"""Statements without control flow."""

from __future__ import annotations

import ast

from tilewright.frontends import hir
from tilewright.frontends.from_ast.expressions import binary_operator, bind
from tilewright.frontends.from_ast.reader import Reader, StatementReader, is_constexpr


def read_assign(reader: Reader, node: ast.Assign) -> None:
    """`a = b = value`."""
    value = reader.expression(node.value)
    for target in node.targets:
        bind(reader, target, value)


def read_annotated(reader: Reader, node: ast.AnnAssign) -> None:
    """`a: tl.constexpr = value`; without a value this says what `a` is from here on. Other annotations say nothing."""
    name = node.target.id if isinstance(node.target, ast.Name) and is_constexpr(node.annotation) else None
    if node.value is None:
        if name is not None:
            reader.constants.add(name)
        return
    value = reader.expression(node.value)
    if name is None:
        bind(reader, node.target, value)
    else:
        reader.put(hir.Store(name, value, True, reader.location(node.target), True))


def read_augmented(reader: Reader, node: ast.AugAssign) -> None:
    """`a += value` is `a = a + value`."""
    if not isinstance(node.target, ast.Name):
        bind(reader, node.target, 0)
        return
    name = node.target.id
    before = reader.load(node.target, name)
    after = reader.operate(node, binary_operator(reader, node, node.op), before, reader.expression(node.value))
    reader.store(name, after, node.target)


def read_expression_statement(reader: Reader, node: ast.Expr) -> None:
    """`f(x)`; docstrings and other constants do nothing."""
    if not isinstance(node.value, ast.Constant):
        reader.mark_unused(reader.expression(node.value))


def read_delete(reader: Reader, node: ast.Delete) -> None:
    """`del a, (b, c)`."""
    for target in node.targets:
        _delete(reader, target)


def _delete(reader: Reader, target: ast.expr) -> None:
    match target:
        case ast.Name(id=name):
            reader.put(hir.Delete(name, reader.location(target)))
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for inner in targets:
                _delete(reader, inner)
        case _:
            reader.refuse(target, "`del` of anything but a variable")


def read_assert(reader: Reader, node: ast.Assert) -> None:
    """`assert test, message`."""
    test = reader.expression(node.test)
    message, value = reader.valued_block(
        lambda: reader.constant("") if node.msg is None else reader.expression(node.msg)
    )
    reader.put(hir.Assert(test, message, value, reader.location(node)))


def read_pass(_reader: Reader, _node: ast.Pass) -> None:
    """`pass`."""


def read_raise(reader: Reader, node: ast.Raise) -> None:
    """`raise`: a mistake only if the compiler comes there."""
    reader.put(hir.Refuse("`raise`", reader.location(node)))


def read_return(reader: Reader, node: ast.Return) -> None:
    """`return value`."""
    if reader.loops:
        reader.refuse(node, "`return` inside a loop")
    value = reader.constant(None) if node.value is None else reader.expression(node.value)
    reader.put(hir.Return(value, reader.location(node)))


STATEMENTS: dict[type[ast.AST], StatementReader] = {
    ast.AnnAssign: read_annotated,
    ast.Assert: read_assert,
    ast.Assign: read_assign,
    ast.AugAssign: read_augmented,
    ast.Delete: read_delete,
    ast.Expr: read_expression_statement,
    ast.Pass: read_pass,
    ast.Raise: read_raise,
    ast.Return: read_return,
}
