"""Classes of values in kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.language.aggregates import aggregate, aggregate_replace
from tilewright.semantics.constexpr import constexpr


@aggregate
class Pair:
    first: tl.tensor
    second: tl.tensor
    scale: tl.constexpr = 1

    @tw.jit
    def total(self):
        return (self.first + self.second) * self.scale


@aggregate
class Labelled(Pair):
    label: tl.constexpr = "none"


@tw.jit
def taken_apart(pair):
    return pair.total(), pair.first


@tw.jit
def kernel(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    pair = Labelled(tl.load(x + i), i, 3)
    for _ in range(2):
        pair = aggregate_replace(pair, second=pair.second + 1)
    total, first = taken_apart(pair)
    tl.store(out + i, total + first)


@pytest.mark.parametrize(
    "way", [{"frontend": name} for name in ("ast", "bytecode", "trace")] + [{"interpret": True}], ids=repr
)
def test_aggregates_go_through_functions_and_loops(way: dict[str, Any]) -> None:
    x = np.arange(8, dtype=np.int32)
    out = np.zeros_like(x)

    tw.jit(kernel.fn, **way)[(1,)](x, out, BLOCK=8)

    assert (out == (x + x + 2) * 3 + x).all()


def test_fields_come_in_order_with_the_defaults_of_the_class() -> None:
    @aggregate
    class State:
        x: tl.constexpr
        y: tl.constexpr = 7

    state = State(3)

    assert isinstance(state.x, constexpr)
    assert (state.x.value, state.y.value) == (3, 7)
    assert aggregate_replace(state, x=4).x.value == 4


def test_class_with_its_own_constructor_keeps_it() -> None:
    @aggregate
    class State:
        x: tl.constexpr

        def __init__(self, x: Any) -> None:
            self.x = tl.constexpr(x + 1)

    assert State(10).x.value == 11


@aggregate
class One:
    x: tl.constexpr

    def __init__(self, *args: Any) -> None:
        for value in args:
            self.x = value


class Plain:
    pass


def derived() -> None:
    @aggregate
    class Derived(Plain):
        x: tl.constexpr


@pytest.mark.quick
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: One(), AttributeError, "gave the field 'x' no value"),
        (lambda: One(1, 2), AttributeError, "cannot assign to field 'x' on immutable aggregate One"),
        (lambda: setattr(One(1), "y", 1), AttributeError, "has no field 'y'"),
        (lambda: Pair(1, 2), TypeError, "the field 'first' of Pair is a tensor, not a int"),
        (lambda: Pair(), TypeError, r"Pair.__init__\(\): missing a required argument: 'first'"),
        (lambda: aggregate_replace(One(1), z=1), TypeError, "One has no field 'z'"),
        (lambda: aggregate_replace(42, x=1), TypeError, "expects an aggregate instance"),
        (derived, TypeError, "Aggregates can only inherit from other aggregates"),
    ],
)
def test_wrong_use_is_refused(wrong: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wrong()


class Shape(NamedTuple):
    rows: Any
    columns: Any


@aggregate
class Box:
    shape: tl.tuple


def test_numbers_in_tuples_are_constants() -> None:
    box = Box(Shape(3, (tl.constexpr(4), 5)))

    assert isinstance(box.shape, tl.tuple)
    assert isinstance(box.shape.rows, constexpr)
    assert box.shape[0].value == 3
    assert [item.value for item in box.shape.columns] == [4, 5]
    assert isinstance(Box((1,)).shape, tl.tuple)
    with pytest.raises(TypeError, match="the field 'shape' of Box is a tuple, not a int"):
        Box(1)
