"""The kernels of the tests of the CPU's lowering, on simulated GPUs: right, and watched for races.

pytest --gpu 90 tests/oracle/test_lowering_memory.py        # by hand
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from long_runs import LONG

HERE = Path(__file__).parent
LEAST = 200
"""Each half of the tests has more than these, not counting those that are skipped."""
FILES = sorted(path for path in HERE.glob("test_lowering_*.py") if path != Path(__file__))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "half"), [(80, 0), (90, 1), pytest.param(80, 1, marks=LONG), pytest.param(90, 0, marks=LONG)]
)
def test_tests_pass_on_a_gpu(capability: int, half: int) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--gpu={capability}"]
    command += map(str, FILES[half::2])
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert done.stdout.count(".") > LEAST
