"""Tests that draw programs or scan all numbers: `make test` takes a share of their parts, `make test-long` the rest.

    @pytest.mark.slow
    @pytest.mark.parametrize("block", first_of(100, 10))
    def test_many(block: int) -> None: ...
"""

from __future__ import annotations

from typing import Any

import pytest

LONG = (pytest.mark.slow, pytest.mark.long)


def first_of(count: int, short: int) -> list[Any]:
    """The parts 0 to `count` of a test: those from `short` on are long."""
    return [*range(short), *(pytest.param(part, marks=LONG, id=str(part)) for part in range(short, count))]
