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
        chosen = covering([item.callspec.indices for item in cases])
        for number, item in enumerate(cases):
            if number not in chosen:
                item.add_marker(pytest.mark.slow)


def covering(cases: Sequence[dict[str, int]]) -> set[int]:
    """The numbers of the cases to run.

    Args:
        cases: by parameter, the number of its value.

    Returns:
        first the cases all of whose values are new, then those with any value that is still missing.
    """
    seen: set[tuple[str, int]] = set()
    chosen = set()
    for is_wanted in (frozenset.isdisjoint, lambda values, seen: not values <= seen):
        for number, case in enumerate(cases):
            values = frozenset(case.items())
            if is_wanted(values, seen):
                chosen.add(number)
                seen |= values
    return chosen
