"""Facts about ops stand in `dialects`: elsewhere no set or sequence of names of ops is written down.

What algorithms may have are tables from names of ops to what they do with them: `{"tt.load": _load}`,
`dict.fromkeys(("scf.for", "scf.while"), _loop)`, `@executes("gpu.barrier", "ttg.barrier")`. A group of ops that belong
together is a class or a trait, to be asked for by `isinstance`, or a field of their declaration. Two names in an
expression are no group yet; as a constant of a module they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright import dialects
from tilewright.ir.declare import OPS

assert dialects  # its import declares the ops
PACKAGE = Path(__file__).parents[1] / "src" / "tilewright"
DECLARING = ("dialects", "ir")
DIALECTS = tuple(sorted({f"{name.partition('.')[0]}." for name in OPS}))
BEGINS_A_NAME = re.compile(rf"""["'\s](?:{"|".join(map(re.escape, DIALECTS))})""")
BEGINS_NAMES = re.compile(rf"""f["'](?:{"|".join(map(re.escape, DIALECTS))})""")
"""The beginning of several names: `f"arith.{name}"`."""
MAY_NAME_SEVERAL = (ast.Set, ast.Tuple, ast.List, ast.Dict, ast.Constant, ast.SetComp, ast.GeneratorExp, ast.ListComp)
GROUP, CONSTANT_GROUP = 3, 2
"""From so many names on, anywhere and as the value of a module's or a class's name."""
UNTYPED = (
    (r"\b(operands|args)\[-?\d", 20, "an operand has a name: `loop.low`"),
    (r"assert isinstance\(", 40, "a function that returns the type it needs: `descriptor_block(value)`"),
    (r"attributes\[\"", 30, "an attribute has a name: `loop.stages`"),
)
"""Ways round the declared names and types of ops, how often all files but those that declare may use them, and what to
write instead."""


def in_tables(nodes: list[ast.AST]) -> set[ast.AST]:
    """Literals whose names are given something to do right there, with all that they consist of."""
    tables: list[ast.AST] = []
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fromkeys":
            constant = len(node.args) < 2 or (isinstance(node.args[1], ast.Constant) and is_truth(node.args[1]))
            tables += [] if constant else node.args[:1]
        elif isinstance(node, ast.DictComp) and not (isinstance(node.value, ast.Constant) and is_truth(node.value)):
            tables += [generator.iter for generator in node.generators]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            tables += node.decorator_list
    return {inner for table in tables for inner in ast.walk(table)}


def is_truth(node: ast.Constant) -> bool:
    return node.value is None or isinstance(node.value, bool)


def constants(module: list[ast.stmt], nodes: list[ast.AST]) -> set[ast.AST]:
    """Values of names of the module and its classes, and the literals in calls and unions that make them."""
    found = set[ast.AST]()
    bodies = [module, *(node.body for node in nodes if isinstance(node, ast.ClassDef))]
    for statement in (statement for body in bodies for statement in body):
        values = [statement.value] if isinstance(statement, ast.Assign | ast.AnnAssign) else []
        while values:
            value = values.pop()
            if value is not None:
                found.add(value)
            if isinstance(value, ast.Call):
                values += value.args
            elif isinstance(value, ast.BinOp):
                values += [value.left, value.right]
    return found


def names(node: ast.AST) -> list[str]:
    """The names of ops that the literal consists of."""
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        return [name for element in node.elts for name in text(element) if name in OPS]
    if isinstance(node, ast.Dict) and all(isinstance(value, ast.Constant) and is_truth(value) for value in node.values):
        return [name for key in node.keys for name in text(key) if name in OPS]
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and all(word in OPS for word in node.value.split())
    ):
        return node.value.split()
    if isinstance(node, ast.SetComp | ast.GeneratorExp | ast.ListComp) and isinstance(node.elt, ast.JoinedStr):
        first = node.elt.values[0]
        sources = [generator.iter for generator in node.generators if isinstance(generator.iter, ast.Tuple | ast.List)]
        if text(first) and text(first)[0].startswith(DIALECTS):
            return [f"{text(first)[0]}{name}" for source in sources for part in source.elts for name in text(part)]
    return []


