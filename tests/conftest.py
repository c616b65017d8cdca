"""What all tests share: golden files.

    def test_it(golden): golden(text_of_the_module, "combine/add.ttir")

compares with `tests/goldens/combine/add.ttir`; `pytest --update-goldens` writes the files anew.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDENS = Path(__file__).parent / "goldens"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write tests/goldens anew instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """A function `golden(text, name)` that fails unless `text` equals the golden file `name`."""
    update = request.config.getoption("--update-goldens")

    def compare(text: str, name: str) -> None:
        path = GOLDENS / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        if not path.exists():
            pytest.fail(f"no golden {path}: run pytest --update-goldens and read what it writes", pytrace=False)
        expected = path.read_text()
        if text != expected:
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), str(path), "now", lineterm="")
            pytest.fail("\n".join(lines), pytrace=False)

    return compare
