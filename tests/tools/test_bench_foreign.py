"""The tables "Kernels of others" of `bench/run.py` stay true: each kernel agrees with NumPy, on the smallest arrays.

Peers are left out, as they take seconds to import; `test_peers_agree` has them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))

with mock.patch("importlib.util.find_spec", return_value=None):
    from foreign import ROWS
    from measure_foreign import BAR, LEAST, judge


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_agrees_with_numpy(row) -> None:
    row.make(*row.shapes[0]).check({})


@pytest.mark.quick
@pytest.mark.parametrize("wrong", [lambda out: out.fill(0), lambda out: None, lambda out: out.fill(np.nan)])
def test_a_wrong_result_is_no_row(wrong) -> None:
    """Neither numbers nor NaN nor what stood in the array before pass for the result."""
    problem = ROWS[0].make(*ROWS[0].shapes[0])
    object.__setattr__(problem, "launch", lambda out, threads: wrong(out))
    with pytest.raises(AssertionError, match="ours: wrong"):
        problem.check({})


def test_the_bar_is_the_fastest_peer() -> None:
    judged = judge("add", {"ours": 3e-6, "numpy": 2e-6, "torch": 1e-6}, frozenset(), 0.5e-6)
    assert (judged["against"], judged["bar"]) == ("torch", BAR)


def test_the_bar_is_the_limit_where_a_peer_is_faster() -> None:
    limits = {1.0e-6: BAR, 1.05e-6: 1 / 1.05, 2e-6: LEAST}
    for limit, bar in limits.items():
        assert judge("add", {"ours": 3e-6, "numpy": 1e-6}, frozenset(), limit)["bar"] == pytest.approx(bar)


def test_a_peer_that_makes_its_result_is_compared_with_ours_that_does_so() -> None:
    times = {"ours": 1e-6, "ours, anew": 4e-6, "numpy": 2e-6, "jax": 3e-6}
    assert judge("add", times, frozenset({"jax"}), 0.0)["against"] == "jax"


def test_names_differ() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.slow
@pytest.mark.needs_torch
def test_peers_agree() -> None:
    """Torch stands beside nearly all rows."""
    script = """
from foreign import ROWS
for row in ROWS:
    problem = row.make(*row.shapes[0])
    works = problem.works()
    problem.check(works)
    print(row.name, sorted(works))
"""
    environment = {**os.environ, "PYTHONPATH": str(BENCH)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-100:] + done.stderr
    assert done.stdout.count("'torch'") > 0.9 * len(ROWS)
