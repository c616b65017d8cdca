"""Expressions: each reader emits the steps of one kind of node and returns the register of its value."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from tilewright.frontends import hir, operations
from tilewright.frontends.from_ast.reader import ExpressionReader, Reader
from tilewright.frontends.hir import Register


def read_binary(reader: Reader, node: ast.BinOp) -> Register:
    """`a + b`; `a + b + … + z`, whose left side is as deep as it is long, without recursion."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    left = reader.expression(chain[-1].left)
    for inner in reversed(chain):
        right = reader.expression(inner.right)
        left = reader.operate(inner, binary_operator(reader, inner, inner.op), left, right)
    return left


def binary_operator(reader: Reader, node: ast.AST, op: ast.operator) -> Callable[..., Any]:
    """The Python function of a binary operator.

    Raises:
        Unsupported: tiles have no such operator (`@`).
    """
    function = BINARY.get(op.__class__)
    if function is None:
        reader.refuse(node, "the operator `@`")
    return function


def read_unary(reader: Reader, node: ast.UnaryOp) -> Register:
    """`-a`, `not a`; a negative literal is a constant."""
    if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        literal = node.operand.value
        if isinstance(literal, (int, float)):
            return reader.constant(-literal)
    return reader.operate(node, UNARY[node.op.__class__], reader.expression(node.operand))


def _compare_chain(reader: Reader, node: ast.Compare, left: Register, number: int) -> Register:
    """`a < b`, and chains: `a < b < c` is `a < b and b < c` with b evaluated once."""
    right = reader.expression(node.comparators[number])
    answer = reader.operate(node, COMPARISONS[node.ops[number].__class__], left, right)
    if number + 1 == len(node.ops):
        return answer
    return _short_circuit(reader, node, True, answer, lambda: _compare_chain(reader, node, right, number + 1))


def _boolean_chain(reader: Reader, node: ast.BoolOp, number: int = 0) -> Register:
    """`a and b and c` is `a and (b and c)`."""
    left = reader.expression(node.values[number])
    if number + 1 == len(node.values):
        return left
    conjunction = isinstance(node.op, ast.And)
    return _short_circuit(reader, node, conjunction, left, lambda: _boolean_chain(reader, node, number + 1))


def _short_circuit(
    reader: Reader, node: ast.AST, conjunction: bool, left: Register, read_right: Callable[[], Register]
) -> Register:
    right, value = reader.valued_block(read_right)
    result = reader.register()
    reader.put(hir.ShortCircuit(result, conjunction, left, right, value, reader.location(node)))
    return result


def read_conditional(reader: Reader, node: ast.IfExp) -> Register:
    """`a if c else b`."""
    test = reader.expression(node.test)
    then, then_value = reader.valued_block(lambda: reader.expression(node.body))
    orelse, else_value = reader.valued_block(lambda: reader.expression(node.orelse))
    result = reader.register()
    reader.put(hir.Choose(result, test, then, then_value, orelse, else_value, reader.location(node)))
    return result


def read_call(reader: Reader, node: ast.Call) -> Register:
    """`f(a, *b, c=d)`."""
    callee = reader.expression(node.func)
    arguments, starred = _items(reader, node.args)
    keywords = tuple((keyword.arg, reader.expression(keyword.value)) for keyword in node.keywords)
    result = reader.register()
    reader.put(hir.Call(result, callee, arguments, starred, keywords, reader.location(node)))
    return result


def _items(reader: Reader, nodes: list[ast.expr]) -> tuple[tuple[Register, ...], frozenset[int]]:
    """The registers of a list of expressions, and which of them are `*starred`."""
    starred = frozenset(number for number, node in enumerate(nodes) if isinstance(node, ast.Starred))
    plain = [node.value if isinstance(node, ast.Starred) else node for node in nodes]
    return tuple(reader.expression(node) for node in plain), starred


def read_slice(reader: Reader, node: ast.Slice) -> Register:
    """`i:j:k` inside brackets."""
    parts = (node.lower, node.upper, node.step)
    if parts == (None, None, None):
        return reader.constant(_WHOLE)
    registers = (reader.constant(None) if part is None else reader.expression(part) for part in parts)
    return reader.operate(node, slice, *registers)


def read_tuple(reader: Reader, node: ast.Tuple | ast.List) -> Register:
    """`(a, b)` and `[a, b]`: lists are tuples."""
    registers, starred = _items(reader, node.elts)
    if not starred:
        return reader.operate(node, operations.pack, *registers)
    result = reader.register()
    reader.put(hir.Call(result, reader.constant(operations.pack), registers, starred, (), reader.location(node)))
    return result


