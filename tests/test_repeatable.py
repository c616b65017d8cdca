"""Random data of a test are the same whatever ran before it."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import settings

RNG, PLAIN = np.random.default_rng(3), Random(3)


@pytest.mark.parametrize("turn", range(2))
def test_generators_of_a_module_start_anew(turn: int) -> None:
    assert RNG.random() == np.random.default_rng(3).random()
    assert PLAIN.random() == Random(3).random()


def test_hypothesis_draws_the_same_examples() -> None:
    assert settings().derandomize
    assert settings().deadline is None
