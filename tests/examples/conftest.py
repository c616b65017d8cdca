"""Lets the tests import the examples, and gives them arrays of each kind."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None


@pytest.fixture(params=["numpy", "torch"])
def to_array(request: pytest.FixtureRequest) -> Callable[[np.ndarray], Any]:
    """Turns a NumPy array into the argument that an example gets: itself, or a torch tensor of the same memory."""
    if request.param == "numpy":
        return np.asarray
    if torch is None:
        pytest.skip("torch is not installed")
    return torch.from_numpy


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"])
def num_threads(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
