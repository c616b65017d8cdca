"""The costs of large programs on a simulated GPU: users wait for them, so they have bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "large_programs.py"
SECONDS = 60
"""The most that a program may take of a processor, compilation included."""
MEBIBYTES = 2048
"""The most memory that a process may need."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "product"])
def test_large_programs_are_simulated_in_a_minute_and_in_two_gibibytes(name: str, tmp_path: Path) -> None:
    """Attention of 1 x 1 x 256 x 64, and a persistent product of 512 x 512 x 512."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(PROGRAM), name], env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    costs = json.loads(done.stdout)
    assert costs["seconds"] <= SECONDS
    assert costs["mebibytes"] <= MEBIBYTES
