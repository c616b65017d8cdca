"""The lanes that hold a matrix operand: every element once, in the places that NVIDIA's figures show."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.backends.ptxsim.mma import (
    accumulator,
    first_operand,
    gather,
    scale_lanes,
    second_operand,
    spread,
)

SHAPES = ((8, 4, 64), (16, 4, 64), (16, 8, 64), (16, 16, 64), (16, 4, 32), (16, 8, 32), (16, 8, 16), (16, 16, 16))
NARROW = ((8, 16, 8), (16, 16, 8), (16, 32, 8), (8, 32, 4), (16, 32, 4), (16, 64, 4), (8, 128, 1), (16, 256, 1))


@pytest.mark.quick
@pytest.mark.parametrize(("rows", "depth", "bits"), SHAPES + NARROW)
def test_operands_are_held_once(rows: int, depth: int, bits: int) -> None:
    for row, place in (first_operand(rows, depth, bits), second_operand(8, depth, bits)[::-1]):
        count = rows if row.max() >= 8 else 8
        assert sorted((row * depth + place).ravel()) == list(range(count * depth))


@pytest.mark.quick
@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (16, 8), (16, 64), (16, 256)])
def test_accumulators_are_held_once(rows: int, columns: int) -> None:
    row, column = accumulator(rows, columns)
    assert sorted((row * columns + column).ravel()) == list(range(rows * columns))


def test_places_of_m16n8k16() -> None:
    row, place = first_operand(16, 16, 16)
    lane = 4 * 3 + 2
    assert [(int(r), int(k)) for r, k in zip(row[lane, :, 0], place[lane, :, 0], strict=True)] == [
        (3, 4),
        (11, 4),
        (3, 12),
        (11, 12),
    ]
    place, column = second_operand(8, 16, 16)
    assert (place[lane].ravel().tolist(), set(column[lane].ravel())) == ([4, 5, 12, 13], {3})
    row, column = accumulator(16, 8)
    assert (row[lane].tolist(), column[lane].tolist()) == ([3, 3, 11, 11], [4, 5, 4, 5])


def test_places_of_f64_and_bits() -> None:
    row, place = first_operand(16, 8, 64)
    assert (row[5].ravel().tolist(), place[5].ravel().tolist()) == ([1, 9, 1, 9], [1, 1, 5, 5])
    _, place = first_operand(16, 256, 1)
    assert place[1, 2].tolist() == list(range(160, 192))


def test_spread_and_gather() -> None:
    row, column = accumulator(16, 8)
    values = np.arange(2 * 32 * 4).reshape(2, 32, 4)
    matrices = spread(values, row, column, (16, 8))
    assert matrices[1, 8, 1] == values[1, 0, 3]
    assert (gather(matrices, row, column) == values).all()


def test_scales_of_rows_and_columns() -> None:
    assert scale_lanes(16, 0).tolist() == [*range(0, 32, 4), *range(1, 32, 4)]
    assert scale_lanes(16, 1).tolist() == [*range(2, 32, 4), *range(3, 32, 4)]
    assert scale_lanes(8, 3).tolist() == list(range(3, 32, 4))
