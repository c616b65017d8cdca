"""Kernels that others wrote for Triton, from their packages, run unchanged on the CPU and agree with torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"
NEEDS = {
    "liger": ("torch", "liger_kernel"),
    "linear_attention": ("torch", "fla", "einops"),
    "mutations": ("torch",),
}
LARGEST_ERROR = 2e-5
"""Of fp32. The largest one seen is 3e-6: a gradient through 63 steps of a recurrence."""


def answer(program: str, folder: Path) -> Any:
    """What a program prints last, which is JSON; skips the test where a package that it needs is not installed."""
    for package in NEEDS[program]:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    command = [sys.executable, "-m", "tilewright", "run", str(PROGRAMS / f"{program}.py")]
    environment = os.environ | {"TRITON_CACHE_DIR": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("program", ["liger", "linear_attention"])
def test_programs_agree_with_torch(program: str, tmp_path: Path) -> None:
    errors = answer(program, tmp_path)
    assert len(errors) >= 12
    assert {name: error for name, error in errors.items() if not error < LARGEST_ERROR} == {}


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
