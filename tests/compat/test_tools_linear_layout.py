"""`triton.tools.LinearLayout`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright.compat.linear_layout import LinearLayout

TILE = LinearLayout.from_bases(
    [("register", [[0, 1]]), ("lane", [[0, 2], [1, 0], [2, 0]]), ("warp", [[4, 0]]), ("block", [])], ["dim0", "dim1"]
)
HOLES = LinearLayout.strided_1d(4, 2, "lane", "at")


def test_what_it_has() -> None:
    assert TILE.bases[1] == ("lane", [[0, 2], [1, 0], [2, 0]])
    assert TILE.out_dims == [("dim0", 8), ("dim1", 4)]
    assert (TILE.num_in_dims, TILE.num_out_dims) == (4, 2)
    assert TILE.get_in_dim_names() == ["register", "lane", "warp", "block"]
    assert TILE.get_out_dim_names() == ["dim0", "dim1"]
    assert (
        repr(LinearLayout.identity_1d(4, "a", "b"))
        == "\n - a=1 -> (1)\n   a=2 -> (2)\nwhere out dims are: [b (size 4)]"
    )


def test_what_it_computes() -> None:
    assert TILE.apply({"register": 1, "lane": 7, "warp": 1, "block": 0}) == {"dim0": 7, "dim1": 3}
    assert HOLES.apply({"lane": 3}) == {"at": 6}
    assert HOLES.get_matrix_view() == [[0, 0], [1, 0], [0, 1]]
    assert (HOLES.is_injective(), HOLES.is_surjective(), HOLES.is_invertible()) == (True, False, False)
    zeros = LinearLayout.zeros_1d(4, "lane", "at")
    assert (zeros.is_injective(), zeros.is_surjective()) == (False, True)


def test_layouts_of_layouts() -> None:
    square = LinearLayout.identity_1d(4, "a", "x") * LinearLayout.identity_1d(2, "a", "y")
    assert square.apply({"a": 5}) == {"x": 1, "y": 1}
    assert square.invert().apply({"x": 1, "y": 1}) == {"a": 5}
    assert square.compose(square.invert()) == LinearLayout.from_bases([("a", [[1], [2], [4]])], ["a"])
    swapped = LinearLayout.from_bases([("b", [[0, 1], [1, 0], [2, 0]])], ["x", "y"])
    there = square.invert_and_compose(swapped)
    assert all(swapped.apply(there.apply({"a": a})) == square.apply({"a": a}) for a in range(8))
    doubled = LinearLayout.from_bases([("a", [[1], [0]])], ["x"])
    assert doubled.compose(doubled.pseudoinvert()).apply({"a": 3}) == {"a": 1}
    assert len({square, square * LinearLayout()}) == 1


@pytest.mark.quick
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: LinearLayout.identity_1d(3, "a", "b"), "power of two, and 3"),
        (lambda: LinearLayout.zeros_1d(4, "a", "b", 3), "size of an output"),
        (lambda: LinearLayout.from_bases([("a", [[1, 2]])], ["x"]), r"\[1, 2\] does not"),
        (lambda: LinearLayout.from_bases([("a", [[4]])], ["x"]), "does not reach every value"),
        (lambda: LinearLayout.from_bases([("a", [[4]])], ["x"], [4], False), "leaves an output of size 4"),
        (lambda: LinearLayout.from_bases([("a", [[1]])], ["x"], [2, 2]), "1 outputs and 2 sizes"),
        (lambda: TILE.apply({"lane": 1}), "the inputs are block, lane, register, warp, and these are lane"),
        (lambda: TILE.compose(HOLES), "the other's inputs"),
        (lambda: HOLES.invert(), "copies or holes"),
        (lambda: HOLES.pseudoinvert(), "with holes"),
        (lambda: TILE.invert_and_compose(HOLES), "same outputs"),
    ],
)
def test_what_makes_no_layout(wrong: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()
