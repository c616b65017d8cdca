"""The examples on simulated GPUs: compiled to PTX, watched for races, and as right as on the CPU."""

from __future__ import annotations

import pytest
from arrays import largest_error
from small_cases import CASES

import tilewright as tw

TOLERANCES = {"batched_gemm": 2e-2, "conv2d": 2e-2, "flash_attention": 2e-2, "matmul": 2e-2}
"""Products of fp32 round their factors to tf32 on a GPU."""


@pytest.mark.slow
@pytest.mark.parametrize("capability", [75, 80, 90, 100, 120])
@pytest.mark.parametrize("name", CASES)
def test_example(name: str, capability: int) -> None:
    expected = CASES[name]()
    with tw.simulate(f"cuda:{capability}"):
        found = CASES[name]()
    assert largest_error(found, expected) < TOLERANCES.get(name, 1e-4)
