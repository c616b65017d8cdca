"""Each example runs as a script and says what it did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in ("arrays", "demo"))


def test_all_ten_are_there() -> None:
    assert len(SCRIPTS) == 10


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_example_checks_itself(name: str) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
