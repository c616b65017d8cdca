"""Statements."""

from __future__ import annotations

import ast
from functools import partial

from tilewright.frontends import hir, operations
from tilewright.frontends.from_ast.expressions import binary_operator, bind
from tilewright.frontends.from_ast.reader import (
    Reader,
    StatementReader,
    always_leaves,
    breaks,
    contains_return,
    is_constexpr,
    leaves,
)
from tilewright.frontends.hir_writer import BREAK, CONTINUE


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


def read_return(reader: Reader, node: ast.Return) -> None:
    """`return value`."""
    value = reader.constant(None) if node.value is None else reader.expression(node.value)
    reader.put_return(value, reader.loops, reader.location(node))


def read_leave(reader: Reader, node: ast.Break | ast.Continue) -> None:
    """`break` or `continue`."""
    reader.put_leave(BREAK if isinstance(node, ast.Break) else CONTINUE, reader.loops, reader.location(node))


def read_for(reader: Reader, node: ast.For, rest: hir.Continue | None = None) -> None:
    """`for name in iterable: …`; other targets are unpacked at the start of the body."""
    iterable = reader.expression(node.iter)
    simple = isinstance(node.target, ast.Name)
    name = node.target.id if isinstance(node.target, ast.Name) else f".item{reader.loops}"

    def read_body() -> None:
        if not simple:
            bind(reader, node.target, reader.load(node.target, name), keep=True)
        _loop_body(reader, node.body)

    _put_loop(reader, node, hir.For(name, iterable, reader.block(read_body), reader.location(node.iter)), rest)


def read_while(reader: Reader, node: ast.While, rest: hir.Continue | None = None) -> None:
    """`while test: …`."""
    test, value = reader.valued_block(lambda: reader.expression(node.test))
    body = reader.block(lambda: _loop_body(reader, node.body))
    _put_loop(reader, node, hir.While(test, value, body, reader.location(node.test)), rest)


def _put_loop(reader: Reader, node: ast.For | ast.While, loop: hir.For | hir.While, rest: hir.Continue | None) -> None:
    """Put a loop, its `else` and, where one of them leaves what is around it, the `rest`."""
    if node.orelse:
        reader.put(hir.Leave("`else` of a loop", reader.location(node.orelse[0])))
    reader.put_loop(loop, reader.loops)
    if hir.RETURNED in loop.body.stores:
        read_rest = None if always_leaves(node) else partial(_read_else, reader, node, loop, rest)
        reader.put_rest_of_loop(reader.loops, loop.location, read_rest)
    else:
        _read_else(reader, node, loop, rest)


def _read_else(reader: Reader, node: ast.For | ast.While, loop: hir.For | hir.While, rest: hir.Continue | None) -> None:
    """The `else` of a loop, which runs unless the loop was left by `break`, and then `rest`."""
    may_break = breaks(node) and hir.left_variable(reader.loops + 1) in loop.body.stores  # dead code is not read
    if not node.orelse or not may_break:
        reader.statements(node.orelse, rest)
        return
    moved = rest if any(map(leaves, node.orelse)) else None
    test = reader.put_load(hir.left_variable(reader.loops + 1), loop.location)
    then = reader.block(lambda: reader.statements([], moved))
    orelse = reader.block(lambda: reader.statements(node.orelse, moved))
    tail = not reader.loops and any(map(contains_return, node.orelse))
    reader.put(hir.If(test, then, orelse, tail, loop.location))
    if moved is None and rest is not None:
        reader.put(rest)


def read_with(reader: Reader, node: ast.With) -> None:
    """`with a as x, b: …`: managers are entered in order, and left in the opposite order behind the body."""
    for what, found in (("`return`", contains_return), ("`break` or `continue`", leaves)):
        if any(map(found, node.body)):
            reader.refuse(node, f"{what} inside `with`")
    managers = []
    for item in node.items:
        managers.append((item.context_expr, reader.expression(item.context_expr)))
        entered = _call_method(reader, *managers[-1], "__enter__")
        if item.optional_vars is not None:
            bind(reader, item.optional_vars, entered, keep=True)
    reader.statements(node.body)
    for place, manager in reversed(managers):
        _call_method(reader, place, manager, "__exit__", *(reader.constant(None) for _ in range(3)))


def _call_method(
    reader: Reader, node: ast.expr, owner: hir.Register, name: str, *arguments: hir.Register
) -> hir.Register:
    method = reader.operate(node, operations.attribute, owner, reader.constant(name))
    result = reader.register()
    reader.put(hir.Call(result, method, arguments, frozenset(), (), reader.location(node)))
    return result


def _loop_body(reader: Reader, body: list[ast.stmt]) -> None:
    reader.loops += 1
    reader.statements(body)
    reader.loops -= 1


STATEMENTS: dict[type[ast.AST], StatementReader] = {
    ast.AnnAssign: read_annotated,
    ast.Assert: read_assert,
    ast.Assign: read_assign,
    ast.AugAssign: read_augmented,
    ast.Break: read_leave,
    ast.Continue: read_leave,
    ast.Delete: read_delete,
    ast.Expr: read_expression_statement,
    ast.For: read_for,
    ast.If: Reader.branch,
    ast.Pass: lambda reader, node: None,
    ast.Raise: lambda reader, node: reader.put(hir.Refuse("`raise`", reader.location(node))),
    ast.Return: read_return,
    ast.While: read_while,
    ast.With: read_with,
}
