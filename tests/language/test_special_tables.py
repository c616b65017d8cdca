"""The tables of the error and gamma functions are what their script prints."""

from __future__ import annotations

import pytest

from tilewright.language.extra import special_tables


@pytest.mark.slow
def test_tables_are_the_fits() -> None:
    """The degree of a table is the first that is exact enough: the one before is tried, and is not."""
    from special_fits import TABLES

    for name, (_, way, *function_and_ends) in TABLES.items():
        table = list(getattr(special_tables, name))
        assert way(*function_and_ends, range(len(table) - 2, len(table))) == table, name
