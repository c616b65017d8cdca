"""Arithmetic on sizes."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.semantics.constexpr import constexpr

pytestmark = pytest.mark.quick

SMALLEST_POWERS = [(-3, 0), (0, 0), (1, 1), (2, 2), (3, 4), (1023, 1024), (1024, 1024), (1025, 2048)]


@pytest.mark.parametrize(("n", "expected"), SMALLEST_POWERS)
def test_next_power_of_2(n: int, expected: int) -> None:
    assert tw.next_power_of_2(n) == expected
    assert tw.next_power_of_2(constexpr(n)) == expected


@pytest.mark.parametrize(("x", "y", "expected"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2)])
def test_cdiv(x: int, y: int, expected: int) -> None:
    assert tw.cdiv(x, y) == expected


def test_next_power_of_2_wants_whole_numbers() -> None:
    with pytest.raises(TypeError):
        tw.next_power_of_2(2.5)
