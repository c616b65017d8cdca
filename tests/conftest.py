"""What all tests share: golden files, and a disk cache of their own.

    def test_it(golden): golden(text_of_the_module, "combine/add.ttir")

compares with `tests/goldens/combine/add.ttir`; `pytest --update-goldens` writes the files anew.

Each run (each worker process of one) keeps compiled kernels in a new folder, so no test sees what an earlier run left
and none writes to the user's cache. Processes that tests start inherit the folder.
"""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDENS = Path(__file__).parent / "goldens"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write tests/goldens anew instead of comparing")


def pytest_configure(config: pytest.Config) -> None:
    folder = tempfile.mkdtemp(prefix="tilewright-tests-")
    os.environ["TRITON_CACHE_DIR"] = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


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
