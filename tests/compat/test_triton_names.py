"""The names of Triton's modules: each is here, or in the table of docs/triton-names.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
from tests.compat.test_triton_package import asked

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "triton-names.md"
NAMES: dict[str, str] = json.loads((HERE / "triton_names.json").read_text())
"""The public names of 3.5.1 and 3.9.0 by module; written by `tests/oracle/tritons_names.py`."""


@cache
def absent_here() -> list[str]:
    """The names that our package lacks."""
    question = f"""
import importlib, warnings
warnings.simplefilter("ignore")
def module(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None
names = json.load(open({str(HERE / "triton_names.json")!r}))
print(json.dumps([f"{{m}}.{{n}}" for m, text in names.items() for n in text.split() if not hasattr(module(m), n)]))
"""
    found: list[str] = asked(question)
    return found


def patterns() -> Iterator[str]:
    """The names in the table of the page, without those that the lists leave out."""
    for row in re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE):
        yield from re.findall(r"`([^`]+)`", row)


@pytest.mark.spared
@pytest.mark.needs_torch
def test_every_name_is_here_or_in_the_table() -> None:
    rows = list(patterns())

    assert [name for name in absent_here() if not any(fnmatch(name, pattern) for pattern in rows)] == []


@pytest.mark.needs_torch
def test_every_row_of_the_table_is_about_names_that_are_absent() -> None:
    absent = absent_here()
    unlisted = ("triton.experimental.*", "triton.tools.gsan.*", "triton.tools.triton_to_gluon_translator.*")
    unlisted += ("triton._C.libtriton.passes.*",)

    assert [p for p in patterns() if p not in unlisted and not any(fnmatch(name, p) for name in absent)] == []


@pytest.mark.slow
@pytest.mark.needs_triton_python
def test_lists_have_every_name_of_the_oracle() -> None:
    script = HERE.parent / "oracle" / "tritons_names.py"
    done = subprocess.run(
        [os.environ["TRITON_PYTHON"], str(script)], capture_output=True, text=True, timeout=300, check=True
    )

    theirs = {f"{module}.{name}" for module, names in json.loads(done.stdout).items() for name in names}

    assert sorted(theirs - {f"{module}.{name}" for module, text in NAMES.items() for name in text.split()}) == []
