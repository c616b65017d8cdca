"""Kernels that others wrote for Triton, from their packages, run unchanged on the CPU and agree with torch."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
NEEDS = {"liger": ("torch", "liger_kernel"), "linear_attention": ("torch", "fla", "einops")}
LARGEST_ERROR = 2e-5
"""Of fp32. The largest one seen is 3e-6: a gradient through 63 steps of a recurrence."""


@pytest.mark.slow
@pytest.mark.parametrize("program", NEEDS)
def test_programs_agree_with_torch(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in NEEDS[program]:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-m", "tilewright", "run", str(PROGRAMS / f"{program}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    errors = json.loads(done.stdout.splitlines()[-1])
    assert len(errors) >= 12
    assert {name: error for name, error in errors.items() if not error < LARGEST_ERROR} == {}
