"""Integers where they are hard: least and largest numbers, -1, 0, wrapping, shifts past the width, mixed signs.

Machine code, both interpreters and NumPy give one answer. `//` and `%` round towards zero as in C, by zero they are 0;
a shift by the width or more leaves no bit, to the right nothing but the sign. A GPU has some number for a quotient by
zero, so it is not asked there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import agreement
import numpy as np
import pytest
from agreement import Array, agree, jit, quick_first

import tilewright as tw
import tilewright.language as tl
from tilewright.semantics.promotion import promote

SIGNED = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)
TYPES = (*SIGNED, *UNSIGNED)
COUNT = 256


def hard(dtype: Any) -> Array:
    """16 numbers of a type."""
    limits, bits = np.iinfo(dtype), np.dtype(dtype).itemsize * 8
    numbers = [
        0,
        1,
        2,
        3,
        7,
        bits - 1,
        bits,
        bits + 1,
        limits.max,
        limits.max - 1,
        limits.max // 2,
        limits.max // 2 + 1,
    ]
    low = [limits.min, limits.min + 1, -1, -7] if limits.min else [100, 97, 85, 10]
    return np.array([*numbers, *low], dtype)


def pairs(left: Any, right: Any) -> tuple[Array, Array]:
    """Each hard number of one type with each of the other."""
    x, y = np.meshgrid(hard(left), hard(right), indexing="ij")
    return x.reshape(-1).copy(), y.reshape(-1).copy()


def divisors(y: Array) -> Array:
    """The numbers by which this machine divides."""
    return np.where(y == 0, np.array(5, y.dtype), y) if agreement.GPU else y


def common(left: Any, right: Any) -> Any:
    kinds = (tl.dtype(np.dtype(kind).name) for kind in (left, right))
    return np.dtype(promote(*kinds).name)


def quotient(a: Array, b: Array) -> Array:
    """Rounded towards zero in exact integers; 0 by zero, wrapped."""
    exact = [
        0 if q == 0 else (abs(p) // abs(q)) * (1 if (p < 0) == (q < 0) else -1)
        for p, q in zip(*integers(a, b), strict=True)
    ]
    return wrapped(exact, a.dtype)


def remainder(a: Array, b: Array) -> Array:
    exact = [0 if q == 0 else (abs(p) % abs(q)) * (-1 if p < 0 else 1) for p, q in zip(*integers(a, b), strict=True)]
    return wrapped(exact, a.dtype)


def integers(a: Array, b: Array) -> tuple[list[int], list[int]]:
    return [int(p) for p in a], [int(q) for q in b]


def wrapped(exact: list[int], dtype: Any) -> Array:
    bits = dtype.itemsize * 8
    return np.array([value % 2**bits for value in exact], np.uint64).astype(f"u{dtype.itemsize}").view(dtype)


def exactly(operation: Callable[[int, int], int]) -> Callable[[Array, Array], Array]:
    return lambda a, b: wrapped([operation(p, q) for p, q in zip(*integers(a, b), strict=True)], a.dtype)


def shifted(operation: Callable[[int, int], int]) -> Callable[[Array, Array], Array]:
    """Amounts count as unsigned numbers."""

    def shift(a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        return wrapped(
            [operation(p, q if 0 <= q < bits else bits) for p, q in zip(*integers(a, b), strict=True)], a.dtype
        )

    return shift


@jit
def arithmetic(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a + b)
    tl.store(out + B + i, a - b)
    tl.store(out + 2 * B + i, a * b)
    tl.store(out + 3 * B + i, a & b)
    tl.store(out + 4 * B + i, a | b)
    tl.store(out + 5 * B + i, a ^ b)
    tl.store(out + 6 * B + i, tl.minimum(a, b))
    tl.store(out + 7 * B + i, tl.maximum(a, b))
    tl.store(out + 8 * B + i, a << b)
    tl.store(out + 9 * B + i, -a)
    tl.store(out + 10 * B + i, ~b)


EXPECTED: list[Callable[[Array, Array], Array]] = [
    exactly(lambda p, q: p + q),
    exactly(lambda p, q: p - q),
    exactly(lambda p, q: p * q),
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
    np.minimum,
    np.maximum,
    shifted(lambda p, q: p << q),
]


@pytest.mark.parametrize("right", quick_first(TYPES, (np.int32,)), ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("left", quick_first(TYPES, (np.int8, np.uint64)), ids=lambda kind: np.dtype(kind).name)
def test_operators(left: Any, right: Any) -> None:
    x, y = pairs(left, right)
    kind = common(left, right)
    found = agree(arithmetic, x, y, np.zeros(11 * COUNT, kind), B=COUNT)[2].reshape(11, COUNT)
    a, b = x.astype(kind), y.astype(kind)
    for row, expected in zip(found, EXPECTED, strict=False):
        np.testing.assert_array_equal(row, expected(a, b))
    np.testing.assert_array_equal(found[9], wrapped([-int(p) for p in x], x.dtype).astype(kind))
    np.testing.assert_array_equal(found[10], (~y).astype(kind))


@jit
def division(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a // b)
    tl.store(out + B + i, a % b)
    tl.store(out + 2 * B + i, a >> b)


DIVIDED = [(left, right) for kinds in (SIGNED, UNSIGNED) for left in kinds for right in kinds]


@pytest.mark.parametrize(
    "kinds",
    quick_first(DIVIDED, ((np.int32, np.int8),)),
    ids=lambda kinds: "-".join(np.dtype(kind).name for kind in kinds),
)
def test_division_and_shifts(kinds: tuple[Any, Any]) -> None:
    x, y = pairs(*kinds)
    y, kind = divisors(y), common(*kinds)
    found = agree(division, x, y, np.zeros(3 * COUNT, kind), B=COUNT)[2].reshape(3, COUNT)
    a, b = x.astype(kind), y.astype(kind)
    np.testing.assert_array_equal(found[0], quotient(a, b))
    np.testing.assert_array_equal(found[1], remainder(a, b))
    np.testing.assert_array_equal(found[2], shifted(lambda p, q: p >> q)(a, b))


@jit
def relations(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a < b)
    tl.store(out + B + i, a <= b)
    tl.store(out + 2 * B + i, a == b)
    tl.store(out + 3 * B + i, a != b)
    tl.store(out + 4 * B + i, a >= b)
    tl.store(out + 5 * B + i, a > b)
    tl.store(out + 6 * B + i, (a < b) & (a != 0) | ~(b > 3))


@pytest.mark.parametrize("right", quick_first(TYPES, (np.uint8,)), ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("left", quick_first(TYPES, (np.int8,)), ids=lambda kind: np.dtype(kind).name)
def test_relations(left: Any, right: Any) -> None:
    """Operands of mixed signs become the common type first."""
    x, y = pairs(left, right)
    kind = common(left, right)
    a, b = x.astype(kind), y.astype(kind)
    found = agree(relations, x, y, np.zeros(7 * COUNT, np.bool_), B=COUNT)[2].reshape(7, COUNT)
    expected = [a < b, a <= b, a == b, a != b, a >= b, a > b, ((a < b) & (x != 0)) | ~(y > 3)]
    np.testing.assert_array_equal(found, expected)


@jit
def numbers(x, out, B: tl.constexpr, NUMBER: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(x + i)
    tl.store(out + i, a + NUMBER)
    tl.store(out + B + i, NUMBER - a)
    tl.store(out + 2 * B + i, a * NUMBER)
    tl.store(out + 3 * B + i, a // NUMBER)
    tl.store(out + 4 * B + i, NUMBER % a)
    tl.store(out + 5 * B + i, NUMBER >> (a & 3))


@pytest.mark.parametrize("dtype", quick_first(TYPES, (np.uint16,)), ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("where", ["least", "one", "largest"])
def test_python_numbers(dtype: Any, where: str) -> None:
    """They take the type of the tile; a number shifted by a tile is shifted with the tile's sign."""
    limits = np.iinfo(dtype)
    number = {"least": limits.min or 2, "one": 1, "largest": limits.max}[where]
    x = divisors(hard(dtype))
    found = agree(numbers, x, np.zeros(6 * 16, dtype), B=16, NUMBER=number)[1].reshape(6, 16)
    b = np.full(16, number, dtype)
    expected = [
        exactly(lambda p, q: p + q)(x, b),
        exactly(lambda p, q: p - q)(b, x),
        exactly(lambda p, q: p * q)(x, b),
        quotient(x, b),
        remainder(b, x),
        b >> (x & np.array(3, dtype)),
    ]
    np.testing.assert_array_equal(found, expected)


@jit
def relay(flags, out):
    p = tl.program_id(0)
    before = flags + p - (p > 0).to(tl.int32)
    if p > 0:
        tl.atomic_poll(before, 7)
    tl.store(out + p, p + 1)
    tl.atomic_xchg(flags + p, 7, sem="release")


@jit
def arrived(flags, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, tl.atomic_poll(flags + i, 3, sem="relaxed"))


def test_programs_wait_for_those_before_them() -> None:
    assert list(agree(relay, np.zeros(8, np.int32), np.zeros(8, np.int32), grid=(8,))[1]) == [*range(1, 9)]
    assert agree(arrived, np.full(32, 3, np.uint64), np.zeros(32, np.bool_), B=32)[1].all()


def test_nothing_arrives_where_python_runs_programs() -> None:
    with pytest.raises(tw.CompilationError, match="programs run one after the other"):
        tw.jit(arrived.fn, interpret=True)[(1,)](np.zeros(8, np.int32), np.zeros(8, np.bool_), B=8)
