"""The API reference: everything public is documented, and examples of the language run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

SITE = Path(__file__).parents[2] / "docs" / "site"
MODULES = {"tw": tw, "tl": tl, "tw.testing": tw.testing, "tw.cuda": tw.cuda}
NOT_CONSTRUCTED = {"Autotuner", "CompiledKernel", "CudaDevice", "Heuristics", "JITFunction", "PropagateNan"}
"""Classes whose objects users get from functions; nobody outside calls them."""
HIDDEN = {"self", "args", "kwargs", "_semantic", "_builder", "_generator"}


def public() -> list[Any]:
    """Every public function and class."""
    found = []
    for prefix, module in MODULES.items():
        for name in module.__all__:
            member = getattr(module, name)
            if inspect.isfunction(member) or inspect.isclass(member):
                found.append(pytest.param(member, id=f"{prefix}.{name}"))
    return found


def documentation(member: Any) -> str:
    own = vars(member).get("__init__") if inspect.isclass(member) else None
    return f"{inspect.getdoc(member) or ''}\n{(own and inspect.getdoc(own)) or ''}"


@pytest.mark.parametrize("member", public())
def test_everything_public_is_documented(member: Any) -> None:
    """Each public member has a description, and so has each of its parameters."""
    text = documentation(member)
    assert text.strip()
    is_error = inspect.isclass(member) and issubclass(member, BaseException)
    if is_error or member.__name__ in NOT_CONSTRUCTED:
        return
    try:
        parameters = inspect.signature(member).parameters
    except ValueError:
        return
    missing = {name for name in parameters if name not in HIDDEN and not re.search(rf"\b{name}\b", text)}
    assert missing == set()


def with_examples() -> list[Any]:
    """The public functions whose docstrings end in an example."""
    members = {name: getattr(module, name) for module in (tw, tw.testing) for name in module.__all__}
    return [
        pytest.param(member, id=name)
        for name, member in members.items()
        if inspect.isfunction(member) and "\nExample:\n" in (inspect.getdoc(member) or "")
    ]


@pytest.mark.parametrize("member", with_examples())
def test_the_example_of_a_docstring_runs(member: Any) -> None:
    names = {"tw": tw, "tl": tl, "np": np}
    (test,) = doctest.DocTestFinder(recurse=False).find(member, member.__name__, module=False, globs=names)
    report: list[str] = []
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    assert doctest.DocTestRunner(optionflags=flags).run(test, out=report.append).failed == 0, "".join(report)


def test_the_main_functions_have_examples() -> None:
    found = {case.id for case in with_examples()}
    assert found >= {"jit", "autotune", "heuristics", "vectorize", "simulate", "compile", "do_bench", "perf_report"}


@pytest.fixture(scope="module")
def examples() -> Any:
    sys.path.insert(0, str(SITE))
    try:
        return importlib.import_module("examples")
    finally:
        sys.path.remove(str(SITE))


def functions() -> list[str]:
    return [name for name in tl.__all__ if inspect.isfunction(getattr(tl, name))]


def test_every_function_has_an_example(examples: Any) -> None:
    assert set(functions()) == examples.EXAMPLES.keys() | examples.WITHOUT
    assert not examples.EXAMPLES.keys() & examples.WITHOUT


@pytest.mark.parametrize("name", functions())
def test_the_example_calls_the_function_and_runs(examples: Any, name: str) -> None:
    if name in examples.WITHOUT:
        return
    shown = examples.shown(name)
    assert f"tl.{name}(" in shown.code or name == "advance"
    assert "tensor(" not in shown.result
    assert "object at 0x" not in shown.result


KNOWN = {
    "cumsum": "[ 1.  3.  6. 10.]",
    "atomic_add": "[10. 11. 12. 13.]\np → [11. 13. 15. 17.]",
    "store": "p → [ 1.  2. 12. 13.]",
    "static_print": "fp32",
    "min": "1.0, 0",
    "assume": "",
}


@pytest.mark.parametrize("name", KNOWN)
def test_results_are_shown_as_they_are(examples: Any, name: str) -> None:
    assert examples.shown(name).result == KNOWN[name]
