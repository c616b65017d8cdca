"""The tables of the error and gamma functions are what their script prints."""

from __future__ import annotations

import pytest

from tilewright.language.extra import special_tables


@pytest.mark.slow
def test_tables_are_the_fits() -> None:
    from special_fits import TABLES

    for name, (_, polynomial) in TABLES.items():
        assert list(getattr(special_tables, name)) == polynomial(), name
