"""Stores that bypass the caches: no line is fetched to be overwritten.

    if the grid stores much, and addresses are aligned and apart modulo 4096:
        for chunk in (first … last, or last … first):   load, compute, store past the caches
    else:
        for chunk in first … last:                      load, compute, store

A load waits for an earlier store whose address is the same modulo 4096, and stores past the caches take long. Where the
output lies a little ahead of an input modulo 4096, as it does when arrays of a multiple of 4096 bytes are allocated one
after the other, ascending chunks load what the last ones stored, so to speak; descending chunks do not.
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
"""Bytes that stores past the caches may be behind until they do not delay loads any more."""


def store_past_caches(c: Context, element: str, lanes: str, pointer: str) -> None:
    """Write the vector `lanes` to `pointer`."""
    piece = min(c.lanes, ALIGNMENT * 8 // bits_of(element))
    for lane in range(0, c.lanes, piece):
        part = c.w.slice(lanes, element, c.lanes, lane, piece)
        c.w.stream(vector(element, piece), part, c.w.offset(pointer, element, lane), align=ALIGNMENT)


def streaming_conditions(c: Context, stored: int) -> tuple[str, str]:
    """(whether to store past the caches, whether from the last chunk to the first), as i1.

    Args:
        c: `c.streaming` holds where the rows start that the loop loads and stores.
        stored: bytes that one run of the loop stores.
    """
    assert c.programs is not None
    assert c.streaming is not None
    w = c.w
    total = w.emit(f"mul i64 {c.programs}, {stored}")
    wanted = w.emit(f"icmp uge i64 {total}, {STREAM_FROM}")
    loads, stores = (_addresses(c, rows) for rows in (c.streaming.loads, c.streaming.stores))
    for store in stores:
        low = w.emit(f"and i64 {store}, {ALIGNMENT - 1}")
        wanted = w.emit(f"and i1 {wanted}, {w.emit(f'icmp eq i64 {low}, 0')}")
    distances = [_distance(c, store, load) for store in stores for load in loads]
    ahead = _any(c, [w.emit(f"icmp ult i64 {w.emit(f'sub i64 {d}, 1')}, {NEAR}") for d in distances])
    behind = _any(c, [w.emit(f"icmp ugt i64 {d}, {PAGE - NEAR}") for d in distances])
    clash = w.emit(f"and i1 {ahead}, {behind}")
    return w.emit(f"select i1 {clash}, i1 false, i1 {wanted}"), ahead


def _distance(c: Context, store: str, load: str) -> str:
    """How far the store is ahead of the load, modulo PAGE."""
    return c.w.emit(f"and i64 {c.w.emit(f'sub i64 {store}, {load}')}, {PAGE - 1}")


def _any(c: Context, conditions: list[str]) -> str:
    return reduce(lambda a, b: c.w.emit(f"or i1 {a}, {b}"), conditions) if conditions else "false"


def _addresses(c: Context, rows: Sequence[Uniform]) -> list[str]:
    return [c.emit(row.level, f"ptrtoint ptr {row.name} to i64") for row in dict.fromkeys(rows)]
