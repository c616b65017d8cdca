"""Functions of other packages that a program's function may read, and those that are refused."""

from __future__ import annotations

import operator
import textwrap
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime import foreign
from tilewright.runtime.foreign import ForeignFunction, is_installed, refuse_foreign


def reader() -> None:
    textwrap.dedent("")


def beside() -> None:
    pass


READABLE = {
    "tw.cdiv": tw.cdiv,
    "tl.cdiv": tl.cdiv,
    "kernel": tw.jit(beside),
    "function": beside,
    "operator.add": operator.add,
    "len": len,
    "np.float32": np.float32,
    "3": 3,
    "None": None,
}


@pytest.mark.quick
@pytest.mark.parametrize("value", READABLE.values(), ids=READABLE)
def test_what_may_be_read(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Tilewright itself is an installed package."""
    installed = is_installed
    monkeypatch.setattr(foreign, "is_installed", lambda name: name.startswith("tilewright") or installed(name))
    refuse_foreign(value, reader, ["value"])


@pytest.mark.parametrize("value", [textwrap.dedent, np.linalg.norm], ids=["textwrap.dedent", "numpy.linalg.norm"])
def test_what_is_refused(value: Any) -> None:
    """With the place where the name is read; where it is not to be seen, with that of the function."""
    line = reader.__code__.co_firstlineno + (value is textwrap.dedent)
    with pytest.raises(ForeignFunction, match=rf"(?s){value.__name__}.*test_foreign\.py:{line}\b"):
        refuse_foreign(value, reader, ["textwrap", value.__name__])


def test_packages_that_are_installed() -> None:
    assert [name for name in ("numpy.linalg", "sys", "textwrap", __name__, "no_such_module") if is_installed(name)] == [
        *("numpy.linalg", "sys", "textwrap"),
    ]
