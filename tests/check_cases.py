"""The tests and cases that `make check` runs: neither those marked slow, nor those marked spared.

    @pytest.mark.parametrize("right", ["i8", "i16", "i32"])
    @pytest.mark.parametrize("left", ["i8", "i16", "i32"])
    def test_sum(left: str, right: str) -> None: ...

has nine cases. As few as show every value of every parameter, i8-i8, i16-i16 and i32-i32, are not slow. `make
check` runs the first and the last of them: i8-i8 and i32-i32. The others are spared.

Tests and values that take seconds are marked slow where they stand. Those that take half a second, or start a process
although another test of their subject does, are marked spared: one test of Ctrl-C is run, one of locks, one of a fork.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest


def mark_cases(items: Iterable[pytest.Item]) -> None:
    """Mark as slow the cases with nothing but values that others have, and as spared those between two of the rest."""
    functions: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in functions.values():
        chosen = covering([values_of(item) for item in cases])
        for number, item in enumerate(cases):
            if number not in chosen:
                item.add_marker(pytest.mark.slow)
            elif number not in (min(chosen), max(chosen)):
                item.add_marker(pytest.mark.spared)


def values_of(item: pytest.Function) -> frozenset[tuple[str, object]]:
    """The parameters of a case with their values; what has no hash, such as an array, counts by its identity."""
    found = set()
    for name, value in item.callspec.params.items():
        try:
            hash(value)
        except TypeError:
            value = id(value)
        found.add((name, value))
    return frozenset(found)


def covering(cases: Sequence[frozenset[tuple[str, object]]]) -> set[int]:
    """The numbers of the cases that are not slow.

    Args:
        cases: the values of each, with the names of their parameters.

    Returns:
        first the cases all of whose values are new, then those with any value that is still missing.
    """
    seen: set[tuple[str, object]] = set()
    chosen = set()
    for is_wanted in (frozenset.isdisjoint, lambda values, seen: not values <= seen):
        for number, values in enumerate(cases):
            if is_wanted(values, seen):
                chosen.add(number)
                seen |= values
    return chosen