def text(node: ast.AST | None) -> list[str]:
    """The text of a literal, if it is one; of a starred sequence, those in it."""
    if isinstance(node, ast.Starred) and isinstance(node.value, ast.Tuple | ast.List | ast.Set):
        return [name for element in node.value.elts for name in text(element)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def groups(root: Path) -> Iterator[str]:
    """Every group of names of ops outside the folders that declare them, as `path:line: names`."""
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if relative.parts[0] in DECLARING:
            continue
        content = path.read_text()
        if len(BEGINS_A_NAME.findall(content)) < CONSTANT_GROUP and not BEGINS_NAMES.search(content):
            continue  # no names of ops in literals, so no group of them
        tree = ast.parse(content)
        nodes = list(ast.walk(tree))
        tables, own = in_tables(nodes), constants(tree.body, nodes)
        for node in nodes:
            found = names(node) if isinstance(node, MAY_NAME_SEVERAL) else []
            if node not in tables and len(found) >= (CONSTANT_GROUP if node in own else GROUP):
                yield f"{relative.as_posix()}:{getattr(node, 'lineno', 0)}: {', '.join(found)}"


def test_groups_of_ops_are_declared_in_dialects() -> None:
    assert list(groups(PACKAGE)) == []


PLANTED = {
    "set": "def f(op):\n    return op.name in {'arith.addi', 'arith.subi', 'arith.muli'}\n",
    "tuple": "def f(op):\n    return op.name in ('arith.addi', 'arith.subi', 'arith.muli')\n",
    "list": "def f(op):\n    return op.name in ['arith.addi', 'arith.subi', 'arith.muli']\n",
    "starred": "def f(op):\n    return op.name in (*('arith.addi', 'arith.subi'), 'arith.muli')\n",
    "words": "def f(op):\n    return op.name in 'arith.addi arith.subi arith.muli'.split()\n",
    "formatted": "def f(op):\n    return op.name in {f'arith.{name}' for name in ('addi', 'subi', 'muli')}\n",
    "constant": "LOOPS = ('scf.for', 'scf.while')\n",
    "frozenset": "LOOPS: frozenset[str] = frozenset({'scf.for', 'scf.while'})\n",
    "union": "OTHERS = ()\nCONTROL = OTHERS | {'scf.for', 'scf.while'}\n",
    "of a class": "class Emitter:\n    LOOPS = ('scf.for', 'scf.while')\n",
    "formatted constant": "LOOPS = frozenset(f'scf.{name}' for name in ('for', 'while'))\n",
    "truths": "LOOPS = {'scf.for': True, 'scf.while': True}\n",
    "truths by keys": "LOOPS = dict.fromkeys(('scf.for', 'scf.while', 'scf.if'), True)\n",
}


@pytest.mark.parametrize("case", PLANTED)
def test_planted_group_is_found(case: str, tmp_path: Path) -> None:
    (tmp_path / "transforms").mkdir()
    (tmp_path / "transforms" / "a.py").write_text(PLANTED[case])

    assert [found.partition(":")[0] for found in groups(tmp_path)] == ["transforms/a.py"]


PERMITTED = {
    "table": "LOWERINGS = {'scf.for': _loop, 'scf.while': _loop, 'scf.if': _if}\n",
    "costs": "COSTS = {'arith.divf': 6, 'arith.divsi': 20, 'math.exp': 30}\n",
    "table by keys": "LOWERINGS = dict.fromkeys(('scf.for', 'scf.while', 'scf.if'), _control)\n",
    "table from another": "SOME = {name: RULES[name] for name in ('scf.for', 'scf.while', 'scf.if')}\n",
    "decorator": "@executes('gpu.barrier', *('scf.for', 'scf.while', 'scf.if'))\ndef _nothing(op):\n    pass\n",
    "two": "def f(op):\n    return op.name in ('scf.for', 'scf.while')\n",
    "other texts": "KINDS = ('sum', 'minimum', 'maximum')\n",
}


@pytest.mark.parametrize("case", PERMITTED)
def test_permitted_tables_are_not_reported(case: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(PERMITTED[case])

    assert list(groups(tmp_path)) == []


@pytest.mark.parametrize(("pattern", "most", "instead"), UNTYPED, ids=["operands", "asserts", "attributes"])
def test_ops_are_used_by_declared_names_and_types(pattern: str, most: int, instead: str) -> None:
    counts = {
        path.relative_to(PACKAGE).as_posix(): len(re.findall(pattern, path.read_text(encoding="utf-8")))
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in DECLARING
    }
    users = {path: count for path, count in counts.items() if count}
    assert sum(users.values()) <= most, f"{pattern} has more than {most} uses; {instead}; they are in {users}"
