"""The reader's state: new registers, the current block, positions in the file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Any, NoReturn

from tilewright.frontends import hir
from tilewright.frontends.hir_writer import HirWriter
from tilewright.frontends.python_function import Source, SyntaxTree
from tilewright.ir.attributes import FileLocation
from tilewright.language.python_code import TOO_DEEP, UnsupportedSyntax
from tilewright.support.diagnostics import located
from tilewright.support.source import Span

ExpressionReader = Callable[["Reader", Any], hir.Register]
StatementReader = Callable[..., None]


class Reader(HirWriter):
    """Reads one function. `expressions` and `statements` say, per class of node, which function reads it.

    Attributes:
        loops: how many loops the statement being read is inside of.
        constants: the variables that are declared as `x: tl.constexpr`.
    """

    def __init__(
        self,
        source: Source,
        shift: int,
        expressions: Mapping[type[ast.AST], ExpressionReader],
        statements: Mapping[type[ast.AST], StatementReader],
    ) -> None:
        super().__init__()
        self._expressions = expressions
        self._statements = statements
        self._source = source
        self._shift = shift
        self._lines = None if source.text.isascii() else source.text.split("\n")
        self.loops = 0
        self.constants: set[str] = set()

    def expression(self, node: ast.expr) -> hir.Register:
        """Read an expression; the register that will hold its value."""
        read = self._expressions.get(node.__class__)
        if read is None:
            self.refuse(node, _DESCRIPTIONS.get(node.__class__, type(node).__name__))
        return read(self, node)

    def statements(self, body: list[ast.stmt], rest: hir.Continue | None = None) -> None:
        """Read statements, and then `rest`, into the current block, up to the first that leaves it.

        What follows an `if` with a `return`, `break` or `continue` inside moves into the sides that do not leave:

            if c: return a          if c: return a
            b                 →     else: b
        """
        for number, statement in enumerate(body):
            if isinstance(statement, COMPOUND) and leaves(statement):
                after = body[number + 1 :]
                if always_leaves(statement):
                    rest = None
                elif after:
                    rest = hir.Continue(self.block(partial(self.statements, after, rest)), self.location(after[0]))
                self.statement(statement, rest)
                return
            self.statement(statement)
            if isinstance(statement, LEAVING):
                return
        if rest is not None:
            self.put(rest)

    def branch(self, node: ast.If, rest: hir.Continue | None = None) -> None:
        """Read an `if`; `rest` is what the sides that do not leave go on with."""
        test = self.expression(node.test)
        then, orelse = (self.block(partial(self.statements, side, rest)) for side in (node.body, node.orelse))
        tail = not self.loops and contains_return(node)
        self.put(hir.If(test, then, orelse, tail, self.location(node.test)))

    def statement(self, node: ast.stmt, *rest: hir.Continue | None) -> None:
        """Read one statement, which may be followed by `rest`."""
        read = self._statements.get(node.__class__)
        if read is None:
            self.refuse(node, _DESCRIPTIONS.get(node.__class__, type(node).__name__))
        try:
            read(self, node, *rest)
        except RecursionError:
            self.refuse(node, TOO_DEEP)

    def operate(self, node: ast.AST, function: Callable[..., Any], *operands: hir.Register) -> hir.Register:
        """Put `function(*operands)`; the register of the result."""
        return self.put_operation(function, operands, self.location(node))

    def load(self, node: ast.AST, name: str) -> hir.Register:
        """Put a load of the variable `name`."""
        return self.put_load(name, self.location(node))

    def store(self, name: str, value: hir.Register, node: ast.AST) -> None:
        """Put `name = value`."""
        self.put(hir.Store(name, value, name in self.constants, self.location(node)))

    def location(self, node: Any) -> FileLocation:
        """The place of a node in the file; columns count characters from 1."""
        line, column, end_line, end_column = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
        if self._lines is not None:
            column, end_column = self._character(line, column), self._character(end_line, end_column)
        shift = self._shift
        return FileLocation(self._source.file, line + shift, column + 1, end_line + shift, end_column + 1)

    def refuse(self, node: ast.AST, what: str, reason: str = "") -> NoReturn:
        """Raise the error that `what` at `node` is not part of the language."""
        raise located(UnsupportedSyntax(what, reason), Span(*self.location(node)))

    def _character(self, line: int, byte: int) -> int:
        """Python's syntax tree counts bytes of UTF-8 within a line; people count characters."""
        assert self._lines is not None
        text = self._lines[line + self._shift - self._source.first_line]
        return len(text.encode()[:byte].decode(errors="ignore"))


