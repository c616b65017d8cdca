"""The advice in errors: names that the program uses, functions that the language has."""

from __future__ import annotations

import linecache
import math
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.language import counterparts
from tilewright.runtime.foreign import ForeignFunction
from tilewright.support.diagnostics import name_of_package
from tilewright.support.source import Span

pytestmark = pytest.mark.quick


def error_of(kernel: Any, *constants: Any) -> str:
    with pytest.raises(tw.CompilationError) as caught:
        kernel[(1,)](np.zeros(64, np.float32), *constants)
    return str(caught.value)


@tw.jit
def filled(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 1.0)


@pytest.mark.parametrize(
    ("block", "kind"), [(256.0, "256.0 is of type float"), (np.int64(64), "np.int64(64) is of type numpy.int64")]
)
def test_numbers_that_are_no_int(block: Any, kind: str) -> None:
    text = error_of(filled, block)
    assert "`end` must be a whole number" in text
    assert kind in text
    assert "int(…)" in text
    assert "annotate" not in text


@tw.jit
def roots(x):
    tl.store(x, np.sqrt(tl.load(x)))


@tw.jit
def sums(x):
    tl.store(x, np.nansum(tl.load(x)))


def test_numpys_functions_have_a_line_and_advice() -> None:
    text = error_of(roots)
    assert f"test_help_texts.py:{roots.starting_line_number + 2}:17" in text
    assert "np.sqrt(tl.load(x))" in text
    assert text.endswith("help: take tl.sqrt")
    assert error_of(sums).endswith("help: call it on the host and pass what it gives")
    with pytest.raises(RuntimeError) as caught:
        roots[(1,)](np.zeros(1, np.float32))
    assert isinstance(caught.value, ForeignFunction)


@tw.jit
def cosines(x):
    tl.store(x, math.acos(tl.load(x)) + math.cos(1.0))


@pytest.mark.parametrize("frontend", ["ast", "bytecode"])
def test_pythons_mathematics(frontend: str) -> None:
    text = error_of(tw.jit(cosines.fn, frontend=frontend))
    assert "`math.acos` cannot compute with fp32" in text
    assert text.endswith("help: take tl.extra.libdevice.acos")


def test_counterparts_exist() -> None:
    assert [name for name in counterparts.OF_LANGUAGE if not hasattr(tl, name)] == []
    assert [name for name in counterparts.OF_LIBDEVICE if not hasattr(tl.extra.libdevice, name)] == []
    assert [name for name in counterparts.OTHER_NAMES if counterparts.counterpart(name) is None] == []


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("import tilewright as tw\n", "tw"),
        ("import numpy\n    import tilewright\n", "tilewright"),
        ("import triton.language as tl\nimport triton  # first\n", "triton"),
        ("import triton as tr\n", "tr"),
        ("import tilewright.language as tl\n", "tilewright"),
    ],
)
def test_the_package_has_the_name_that_the_program_uses(program: str, name: str) -> None:
    linecache.cache["<a program>"] = (len(program), None, program.splitlines(keepends=True), "<a program>")
    assert name_of_package(Span("<a program>", 1, 1)) == name


def test_the_name_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = ModuleType("__main__")
    cells.mine = tw  # what another cell imported
    monkeypatch.setitem(sys.modules, "__main__", cells)
    assert name_of_package(Span("<a cell>", 1, 1)) == "mine"
    assert name_of_package(None) == "mine"


def test_the_length_of_a_range_names_the_package() -> None:
    assert "help: take tw.next_power_of_2(33) numbers" in error_of(filled, 33)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tl.load(x),
        lambda x: tl.store(x, 1.0),
        lambda x: tl.exp(x),
        lambda x: tl.atomic_add(x, 1.0),
        lambda x: tl.arange(0, 16),
    ],
)
def test_functions_outside_of_kernels(call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^tl functions work only inside a kernel"):
        call(np.zeros(16, np.float32))
