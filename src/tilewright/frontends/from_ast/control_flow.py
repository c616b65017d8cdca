"""`if`, `for`, `while` and `with`."""

from __future__ import annotations

import ast

from tilewright.frontends import hir, operations
from tilewright.frontends.from_ast.expressions import bind
from tilewright.frontends.from_ast.reader import Reader, StatementReader, contains_return


def read_if(reader: Reader, node: ast.If) -> None:
    """`if test: … else: …`."""
    reader.branch(node)


def read_for(reader: Reader, node: ast.For) -> None:
    """`for name in iterable: …`; other targets are unpacked at the start of the body."""
    if node.orelse:
        reader.refuse(node.orelse[0], "`else` of a loop")
    iterable = reader.expression(node.iter)
    simple = isinstance(node.target, ast.Name)
    name = node.target.id if isinstance(node.target, ast.Name) else f".item{reader.loops}"

    def read_body() -> None:
        if not simple:
            bind(reader, node.target, reader.load(node.target, name), keep=True)
        _loop_body(reader, node.body)

    reader.put(hir.For(name, iterable, reader.block(read_body), reader.location(node.iter)))


def read_while(reader: Reader, node: ast.While) -> None:
    """`while test: …`."""
    if node.orelse:
        reader.refuse(node.orelse[0], "`else` of a loop")
    test, value = reader.valued_block(lambda: reader.expression(node.test))
    body = reader.block(lambda: _loop_body(reader, node.body))
    reader.put(hir.While(test, value, body, reader.location(node.test)))


def read_with(reader: Reader, node: ast.With) -> None:
    """`with a as x, b: …`: managers are entered in order, and left in the opposite order behind the body."""
    if any(map(contains_return, node.body)):
        reader.refuse(node, "`return` inside `with`")
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


CONTROL_FLOW: dict[type[ast.AST], StatementReader] = {
    ast.For: read_for,
    ast.If: read_if,
    ast.While: read_while,
    ast.With: read_with,
}
