"""The package `tilewright.language` imports its names when the first of them is asked for, and none for signatures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tilewright.language as tl
from tilewright.language import names

FIRST = """
import sys
import tilewright, tilewright.language as tl
BLOCK: tl.constexpr = tl.constexpr(4)
tl.const
assert not hasattr(tl, "__wrapped__"), "as tools ask any object"
assert "tilewright.language.names" not in sys.modules
{statement}
assert "tilewright.language.names" in sys.modules
from tilewright.language import *
assert callable(load) and tl.load is load and tl.core.load is load and tensor is tl.tensor
assert not hasattr(tl, "no_such_name") and {{"load", "constexpr", "math"}} <= set(dir(tl))
"""


def slow(statement: str) -> Any:
    return pytest.param(statement, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "statement",
    [
        "tl.load",
        slow("dir(tl)"),
        slow("from tilewright.language import math; tl.exp"),
        slow("import tilewright.language.names"),
        slow("import tilewright.language.standard; tl.zeros"),
        slow("hasattr(tl, 'x')"),
    ],
)
def test_names_are_imported_when_one_is_asked_for(statement: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", FIRST.format(statement=statement)], check=True, timeout=600)


EACH_FIRST = """
import importlib, os, sys
import numpy
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        importlib.import_module(f"tilewright.language.{name}")
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        sys.exit(f"tilewright.language.{name} cannot be imported first")
assert "tilewright" not in sys.modules
print(len(sys.argv) - 1, "imported")
"""


@pytest.mark.slow
def test_every_file_may_be_imported_first() -> None:
    """Each by a fork of a process that has imported NumPy only."""
    files = sorted(path.stem for path in Path(str(tl.__file__)).parent.glob("[a-z]*.py"))
    done = subprocess.run([sys.executable, "-c", EACH_FIRST, *files], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, f"{len(files)} imported\n"), done.stdout + done.stderr


def test_names_are_those_of_the_module() -> None:
    assert tl.__all__ == sorted(names.ALL)
    assert all(getattr(tl, name) is value for name, value in names.ALL.items())
    assert tl.core.__all__ == sorted(names.CORE)
    assert all(getattr(tl.core, name) is value for name, value in names.CORE.items())


def test_no_file_has_the_name_of_a_function_or_class() -> None:
    """Importing it would put the module in the place of that name."""
    files = {path.stem for path in Path(names.__file__).parent.iterdir()}
    assert [name for name in names.ALL if name in files and not isinstance(getattr(tl, name), ModuleType)] == []
