"""Tests find the same whatever ran before them: random data, and machine code."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import settings

from remembered_code import remembering
from tilewright.backends.llvm.machine import host_target

RNG, PLAIN = np.random.default_rng(3), Random(3)


@pytest.mark.parametrize("turn", range(2))
def test_generators_of_a_module_start_anew(turn: int) -> None:
    assert RNG.random() == np.random.default_rng(3).random()
    assert PLAIN.random() == Random(3).random()


def test_hypothesis_draws_the_same_examples() -> None:
    assert settings().derandomize
    assert settings().deadline is None


def test_machine_code_is_made_once_for_the_same_text_machine_and_level() -> None:
    made: list[tuple[object, ...]] = []
    code = remembering(lambda *facts, optimize: made.append((*facts, optimize)) or str(len(made)).encode())
    host, other = host_target(), host_target("neoverse-n1")
    asked = [("a", host, 1), ("b", host, 1), ("a", other, 1), ("a", host, 2), ("b", host, 1), ("a", other, 1)]
    assert [code(*facts, optimize=False) for facts in asked] == [b"1", b"2", b"3", b"4", b"2", b"3"]
    assert code("a", host, 1, optimize=True) == b"5"
    assert len(made) == 5
