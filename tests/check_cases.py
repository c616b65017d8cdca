"""Which cases of a test `make check` runs: as few as show every value of every parameter.

    @pytest.mark.parametrize("right", ["i8", "i16", "i32"])
    @pytest.mark.parametrize("left", ["i8", "i16", "i32"])
    def test_sum(left: str, right: str) -> None: ...

has nine cases, of which `make check` runs i8-i8, i16-i16 and i32-i32. The others count as slow. Tests and values that
take long in themselves are marked slow where they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest


def mark_repeated_values_as_slow(items: Iterable[pytest.Item]) -> None:
    """Mark the cases that `make check` leaves out."""
    functions: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in functions.values():
        chosen = covering([values_of(item) for item in cases])
        for number, item in enumerate(cases):
            if number not in chosen:
                item.add_marker(pytest.mark.slow)


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
    """The numbers of the cases to run.

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
