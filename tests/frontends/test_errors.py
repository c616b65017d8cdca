"""Every mistake in `tests/errors/*.py` gives exactly the text of the `.err` file beside it, in every front end.

The file begins with the text of `ast`; a section `== bytecode` or `== trace` follows where another front end says
something else, and `== interpreter` where the module says `INTERPRETED = True`. "no error": it means something there.
`STAYS = True`: loops may not be left early, as with Triton.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from evaluating import parameter, run_time

import tilewright as tw
from python_texts import as_in_3_11
from tilewright.frontends import EvaluateOptions
from tilewright.frontends.choice import make_ttir
from tilewright.support.diagnostics import CompilationError

ERRORS = Path(__file__).parent.parent / "errors"


def _module(path: Path) -> Any:
    specification = importlib.util.spec_from_file_location(f"errors_{path.stem}", path)
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _compile(module: Any, frontend: str) -> None:
    parameters = [
        parameter(name, run_time(value) if isinstance(value, str) else value)
        for name, value in module.SIGNATURE.items()
    ]
    python = getattr(module.kernel, "fn", module.kernel)
    stays = getattr(module, "STAYS", False)
    options = EvaluateOptions(debug=getattr(module, "DEBUG", False), leaves_loops=not stays)
    make_ttir(python, parameters, name="kernel", options=options, frontend=frontend)


def _interpret(module: Any) -> None:
    arguments = [np.zeros(8, np.int32) if str(kind).startswith("*") else 5 for kind in module.SIGNATURE.values()]
    tw.jit(interpret=True)(getattr(module.kernel, "fn", module.kernel))[(1,)](*arguments)


def _text(path: Path, frontend: str) -> str:
    """The message of a front end; modules are read again, because some kernels change them."""
    module = _module(path)
    try:
        if frontend == "interpreter":
            _interpret(module)
        else:
            _compile(module, frontend)
    except CompilationError as error:
        return f"{type(error).__name__}\n{error}\n".replace(str(path), "$FILE")
    return "no error\n"


def _texts(path: Path) -> dict[str, str]:
    frontends = ["ast", "bytecode", "trace", *["interpreter"] * getattr(_module(path), "INTERPRETED", False)]
    return {frontend: _text(path, frontend) for frontend in frontends}


def _written(texts: dict[str, str]) -> str:
    first = texts["ast"]
    return first + "".join(f"== {name}\n{text}" for name, text in texts.items() if text != first)


def _read(text: str, frontends: Iterable[str]) -> dict[str, str]:
    first, *sections = re.split(r"^== (\w+)\n", text, flags=re.MULTILINE)
    return {name: dict(zip(sections[::2], sections[1::2], strict=True)).get(name, first) for name in frontends}


def _roughly(text: str) -> str:
    """The message without columns, in which versions of Python differ, and with Python's own words as in 3.11."""
    return as_in_3_11(re.sub(r" +\^+", " ^", re.sub(r"(\$FILE:\d+):\d+", r"\1", text)))


JUMPS = ("break_of_endless", "break_of_while")
"""Kernels whose `break` is no instruction from Python 3.14 on: it is where the condition in front jumps to."""


def _known_texts(path: Path, texts: dict[str, str]) -> dict[str, str]:
    """The messages roughly, in bytecode without the place of what this version of Python has no instruction for."""
    found = {name: _roughly(text) for name, text in texts.items()}
    if sys.version_info >= (3, 14) and path.stem in JUMPS:
        found["bytecode"] = re.sub(r"  --> .*\n.*\n", "", found["bytecode"])
    return found


@pytest.mark.quick
@pytest.mark.parametrize("path", sorted(ERRORS.glob("*.py")), ids=lambda path: path.stem)
def test_error_text(path: Path, request: pytest.FixtureRequest) -> None:
    texts = _texts(path)
    expected = path.with_suffix(".err")
    if sys.version_info[:2] != (3, 11):
        wanted = _read(expected.read_text(), texts)
        assert _known_texts(path, texts) == _known_texts(path, wanted)
        return
    if request.config.getoption("--update-goldens"):
        expected.write_text(_written(texts))
    assert _written(texts) == expected.read_text()


def test_every_case_is_an_error_somewhere() -> None:
    assert [path.stem for path in ERRORS.glob("*.err") if not path.read_text().startswith(("Comp", "Unsup"))] == []


def test_a_kernel_that_keeps_what_it_should_not_is_refused_every_time() -> None:
    module: ModuleType = _module(ERRORS / "global_list.py")
    for _ in range(2):
        with pytest.raises(CompilationError, match="changes `KEPT`"):
            _compile(module, "trace")
