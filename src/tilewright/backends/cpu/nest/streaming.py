"""The order in which a loop stores, and stores that bypass the caches: no line is fetched to be overwritten.

    step by step, first … last or last … first:
        load, compute, store past the caches      if the grid stores much, to addresses that are aligned
        load, compute, store                      otherwise

A short row of a tile, such as 32 numbers of 128 bytes, goes past the caches only where it is whole cache lines: the
rest of a line is stored much later, by another program, and memory reads the line to complete it. Meanwhile the loop
asks for the same row of the next program's tile (`next_program.py`): rows of a tile are often a page apart, so no
processor guesses them.

A load waits for an earlier store whose address is the same modulo 4096. Where the output lies a little ahead of an
input modulo 4096, as in arrays of a multiple of 4096 bytes that are allocated one after the other, a loop that runs
forwards loads what looks like what it has just stored; one that runs backwards does not. But backwards is no order in
which to fetch memory that is in no near cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import Address, Affine, Uniform, level_of, pointer, size_of
from tilewright.backends.llvm.cpu_costs import PAGE
from tilewright.ir.core import Value
from tilewright.ir.types import i1, i64

ALIGNMENT = 16
"""Bytes: the alignment that arrays have, and the size of the pieces in which lanes bypass the caches."""

SHORT_ROW = 128
"""Max bytes of a row of a tile of which all lines have to be whole: longer ones have enough lines that are."""

NEAR = 320
"""Bytes behind a store after which it does not delay loads any more."""

MAX_PAIRS = 8
"""Max pairs of addresses compared; more cost more than the wrong order."""


def store_past_caches(c: Context, lanes: Value, place: Value) -> None:
    """Put a vector into memory past the caches; LLVM cuts it into pieces that are aligned."""
    c.b.stream(lanes, place, align=min(c.streaming, c.lanes * size_of(lanes.type)))


class Order:
    """Decisions in front of a loop, from the rows in `c.moved`; answers are i1.

    Args:
        stored: bytes that one run of the loop stores; each run of the nest does it once.
        rereads: an earlier phase has brought the rows that are loaded into the caches.
        alignment: what addresses of stores past the caches have to be multiples of; a cache line for short rows.
    """

    def __init__(self, c: Context, stored: int, *, rereads: bool, alignment: int) -> None:
        assert c.grid is not None, "only what all programs run stores as much as the grid"
        self.c, self.rereads, self.alignment = c, rereads, alignment
        self.total = c.multiply(c.grid.runs, stored, i64, 0)

    def streams(self) -> Value:
        """Whether to store past the caches."""
        c, b = self.c, self.c.b
        assert c.moved is not None
        wanted = c.compare("uge", self.total, c.target.costs.streams_from, i64, 0)
        for store in dict.fromkeys(_start(c, row) for row in c.moved.stores):
            wanted = b.and_(wanted, b.compare("eq", b.and_(store, self.alignment - 1), 0))
        if not self.rereads:
            return wanted
        behind = self._any(lambda d: c.compare("ugt", d.value, PAGE - NEAR, i64, d.level))
        return b.select(b.and_(self._ahead(), behind), b.constant(0, i1), wanted)

    def backwards(self, streams: Value | None) -> Value:
        """Whether to go from the last step to the first; `streams`: whether stores bypass the caches, if they may."""
        b = self.c.b
        near = self.c.compare("ule", self.total, self.c.target.costs.near_caches, i64, 0)
        if self.rereads and streams is not None:
            near = b.or_(near, streams)
        return b.and_(near, self._ahead())

    def _ahead(self) -> Value:
        c = self.c
        return self._any(lambda d: c.compare("ult", c.add(d.value, -1, i64, d.level), NEAR, i64, d.level))

    def _any(self, condition: Callable[[Uniform], Value]) -> Value:
        conditions = [condition(d) for d in _distances(self.c)]
        return reduce(self.c.b.or_, conditions) if conditions else self.c.b.constant(0, i1)


def _distances(c: Context) -> list[Uniform]:
    """The distances in bytes of stores ahead of loads, modulo PAGE."""
    assert c.moved is not None
    loads, stores = dict.fromkeys(c.moved.loads), dict.fromkeys(c.moved.stores)
    return [_distance(c, store, load) for store in stores for load in loads][:MAX_PAIRS]


def _distance(c: Context, store: Address, load: Address) -> Uniform:
    """The distance of the first elements; of the bases, where offsets are the same."""
    if (store.offset, store.size) == (load.offset, load.size):
        store, load = (row._replace(offset=Uniform(0, 0)) for row in (store, load))
    level = max(level_of(store), level_of(load))
    difference = c.binary("arith.subi", _start(c, store), _start(c, load), i64, level)
    return Uniform(c.binary("arith.andi", difference, PAGE - 1, i64, level), level)


def _start(c: Context, row: Address) -> Value:
    """The address of the first element, as an i64."""
    level = level_of(row)
    first = c.behind(pointer(row.base), row.offset.base if isinstance(row.offset, Affine) else 0, level)
    return c.emit(level, "tt.ptr_to_int", i64, first)
