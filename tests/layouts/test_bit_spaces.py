"""Steps that span others, or are left over, against all sums of steps."""

from __future__ import annotations

from functools import reduce
from itertools import chain, combinations
from operator import xor
from random import Random

from tilewright.layouts.swizzle import complement, intersection

DIM = 5


def span(steps: list[int]) -> set[int]:
    subsets = chain.from_iterable(combinations(steps, count) for count in range(len(steps) + 1))
    return {reduce(xor, subset, 0) for subset in subsets}


def drawn(random: Random) -> list[int]:
    return [random.randrange(1, 1 << DIM) for _ in range(random.randrange(4))]


def test_what_both_span() -> None:
    random = Random(1)
    for _ in range(200):
        first, second = drawn(random), drawn(random)
        found = intersection(first, second, DIM)
        assert span(found) == span(first) & span(second), (first, second)
        assert len(span(found)) == 1 << len(found)


def test_what_is_left_over() -> None:
    random = Random(2)
    for _ in range(100):
        steps = drawn(random)
        found = complement(steps, DIM)
        assert all(step.bit_count() == 1 for step in found)
        assert span([*steps, *found]) == set(range(1 << DIM))
        assert len(span(steps)) << len(found) == 1 << DIM
