"""Skips are explained, and tests that need a peer have its marker, so that a run of those leaves none out."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from skips import Skips, entries

TESTS = Path(__file__).parent
FILES = [path for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
MODULES = {"torch": "needs_torch", "triton": "needs_triton", "matplotlib": "needs_matplotlib"}
"""Top-level names of peers that tests import, with the marker for each."""


def imported(node: ast.AST) -> Iterator[str]:
    """Names of modules that a statement, or a call of `optional_peers.module`, imports; not those inside it."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        yield node.module or ""
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("optional_peers.module", "importlib.import_module"):
        yield from (str(name.value) for name in node.args if isinstance(name, ast.Constant))


def unmarked_imports(tree: ast.Module) -> Iterator[str]:
    """Imports of peers in functions (or in modules) that are not marked, as `line: name`."""
    assignments = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)]
    module = " ".join(text for text in assignments if text.startswith("pytestmark"))
    for statement in tree.body:
        decorators = getattr(statement, "decorator_list", [])
        marks = " ".join([module, *map(ast.unparse, decorators)])
        for node in ast.walk(statement):
            for name in imported(node):
                marker = MODULES.get(name.partition(".")[0])
                if marker and not re.search(rf"\b{marker}\b", marks):
                    yield f"{node.lineno}: {name}"


def test_imports_of_peers_are_marked() -> None:
    texts = {path.name: path.read_text() for path in FILES}
    suspects = {name: text for name, text in texts.items() if re.search("|".join(MODULES), text)}
    found = {name: list(unmarked_imports(ast.parse(text))) for name, text in suspects.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


PLANTED = ("import torch", "def test():\n import torch.nn", 'torch = optional_peers.module("torch")')


@pytest.mark.parametrize("text", PLANTED)
def test_planted_imports_are_found(text: str) -> None:
    assert len(list(unmarked_imports(ast.parse(text)))) == 1
    assert not list(unmarked_imports(ast.parse(f"pytestmark = pytest.mark.needs_torch\n{text}")))


def test_nothing_else_skips_for_want_of_a_peer() -> None:
    """`importorskip` has no marker."""
    assert [path.name for path in FILES if "importorskip" in path.read_text()] == []


def test_every_reason_of_the_list_is_given_somewhere() -> None:
    lines = [line for path in TESTS.rglob("*.py") for line in path.read_text().splitlines()]
    for reason in [reason for table in entries().values() for reason in table]:
        longest = max(re.split(r"[*?[]", reason), key=len)  # looking for that alone is quick
        candidates = (line for line in lines if longest in line)
        assert any(fnmatchcase(line, f"*{reason}*") for line in candidates), f"nothing skips for {reason!r}"


def skipped(reason: str, *markers: str) -> Any:
    return SimpleNamespace(skipped=True, longrepr=("f.py", 1, f"Skipped: {reason}"), nodeid="f.py::t", keywords=markers)


LISTED = {"always": {"no * here": "why"}, "depends": {"other": "why"}}
TORCH = "torch is not installed"


@pytest.mark.parametrize(
    ("reports", "with_peers", "expected"),
    [
        ([skipped("no gun here")], False, []),
        ([skipped("no gun here"), skipped("other")], True, []),
        ([skipped("other")], False, ["lists a reason for which no test skips: no \\* here"]),
        ([skipped("no gun here"), skipped("tired")], False, ["f.py::t skips for a reason .* tired"]),
        ([skipped("no gun here"), skipped(TORCH, "needs_torch")], False, []),
        ([skipped("no gun here"), skipped(TORCH)], False, ["f.py::t skips for want of a peer and lacks its marker"]),
        ([skipped("no gun here"), skipped(TORCH, "needs_torch")], True, [f"does not list: {TORCH}"]),
    ],
)
def test_complaints(reports: list[Any], with_peers: bool, expected: list[str]) -> None:
    watched = Skips(LISTED, with_peers, whole=True)
    for report in reports:
        watched.pytest_runtest_logreport(report)
    complaints = watched.complaints()
    assert len(complaints) == len(expected)
    assert all(re.search(pattern, text) for pattern, text in zip(expected, complaints, strict=True))


ONE = """
import pytest
@pytest.mark.skip(reason="{reason}")
def test_it(): pass
def test_other(): pass
@pytest.mark.needs_torch
def test_marked(): pass
"""


def run(folder: Path, reason: str, *options: str) -> subprocess.CompletedProcess[str]:
    """pytest of a module in `folder`, with our conftest.py."""
    (folder / "test_one.py").write_text(ONE.format(reason=reason))
    command = [sys.executable, "-m", "pytest", "-c", str(TESTS.parent / "pyproject.toml"), *options]
    command += ["-p", "no:cacheprovider", f"--confcutdir={TESTS}", "-p", "conftest", str(folder)]
    return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False, timeout=200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reason", "status", "options"),
    [("tired", 1, ()), ("tired", 1, ("-n", "1")), ("objects are ELF", 0, ())],
    ids=["here", "in a worker", "listed"],
)
def test_a_run_fails_for_a_skip_that_nothing_explains(
    reason: str, status: int, options: tuple[str, ...], tmp_path: Path
) -> None:
    done = run(tmp_path, reason, "--strict-skips", "--durations=0", *options)
    assert done.returncode == status, done.stdout + done.stderr
    assert ("does not list: tired" in done.stdout.partition("slowest durations")[2]) == bool(status)


@pytest.mark.slow
def test_only_tests_that_need_peers_are_run_with_peers(tmp_path: Path) -> None:
    done = run(tmp_path, "tired", "--peers", "--collect-only")
    assert re.findall(r"::(\w+)", done.stdout) == ["test_marked"]
