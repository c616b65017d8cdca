"""Lets the tests import the examples, and gives them arrays of each kind."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


@pytest.fixture(params=["numpy", pytest.param("torch", marks=pytest.mark.needs_torch)])
def to_array(request: pytest.FixtureRequest) -> Callable[[np.ndarray], Any]:
    """Turns a NumPy array into the argument that an example gets: itself, or a torch tensor of the same memory."""
    return np.asarray if request.param == "numpy" else importlib.import_module("torch").from_numpy


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"])
def num_threads(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
