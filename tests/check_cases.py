"""The cases that `make test` runs, those not marked long, and those that `make check` does: neither slow nor spared.

    @pytest.mark.parametrize("right", ["i8", "i16", "i32"])
    @pytest.mark.parametrize("left", ["i8", "i16", "i32"])
    def test_sum(left: str, right: str) -> None: ...

has nine cases. As few as show every value of every parameter, i8-i8, i16-i16 and i32-i32, are not slow. `make
check` runs the first and the last of them: i8-i8 and i32-i32. The others are spared, unless the test is marked quick:
then each case takes a millisecond or few, as rows of tables do.

A test with three or more lists of parameters has as few cases in `make test` as show every pair of values of any two of
them; the others are long. Values in a row of one list stay together, so a test that needs all combinations has them in
one list.

Source: D. Kuhn, D. Wallace and A. Gallo, Software Fault Interactions and Implications for Software Testing, 2004:
nearly all faults of the programs that they looked at show with two values.

Tests and values that take seconds are marked slow where they stand. Those that take half a second, or start a process
although another test of their subject does, are marked spared: one test of Ctrl-C is run, one of locks, one of a fork.
What only one test runs is not spared: `tests/mutation/check_mutants.py --marks` lists what a choice leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import pytest

from long_runs import LONG
from optional_peers import PEERS

CONDITIONS = {*PEERS, "skip", "skipif", "xfail"}
"""Marks without which a case runs elsewhere, or ends in another way."""


def mark_cases(items: Iterable[pytest.Item]) -> None:
    """Mark as long the cases without a new pair, as slow those without a new value, and as spared those between."""
    cases = [item for item in items if isinstance(item, pytest.Function) and hasattr(item, "callspec")]
    _mark_long([item for item in cases if not item.get_closest_marker("long")])
    _mark_slow([item for item in cases if not item.get_closest_marker("slow")])


def _mark_long(cases: Iterable[pytest.Function]) -> None:
    """Mark as long the cases with nothing but pairs that others have, which run and skip where they do."""
    alike: dict[tuple[str, ...], list[pytest.Function]] = {}
    for item in cases:
        conditions = (mark.name for mark in item.own_markers if mark.name in CONDITIONS)
        alike.setdefault((_function(item), *conditions), []).append(item)
    for those in alike.values():
        if len(rows := rows_of(those[0])) < 3:
            continue
        chosen = covering([pairs_of(values_of(item, rows)) for item in those])
        for number in {*range(len(those))} - chosen:
            for mark in LONG:
                those[number].add_marker(mark)


def _mark_slow(cases: Iterable[pytest.Function]) -> None:
    """Mark as slow the cases with nothing but values that others have, and as spared those between two of the rest."""
    functions: dict[str, list[pytest.Function]] = {}
    for item in cases:
        functions.setdefault(_function(item), []).append(item)
    for those in functions.values():
        chosen = covering([values_of(item) for item in those])
        for number, item in enumerate(those):
            if number not in chosen:
                item.add_marker(pytest.mark.slow)
            elif number not in (min(chosen), max(chosen)) and not item.get_closest_marker("quick"):
                item.add_marker(pytest.mark.spared)


def _function(item: pytest.Function) -> str:
    return item.nodeid.partition("[")[0]


def rows_of(item: pytest.Function) -> list[tuple[str, ...]]:
    """The names of the parameters, those together whose values stand together in a row."""
    left = {*item.callspec.params}
    found = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        found.append(tuple(name.strip() for name in names))
        left -= {*found[-1]}
    return [*found, *((name,) for name in sorted(left))]


def values_of(item: pytest.Function, rows: Iterable[tuple[str, ...]] | None = None) -> frozenset[tuple[object, object]]:
    """The parameters of a case, or rows of them, with their values; what has no hash counts by its identity."""
    params = item.callspec.params
    names = ((name,) for name in params) if rows is None else rows
    return frozenset((row, tuple(_hashable(params[name]) for name in row)) for row in names)


def _hashable(value: object) -> object:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def pairs_of(values: frozenset[Any]) -> frozenset[object]:
    """All pairs of values of two parameters."""
    return frozenset(map(frozenset, combinations(values, 2)))


def covering(cases: Sequence[frozenset[Any]]) -> set[int]:
    """The numbers of few cases that together have everything that any of them has.

    Args:
        cases: what each has: parameters with their values, or pairs of these.

    Returns:
        first the cases all of whose values are new, then those with all but one, and so on.
    """
    seen: set[Any] = set()
    chosen = set()
    for least in range(max(map(len, cases), default=0), 0, -1):
        for number, values in enumerate(cases):
            if len(values - seen) >= least:
                chosen.add(number)
                seen |= values
    return chosen
