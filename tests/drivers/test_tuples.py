"""Tuples as arguments of native launches: what they share a specialisation with, and where their elements end up."""

from __future__ import annotations

import gc
import random
import sys
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from driver_kernels import COPY_SLOTS, entry

from tilewright.runtime.drivers.cpu.launcher import Miss, NativeKernel, Specialization, is_native
from tilewright.runtime.drivers.cpu.records import Parameter, Slot

pytestmark = pytest.mark.skipif(not is_native(), reason="there is no native launcher here")

Pair = namedtuple("Pair", "left right")
Couple = namedtuple("Couple", "left right")


class Reversed(tuple[Any, ...]):
    __slots__ = ()

    def __iter__(self) -> Any:
        return reversed(tuple(self[:]))


def recording(slots: tuple[Slot, ...] = (), **options: Any) -> tuple[NativeKernel, list[Miss | None]]:
    """A kernel that is installed for whatever it gets, and what Python was told of its slow calls."""
    misses: list[Miss | None] = []

    def slow(grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any], miss: Miss | None) -> object:
        misses.append(miss)
        kernel.install(miss, Specialization(entry(COPY_SLOTS), str(len(misses)), slots))
        return str(len(misses))

    kernel = NativeKernel([Parameter("out"), Parameter("x", **options)], slow)
    return kernel, misses


def slow_calls(*values: Any, **options: Any) -> int:
    """The number of launches with these values, one after the other and twice, that went to Python."""
    out = np.zeros(6, np.int64)
    kernel, misses = recording((Slot(0, "*i64"),), **options)
    for _ in range(2):
        for value in values:
            kernel[(1,)](out, value)
    return len(misses)


SAME = [
    ((np.int32(3), np.float16(2.5)), (np.int64(5), 0.5)),
    ((32, 2.5), (64, -1.0)),
    ((3, (5, 7.0)), (4, (9, 8.0))),
    (Pair(2, 3), Pair(4, 5)),
    ((None, True), (None, False)),
    ((np.zeros(1), 2**40), (np.ones(1), 2**41)),
    ((), ()),
]
DIFFERENT = [
    ((np.int32(3),), (np.float32(3),)),
    ((np.int32(16),), (np.int32(17),)),
    ((32, 2.5), (33, 2.5)),
    ((32, 2.5), (1, 2.5)),
    ((3, 5), (3, 2**40)),
    ((3, 5), (3, 2**63)),
    ((3, 5), (3, 5.0)),
    ((3, 5), (3, None)),
    ((3, 5), (3, 5, 7)),
    ((3, 5), ((3, 5),)),
    (((3,), 5), ((3, 5),)),
    ((3, 5), Pair(3, 5)),
    (Pair(3, 5), Couple(3, 5)),
    ((np.zeros(1),), (np.zeros(1, np.float32),)),
    ((), ((),)),
]


@pytest.mark.quick
@pytest.mark.parametrize(("left", "right"), SAME, ids=str)
def test_these_share_a_specialisation(left: Any, right: Any) -> None:
    assert slow_calls(left, right) == 1


@pytest.mark.quick
@pytest.mark.parametrize(("left", "right"), DIFFERENT, ids=str)
def test_these_do_not(left: Any, right: Any) -> None:
    assert slow_calls(left, right) == 2


def test_elements_are_specialised_as_their_parameter_is() -> None:
    assert slow_calls((32, 4), (33, 4), by_alignment=False) == 1
    assert slow_calls((1, 3), (7, 3), by_value=False) == 1
    assert slow_calls((1, 3), (7, 3), by_alignment=False) == 2


def test_constant_tuples_are_compared_by_value() -> None:
    assert slow_calls((32, 2.5), tuple(iter((32, 2.5))), is_constant=True) == 1
    assert slow_calls((32, 2.5), (33, 2.5), is_constant=True) == 2
    assert slow_calls((1, "a"), (1.0, "a"), (True, "a"), is_constant=True) == 3
    many = tuple(range(1000))
    assert slow_calls(many, (many, many), is_constant=True) == 2


@pytest.mark.quick
@pytest.mark.parametrize("value", [([3],), (1, (2, object())), Reversed((1, 2)), tuple(range(65))])
def test_what_only_python_can_read_goes_there_each_time(value: Any) -> None:
    assert slow_calls(value) == 2


def test_as_many_elements_as_fit() -> None:
    assert slow_calls(tuple(range(2, 66))) == 1
    assert slow_calls(tuple((i,) for i in range(2, 34))) == 1
    assert slow_calls(tuple((i,) for i in range(2, 35))) == 2


def test_elements_fill_slots() -> None:
    out = np.zeros(6, np.int64)
    slots = (
        Slot(0, "*i64"),
        Slot(1, "i32", (2, 1)),
        Slot(1, "fp64", (0,)),
        Slot(1, "*i64", (2, 0)),
        Slot(1, "i1", (1,)),
    )
    kernel, misses = recording(slots)
    kernel[(2,)](out, (0.5, True, (out, 7)))
    kernel[(2,)](out, (1.5, False, (out, 9)))

    assert len(misses) == 1
    assert out[2:].tolist() == [9, np.float64(1.5).view(np.int64), out.ctypes.data, 0]


def test_a_slot_that_is_no_element_is_not_installed() -> None:
    kernel, misses = recording((Slot(0, "*i64"), Slot(1, "i32")))
    for _ in range(2):
        kernel[(1,)](np.zeros(6, np.int64), (1, 2))
    assert len(misses) == 2


@pytest.mark.usefixtures("small_heap")
def test_references_are_neither_lost_nor_kept() -> None:
    kernel, _ = recording((Slot(0, "*i64"),))
    out, block = np.zeros(6, np.int64), int("99999")
    pair = Pair(out, (block, 2.5))
    kernel[(1,)](out, pair)
    gc.collect()
    objects = [out, block, pair, Pair, pair.right, tuple, out.dtype]
    before = [sys.getrefcount(value) for value in objects]
    for _ in range(5_000):
        kernel[(1,)](out, pair)
        kernel[(1,)](out, Pair(out, (block, 3.5)))
    assert [sys.getrefcount(value) for value in objects] == pytest.approx(before, abs=10)


def test_random_tuples() -> None:
    """Every shape of argument gets the result of the launch that had that shape first."""
    chance = random.Random(7)
    out = np.zeros(6, np.int64)

    def argument(depth: int) -> tuple[Any, Any]:
        """An argument, and what a specialisation may know of it."""
        kind = chance.choice(["even", "odd", "one", "float", "none", "tuple", "pair"][: 7 if depth < 3 else 5])
        if kind == "tuple":
            parts = [argument(depth + 1) for _ in range(chance.randrange(4))]
            return tuple(value for value, _ in parts), ("tuple", *(known for _, known in parts))
        if kind == "pair":
            parts = [argument(depth + 1) for _ in range(2)]
            return Pair(*(value for value, _ in parts)), ("pair", *(known for _, known in parts))
        odd = 2 * chance.randrange(1, 99) + 1
        return {"even": 16 * odd, "odd": odd, "one": 1, "float": odd / 4, "none": None}[kind], kind

    kernel, misses = recording((Slot(0, "*i64"),))
    first: dict[Any, Any] = {}
    for _ in range(2000):
        value, known = argument(0)
        result = kernel[(1,)](out, value)
        assert first.setdefault(known, result) == result, value
    assert len(misses) == len(first) > 100
