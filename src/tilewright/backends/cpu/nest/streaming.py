"""The order in which a loop stores, and stores that bypass the caches: no line is fetched to be overwritten.

    step by step, first … last or last … first:
        load, compute, store past the caches      if the grid stores much, to addresses that are aligned
        load, compute, store                      otherwise

A load waits for an earlier store whose address is the same modulo 4096. Where the output lies a little ahead of an
input modulo 4096, as in arrays of a multiple of 4096 bytes that are allocated one after the other, a loop that runs
forwards loads what looks like what it has just stored; one that runs backwards does not. But backwards is no order in
which to fetch memory that is in no near cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import Address, Affine, Uniform, level_of
from tilewright.backends.llvm.spelling import bits_of, vector

STREAM_FROM = 16 << 20
"""Bytes that a grid stores from which its output does not stay in the caches anyway."""

ALIGNMENT = 16
"""Bytes: the alignment that arrays have, and the size of the pieces in which lanes bypass the caches."""

NEAR_CACHES = 512 << 10
"""Bytes that a grid stores up to which its arrays are in near caches, if they are used again and again."""

PAGE = 4096
NEAR = 320
"""Bytes behind a store after which it does not delay loads any more."""

MAX_PAIRS = 8
"""Max pairs of addresses compared; more cost more than the wrong order."""


def store_past_caches(c: Context, element: str, lanes: str, pointer: str) -> None:
    """Write the vector `lanes` to `pointer`; LLVM cuts it into pieces that are aligned."""
    align = min(ALIGNMENT, c.lanes * bits_of(element) // 8)
    c.w.stream(vector(element, c.lanes), lanes, pointer, align=align)


class Order:
    """Decisions in front of a loop, from the rows in `c.moved`; answers are i1.

    Args:
        stored: bytes that one run of the loop stores; each program runs it once.
        rereads: an earlier phase has brought the rows that are loaded into the caches.
    """

    def __init__(self, c: Context, stored: int, *, rereads: bool) -> None:
        self.c, self.rereads = c, rereads
        self.total = c.w.emit(f"mul i64 {c.programs}, {stored}")

    def streams(self) -> str:
        """Whether to store past the caches."""
        c, w = self.c, self.c.w
        assert c.moved is not None
        wanted = w.emit(f"icmp uge i64 {self.total}, {STREAM_FROM}")
        for store in dict.fromkeys(_start(c, row) for row in c.moved.stores):
            low = w.emit(f"and i64 {store}, {ALIGNMENT - 1}")
            wanted = w.emit(f"and i1 {wanted}, {w.emit(f'icmp eq i64 {low}, 0')}")
        if not self.rereads:
            return wanted
        behind = self._any(lambda d: c.emit(d.level, f"icmp ugt i64 {d.name}, {PAGE - NEAR}"))
        clash = w.emit(f"and i1 {self._ahead()}, {behind}")
        return w.emit(f"select i1 {clash}, i1 false, i1 {wanted}")

    def backwards(self, streams: str) -> str:
        """Whether to go from the last step to the first; `streams`: whether stores bypass the caches, if they may."""
        w = self.c.w
        near = w.emit(f"icmp ule i64 {self.total}, {NEAR_CACHES}")
        if self.rereads and streams:
            near = w.emit(f"or i1 {near}, {streams}")
        return w.emit(f"and i1 {near}, {self._ahead()}")

    def _ahead(self) -> str:
        c = self.c
        return self._any(lambda d: c.emit(d.level, f"icmp ult i64 {c.add(d.name, '-1', 'i64', d.level)}, {NEAR}"))

    def _any(self, condition: Callable[[Uniform], str]) -> str:
        c = self.c
        conditions = [condition(d) for d in _distances(c)]
        return reduce(lambda a, b: c.w.emit(f"or i1 {a}, {b}"), conditions) if conditions else "false"


def _distances(c: Context) -> list[Uniform]:
    """The distances in bytes of stores ahead of loads, modulo PAGE."""
    assert c.moved is not None
    loads, stores = dict.fromkeys(c.moved.loads), dict.fromkeys(c.moved.stores)
    return [_distance(c, store, load) for store in stores for load in loads][:MAX_PAIRS]


def _distance(c: Context, store: Address, load: Address) -> Uniform:
    """The distance of the first elements; of the bases, where offsets are the same."""
    if (store.offset, store.element) == (load.offset, load.element):
        store, load = (row._replace(offset=Uniform("0", 0)) for row in (store, load))
    level = max(level_of(store), level_of(load))
    difference = c.emit(level, f"sub i64 {_start(c, store)}, {_start(c, load)}")
    return Uniform(c.emit(level, f"and i64 {difference}, {PAGE - 1}"), level)


def _start(c: Context, row: Address) -> str:
    """The address of the first element, as an i64."""
    level, first = level_of(row), row.base.name
    offset = row.offset.base if isinstance(row.offset, Affine) else "0"
    if offset != "0":
        first = c.emit(level, f"getelementptr {row.element}, ptr {first}, i64 {offset}")
    return c.emit(level, f"ptrtoint ptr {first} to i64")
