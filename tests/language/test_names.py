"""The package `tilewright.language` imports its names when the first of them is asked for, and none for signatures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

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


def test_names_are_imported_when_one_is_asked_for() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", FIRST.format(statement="tl.load")], check=True, timeout=600)


EACH_IN_A_FORK = """
import os, sys
import numpy
for program in sys.argv[1:]:
    child = os.fork()
    if not child:
        exec(program, {"__name__": "__main__"})
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        sys.exit(f"this fails: {program}")
assert "tilewright" not in sys.modules
print(len(sys.argv) - 1, "run")
"""


def run_each(programs: list[str]) -> None:
    """Run each program by a fork of a process that has imported NumPy only."""
    command = [sys.executable, "-W", "error", "-c", EACH_IN_A_FORK, *programs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, f"{len(programs)} run\n"), done.stdout + done.stderr


@pytest.mark.slow
def test_names_are_imported_in_any_way() -> None:
    statements = [
        "dir(tl)",
        "from tilewright.language import math; tl.exp",
        "import tilewright.language.names",
        "import tilewright.language.standard; tl.zeros",
        "hasattr(tl, 'x')",
    ]
    run_each([FIRST.format(statement=statement) for statement in statements])


@pytest.mark.slow
def test_every_file_may_be_imported_first() -> None:
    files = sorted(path.stem for path in Path(str(tl.__file__)).parent.glob("[a-z]*.py"))
    run_each([f"import tilewright.language.{name}" for name in files])


def test_names_are_those_of_the_module() -> None:
    assert tl.__all__ == sorted(names.ALL)
    assert all(getattr(tl, name) is value for name, value in names.ALL.items())
    assert tl.core.__all__ == sorted(names.CORE)
    assert all(getattr(tl.core, name) is value for name, value in names.CORE.items())


def test_no_file_has_the_name_of_a_function_or_class() -> None:
    """Importing it would put the module in the place of that name."""
    files = {path.stem for path in Path(names.__file__).parent.iterdir()}
    assert [name for name in names.ALL if name in files and not isinstance(getattr(tl, name), ModuleType)] == []
