"""The kernels of the tests of the CPU's lowering, on simulated GPUs: right, and watched for races.

pytest --gpu 90 tests/oracle/test_lowering_memory.py        # by hand

`make test` takes the first of the cases that `make check` takes on a CPU, of one half of the files on each GPU;
`make test-long` takes all cases of all files on both.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHOSEN = ("--first-cases", "-m", "not slow and not spared")
ALL = ("-m", "")
LEAST = {ALL: 200, CHOSEN: 30}
"""By what is chosen: each half of the tests has more than these, not counting those that are skipped."""
FILES = sorted(path for path in HERE.glob("test_lowering_*.py") if path != Path(__file__))


def run(capability: int, half: int, chosen: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--gpu={capability}", *chosen]
    command += map(str, FILES[half::2])
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert done.stdout.count(".") > LEAST[chosen]


@pytest.mark.slow
@pytest.mark.parametrize(("capability", "half"), [(80, 0), (90, 1)])
def test_chosen_cases_pass_on_a_gpu(capability: int, half: int) -> None:
    run(capability, half, CHOSEN)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("half", [0, 1])
def test_all_cases_pass_on_a_gpu(capability: int, half: int) -> None:
    run(capability, half, ALL)
