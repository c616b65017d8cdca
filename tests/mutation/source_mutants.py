"""Small mistakes that somebody could make in a Python file, one by one.

    [m.change for m in mutants_of("def f(a):\\n    return a + 1\\n", "f.py")]
        ["a - 1", "a + 2", "return None"]

Left out is what no test can or should notice: annotations, docstrings, decorators, the texts of errors, assertions,
which `zip(…, strict=True)` is too, and the -1 of `reshape`, for which NumPy takes any number below 0. All other text
stays where it is, so lines keep their numbers.

Source: the operators are those of R. DeMillo, R. Lipton and F. Sayward, Hints on Test Data Selection, 1978.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
LEFT_OUT = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)

Key = tuple[str, str, str, str, int]
"""The key of a mutant, which stays the same however lines move: its path, function, original, change and number."""


class Mutant(NamedTuple):
    """A file with one mistake.

    Attributes:
        path: the file.
        line: the number of the line with the mistake.
        function: the qualified name of the innermost function round it; "" outside of functions.
        original, change: what stood there, and what stands there now.
        text: the whole file.
        number: how many mutants of the function with the same original and change stand before it.
    """

    path: str
    line: int
    function: str
    original: str
    change: str
    text: str
    number: int = 0

    @property
    def key(self) -> Key:
        """The key that tells it from others."""
        return self.path, self.function, self.original, self.change, self.number


class Edit(NamedTuple):
    """Bytes from `begin` to `end` become `new`; `shown` is the node to name in reports."""

    begin: int
    end: int
    new: str
    shown: ast.AST


def mutants_of(text: str, path: str) -> list[Mutant]:
    """All mutants of a file, in the order of their lines."""
    source = _Source(text)
    found = []
    for function, node in _nodes(ast.parse(text), ""):
        for edit in _edits(source, node):
            found.append(_mutant(source, path, function, edit))
    return list(_numbered(sorted(found, key=lambda mutant: mutant.line)))


def _numbered(mutants: list[Mutant]) -> Iterator[Mutant]:
    seen = Counter[Key]()
    for mutant in mutants:
        yield mutant._replace(number=seen[mutant.key])
        seen[mutant.key] += 1


class _Source:
    """A file's bytes, and where its lines begin in them."""

    def __init__(self, text: str) -> None:
        self.bytes = text.encode()
        self._starts = [0]
        for line in self.bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        begin = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        return begin, end

    def between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> tuple[int, int, str] | None:
        """The place of an operator between two operands."""
        begin, end = self.span(left)[1], self.span(right)[0]
        at = self.bytes.find(old.encode(), begin, end)
        return None if at < 0 else (at, at + len(old), new)


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """The nodes that may be changed, each with the function that it stands in."""
    for child in _children(node):
        if isinstance(child, LEFT_OUT) or _is_docstring(child):
            continue
        inner = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{function}.{child.name}" if function else child.name
        yield inner, child
        yield from _nodes(child, inner)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    hidden: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        hidden = [node.returns, *node.decorator_list]
    elif isinstance(node, ast.ClassDef):
        hidden = [*node.decorator_list, *node.bases]
    elif isinstance(node, ast.AnnAssign | ast.arg):
        hidden = [node.annotation]
    elif isinstance(node, ast.Call):
        hidden = [keyword for keyword in node.keywords if ast.unparse(keyword) == "strict=True"]
        if ast.unparse(node.func).endswith("reshape"):
            hidden += [extent for extent in node.args if ast.unparse(extent) == "-1"]
    return (child for child in ast.iter_child_nodes(node) if child not in hidden)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _edits(source: _Source, node: ast.AST) -> Iterator[Edit]:
    """The mistakes that can be made in one node."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        old, new = COMPARISONS[type(node.ops[0])]
        yield from _swapped(source, node, node.left, node.comparators[0], old, new)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_text(node):
        yield from _swapped(source, node, node.left, node.right, *ARITHMETIC[type(node.op)])
    elif isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield from _swapped(source, node, node.values[0], node.values[1], old, new)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        begin, end = source.span(node)
        behind = source.bytes[begin + len("not") : end].lstrip()  # a parenthesis is no part of the operand
        yield Edit(begin, end - len(behind), "", node)
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        begin, end = source.span(node.test)
        yield Edit(begin, end, f"not ({source.bytes[begin:end].decode()})", node.test)
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        value = (not node.value) if isinstance(node.value, bool) else node.value + 1
        yield Edit(*source.span(node), repr(value), node)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none_or_bool(node.value):
        yield Edit(*source.span(node.value), "None", node)
    elif isinstance(node, ast.Expr | ast.AugAssign) and node.lineno == node.end_lineno:
        yield Edit(*source.span(node), "pass", node)


def _swapped(source: _Source, node: ast.AST, left: ast.AST, right: ast.AST, old: str, new: str) -> Iterator[Edit]:
    place = source.between(left, right, old, new)
    if place is not None:
        yield Edit(*place, node)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr | ast.Constant) and _holds_text(side) for side in (node.left, node.right))


def _holds_text(node: ast.JoinedStr | ast.Constant) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(node.value, str)


def _is_none_or_bool(node: ast.AST) -> bool:
    """Whether None would be no change, or less of one than the other bool."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _mutant(source: _Source, path: str, function: str, edit: Edit) -> Mutant:
    old = source.bytes
    begin, end = source.span(edit.shown)
    new = edit.new.encode()
    text = old[: edit.begin] + new + old[edit.end :]
    change = old[begin : edit.begin] + new + old[edit.end : end]
    line = old.count(b"\n", 0, edit.begin) + 1
    return Mutant(path, line, function, old[begin:end].decode(), change.decode(), text.decode())
