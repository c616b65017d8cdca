"""Loops along a row end where masks end: nobody needs the lanes beyond.

    tile of 1024, mask lane < n:
    for lane = 0 to 1024 step 16     becomes     for lane = 0 to min(max(n, 0), 1023) + 1, rounded up to 16

Beyond the bounds of its masks a masked store does nothing. A reduction sees the same number u in all of these lanes
(`tails.py`); if combining u with u gives u, bit by bit, one of the lanes stands for all: the loop ends behind it. The
numbers that u can be are known from the ops: 0 under a sum, or exp(-inf - m), which is 0 or NaN. A sum that gets 1.0
beyond the mask has to count all lanes, so its loop goes through the whole row. A copy for a product, which reads the
tile up to some depth, ends there.

A buffer of one row is written as far as later loops depend on it: to the end of the masks of stores that read it, or
of reductions that see the same number beyond. A buffer that other nests read is written as far as they show it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.possible_numbers import combines_to_itself
from tilewright.backends.cpu.costs import STORES
from tilewright.backends.cpu.nest.lane_values import LANE, ActiveLaneBound, Index, Scalar
from tilewright.backends.cpu.nest.tails import Tail, Tails
from tilewright.dialects.cpu import Read, Write
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.core import Op
from tilewright.ir.types import i64


def end_of_loop(tails: Tails, sinks: Sequence[Op], extent: int, outer: Index, width: int) -> Scalar:
    """The end of the loop for `sinks` along a row of `extent` lanes, `width` in each step; an i64."""
    tails.renew()
    c = tails.c
    if c.ends is not None:
        _, needed = c.ends
        return extent if needed == extent else c.binary("arith.andi", c.add(needed, width - 1, i64, 0), -width, i64, 0)
    bounds = _Clip(tails, extent, (*outer, LANE)).bounds(sinks)
    if bounds is None:
        return extent
    level = max(bound.level for bound in bounds)
    end: Scalar = 0
    for bound in bounds:
        end = c.binary("arith.maxsi", end, bound.below, i64, level)
    one_more = any(isinstance(sink, Reduce) for sink in sinks)
    if len(bounds) == 1 and width == c.lanes and not one_more:
        (c.active_lane_bound,) = (bound.below for bound in bounds)
    bounded = c.binary("arith.minsi", end, extent - one_more, i64, level)
    return c.binary("arith.andi", c.add(bounded, width - 1 + one_more, i64, level), -width, i64, level)


class _Clip:
    """The part of a row that the sinks of a nest need."""

    def __init__(self, tails: Tails, extent: int, index: Index) -> None:
        self.tails, self.nest, self.extent, self.index = tails, tails.nest, extent, index

    def bounds(self, sinks: Sequence[Op]) -> list[ActiveLaneBound] | None:
        """The bounds beyond which none of `sinks` needs a lane, or only one of them; None: a sink needs all."""
        found: dict[ActiveLaneBound, None] = {}
        for sink in sinks:
            needed = self._needed_by(sink)
            if needed is None:
                return None
            found.update(dict.fromkeys(needed))
        return list(found) or None

    def _needed_by(self, sink: Op) -> list[ActiveLaneBound] | None:
        if isinstance(sink, STORES):
            off = self.tails.is_off(sink.mask, self.index)
            return None if off is None else list(off.bounds)
        if isinstance(sink, Write):
            return self._read_later(sink) if sink.row else self._read_elsewhere(sink)
        tails = self._reduced(sink) if isinstance(sink, Reduce) else None
        if tails is None or not isinstance(sink, Reduce):
            return None
        if not combines_to_itself(sink.combine, [tail.numbers for tail in tails]):
            return None
        return [bound for tail in tails for bound in tail.bounds]

    def _reduced(self, sink: Reduce) -> list[Tail] | None:
        tails = [self.tails.of(value, self.index) for value in sink.operands]
        known = [tail for tail in tails if tail is not None]
        return known if len(known) == len(tails) else None

    def _read_elsewhere(self, write: Write) -> list[ActiveLaneBound] | None:
        """The bound beyond which no other nest sees what `write` writes."""
        seen = self.tails.c.seen.get((write.buffer, len(self.nest.outer)))
        return None if seen is None else [ActiveLaneBound(seen, 0)]

    def _read_later(self, write: Write) -> list[ActiveLaneBound] | None:
        """The bounds beyond which nobody depends on what `write` writes."""
        found: list[ActiveLaneBound] = []
        for sink in self.nest.sinks:
            if any(isinstance(op, Read) and op.buffer is write.buffer for op in self.nest.closures[sink]):
                needed = self._dependent(sink)
                if needed is None:
                    return None
                found += needed
        return found

    def _dependent(self, sink: Op) -> list[ActiveLaneBound] | None:
        """The bounds beyond which `sink` does not depend on buffers that it reads lane by lane."""
        if self.nest.inner_extent(sink) != self.extent or not self._keeps_lanes(sink):
            return None
        if isinstance(sink, STORES):
            return self._needed_by(sink)
        tails = self._reduced(sink) if isinstance(sink, Reduce) else None
        return None if tails is None else [bound for tail in tails for bound in tail.bounds]

    def _keeps_lanes(self, sink: Op) -> bool:
        """Whether each lane of `sink` reads the same lane of buffers, and no other one."""
        closure = self.nest.closures[sink]
        reading: set[Op] = set()
        for op in self.nest.body:
            if op in closure and not isinstance(op, Reduce):
                if isinstance(op, Read):
                    reading.add(op)
                elif any(value.op in reading for value in op.operands):
                    if not op.definition.elementwise:
                        return False
                    reading.add(op)
        return True
