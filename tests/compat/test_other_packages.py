"""Kernels that others wrote for Triton, from their packages, run unchanged on the CPU and agree with torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
PROGRAMS_THAT_NEED = [
    pytest.param("liger", marks=pytest.mark.needs_liger),
    pytest.param("linear_attention", marks=pytest.mark.needs_fla),
]
LARGEST_ERROR = 2e-5
"""The error allowed in fp32. The largest one seen is 3e-6: a gradient through 63 steps of a recurrence."""


def answer(program: str, folder: Path) -> Any:
    """The last line that a program prints, which is JSON."""
    command = [sys.executable, "-m", "tilewright", "run", str(PROGRAMS / f"{program}.py")]
    environment = os.environ | {"TRITON_CACHE_DIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.needs_torch
@pytest.mark.parametrize("program", PROGRAMS_THAT_NEED)
def test_programs_agree_with_torch(program: str, tmp_path: Path) -> None:
    errors = answer(program, tmp_path)
    assert len(errors) >= 12
    assert {name: error for name, error in errors.items() if not error < LARGEST_ERROR} == {}


@pytest.mark.spared
@pytest.mark.needs_torch
def test_torch_finds_the_tensors_that_kernels_store_to(tmp_path: Path) -> None:
    """The same sets as with Triton 3.5.1 and a GPU of which only the name is known."""
    assert answer("mutations", tmp_path) == {
        "add": ["out"],
        "autotuned": ["out"],
        "block_pointers": ["out"],
        "counted": ["counts", "locks"],
        "device_descriptors": ["out"],
        "in_branches": ["x", "y"],
        "in_loops": ["again", "out"],
        "in_place": ["x"],
        "indirect": ["out"],
        "optional": ["out"],
        "optional_given": ["out"],
        "pure_assembly": ["out"],
        "random_numbers": ["out"],
        "reads_only": [],
        "reduced": ["prefixes", "sums"],
        "returns_early": ["x"],
        "through_helpers": ["x", "y"],
    }
