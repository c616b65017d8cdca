"""The code that is written for launches and calls, under valgrind: it touches no memory but what is there and set."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from fresh_caches import cache_without_kernels
from long_runs import LONG
from tilewright.backends.llvm.machine import host_target
from tilewright.runtime.drivers.cpu.launcher import is_native

PROGRAM = str(Path(__file__).with_name("valgrind_program.py"))
CPU = "x86-64-v3" if host_target().has_avx2 else ""
"""Valgrind knows no AVX-512."""

SHARE = ("arguments", "cycles", "foreign", "functions")
"""The parts of the program that `make test` runs; `make test-long` runs all."""

NEAR = 3
"""Frames between a wrong access and our code: Python's functions that it calls, not what those call."""

pytestmark = pytest.mark.skipif(not is_native(), reason="there is no native launcher here")


def ours(log: Path) -> list[str]:
    """The mistakes that valgrind found in code that is in no file, or in functions that this calls."""
    found = []
    for error in ElementTree.parse(log).iter("error"):
        frames = error.findall("stack")[0].findall("frame")[:NEAR]
        if any(frame.find("obj") is None for frame in frames):
            what = error.findtext("what") or error.findtext("kind") or ""
            found.append(f"{what}: {' < '.join(frame.findtext('fn') or '?' for frame in frames)}")
    return found


@pytest.mark.slow
@pytest.mark.needs_valgrind
@pytest.mark.parametrize("works", [SHARE, pytest.param((), id="all", marks=LONG)], ids="-".join)
def test_the_launcher_touches_only_what_it_may(works: tuple[str, ...], tmp_path: Path) -> None:
    """Half of the time of the share is that of the imports; grids and threads take as long again."""
    log = tmp_path / "log.xml"
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(cache_without_kernels(tmp_path / "cache")),
        "TILEWRIGHT_CPU": CPU,
        "TILEWRIGHT_NUM_THREADS": "2",
        "PYTHONMALLOC": "malloc",  # valgrind knows what is allocated, and what was freed
        "OPENBLAS_NUM_THREADS": "1",
    }
    program = [sys.executable, PROGRAM, *works]
    options = ["--leak-check=no", "--fair-sched=yes", "--error-limit=no", "--xml=yes", f"--xml-file={log}"]
    for before in ([], ["valgrind", "--quiet", *options]):
        done = subprocess.run([*before, *program], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "done False\n", "the second run compiles nothing"
    found = ours(log)
    assert len(found) == 1, found
    assert found[0].startswith("Invalid read of size 8: ?"), "the mistake at the end of the program"
