"""The direction in which a loop stores, and streaming stores, for which no line is fetched to be overwritten.

    scf.parallel %i = … {                %much = %programs * 4096 >= 16 MiB and %q is aligned
      %y = A(vector.load %p[%i])    →    scf.if %much {
      vector.store %y, %q[%i]              scf.parallel %i = … { … vector.store %y, %q[%i] {nontemporal} }
    } {cpu.stored = 4096, …}             } else {
                                           scf.parallel %i = … { … vector.store %y, %q[%i] }
                                         }

A short row of a tile, such as 32 floats of 128 bytes, bypasses the caches only if it is whole cache lines: the rest of
a line is stored much later, by another program, and memory reads the line to complete it.

A load waits for an earlier store whose address is equal modulo 4096. If the output is a little ahead of an input modulo
4096, as with consecutively allocated arrays of a multiple of 4096 bytes, a forward loop appears to load what it has
just stored; a `backwards` one does not. But memory that is in no near cache should not be fetched backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from tilewright.backends.cpu.loop_facts import (
    MOVES,
    PHASE,
    STORED,
    TILE,
    Access,
    InvariantBuilder,
    first_address,
    lanes_of_row,
    number_in,
    width_of,
)
from tilewright.backends.llvm.cpu_costs import CACHE_LINE, PAGE
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.arith import Select
from tilewright.dialects.scf import Parallel
from tilewright.dialects.tt_memory import AddPtr, pointee_type
from tilewright.dialects.vector import UNROLL, Load, MaskedLoad, MaskedStore, Store, lanes_of
from tilewright.ir.attributes import UNIT, Number
from tilewright.ir.core import Op, Value, defining
from tilewright.ir.types import i1, i64
from tilewright.transforms.functions import functions_of

ALIGNMENT = 16
"""Bytes: the alignment that arrays have, and the size of the pieces in which lanes bypass the caches."""

SHORT_ROW = 128
"""Max bytes of a row of a tile of which all lines have to be whole: longer ones have enough lines that are."""

ORDERED_TILE = 1024
"""Bytes of a tile from which on the order of its stores counts: more is done in smaller ones than to wait."""

FEW_ITERATIONS = 4
"""Max iterations of the loop along a row that has no order: comparing its addresses takes longer than to wait."""

MAX_PAIRS = 8
"""Max pairs of addresses compared; more cost more than the wrong order."""


def stream_stores(module: Op, target: Target) -> bool:
    """Choose direction and cache bypass of the loops of `module` that only store; returns whether there were any."""
    found = False
    for function in functions_of(module):
        loops = [op for op in function.ops_of(Parallel) if STORED in op.attributes]
        builder = InvariantBuilder(function)
        for loop in loops:
            builder.in_front_of(loop)
            _Choice(builder, loop, target).make()
        found |= bool(loops)
    return found


class _Choice:
    """The order of one loop.

    Attributes:
        bytes: what a run of the nest stores.
        loads, stores: the addresses of the first elements of the rows that the loop goes along.
    """

    def __init__(self, builder: InvariantBuilder, loop: Parallel, target: Target) -> None:
        self.b, self.loop, self.costs = builder, loop, target.costs
        self.bytes, self.factor = number_in(loop, STORED), number_in(loop, UNROLL) or 1
        self.loads = _rows(loop, (Load, MaskedLoad))
        self.stores = _rows(loop, (Store, MaskedStore))
        self.moves, self.rereads = MOVES in loop.attributes, number_in(loop, PHASE) > 0

    def make(self) -> None:
        """Write the loop a second time where it may store past the caches, and say when it runs backwards."""
        b, loop, costs, is_short = self.b, self.loop, self.costs, self._is_short_row()
        del loop.attributes[STORED]
        lanes = lanes_of_row(loop)
        is_loop = not lanes or self.factor * width_of(loop) < lanes
        is_long = not lanes or lanes > FEW_ITERATIONS * self.factor * width_of(loop)
        may_wait = is_long and self.bytes >= ORDERED_TILE and (self.rereads or not self.moves)
        ahead = self._ahead() if may_wait and b.repeating_loop() is None else None
        may_stream = (is_loop or is_short) and self.moves and self.bytes >= CACHE_LINE and costs.streams_from > 0
        if may_stream and any(_passes(loop, op) for op in loop.body):
            self._stream(CACHE_LINE if is_short else ALIGNMENT, ahead)
        if ahead is not None:
            near = b.compare("ule", b.mul(b.runs(), self.bytes), costs.near_caches)
            loop.set_operands([*loop.bounds, b.and_(near, ahead)])

    def _is_short_row(self) -> bool:
        """Whether the loop is for a row of a tile that comes from memory and goes there as a few whole cache lines."""
        lanes = lanes_of_row(self.loop)
        stores: list[Store | MaskedStore] = self.loop.body.ops_of((Store, MaskedStore))
        lengths = [lanes * _bytes(op.value) for op in stores]
        is_short = all(length <= SHORT_ROW and length % CACHE_LINE == 0 for length in lengths)
        return is_short and bool(lengths) and TILE in self.loop.attributes

    def _stream(self, alignment: int, ahead: Value | None) -> None:
        """Let a copy of the loop, whose steps are short, store past the caches."""
        b, loop = self.b, self.loop
        streams, copy = self._streams(alignment), loop.clone()
        stores = [op for op in copy.body.ops_of(Store) if _passes(copy, op)]
        lengths = [lanes_of(op.value.type) * _bytes(op.value) for op in stores]
        for op, length in zip(stores, lengths, strict=True):
            op.attributes |= {"alignment": Number(min(alignment, length), i64), "nontemporal": UNIT}
        copy.attributes[UNROLL] = Number(min(self.factor, max(1, self.costs.streamed // lengths[0])), i64)
        if ahead is not None:
            copy.set_operands([*copy.bounds, ahead])
        after = loop.next
        loop.unlink()
        with b.before(after), b.branch(streams) as branch:
            with branch.then():
                b.append(copy)
            with branch.otherwise():
                b.append(loop)

    def _streams(self, alignment: int) -> Value:
        """Whether to store past the caches, an i1."""
        b = self.b
        wanted = b.compare("uge", b.mul(b.runs(), self.bytes), self.costs.streams_from)
        for store in self.stores:
            wanted = b.and_(wanted, b.compare("eq", b.and_(b.address(store), alignment - 1), 0))
        if not self.rereads:
            return wanted
        is_beyond = self._any(lambda distance: b.compare("ugt", distance, PAGE - self.costs.stored_before))
        return b.select(b.and_(self._ahead(), is_beyond), b.constant(0, i1), wanted)

    def _ahead(self) -> Value:
        """Whether a store is a little ahead of a load, modulo PAGE."""
        near = self.costs.stored_before
        return self._any(lambda distance: self.b.compare("ult", self.b.add(distance, -1), near))

    def _any(self, condition: Callable[[Value], Value]) -> Value:
        pairs = [(store, load) for store in self.stores for load in self.loads][:MAX_PAIRS]
        conditions = [condition(self._distance(*pair)) for pair in pairs]
        return reduce(self.b.or_, conditions) if conditions else self.b.constant(0, i1)

    def _distance(self, store: Value, load: Value) -> Value:
        """The distance of the first elements in bytes, modulo PAGE; of the bases, where offsets are the same."""
        b, (to, at), (base, offset) = self.b, self._own(store), self._own(load)
        if at is offset and pointee_type(to.type).bits == pointee_type(base.type).bits:
            store, load = to, base
        return b.and_(b.sub(b.address(store), b.address(load)), PAGE - 1)

    @staticmethod
    def _own(row: Value) -> tuple[Value, Value | None]:
        """Base and offset of an address; those of the program where a store may be redirected to a buffer."""
        step = defining(row, AddPtr)
        parts = (row, None) if step is None else (step.pointer, step.offset)
        base, offset = (part if part is None else _unless_redirected(part) for part in parts)
        assert base is not None, "an address has a base"
        return base, offset


def _rows(loop: Parallel, kinds: tuple[type[Access], ...]) -> list[Value]:
    rows = (first_address(loop, op) for op in loop.body.ops_of(kinds))
    return list(dict.fromkeys(row for row in rows if row is not None))


def _unless_redirected(value: Value) -> Value:
    choice = defining(value, Select)
    return value if choice is None else choice.other


def _passes(loop: Parallel, op: Op) -> bool:
    """Whether `op` may store past the caches: neighbours, all of them."""
    return isinstance(op, Store) and first_address(loop, op) is not None


def _bytes(value: Value) -> int:
    return value.type.scalar.bits // 8
