"""Tables of integers by index, against arrays of all elements."""

from __future__ import annotations

from itertools import product as pairs

import numpy as np
import pytest

from tilewright.analysis.index_tables import (
    ENUMERATED,
    Table,
    broadcast,
    expand_dims,
    from_array,
    plus,
    product,
    reshape,
    same_table,
    times,
    to_array,
    transpose,
    uniform,
)
from tilewright.analysis.integer_forms import LARGEST, MAX_TERMS, Form, is_small

pytestmark = pytest.mark.quick

ROW, COLUMN = np.arange(8)[:, None], np.arange(4)[None, :]
ARRAYS = {
    "zero": np.zeros((8, 4), int),
    "uniform": np.full((8, 4), -7),
    "rows": 64 * ROW + 0 * COLUMN,
    "columns": 3 - 5 * COLUMN + 0 * ROW,
    "both": 12 * ROW + 4 * COLUMN + 9,
    "halved": ROW // 2 + 6 * COLUMN,
    "halved_down": -(ROW // 2) - 6 * COLUMN,
    "squares": (ROW + COLUMN) ** 2 - 5,
    "late": np.where((ROW == 7) & (COLUMN == 3), 10, 0),
}
TABLES = {name: from_array(array) for name, array in ARRAYS.items()}


def check(table: Table | None, array: np.ndarray) -> None:
    """All that a table says of itself is true of the elements."""
    assert table is not None
    np.testing.assert_array_equal(to_array(table), array)
    assert table.shape == array.shape
    low, high = table.interval
    assert low <= array.min() <= array.max() <= high
    assert table.size >= np.abs(array).max()
    assert table.is_uniform == (array == array.flat[0]).all()
    assert table.is_zero == (not array.any())
    assert table.divisor == np.gcd.reduce(array - table.first, axis=None)
    assert table.rest is None or (table.rest.any() and not table.rest.flat[0])


@pytest.mark.parametrize("name", ARRAYS)
def test_one_table(name: str) -> None:
    table, array = TABLES[name], ARRAYS[name]
    check(table, array)
    check(transpose(table, (1, 0)), array.T)
    check(reshape(table, (4, 8)), array.reshape(4, 8))
    check(reshape(table, (2, 2, 8)), array.reshape(2, 2, 8))
    for factor in (0, 1, -3):
        check(times(table, factor), array * factor)
    for axis in range(3):
        check(expand_dims(table, axis), np.expand_dims(array, axis))
    wide = broadcast(expand_dims(table, 1), (8, 5, 4))
    check(wide, np.broadcast_to(array[:, None], (8, 5, 4)))
    check(broadcast(table, (2, 8, 4)), np.broadcast_to(array, (2, 8, 4)))
    assert (table.rest is None) == (name not in ("halved", "halved_down", "squares", "late"))


@pytest.mark.quick
@pytest.mark.parametrize(("left", "right"), [*pairs(ARRAYS, ARRAYS)])
def test_two_tables(left: str, right: str) -> None:
    """Terms that cancel leave no rest, so that sums are known to be equal."""
    a, b = TABLES[left], TABLES[right]
    check(plus(a, b), ARRAYS[left] + ARRAYS[right])
    check(product(a, b), ARRAYS[left] * ARRAYS[right])
    check(plus(plus(a, b), times(b, -1)), ARRAYS[left])
    assert same_table(a, b) == (left == right)


def test_axes_of_one_element_have_no_step() -> None:
    assert from_array(np.array([[[3, 7, 11]], [[4, 8, 12]]])) == Table((2, 1, 3), 3, (1, 0, 4))


def test_tables_with_equal_rests_are_the_same() -> None:
    array = ARRAYS["squares"]
    assert same_table(from_array(array), from_array(array))
    changed = array + (ARRAYS["late"] > 0)
    assert not same_table(from_array(array), from_array(changed))


def test_intervals_and_divisors_are_exact_without_a_rest() -> None:
    table = Table((8, 4), 3, (-2, 6))
    assert (table.interval, table.size, table.divisor) == ((3 - 14, 3 + 18), 21, 2)
    assert (uniform(-5, (4,)).interval, uniform(-5).size, uniform(-5).divisor) == ((-5, -5), 5, 0)
    assert uniform(4).shape == ()
    assert from_array(np.array(9)) == Table((), 9, ())


def test_large_tables_are_not_enumerated() -> None:
    large, small = Table((ENUMERATED, 2), 0, (1, 1)), Table((ENUMERATED // 2, 2), 0, (1, 1))
    assert product(large, large) is None
    assert reshape(large, (2 * ENUMERATED,)) is None
    check(product(small, small), to_array(small) ** 2)
    check(reshape(small, (ENUMERATED,)), to_array(small).ravel())
    check(product(large, uniform(3, large.shape)), 3 * to_array(large))
    check(product(uniform(3, large.shape), large), 3 * to_array(large))
    check(reshape(uniform(3, large.shape), (2, ENUMERATED)), np.full((2, ENUMERATED), 3))


@pytest.mark.parametrize(
    ("terms", "number", "small"),
    [
        (1, LARGEST - 1, True),
        (1, 1 - LARGEST, True),
        (1, LARGEST, False),
        (1, -LARGEST, False),
        (MAX_TERMS, 1, True),
        (MAX_TERMS + 1, 1, False),
    ],
)
def test_forms_that_are_short_and_small(terms: int, number: int, small: bool) -> None:
    tables = {(count,): uniform(number, (2,)) for count in range(terms)}
    assert is_small(Form((2,), tables)) == small
