"""`.reduce`: a fold along axes."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from expressions import function

import tilewright as tw

add = tw.vectorize(function("a + b"))
largest = tw.vectorize(function("max(a, b)"))
VALUES = np.arange(5 * 6 * 40).reshape(5, 6, 40) * 7919 % 1000


@pytest.mark.parametrize("axis", [0, 1, -1, None, (0, 2), (1, 2)])
def test_axes(axis: Any) -> None:
    for keepdims in (False, True):
        expected = np.add.reduce(VALUES, axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(add.reduce(VALUES, axis=axis, keepdims=keepdims), expected)
    found = largest.reduce(VALUES[:, ::-2].transpose(2, 0, 1), axis=axis)
    np.testing.assert_array_equal(found, np.maximum.reduce(VALUES[:, ::-2].transpose(2, 0, 1), axis=axis))


def test_order_is_from_first_to_last() -> None:
    halves = tw.vectorize(function("a / 2 + b"))
    values = np.random.default_rng(0).random(101)
    assert halves.reduce(values) == reduce(lambda a, b: a / 2 + b, values.tolist())
    assert halves.reduce(values, initial=3.0) == reduce(lambda a, b: a / 2 + b, values.tolist(), 3.0)


def test_dtype_is_what_the_function_settles_on() -> None:
    assert add.reduce(np.ones(3, np.float32)).dtype == np.float32
    assert tw.vectorize(function("a + b / 2")).reduce(np.array([1, 2, 3])) == 1 + 2 / 2 + 3 / 2


def test_out_and_empty() -> None:
    target = np.zeros(6)
    assert add.reduce(VALUES[0], axis=1, out=target) is target
    np.testing.assert_array_equal(target, VALUES[0].sum(1))
    assert add.reduce(np.zeros((3, 0)), axis=1, initial=2.0).tolist() == [2.0] * 3
    assert add.reduce(np.zeros((0, 3)), axis=1).shape == (0,)
    with pytest.raises(ValueError, match="zero-size"):
        add.reduce(np.zeros(0))
    with pytest.raises(ValueError, match="two arguments"):
        tw.vectorize(function("-a", "a")).reduce(np.zeros(3))
    with pytest.raises(ValueError, match="axis 3"):
        add.reduce(np.zeros(3), axis=3)
