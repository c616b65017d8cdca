"""Few cases show every value of every parameter of a test; `make check` runs the first and the last of them."""

from __future__ import annotations

from itertools import product

import pytest

from check_cases import covering

Values = frozenset[tuple[str, object]]


def cases(*counts: int) -> list[Values]:
    """All combinations of parameters that have so many values, the last one fastest."""
    names = "abc"[: len(counts)]
    return [frozenset(zip(names, numbers, strict=True)) for numbers in product(*map(range, counts))]


@pytest.mark.parametrize("right", ["i8", "i16", "i32"])
@pytest.mark.parametrize("left", ["i8", "i16", "i32"])
def test_cases_of_two_parameters(left: str, right: str, request: pytest.FixtureRequest) -> None:
    """The diagonal is quick; what stands between its ends is spared."""
    assert (request.node.get_closest_marker("slow") is None) == (left == right)
    assert (request.node.get_closest_marker("spared") is not None) == (left == right == "i16")


def test_one_parameter_keeps_all_values() -> None:
    assert covering(cases(4)) == {0, 1, 2, 3}


def test_two_parameters_take_the_diagonal() -> None:
    assert covering(cases(3, 3)) == {0, 4, 8}


def test_values_that_are_left_come_with_any_other() -> None:
    assert covering(cases(2, 4)) == {0, 5, 2, 3}
    assert covering(cases(4, 2)) == {0, 3, 4, 6}


def test_every_value_is_there_when_cases_are_missing() -> None:
    """As where some are marked slow already, or values stand in no product."""
    some = [case for number, case in enumerate(cases(3, 4, 2)) if number % 5]
    chosen = covering(some)
    assert frozenset().union(*(some[number] for number in chosen)) == frozenset().union(*some)
    assert len(chosen) <= 6