def read_with(
    source: Source,
    tree: SyntaxTree,
    python: FunctionType,
    expressions: Mapping[type[ast.AST], ExpressionReader],
    statements: Mapping[type[ast.AST], StatementReader],
) -> hir.Function:
    """Read a function with the given tables.

    Args:
        source: the text of the function.
        expressions, statements: a reader for each class of nodes.
    """
    reader = Reader(source, tree.shift, expressions, statements)
    function = tree.function
    parameters = _parameters(reader, function.args)
    body = reader.block(lambda: reader.statements(function.body))
    return hir.Function(function.name, parameters, body, tuple(reader.initial), python, reader.location(function))


def is_constexpr(annotation: ast.expr | None) -> bool:
    """Whether an annotation says `tl.constexpr` (under any module name, or as a string)."""
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
            return name.rpartition(".")[2] == "constexpr"
        case ast.Subscript(value=value):
            return is_constexpr(value)
    return False


def contains_return(node: ast.stmt) -> bool:
    """Whether a `return` of this function is inside the statement."""
    return any(isinstance(inner, ast.Return) for inner in _inside(node))


def leaves(node: ast.stmt) -> bool:
    """Whether a `return`, or a `break` or `continue` of the loop around it, is inside the statement."""
    return contains_return(node) or any(isinstance(inner, LEAVING) for inner in _same_loop(node))


def breaks(node: ast.For | ast.While) -> bool:
    """Whether a `break` of this loop is inside it."""
    return any(isinstance(inner, ast.Break) for statement in node.body for inner in _same_loop(statement))


def always_leaves(node: ast.stmt) -> bool:
    """Whether no path through the statement reaches its end."""
    if isinstance(node, ast.If):
        return any(map(always_leaves, node.body)) and any(map(always_leaves, node.orelse))
    if isinstance(node, ast.While) and isinstance(node.test, ast.Constant):
        return bool(node.test.value) and not breaks(node)
    return isinstance(node, LEAVING)


def _same_loop(node: ast.AST) -> Iterator[ast.AST]:
    """The statement and those inside it, without the bodies of other loops."""
    nodes = [node]
    for inner in nodes:
        yield inner
        nodes += inner.orelse if isinstance(inner, (ast.For, ast.While)) else _parts(inner)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """The statement and those inside it."""
    nodes = [node]
    for inner in nodes:
        yield inner
        nodes += _parts(inner)


def _parts(node: ast.AST) -> list[ast.AST]:
    """The statements, and clauses of statements, right inside a statement; expressions hold none."""
    return [part for field in _BLOCKS for part in getattr(node, field, ())]


_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
"""The fields of statements, and of their clauses, that hold statements or clauses."""


COMPOUND = (ast.For, ast.If, ast.While)
LEAVING = (ast.Break, ast.Continue, ast.Return)


def _parameters(reader: Reader, arguments: ast.arguments) -> tuple[hir.Parameter, ...]:
    if arguments.kwarg is not None:
        reader.refuse(arguments.kwarg, "a parameter with `**`", "a kernel's parameters have names")
    variadic = [] if arguments.vararg is None else [arguments.vararg]
    return tuple(
        hir.Parameter(node.arg, is_constexpr(node.annotation), node in variadic, keyword_only, reader.location(node))
        for nodes, keyword_only in (
            ([*arguments.posonlyargs, *arguments.args, *variadic], False),
            (arguments.kwonlyargs, True),
        )
        for node in nodes
    )


_DESCRIPTIONS: dict[type[ast.AST], str] = {
    ast.AsyncFor: "`async for`",
    ast.AsyncFunctionDef: "`async def`",
    ast.AsyncWith: "`async with`",
    ast.Await: "`await`",
    ast.ClassDef: "a class",
    ast.Dict: "a dict",
    ast.DictComp: "a dict comprehension",
    ast.FunctionDef: "a nested function",
    ast.GeneratorExp: "a generator expression",
    ast.Global: "`global`",
    ast.Import: "`import`",
    ast.ImportFrom: "`import`",
    ast.Lambda: "a lambda",
    ast.Match: "`match`",
    ast.Nonlocal: "`nonlocal`",
    ast.Set: "a set",
    ast.SetComp: "a set comprehension",
    ast.Try: "`try`",
    ast.TryStar: "`try`",
    ast.Yield: "`yield`",
    ast.YieldFrom: "`yield`",
    **{getattr(ast, name): "a template string" for name in ("TemplateStr",) if hasattr(ast, name)},  # from 3.14 on
}
