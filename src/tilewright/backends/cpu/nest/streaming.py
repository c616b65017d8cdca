"""The order in which a loop stores, and stores that bypass the caches: no line is fetched to be overwritten.

    step by step, first … last or last … first:
        load, compute, store past the caches      if the grid stores much, to addresses that are aligned and apart
        load, compute, store                      otherwise

A load waits for an earlier store whose address is the same modulo 4096. Where the output lies a little ahead of an
input modulo 4096, as in arrays of a multiple of 4096 bytes that are allocated one after the other, a loop that runs
forwards loads what looks like what it has just stored; one that runs backwards does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import Uniform
from tilewright.backends.llvm.spelling import bits_of, vector

STREAM_FROM = 16 << 20
"""Bytes that a grid stores from which its output does not stay in the caches anyway."""

ALIGNMENT = 16
"""Bytes: the alignment that arrays have, and the size of the pieces in which lanes bypass the caches."""

PAGE = 4096
NEAR = 320
"""Bytes behind a store after which it does not delay loads any more."""

MOST_PAIRS = 8
"""So many addresses are compared: more cost more than the wrong order."""


def store_past_caches(c: Context, element: str, lanes: str, pointer: str) -> None:
    """Write the vector `lanes` to `pointer`."""
    piece = min(c.lanes, ALIGNMENT * 8 // bits_of(element))
    for lane in range(0, c.lanes, piece):
        part = c.w.slice(lanes, element, c.lanes, lane, piece)
        c.w.stream(vector(element, piece), part, c.w.offset(pointer, element, lane), align=ALIGNMENT)


def may_bypass_caches(c: Context, stored: int) -> str:
    """Whether to store past the caches: an i1. `stored` says how many bytes one run of the loop stores."""
    assert c.programs is not None
    assert c.moved is not None
    w = c.w
    total = w.emit(f"mul i64 {c.programs}, {stored}")
    wanted = w.emit(f"icmp uge i64 {total}, {STREAM_FROM}")
    for store in _addresses(c, c.moved.stores):
        low = w.emit(f"and i64 {store}, {ALIGNMENT - 1}")
        wanted = w.emit(f"and i1 {wanted}, {w.emit(f'icmp eq i64 {low}, 0')}")
    behind = _any(c, [w.emit(f"icmp ugt i64 {d}, {PAGE - NEAR}") for d in _distances(c)])
    clash = w.emit(f"and i1 {is_ahead(c)}, {behind}")
    return w.emit(f"select i1 {clash}, i1 false, i1 {wanted}")


def is_ahead(c: Context) -> str:
    """Whether a store is a little ahead of a load, so that the loop had better run backwards: an i1."""
    w = c.w
    return _any(c, [w.emit(f"icmp ult i64 {w.emit(f'add i64 {d}, -1')}, {NEAR}") for d in _distances(c)])


def _distances(c: Context) -> list[str]:
    """How far stores are ahead of loads, modulo PAGE."""
    assert c.moved is not None
    loads, stores = _addresses(c, c.moved.loads), _addresses(c, c.moved.stores)
    pairs = [(store, load) for store in stores for load in loads][:MOST_PAIRS]
    return [c.w.emit(f"and i64 {c.w.emit(f'sub i64 {store}, {load}')}, {PAGE - 1}") for store, load in pairs]


def _any(c: Context, conditions: list[str]) -> str:
    return reduce(lambda a, b: c.w.emit(f"or i1 {a}, {b}"), conditions) if conditions else "false"


def _addresses(c: Context, rows: Sequence[Uniform]) -> list[str]:
    return [c.emit(row.level, f"ptrtoint ptr {row.name} to i64") for row in dict.fromkeys(rows)]
