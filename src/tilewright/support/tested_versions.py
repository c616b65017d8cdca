"""The tested versions of the libraries below, and the messages about other versions.

    problem_of("numpy", "2.1.3")        ""
    problem_of("numpy", "3.0.0")        "numpy 3.0.0 is newer than 2.4, …"
    require("llvmlite", "0.47.0")       raises ImportError; a newer version than the tested ones gets a warning
"""

from __future__ import annotations

import re
import sys
import warnings
from typing import NamedTuple


class Tested(NamedTuple):
    """The oldest and the newest release, as (major, minor)."""

    oldest: tuple[int, int]
    newest: tuple[int, int]


TESTED = {
    "llvmlite": Tested((0, 48), (0, 50)),
    "ml_dtypes": Tested((0, 5), (0, 6)),
    "numpy": Tested((1, 26), (2, 5)),
}
"""Versions by library; `pyproject.toml` has the oldest. llvmlite 0.48 is the first with LLVM 22, which we write for."""


PYTHON = Tested((3, 11), (3, 14))
"""Versions of Python, as in `pyproject.toml`; the package itself refuses older ones when it is imported."""


def python_problem(version: tuple[int, int] = sys.version_info[:2]) -> str:
    """The problem of a version of Python; "" inside the tested range."""
    if PYTHON.oldest <= version <= PYTHON.newest:
        return ""
    oldest, newest, this = (".".join(map(str, release)) for release in (*PYTHON, version))
    return f"Tilewright was tested with Python {oldest} to {newest}, and this is {this}"


def warn_of_python() -> None:
    """Give a RuntimeWarning if this Python was not tested."""
    if problem := python_problem():
        warnings.warn(problem, RuntimeWarning, stacklevel=2)


def require(library: str, version: str) -> None:
    """Make sure, on first use, that a library can work.

    Raises:
        ImportError: the version is too old. One that is newer than all tested gets a RuntimeWarning.
    """
    problem = problem_of(library, version)
    if problem and is_too_old(library, version):
        raise ImportError(f"{problem}: pip install '{requirement(library)}'")
    if problem:
        warnings.warn(problem, RuntimeWarning, stacklevel=2)


def problem_of(library: str, version: str) -> str:
    """The problem of a version; "" inside the tested range."""
    oldest, newest = (".".join(map(str, release)) for release in TESTED[library])
    if is_too_old(library, version):
        return f"{library} {version} is older than {oldest}, the oldest that Tilewright works with"
    if _release(version) > TESTED[library].newest:
        return f"{library} {version} is newer than {newest}, the newest that Tilewright was tested with"
    return ""


def is_too_old(library: str, version: str) -> bool:
    """Whether the library lacks what is used of it."""
    return _release(version) < TESTED[library].oldest


def requirement(library: str) -> str:
    """The requirement for pip: `numpy>=1.26`."""
    major, minor = TESTED[library].oldest
    return f"{library}>={major}.{minor}"


def _release(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
