"""The examples on simulated GPUs: compiled to PTX, watched for races, and as right as on the CPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from arrays import largest_error
from small_cases import CASES

import tilewright as tw
from long_runs import LONG

TOLERANCES = {"batched_gemm": 2e-2, "conv2d": 2e-2, "flash_attention": 2e-2, "matmul": 2e-2}
"""Products of fp32 round their factors to tf32 on a GPU."""


GPUS = (70, 75, 80, 90, 100, 120)


def runs() -> list[object]:
    """Each example on the GPU that most differs from the others, and on one of these in `make test`."""
    found = []
    for number, name in enumerate(CASES):
        others = [capability for capability in GPUS if capability != 90]
        short = (90, others[number % len(others)])
        found += [pytest.param(name, gpu, marks=pytest.mark.slow if gpu in short else LONG) for gpu in GPUS]
    return found


@cache
def on_the_cpu(name: str) -> Any:
    return CASES[name]()


@pytest.mark.parametrize(("name", "capability"), runs())
def test_example(name: str, capability: int) -> None:
    expected = on_the_cpu(name)
    with tw.simulate(f"cuda:{capability}"):
        found = CASES[name]()
    assert largest_error(found, expected) < TOLERANCES.get(name, 1e-4)
