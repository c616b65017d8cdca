"""Clipping: loops along a row end where masks end, because the lanes beyond are not needed.

    "cpu.nest"() …                             →      "cpu.nest"() …
      %on = arith.cmpi slt, %i, %n                      %on = arith.cmpi slt, %i, %n
      tt.store %p, %x, %on                              tt.store %p, %x, %on
                                                        "cpu.clip"(%on) <{extent = 1024, phase = 0, axes = [0]}>

    for lane = 0 to 1024 step 16     is to be     for lane = 0 to min(max(n, 0), 1023) + 1, rounded up to 16

Beyond the bounds of its mask a store does nothing. A reduction sees the same value u in all of these lanes
(`tails.py`); if combining u with u gives u, bit by bit, one of the lanes stands for all, and the loop ends after it.
The possible values of u are known from the ops: 0 under a sum, or exp(-inf - m), which is 0 or NaN. A sum that gets 1.0
beyond the mask has to include all lanes, so its loop covers the whole row.

A buffer of one row is written as far as later loops depend on it: to the end of the masks of stores that read it, or of
reductions that see the same value beyond. A buffer that other nests read is written as far as they store it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.possible_numbers import combines_to_itself
from tilewright.backends.cpu.alignment import Tags
from tilewright.backends.cpu.costs import STORES, conjuncts
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.backends.cpu.tails import Bound, Tail, Tails
from tilewright.dialects.arith import CompareIntegers
from tilewright.dialects.cpu import ALL_PHASES, Read, Write
from tilewright.dialects.cpu import Nest as NestOp
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.attributes import Attribute, DenseArray, Number
from tilewright.ir.core import Op
from tilewright.ir.types import i64


def clip_to_mask(module: Op) -> bool:
    """Mark in the nests of `module` (ttcir) the loops that end where masks do; returns whether there are any."""
    nests = [op for op in module.ops_of(NestOp) if _may_end(op)]
    return sum(_clips_of(Nest(nest)) for nest in nests) > 0


def _may_end(nest: NestOp) -> bool:
    """Whether anything in `nest` may determine an end."""
    is_plain = nest.mode == "rows" and nest.programs is None and not nest.square
    return is_plain and bool(nest.body.ops_of(CompareIntegers))


def _clips_of(nest: Nest) -> int:
    """Put a cpu.clip into `nest` for each mask that ends a loop; returns their number."""
    ends = [(phase, extent, _Clip(nest, phase, extent).bounds(sinks)) for phase, extent, sinks in nest.every_loop()]
    if len(nest.outer) == 1:
        ends.append((ALL_PHASES, nest.outer[0], _end_of_rows(nest)))
    found = [(bound, phase, extent) for phase, extent, bounds in ends for bound in bounds or ()]
    for (mask, tags), phase, extent in found:
        axes = DenseArray(i64, tuple(-1 if tag is None else tag for tag in tags))
        attributes: dict[str, Attribute] = {"extent": Number(extent, i64), "phase": Number(phase, i64), "axes": axes}
        clip = Op.create("cpu.clip", (mask,), (), attributes, location=nest.op.location)
        nest.body.insert(clip, nest.body.terminator)
    return len(found)


def _end_of_rows(nest: Nest) -> list[Bound] | None:
    """The bounds of a nest of one axis of rows beyond which its stores do nothing; None: it does more than to store."""
    tails, found = Tails(nest, 0, axis=0), dict[Bound, None]()
    for sink in nest.sinks:
        if isinstance(sink, STORES) and sink.mask is not None:
            parts = [part for part in conjuncts(sink.mask) if part.type.shape == (*nest.outer, 1)]
            off = next(filter(None, (tails.is_off(part, (0, None)) for part in parts)), None)
            if off is None:
                return None
            found.update(dict.fromkeys(off.bounds))
        elif not isinstance(sink, Write) or sink.row:
            return None
    return list(found)


class _Clip:
    """The part of a row that the sinks of a loop need."""

    def __init__(self, nest: Nest, phase: int, extent: int) -> None:
        self.tails, self.nest, self.extent = Tails(nest, phase), nest, extent
        self.tags: Tags = tuple(range(len(nest.outer) + 1))

    def bounds(self, sinks: Sequence[Op]) -> list[Bound] | None:
        """The bounds beyond which none of `sinks` needs a lane, or only one of them; None: a sink needs all."""
        needed = [self._needed_by(sink) for sink in sinks]
        found = [bounds for bounds in needed if bounds is not None]
        every = dict.fromkeys(bound for bounds in found for bound in bounds)
        return list(every) if len(found) == len(needed) else None

    def _needed_by(self, sink: Op) -> Sequence[Bound] | None:
        if isinstance(sink, STORES):
            off = self.tails.is_off(sink.mask, self.tags)
            return None if off is None else off.bounds
        if isinstance(sink, Write):
            return self._read_later(sink) if sink.row else ()  # `Clip` says how far
        tails = self._reduced(sink) if isinstance(sink, Reduce) else None
        if tails is None or not isinstance(sink, Reduce):
            return None
        if not combines_to_itself(sink.combine, [tail.numbers for tail in tails]):
            return None
        return [bound for tail in tails for bound in tail.bounds]

    def _reduced(self, sink: Reduce) -> list[Tail] | None:
        tails = [self.tails.of(value, self.tags) for value in sink.operands]
        known = [tail for tail in tails if tail is not None]
        return known if len(known) == len(tails) else None

    def _read_later(self, write: Write) -> list[Bound] | None:
        """The bounds beyond which no op depends on the values that `write` writes."""
        found: list[Bound] = []
        for sink in self.nest.sinks:
            if any(isinstance(op, Read) and op.buffer is write.buffer for op in self.nest.closures[sink]):
                needed = self._dependent(sink)
                if needed is None:
                    return None
                found += needed
        return found

    def _dependent(self, sink: Op) -> Sequence[Bound] | None:
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
