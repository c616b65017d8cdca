"""A plugin of pytest that notes which blocks of the package's functions each test runs: `-p watched_blocks`.

    BLOCKS_RUN=/tmp/run python -m pytest -p watched_blocks -n 2
    blocks_run(Path("/tmp/run"))        {"tilewright.ir.core:Op.walk#2": {"tests/ir/test_core.py::test_walk": 0.01}}

Each block says so when it begins, to the set of the test that is under way: the body of a function, each list of
statements inside it, and what follows such a list, by their order. That costs far less than a tracer. Child processes
are not heard, nor functions that the language compiles: their source is not ours to change.

Each test that passes is noted at once: a run that was stopped goes on with the tests that are left.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import pytest

PACKAGE = "tilewright"
HEAR = "__block_runs__"
"""The name by which blocks find `set.add`."""

ANY = ""
"""Stands for all blocks: what does not run in the process of a test is not heard."""

_running: set[str] = set()
_failed: set[str] = set()


class _Loader(SourceFileLoader):
    """Loads a module whose blocks say that they run."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path))
        mark_blocks(tree, fullname)
        return compile(tree, path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != PACKAGE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader) and spec.origin:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def mark_blocks(tree: ast.Module, module: str) -> None:
    """Let each block of a function say that it begins; functions with decorators of the language are left alone."""
    for name, function in _functions(tree, ""):
        for number, (statements, place) in reversed(list(enumerate(_blocks(function.body)))):
            call = ast.parse(f"{HEAR}({_mark(f'{module}:{name}', number)!r})").body[0]
            for node in ast.walk(call):
                ast.copy_location(node, statements[place])
            statements.insert(place + _is_docstring(statements[place]), call)


def mark_of(text: str, function: str, line: int) -> str | None:
    """The mark of the block of a line, but for the module; None if the line stands in no function that is watched."""
    for name, node in _functions(ast.parse(text), ""):
        if name == function and node.lineno <= line <= (node.end_lineno or line):
            begins = [statements[place].lineno for statements, place in _blocks(node.body)]
            return _mark(function, max(0, bisect_right(begins, line) - 1))
    return None


def users_of(text: str, line: int) -> set[str]:
    """The functions of a file with a name that is bound by the statement of a line outside of functions."""
    tree = ast.parse(text)
    bound = {
        node.id
        for statement in tree.body
        if statement.lineno <= line <= (statement.end_lineno or line)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return {
        name
        for name, function in _functions(tree, "")
        if any(isinstance(node, ast.Name) and node.id in bound for node in ast.walk(function))
    }


def _mark(function: str, block: int) -> str:
    return f"{function}#{block}" if block else function


def _blocks(statements: list[ast.stmt]) -> Iterator[tuple[list[ast.stmt], int]]:
    """The places where straight code begins: with a list of statements, and behind each that has statements inside."""
    begins = True
    for place, statement in enumerate(statements):
        if begins:
            yield statements, place
        inner = [] if isinstance(statement, ast.FunctionDef | ast.ClassDef) else list(_inner(statement))
        for those in inner:
            yield from _blocks(those)
        begins = bool(inner)


def _inner(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements inside one, in the order of their lines."""
    for _, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value
        elif isinstance(value, list) and value and isinstance(value[0], ast.ExceptHandler | ast.match_case):
            for part in value:
                yield part.body


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _functions(node: ast.AST, outer: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{outer}.{child.name}" if outer else child.name
            if isinstance(child, ast.FunctionDef) and not _is_compiled(child):
                yield name, child
            yield from _functions(child, name)
        else:
            yield from _functions(child, outer)


def _is_compiled(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Listen from before the first conftest, which may import the package."""
    if PACKAGE in sys.modules:
        raise pytest.UsageError(f"{PACKAGE} was imported before `-p watched_blocks`")
    setattr(builtins, HEAR, _running.add)
    sys.meta_path.insert(0, _Finder())


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests that were noted before the run was stopped."""
    noted = blocks_run(Path(os.environ["BLOCKS_RUN"])).get(ANY, {})
    items[:] = [item for item in items if item.nodeid not in noted]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _running.clear()
    begin = os.times()
    result = yield
    end = os.times()
    if item.nodeid not in _failed:
        with Path(f"{os.environ['BLOCKS_RUN']}.{os.getpid()}.jsonl").open("a") as lines:
            lines.write(json.dumps([item.nodeid, end.elapsed - begin.elapsed, sorted(_running)]) + "\n")
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Leave out tests that fail without a mutant: they can notice none."""
    if report.failed:
        _failed.add(report.nodeid)


def blocks_run(place: Path) -> dict[str, dict[str, float]]:
    """The tests that run each block, with their seconds; those that passed.

    Args:
        place: what BLOCKS_RUN was.
    """
    tests: dict[str, dict[str, float]] = {}
    for file in sorted(place.parent.glob(f"{place.name}.*.jsonl")):
        for test, seconds, blocks in map(json.loads, file.read_text().splitlines()):
            for block in (*blocks, ANY):
                tests.setdefault(block, {})[test] = seconds
    return tests
