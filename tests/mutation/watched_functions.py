"""A plugin of pytest that notes which functions of the package each test runs: `-p watched_functions`.

    FUNCTIONS_RUN=/tmp/run python -m pytest -p watched_functions -n 2
    functions_run(Path("/tmp/run"))     {"tilewright.ir.core:Op.walk": {"tests/ir/test_core.py::test_walk": 0.01}}

Each function of the package says so when it begins, to the set of the test that is under way; that costs far less than
a tracer. Child processes are not heard, nor functions that the language compiles: their source is not ours to change.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import pytest

PACKAGE = "tilewright"
HEAR = "__function_runs__"
"""The name by which functions find `set.add`."""

ANY = ""
"""Stands for all functions: what does not run in the process of a test is not heard."""

_running: set[str] = set()
_found: dict[str, tuple[float, list[str]]] = {}  # by test: seconds, functions
_failed: set[str] = set()


class _Loader(SourceFileLoader):
    """Loads a module whose functions say that they run."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path))
        mark_functions(tree, fullname)
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


def mark_functions(tree: ast.Module, module: str) -> None:
    """Let each function of a module say that it begins; those with decorators of the language are left alone."""
    for name, function in _functions(tree, ""):
        call = ast.parse(f"{HEAR}({f'{module}:{name}'!r})").body[0]
        first = function.body[0]
        for node in ast.walk(call):
            ast.copy_location(node, first)
        has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        function.body.insert(1 if has_docstring else 0, call)


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
        raise pytest.UsageError(f"{PACKAGE} was imported before `-p watched_functions`")
    setattr(builtins, HEAR, _running.add)
    sys.meta_path.insert(0, _Finder())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _running.clear()
    begin = os.times()
    result = yield
    end = os.times()
    _found[item.nodeid] = (end.elapsed - begin.elapsed, sorted(_running))
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """What fails as it is can notice nothing."""
    if report.failed:
        _failed.add(report.nodeid)


def pytest_unconfigure() -> None:
    for test in _failed:
        _found.pop(test, None)
    if _found:
        Path(f"{os.environ['FUNCTIONS_RUN']}.{os.getpid()}.json").write_text(json.dumps(_found))


def functions_run(place: Path) -> dict[str, dict[str, float]]:
    """The tests that run each function, with their seconds; those that passed.

    Args:
        place: what FUNCTIONS_RUN was.
    """
    tests: dict[str, dict[str, float]] = {}
    for file in sorted(place.parent.glob(f"{place.name}.*.json")):
        for test, (seconds, functions) in json.loads(file.read_text()).items():
            for function in (*functions, ANY):
                tests.setdefault(function, {})[test] = seconds
    return tests
