"""Programs of bench/ that no test runs still name what there is."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parents[2] / "bench").rglob("*.py"))


def missing(text: str) -> list[str]:
    """The names that a program imports from this package, and that are not there."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "tilewright":
            module = import_module(node.module)
            names = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            found += [f"{node.module}.{name}" for name in names if not _is_module(f"{node.module}.{name}")]
    return found


def _is_module(name: str) -> bool:
    try:
        import_module(name)
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_what_a_program_imports_is_there(program: Path) -> None:
    assert missing(program.read_text()) == []


def test_what_is_not_there_is_found() -> None:
    text = "from tilewright.runtime.tuning.forked import share_out, usable_cpus\nfrom tilewright import support"
    assert missing(text) == ["tilewright.runtime.tuning.forked.usable_cpus"]
