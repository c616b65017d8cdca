"""Fixtures of the tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import tilewright


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all packages that are installed here, but no Triton."""
    folder = tmp_path_factory.mktemp("installed")
    places = [Path(place) for place in sys.path if Path(place).name == "site-packages"]
    for entry in (entry for place in places for entry in place.iterdir()):
        if not entry.name.lower().startswith("triton") and not (folder / entry.name).exists():
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture
def run(tmp_path: Path, installed: Path) -> Callable[..., list[str]]:
    """Runs a program with empty caches, or those of its last run; gives the lines that it prints.

    The program compiles in its own process unless it asks for the `workers` that torch has by default: to start
    them, and to wait for them at the end, takes as much time as most programs take.
    """

    def run(
        program: str, *, triton: bool = False, check: bool = True, workers: bool = False, **variables: str
    ) -> list[str]:
        script = tmp_path / "program.py"
        script.write_text(program)
        source = str(Path(tilewright.__file__).parents[1])
        folder, processes = str(tmp_path / "inductor"), "2" if workers else "1"
        torchs_own = {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_COMPILE_THREADS": processes}
        environment = os.environ | torchs_own | variables
        environment["PYTHONPATH"] = os.pathsep.join([source] if triton else [source, str(installed)])
        command = [sys.executable, *([] if triton else ["-S"]), str(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
        assert not check or done.returncode == 0, done.stderr[-4000:]
        return (done.stdout if check else done.stderr).splitlines()

    return run
