"""Kernels that are drawn at random give the same in every way of running: TTIR, machine code, Python, simulated GPUs.

`make test` draws 35, `make test-long` 400 and some for each GPU. `pytest tests/fuzz -m slow --kernels 5000` draws that
many, others each time.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from shrink import shrunk
from statements import Program, program
from ways_to_run import disagreement

from long_runs import LONG

QUIET = list(HealthCheck)
PHASES = (Phase.generate,)
"""`shrink.py` cuts kernels down; Hypothesis would only draw others."""


def check(rng: Random, folder: Path, *, gpus: tuple[str, ...] = (), size: int = 8, deep: bool = False) -> None:
    """One kernel: all ways agree. If they do not, the kernel is cut down."""
    drawn = program(rng, gpu=bool(gpus), size=size)
    find = partial(disagreement, folder=folder, gpus=gpus, deep=deep)
    problem = find(drawn)
    if problem is not None:
        small = shrunk(drawn, lambda smaller: problem.resembles(find(smaller)), attempts=500)
        pytest.fail(f"{problem.where}: {problem.what}\n{drawn}\n{small}\n{small.text}", pytrace=False)


@settings(max_examples=3, deadline=None, derandomize=True, phases=PHASES, suppress_health_check=QUIET)
@given(rng=st.randoms(use_true_random=False))
def test_some_kernels(rng: Random, tmp_path: Path) -> None:
    check(rng, tmp_path, size=4)


@pytest.fixture
def kernels(request: pytest.FixtureRequest) -> int:
    """The number of kernels to draw; 0: the usual number, and the same each time."""
    wanted: int = request.config.getoption("--kernels")
    return wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu", "usual"), [("", 30), *(pytest.param(gpu, 400, marks=LONG) for gpu in ("", "80", "90", "90x2", "100"))]
)
def test_many_kernels(gpu: str, usual: int, kernels: int, tmp_path: Path) -> None:
    """A simulated GPU takes seconds per kernel."""
    gpus, share = ((gpu,), 8) if gpu else ((), 1)
    count = max((kernels or usual) // share, 1)

    @settings(max_examples=count, deadline=None, derandomize=not kernels, database=None, suppress_health_check=QUIET)
    @given(rng=st.randoms(use_true_random=False), deep=st.booleans())
    def draw(rng: Random, deep: bool) -> None:
        check(rng, tmp_path, gpus=gpus, deep=deep)

    draw()


def test_a_kernel_is_cut_down_to_what_matters() -> None:
    text = """
def kernel(x, n):
    a = tl.load(x + 1)
    for i in range(n):
        b = a + tl.flip(tl.load(x, mask=a > 0, other=1), 0)
        tl.store(x, b.to(tl.int32))
"""
    small = shrunk(Program(text, grid=(3,)), lambda it: "tl.flip" in it.text)
    assert small == Program("def kernel(x, n):\n    b = tl.flip(x, 0)", grid=(1,))
