"""Blocked layouts chosen for shapes, and those next to them."""

from __future__ import annotations

import pytest

from tilewright.layouts.blocked import (
    Workers,
    default_blocked,
    fill,
    is_split_by_thread,
    joined,
    split,
    split_over_ctas,
    transposed,
    with_dim,
)
from tilewright.layouts.encodings import Blocked
from tilewright.layouts.keys import Bases
from tilewright.layouts.walk import shape_of_block


@pytest.mark.quick
@pytest.mark.parametrize(
    ("shape", "workers", "expected"),
    [
        ((64,), Workers(4), Blocked((1,), (32,), (4,), (0,))),
        ((64, 64), Workers(4), Blocked((1, 1), (1, 32), (2, 2), (1, 0))),
        ((64, 1), Workers(4), Blocked((1, 1), (32, 1), (4, 1), (1, 0))),
        ((4, 4, 4), Workers(4), Blocked((1, 1, 1), (2, 4, 4), (4, 1, 1), (2, 1, 0))),
        ((1, 1), Workers(8), Blocked((1, 1), (32, 1), (8, 1), (1, 0))),
        ((64,), Workers(4, 64), Blocked((1,), (64,), (4,), (0,))),
        ((64, 2), Workers(2, ctas=4), Blocked((1, 1), (16, 2), (2, 1), (1, 0), ((1, 0), (2, 0)))),
        ((2,), Workers(2, ctas=4), Blocked((1,), (32,), (2,), (0,), ((1,), (0,)))),
    ],
)
def test_default(shape: tuple[int, ...], workers: Workers, expected: Blocked) -> None:
    assert default_blocked(shape, workers) is expected


def test_filling_starts_with_the_fastest_dimension() -> None:
    assert fill((64, 64), (1, 8), (1, 0), Workers(4)) is Blocked((1, 8), (4, 8), (4, 1), (1, 0))
    assert fill((64, 64), (4, 1), (0, 1), Workers(4)) is Blocked((4, 1), (16, 2), (1, 4), (0, 1))


def test_part_of_a_cta() -> None:
    assert shape_of_block((64, 2), ((1, 0), (2, 0), (0, 0))) == (16, 2)
    assert shape_of_block((1, 2), ((1, 0),)) == (1, 2)


def test_neighbours() -> None:
    layout = Blocked((1, 4), (2, 16), (4, 1), (1, 0), ((1, 0),))
    assert split(joined(layout)) is layout
    assert is_split_by_thread(joined(layout))
    assert not is_split_by_thread(layout)
    assert transposed(layout, (1, 0)) is Blocked((4, 1), (16, 2), (1, 4), (0, 1), ((0, 1),))
    assert transposed(transposed(layout, (1, 0)), (1, 0)) is layout
    assert with_dim(layout, 1) is Blocked((1, 1, 4), (2, 1, 16), (4, 1, 1), (0, 1, 2), ((1, 0, 0),))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("shape", "size", "order", "blocks", "bases"),
    [
        ((4, 64), (2, 4), (1, 0), 1, ()),
        ((4, 64), (2, 4), (1, 0), 2, ((1, 0),)),
        ((4, 64), (2, 4), (1, 0), 8, ((0, 1), (0, 2), (1, 0))),
        ((4, 64), (2, 4), (0, 1), 8, ((0, 1), (0, 2), (0, 4))),
        ((2, 4), (2, 2), (1, 0), 8, ((0, 1), (0, 0), (0, 0))),
        ((2, 4), (4, 8), (0, 1), 2, ((0, 0),)),
    ],
)
def test_a_tile_is_divided_among_blocks(
    shape: tuple[int, ...], size: tuple[int, ...], order: tuple[int, ...], blocks: int, bases: Bases
) -> None:
    """Its slowest dimension first, as far as threads have something to do; further blocks have copies."""
    assert split_over_ctas(shape, size, order, blocks) == bases
