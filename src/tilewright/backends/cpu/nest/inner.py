"""The inner loops of one phase: chunks of lanes (rows) or steps along the reduced axis (columns).

Rows with masks come in two versions: a fast one for rows where all lanes are on, ranges do not wrap and so on, chosen
by one scalar test in front of the loop, and a general one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.backends.cpu.costs import ACCESSES, ATOMICS, STORES, cost
from tilewright.backends.cpu.near_partners import least_lanes
from tilewright.backends.cpu.nest.accumulate import Found, Place, accumulate
from tilewright.backends.cpu.nest.clip import end_of_loop
from tilewright.backends.cpu.nest.combine import Combine
from tilewright.backends.cpu.nest.context import Guarded, MovedRows
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, Index, Scalar, Uniform, Vector
from tilewright.backends.cpu.nest.loads import masks_memory
from tilewright.backends.cpu.nest.next_program import next_tiles
from tilewright.backends.cpu.nest.pieces import lower_pieces
from tilewright.backends.cpu.nest.sinks import Act, prepare
from tilewright.backends.cpu.nest.streaming import ALIGNMENT, SHORT_ROW, Order
from tilewright.backends.cpu.nest.tails import Tails
from tilewright.backends.cpu.reduction_splitting import is_bound_by_memory
from tilewright.backends.llvm.cpu_costs import CACHE_LINE
from tilewright.dialects.arith import Division, Select
from tilewright.dialects.cpu import Accumulate, GuardedStore, Read
from tilewright.dialects.tt_memory import Store
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.core import Block, Op, Value, tile_type
from tilewright.ir.types import i1, i64

STREAMED = 128
"""Bytes in a step of a loop that stores past the caches: shorter steps wait for each other."""

STREAMED_TILE = 64
"""Bytes of a tile from which on its stores may bypass the caches: a cache line."""

ORDERED_TILE = 1024
"""Bytes of a tile from which on the order of its stores counts: more is done in smaller ones than to wait."""

UNROLLED = 48
"""Max cost, in vector instructions, up to which chunks are unrolled."""

ITERATIONS = 8
"""Min trip count after unrolling a loop over one tile; unrolling short tiles only grows code."""

LONG = 4
"""Max cost that one op counts for in the choice of unrolling, in vector instructions."""


class InnerLoop:
    """One inner loop over `extent` elements for `sinks`, which all run in one phase.

    What a cpu.accumulate gives may be there already, for each chunk of the only step.
    """

    def __init__(
        self, tails: Tails, sinks: Sequence[Op], extent: int, outer: Index, accumulated: Sequence[Found] = ()
    ) -> None:
        self.tails, self.sinks, self.extent, self.outer = tails, sinks, extent, outer
        self.c, self.nest = tails.c, tails.nest
        self.by_rows = self.nest.mode == "rows"
        self.reductions = [r for r in sinks if isinstance(r, Reduce)]
        self.values: list[Sequence[Value]] = []
        ops = dict.fromkeys(op for sink in sinks for op in self.nest.closures[sink])
        self.given = accumulated
        self.turns = [op for op in ops if isinstance(op, Accumulate)]

    def build(self) -> None:
        """Build the loop; afterwards `c.reduced` has the results of its reductions."""
        c = self.c
        step = self.chunks_per_step()
        if self.by_rows and self._has_conditions() and not c.optimize_size and not self._is_one_shuffled():
            self._versions(step)
        else:
            self._in_best_order(step)
        for sink, values in zip(self.reductions, self.values, strict=True):
            self._finish(sink, values)
        c.forget(c.depth + 1)

    def _is_one_shuffled(self) -> bool:
        """Whether there is one chunk, whose elements trade places: computing outweighs the masks at both ends."""
        return self.extent == self.c.lanes and least_lanes(self.nest.body) > 1

    def _has_conditions(self) -> bool:
        """Whether there is anything that a fast version could leave out."""
        for sink in self.sinks:
            ops = [sink, *self.nest.closures[sink]]
            if isinstance(sink, ATOMICS):
                return False
            if any(_is_masked(op) or isinstance(op, Division) for op in ops):
                return True
            if any(isinstance(op, Select) and masks_memory(op.condition) for op in ops):
                return True
        return False

    def chunks_per_step(self) -> int:
        """The chunks of a step: many if they are cheap, which also gives reductions enough independent accumulators."""
        c, nest = self.c, self.nest
        if not self.by_rows or c.optimize_size or any(isinstance(r, ATOMICS) for r in self.sinks):
            return 1
        ops = {o for r in self.sinks for o in nest.closures[r] if not nest.is_row_level(o.result)}
        size = sum(min(cost(o), LONG) for o in ops)
        costs = c.target.costs
        sums = bool(self.reductions or self.turns)
        most = costs.chains if sums else costs.chunks
        if any(o.name.startswith("math.exp") for o in ops):
            most = min(most, costs.chunks_with_powers)
        wanted = next(n for n in (most, 4, 2, 1) if n <= most and (n * size <= UNROLLED or n == 1))
        chunks, is_tile = self.extent // c.lanes, not nest.outer and not sums
        return max(1, min(wanted, chunks // ITERATIONS if is_tile else chunks))

    def _versions(self, step: int) -> None:
        """if <guards>: fast loop, else: general loop; the fast one alone where it relies on nothing."""
        c, b = self.c, self.c.b
        fast, guarded = Block(), c.depth + 1
        c.fast, c.depth, c.lane_level = Guarded(guarded), guarded, guarded + 1
        c.blocks.append(fast)
        with b.into(fast):
            self._in_best_order(step)
        c.blocks.pop()
        c.depth, c.lane_level = guarded - 1, guarded
        c.forget(guarded)
        c.fast, conditions, c.guards = None, c.assumed(), 0
        if not conditions:
            b.splice(fast)
            return
        fast_values, condition = self.values, b.later(i1)
        with b.branch(condition) as branch:
            with branch.then():
                b.splice(fast)
            with branch.otherwise():
                self._loop(1, low=self._pieces())
                c.forget(c.depth + 1)
            found = c.all_of(conditions)
        condition.replace_by(found)
        self.values = [list(map(branch.join, *both)) for both in zip(fast_values, self.values, strict=True)]

    def _in_best_order(self, step: int) -> None:
        """The loop, in the order that suits the addresses of what it moves, and past the caches if that pays."""
        c, b = self.c, self.c.b
        stores = [r for r in self.sinks if isinstance(r, STORES)] if self._may_choose() else []
        is_loop, is_short = step * c.lanes < self.extent, self._is_short_row(stores)
        stored = sum(map(_bytes, stores)) if is_loop or is_short else 0
        bound = is_bound_by_memory(self.nest, self.nest.body)
        rereads = self.nest.phases[self.sinks[0]] > 0
        waits = stored >= ORDERED_TILE and (rereads or not bound) and not self._is_turn()
        backwards = b.later(i1) if is_loop and waits else None
        streams = b.later(i1) if stored >= STREAMED_TILE and bound and c.target.costs.streams_from else None
        if backwards is None and streams is None:
            self._loop(step)
            return
        c.moved = MovedRows()
        loops, alignment = Block(), CACHE_LINE if is_short else ALIGNMENT
        with b.into(loops):
            if streams is not None:
                most = max(1, STREAMED // (c.lanes * _element_bytes(stores[0])))
                self._streamed(step, backwards, streams, most=most, alignment=alignment)
            else:
                self._loop(step, backwards)
        c.depth += 1  # what the order depends on stands in front of all versions
        order = Order(c, stored, rereads=rereads, alignment=alignment)
        past_caches = None if streams is None else order.streams()
        if streams is not None and past_caches is not None:
            streams.replace_by(past_caches)
        if backwards is not None:
            backwards.replace_by(order.backwards(past_caches))
        c.depth -= 1
        b.splice(loops)
        c.moved = None

    def _may_choose(self) -> bool:
        """Whether the loop does nothing but store, and the grid tells how much."""
        c = self.c
        may = self.by_rows and not c.optimize_size and c.grid is not None
        return may and all(isinstance(r, STORES) for r in self.sinks)

    def _is_short_row(self, stores: list[Store | GuardedStore]) -> bool:
        """Whether the loop is for a row of a tile that comes from memory and goes there as a few whole cache lines."""
        lengths = [self.extent * _element_bytes(store) for store in stores]
        is_short = all(length <= SHORT_ROW and length % CACHE_LINE == 0 for length in lengths)
        return is_short and bool(stores) and self._is_tile_from_memory()

    def _is_tile_from_memory(self) -> bool:
        """Whether there are several rows, or several tiles one after the other, none of them from a buffer."""
        several = self._is_turn() or prod(self.nest.outer) > 1
        return several and not any(isinstance(op, Read) for op in self.nest.body)

    def _is_turn(self) -> bool:
        """Whether the loop runs in each turn of a loop of the kernel."""
        return self.c.grid is not None and self.c.grid.counter is not None

    def _streamed(self, step: int, backwards: Value | None, streams: Value, *, most: int, alignment: int) -> None:
        """Two loops; where the i1 `streams` holds, the one that stores past the caches, `most` chunks in a step.

        Nests that compute much do not need it: caches take in the stores of one row while the next one is computed.
        """
        c = self.c
        with c.b.branch(streams) as branch:
            with branch.then():
                following, c.streaming = c.next_rows, alignment
                if self._is_tile_from_memory():
                    c.next_rows = next_tiles(c, self.nest)
                self._loop(min(step, most), backwards)
                c.forget(c.depth + 1)
                c.next_rows, c.streaming = following, 0
            with branch.otherwise():
                self._loop(step, backwards)

    # ------------------------------------------------------------------ the loop itself

    def _loop(self, chunks: int, backwards: Value | None = None, low: Scalar = 0) -> None:
        """The loop, `chunks` of whose turns had better be one; where the i1 `backwards` holds, from the last one on.

        It begins at the lane `low`. Chunks that a cpu.accumulate goes through at once are one turn.
        """
        c, b = self.c, self.c.b
        at_once = chunks if self.turns else 1
        width = c.lanes * at_once if self.by_rows else 1
        inner = c.depth + 1
        c.depth = inner
        if self.by_rows and width >= self.extent:
            self.values = self._turn(0, at_once)
        else:
            end = self._end(c.lanes * chunks) if backwards is None else self.extent
            with b.parallel(low, end, width, backwards=backwards, unroll=chunks // at_once) as loop:
                for sink, values in zip(self.reductions, self._turn(loop.index, at_once), strict=True):
                    b.location = sink.location
                    loop.reduce(values, sink.regions[0])
            results = iter(loop.results)
            self.values = [[next(results) for _ in sink.operands] for sink in self.reductions]
            c.active_lane_bound = None
        c.depth = inner - 1

    def _end(self, width: int) -> Scalar:
        """The end of the loop: behind the masks where nothing beyond them is needed, else the extent."""
        if self.c.fast or not self.by_rows or width >= self.extent:
            return self.extent
        return end_of_loop(self.tails, self.sinks, self.extent, self.outer, width)

    def _turn(self, index: Scalar, chunks: int) -> list[Sequence[Value]]:
        """The chunks of one turn: compute, then act; returns what they give to each reduction."""
        c = self.c
        acts: list[Act] = []
        new: dict[Reduce, list[list[Value]]] = {sink: [] for sink in self.reductions}
        accumulated = self._accumulated(index, chunks) if self.turns else []
        for chunk in range(chunks):
            c.forget(c.depth)
            if self.by_rows:
                c.chunk = chunk * c.lanes
                c.position = c.add(index, c.chunk, i64, c.depth)
            for found in accumulated:
                c.reduced.update(found[chunk])
            for sink in self.sinks:
                if isinstance(sink, Reduce):
                    where = self._index(sink, index)
                    new[sink].append([c.as_vector(evaluate(c, v, where), v.type.scalar).value for v in sink.operands])
                    continue
                act = prepare(c, sink, self._index(sink, index))
                if isinstance(sink, ATOMICS):
                    act()
                else:
                    acts.append(act)
        c.chunk = 0
        for act in acts:
            act()
        for value in [value for found in accumulated for value in found[0]]:
            del c.reduced[value]
        return [Combine(sink).together(c.b, rows) for sink, rows in new.items()]

    def _accumulated(self, index: Scalar, chunks: int) -> list[Sequence[Found]]:
        """For each cpu.accumulate, its results in each chunk."""
        if self.given:
            return [self.given]
        c, where = self.c, (*self.outer, LANE)
        starts = [(chunk * c.lanes, c.add(index, chunk * c.lanes, i64, c.depth)) for chunk in range(chunks)]
        return [accumulate(c, op, [Place(*start, where) for start in starts]) for op in self.turns]

    def _pieces(self) -> Scalar:
        """The loops of pieces that a general loop is split into, where it can be; returns the lane behind them."""
        c = self.c
        if c.wraps or c.lanes == self.extent or self.reductions or any(isinstance(r, ATOMICS) for r in self.sinks):
            return 0
        ops = dict.fromkeys(op for sink in self.sinks for op in self.nest.closures[sink])
        return lower_pieces(c, list(ops), self.outer, self._act)

    def _act(self) -> None:
        """All sinks, none of which is a reduction, on the chunk at hand."""
        for act in [prepare(self.c, sink, (*self.outer, LANE)) for sink in self.sinks]:
            act()

    def _index(self, sink: Op, inner: Scalar) -> Index:
        if self.by_rows:
            return (*self.outer, LANE)
        found = list(self.outer)
        found.insert(self.nest.axis, Uniform(inner, self.c.depth))
        return tuple(found)

    def _finish(self, sink: Reduce, values: Sequence[Value]) -> None:
        """Lanes together (rows)."""
        c = self.c
        if self.by_rows:
            values = Combine(sink).across(c.b, values)
        kind = Uniform if self.by_rows else Vector
        for result, value in zip(sink.results, values, strict=True):
            c.reduced[result] = kind(value, c.depth)


def _bytes(store: Store | GuardedStore) -> int:
    return tile_type(store.value).numel * _element_bytes(store)


def _element_bytes(store: Store | GuardedStore) -> int:
    return max(8, store.value.type.bits) // 8


def _is_masked(op: Op) -> bool:
    return isinstance(op, ACCESSES) and op.mask is not None
