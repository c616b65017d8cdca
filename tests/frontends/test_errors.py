"""Every mistake in `tests/errors/*.py` gives exactly the text of the `.err` file beside it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from evaluating import parameter, run_time

from tilewright.frontends import evaluate_kernel, read_function
from tilewright.support.diagnostics import CompilationError

ERRORS = Path(__file__).parent.parent / "errors"


def _error_text(path: Path) -> str:
    specification = importlib.util.spec_from_file_location(f"errors_{path.stem}", path)
    assert specification is not None
    assert specification.loader is not None
    module: Any = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    parameters = [
        parameter(name, run_time(value) if isinstance(value, str) else value)
        for name, value in module.SIGNATURE.items()
    ]
    with pytest.raises(CompilationError) as caught:
        evaluate_kernel(read_function(getattr(module.kernel, "fn", module.kernel)), parameters, name="kernel")
    return f"{type(caught.value).__name__}\n{caught.value}\n".replace(str(path), "$FILE")


@pytest.mark.parametrize("path", sorted(ERRORS.glob("*.py")), ids=lambda path: path.stem)
def test_error_text(path: Path, request: pytest.FixtureRequest) -> None:
    text = _error_text(path)
    expected = path.with_suffix(".err")
    if request.config.getoption("--update-goldens"):
        expected.write_text(text)
    assert text == expected.read_text()