def read_formatted_value(reader: Reader, node: ast.FormattedValue) -> Register:
    """`{value!r:>8}` inside an f-string."""
    value = reader.expression(node.value)
    specification = reader.constant("") if node.format_spec is None else reader.expression(node.format_spec)
    return reader.operate(node, operations.formatted, value, reader.constant(node.conversion), specification)


def read_named(reader: Reader, node: ast.NamedExpr) -> Register:
    """`(x := a)`: its value is that of x from then on."""
    reader.store(node.target.id, reader.expression(node.value), node)
    return reader.load(node, node.target.id)


def read_comprehension(reader: Reader, node: ast.ListComp) -> Register:
    """`[a for x in items if c]` over a tuple."""
    if len(node.generators) != 1:
        reader.refuse(node.generators[1].iter, "a comprehension with several `for`")
    generator = node.generators[0]
    iterable = reader.expression(generator.iter)
    item, result = reader.register(), reader.register()
    target = reader.block(lambda: bind(reader, generator.target, item, keep=True))
    filters = tuple(reader.valued_block(partial(reader.expression, test)) for test in generator.ifs)
    body, value = reader.valued_block(lambda: reader.expression(node.elt))
    reader.put(hir.Collect(result, item, iterable, target, filters, body, value, reader.location(node)))
    return result


def bind(reader: Reader, target: ast.expr, value: Register, *, keep: bool = False) -> None:
    """Put the stores of `target = value`; with `keep` compile-time numbers stay such."""
    match target:
        case ast.Name(id=name):
            if keep:
                reader.put(hir.Bind(name, value, reader.location(target)))
            else:
                reader.store(name, value, target)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _bind_items(reader, target, targets, value, keep=keep)
        case ast.Subscript():
            reader.refuse(target, "assignment to a subscript")
        case ast.Attribute():
            reader.refuse(target, "assignment to an attribute")
        case _:
            reader.refuse(target, "this assignment")


def _bind_items(reader: Reader, node: ast.expr, targets: list[ast.expr], value: Register, *, keep: bool) -> None:
    star = next((number for number, item in enumerate(targets) if isinstance(item, ast.Starred)), -1)
    results = tuple(reader.register() for _ in targets)
    reader.put(hir.Unpack(results, star, value, reader.location(node)))
    for item, result in zip(targets, results, strict=True):
        bind(reader, item.value if isinstance(item, ast.Starred) else item, result, keep=keep)


_WHOLE = slice(None)

BINARY: dict[type[ast.operator], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.LShift: operator.lshift,
    ast.Mod: operator.mod,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.RShift: operator.rshift,
    ast.Sub: operator.sub,
}

UNARY: dict[type[ast.unaryop], Callable[..., Any]] = {
    ast.Invert: operator.invert,
    ast.Not: operations.logical_not,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}

COMPARISONS: dict[type[ast.cmpop], Callable[..., Any]] = {
    ast.Eq: operator.eq,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: operations.contains,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.NotEq: operator.ne,
    ast.NotIn: operations.lacks,
}

EXPRESSIONS: dict[type[ast.AST], ExpressionReader] = {
    ast.Attribute: lambda reader, node: reader.operate(
        node, operations.attribute, reader.expression(node.value), reader.constant(node.attr)
    ),
    ast.BinOp: read_binary,
    ast.BoolOp: _boolean_chain,
    ast.Call: read_call,
    ast.Compare: lambda reader, node: _compare_chain(reader, node, reader.expression(node.left), 0),
    ast.Constant: lambda reader, node: reader.constant(node.value),
    ast.FormattedValue: read_formatted_value,
    ast.IfExp: read_conditional,
    ast.JoinedStr: lambda reader, node: reader.operate(node, operations.joined, *map(reader.expression, node.values)),
    ast.List: read_tuple,
    ast.ListComp: read_comprehension,
    ast.Name: lambda reader, node: reader.load(node, node.id),
    ast.NamedExpr: read_named,
    ast.Slice: read_slice,
    ast.Subscript: lambda reader, node: reader.operate(
        node, operator.getitem, reader.expression(node.value), reader.expression(node.slice)
    ),
    ast.Tuple: read_tuple,
    ast.UnaryOp: read_unary,
}
