"""Few cases show every value of every parameter of a test, or every pair; `make check` runs two of the first."""

from __future__ import annotations

from itertools import product

import pytest

from check_cases import covering, pairs_of, rows_of, values_of
from long_runs import share_of

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


@pytest.mark.quick
@pytest.mark.parametrize("row", ["first", "between", "last"])
def test_no_case_of_a_quick_test_is_spared(row: str, request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("spared") is None, row


@pytest.mark.parametrize(("third", "fourth"), [(0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("second", [0, 1])
@pytest.mark.parametrize("first", [0, 1])
def test_cases_of_three_lists(first: int, second: int, third: int, fourth: int, request: pytest.FixtureRequest) -> None:
    """Values in a row of the third list stay together: `make test` runs six of twelve cases."""
    rows = rows_of(request.node)
    assert {*rows} == {("first",), ("second",), ("third", "fourth")}
    assert (("third", "fourth"), (third, fourth)) in values_of(request.node, rows)
    name = request.node.nodeid.partition("[")[0]
    run = [item for item in request.session.items if item.nodeid.startswith(name)]
    assert len(run) == 6 or any(item.get_closest_marker("long") for item in run) or "[" in str(request.config.args)


@pytest.mark.parametrize(("counts", "least"), [((2, 2, 2), 4), ((3, 3, 3), 9), ((2, 3, 4), 12), ((4, 3, 2), 12)])
def test_every_pair_of_values_is_there(counts: tuple[int, ...], least: int) -> None:
    """In few more cases than two of the parameters have pairs."""
    everything = [pairs_of(case) for case in cases(*counts)]
    chosen = covering(everything)
    assert frozenset().union(*(everything[number] for number in chosen)) == frozenset().union(*everything)
    assert least <= len(chosen) <= least * 4 // 3


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


@pytest.mark.quick
@pytest.mark.parametrize(
    ("share", "expected"),
    [("", ["abcdefg", ""]), ("0/3", ["adg", "bcef"]), ("2/3", ["cf", "abdeg"]), ("9/10", ["", "abcdefg"])],
)
def test_a_share_of_the_tests(share: str, expected: list[str]) -> None:
    assert list(map("".join, share_of(list("abcdefg"), share))) == expected
