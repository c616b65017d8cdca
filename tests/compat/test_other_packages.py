"""Kernels that others wrote for Triton, from their packages, run unchanged on the CPU and agree with torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
PROGRAMS_THAT_NEED = [
    pytest.param("liger", marks=pytest.mark.needs_liger),
    pytest.param("linear_attention", marks=pytest.mark.needs_fla),
]
LARGEST_ERROR = 2e-5
"""Of fp32. The largest one seen is 3e-6: a gradient through 63 steps of a recurrence."""


@pytest.mark.slow
@pytest.mark.needs_torch
@pytest.mark.parametrize("program", PROGRAMS_THAT_NEED)
def test_programs_agree_with_torch(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-m", "tilewright", "run", str(PROGRAMS / f"{program}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    errors = json.loads(done.stdout.splitlines()[-1])
    assert len(errors) >= 12
    assert {name: error for name, error in errors.items() if not error < LARGEST_ERROR} == {}
