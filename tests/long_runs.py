"""Tests that draw programs or scan all numbers: `make test` takes a share of their parts, `make test-long` the rest.

    @pytest.mark.slow
    @pytest.mark.parametrize("block", first_of(100, 10))
    def test_many(block: int) -> None: ...
"""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

Item = TypeVar("Item")
LONG = (pytest.mark.slow, pytest.mark.long)


def first_of(count: int, short: int) -> list[Any]:
    """The parts 0 to `count` of a test: those from `short` on are long."""
    return [*range(short), *(pytest.param(part, marks=LONG, id=str(part)) for part in range(short, count))]


def share_of(items: list[Item], share: str) -> tuple[list[Item], list[Item]]:
    """Every tenth item from the fourth on for the share "3/10", and the others; all for ""."""
    first, _, step = share.partition("/")
    chosen = range(len(items))[int(first) :: int(step)] if share else range(len(items))
    return [items[n] for n in chosen], [item for n, item in enumerate(items) if n not in chosen]
