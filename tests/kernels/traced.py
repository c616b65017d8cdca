"""Kernels for tracing: control flow as functions, Python all over, and mistakes."""

from __future__ import annotations

from typing import Any, NamedTuple

import tilewright as tw
import tilewright.language as tl


@tw.jit
def increment(i, value):
    return value + i


@tw.jit
def halved(x):
    return x // 2


@tw.jit
def above_one(x):
    return x > 1


@tw.jit
def tripled(x, y):
    return x * 3 + 1


@tw.jit
def second(x, y):
    return y


@tw.jit
def added(total, x):
    return total + x, total


def flow(out, n):
    total = tl.fori_loop(0, n, increment, 10)
    small = tl.while_loop(above_one, halved, n)
    chosen = tl.cond(n > 3, tripled, second, n, 7)
    static = tl.cond(True, tripled, second, n, 7)
    sum, before = tl.scan(added, 0, (n, 2, 3))
    tl.store(out, total)
    tl.store(out + 1, small)
    tl.store(out + 2, chosen)
    tl.store(out + 3, static)
    tl.store(out + 4, sum)
    tl.store(out + 5, before[0] + before[1] + before[2])


class Pair(NamedTuple):
    first: Any
    second: Any


def python_all_over(x, n, N: tl.constexpr):
    offsets = tl.arange(0, 8)
    tiles = {name: tl.load(x + offsets) * (i + 1) for i, name in enumerate("abc")}

    def twice(value: Any) -> Any:
        return value + value

    class Box:
        def __init__(self, value: Any) -> None:
            self.value = value

        def add(self, other: Any) -> None:
            self.value = self.value + other

    box = Box(twice(tiles["a"]))
    for tile in (tiles[name] for name in sorted(tiles)):
        box.add(tile)
    pair = tl.fori_loop(0, n, lambda i, p: Pair(p.second, p.first + i), Pair(box.value, box.value))
    assert N > 1 or pair is None
    if N > 3:
        raise ValueError("not reached")
    tl.store(x + offsets, pair.first + max(pair.second, 0))


@tw.jit
def scaled(x, by=2):
    return x * by


def branch_on_sum(x, n):
    total = tl.sum(tl.arange(0, 8), axis=0) + n
    if total > 3:
        tl.store(x, 1)


def loop_to_argument(x, n):
    for i in list(tl.range(0, n)):
        tl.store(x, i)


def in_a_helper(x, n):
    tl.store(x, chosen_by_value(n))


@tw.jit
def chosen_by_value(n):
    return 1 if n > 3 else 2


def carry_changes(x, n):
    tl.store(x, tl.fori_loop(0, n, lambda i, value: value + 0.5, 0))


def sides_differ(x, n):
    tl.store(x, tl.cond(n > 0, lambda: 1, lambda: 2.0))


def bounds_of_floats(x, n):
    tl.store(x, tl.fori_loop(0, 2.5, lambda i, value: value, n))


def scan_of_a_tile(x, n):
    tl.store(x, tl.scan(lambda c, y: (c, y), 0, n)[0])


def returning(x, n):
    return n


def assigning_globals(x, n):
    global GLOBAL
    GLOBAL = n


def wrong_types(x, n):
    tl.store(x, n + "text")


def endless(x, n):
    endless(x, n)


MISTAKES = [
    assigning_globals, bounds_of_floats, branch_on_sum, carry_changes, endless, in_a_helper, loop_to_argument,
    returning, scan_of_a_tile, sides_differ, wrong_types,
]
