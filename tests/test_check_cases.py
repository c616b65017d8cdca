"""`make check` runs every value of every parameter of a test, in few cases."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from check_cases import covering


def cases(*counts: int) -> list[dict[str, int]]:
    """All combinations of parameters that have so many values, the last one fastest."""
    names = "abc"[: len(counts)]
    return [dict(zip(names, numbers, strict=True)) for numbers in product(*map(range, counts))]


def values(chosen: Iterable[dict[str, int]]) -> set[tuple[str, int]]:
    return {value for case in chosen for value in case.items()}


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
    assert {item for number in chosen for item in some[number].items()} == {
        item for case in some for item in case.items()
    }
    assert len(chosen) <= 6
