"""Gathers at a fixed distance: which expressions of indices have one, and which gathers may use it."""

from __future__ import annotations

import pytest

import tilewright.dialects  # noqa: F401 - the ops of the texts
from tilewright.analysis.gather_distance import distance_of_indices
from tilewright.dialects.tt_shape import Gather
from tilewright.ir.parser import parse_module

pytestmark = pytest.mark.quick

PLACES = "%i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>"


def distance(*lines: str, length: int = 8) -> int | None:
    body = "\n  ".join([PLACES, *lines])
    last = lines[-1].partition(" ")[0] if lines else "%i"
    gather = f"%r = tt.gather %x[{last}] {{axis = 0 : i32}} : (tensor<{length}xf32>, tensor<8xi32>) -> tensor<8xf32>"
    text = f"tt.func @f(%x: tensor<{length}xf32>, %n: i32) {{\n  {body}\n  {gather}\n  tt.return\n}}"
    return next(distance_of_indices(op) for op in parse_module(text).walk() if isinstance(op, Gather))


def xor(result: str, value: str, constant: int) -> list[str]:
    name = f"%c{result.removeprefix('%')}"
    return [
        f"{name} = arith.constant dense<{constant}> : tensor<8xi32>",
        f"{result} = arith.xori {value}, {name} : tensor<8xi32>",
    ]


@pytest.mark.parametrize(("constant", "expected"), [(0, 0), (4, 4), (7, 7), (-1, None), (8, None)])
def test_places_that_are_changed_by_a_constant(constant: int, expected: int | None) -> None:
    """Partners beyond the end do not exist."""
    assert distance(*xor("%p", "%i", constant)) == expected


def test_changes_add_up() -> None:
    assert distance(*xor("%p", "%i", 4), *xor("%q", "%p", 6)) == 2


def test_places_alone_are_no_distance_away() -> None:
    assert distance() == 0


def test_a_source_that_is_shorter_has_not_all_places() -> None:
    assert distance(*xor("%p", "%i", 1), length=16) == 1
    assert distance(*xor("%p", "%i", 1), length=4) is None


@pytest.mark.parametrize(
    "lines",
    [
        ("%p = tt.make_range {end = 9 : i32, start = 1 : i32} : tensor<8xi32>",),
        ("%s = tt.splat %n : i32 -> tensor<8xi32>", "%p = arith.xori %i, %s : tensor<8xi32>"),
        ("%p = arith.addi %i, %i : tensor<8xi32>",),
    ],
)
def test_places_that_are_no_fixed_distance_away(lines: tuple[str, ...]) -> None:
    assert distance(*lines) is None
