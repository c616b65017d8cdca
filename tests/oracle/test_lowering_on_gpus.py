"""The kernels of the tests of the CPU's lowering, on simulated GPUs: right, and watched for races.

pytest --gpu 90 tests/oracle/test_lowering_memory.py        # by hand
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MOST = 500
"""They are more than this, not counting those that are skipped."""
FILES = sorted(path for path in HERE.glob("test_lowering_*.py") if path != Path(__file__))


@pytest.mark.slow
@pytest.mark.parametrize("capability", [80, 90])
def test_tests_pass_on_a_gpu(capability: int) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--gpu={capability}", *map(str, FILES)]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert done.stdout.count(".") > MOST
