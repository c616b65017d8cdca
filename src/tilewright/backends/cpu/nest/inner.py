"""The inner loops of one phase: chunks of lanes (rows) or steps along the reduced axis (columns).

A loop that relies on assumptions has two versions: one that uses them, chosen by a scalar test before the loop, and a
general one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tilewright.backends.cpu.costs import ATOMICS
from tilewright.backends.cpu.loop_facts import MOVES, PHASE, RUNS, SPLITS, STORED, TILE
from tilewright.backends.cpu.nest.accumulate import Found, Place, accumulate
from tilewright.backends.cpu.nest.combine import Combine
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.ends import end_of_copy, end_of_loop
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, Index, Lane, Scalar, Uniform, Vector, size_of
from tilewright.backends.cpu.nest.pieces import lower_pieces
from tilewright.backends.cpu.nest.prefix import MAX_AT_ONCE, MIN_AT_ONCE, has_same_end, lower_prefix, reads_in_front
from tilewright.backends.cpu.nest.sinks import Act, prepare
from tilewright.backends.cpu.nest.versions import asked_by, in_versions
from tilewright.backends.cpu.reduction_splitting import Nest, is_bound_by_memory
from tilewright.dialects.cpu import Accumulate, Assume, Read
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.attributes import UNIT, Attribute, Keyword, Number
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import i64

NARROW = 32
"""Bits of the elements that all machines with masks load under them."""


class InnerLoop:
    """One inner loop over `extent` elements for `sinks`, which all run in one phase.

    What a cpu.accumulate gives may be there already, for each chunk of the only step, which all versions have then.
    """

    def __init__(
        self, c: Context, nest: Nest, sinks: Sequence[Op], extent: int, outer: Index, accumulated: Sequence[Found] = ()
    ) -> None:
        self.c, self.nest, self.sinks, self.extent, self.outer = c, nest, sinks, extent, outer
        self.by_rows = self.nest.mode == "rows"
        self.reductions = [r for r in sinks if isinstance(r, Reduce)]
        self.values: list[Sequence[Value]] = []
        ops = dict.fromkeys(op for sink in sinks for op in self.nest.closures[sink])
        self.given = accumulated
        self.loops = [op for op in ops if isinstance(op, Accumulate)]

    def build(self, step: int) -> None:
        """Build the loop, `step` chunks an iteration; afterwards `c.reduced` has the results of its reductions."""
        c, own = self.c, (self.nest.phases[self.sinks[0]], self.extent)
        self.assumed = [op for op in self.nest.body.ops_of(Assume) if (op.phase, op.extent) == own]
        if self.assumed:
            self._versions(step)
        else:
            self._loop(step, self._facts())
        for sink, values in zip(self.reductions, self.values, strict=True):
            self._finish(sink, values)
        c.forget(c.depth + 1)

    def _versions(self, step: int) -> None:
        """if <conditions>: fast loop, else: general loop; the fast one alone where there are no conditions.

        Where a row is split, it is only that: masks of both its sides are never on for a whole tile.
        """
        low = self._pieces() if self._is_split() else 0
        if low != 0:
            self._loop(1, {}, low)
            return
        fast_values = list[Sequence[Value]]()

        def fast() -> None:
            self._loop(step, self._facts())
            fast_values.extend(self.values)

        def general() -> None:
            low, values = self._pieces(), None
            if low == 0 and self._ends_within(step):
                low, values = self._prefix(min(max(1, step // 2), MAX_AT_ONCE))
            self._loop(step if self.loops and self.given else 1, {}, low)
            if values is not None:
                self.values = [
                    Combine(sink).together(self.c.b, both)
                    for sink, *both in zip(self.reductions, values, self.values, strict=True)
                ]

        branch = in_versions(self.c, asked_by(self.assumed, self.outer), fast, general)
        if branch is not None:
            self.values = [list(map(branch.join, *both)) for both in zip(fast_values, self.values, strict=True)]

    def _is_split(self) -> bool:
        """Whether pieces of a row are to be split where it goes from one array to another."""
        return any(SPLITS in op.attributes for sink in self.sinks for op in self.nest.closures[sink])

    def _ends_within(self, step: int) -> bool:
        """Whether rows may end within the tile in every program, and whole chunks of them should have no masks.

        Loops of much arithmetic, whose `step` is short, gain less, and need all registers; but narrow elements are
        often masked one by one.
        """
        c = self.c
        is_plain = self.by_rows and c.programs == 1 and c.ends is None and not c.optimize_size and not self.loops
        if not is_plain or self.extent <= MAX_AT_ONCE * c.lanes or any(isinstance(r, ATOMICS) for r in self.sinks):
            return False
        if step < MIN_AT_ONCE and not self._loads_narrow():
            return False
        neutral = (Combine(sink).identity(c.lanes, c.b) for sink in self.reductions)
        return has_same_end(self.assumed) and all(found is not None for found in neutral)

    def _loads_narrow(self) -> bool:
        """Whether elements of fewer bits are loaded than machines without AVX-512 mask."""
        loads = [op for sink in self.sinks for op in self.nest.closures[sink] if isinstance(op, Load)]
        return any(op.result.type.bits < NARROW for op in loads)

    def _prefix(self, chunks: int) -> tuple[Scalar, list[Sequence[Value]] | None]:
        """Build the loop over whole chunks; returns the lane behind it, and what it gives to each reduction."""
        c, b, found = self.c, self.c.b, list[Sequence[Value]]()
        most: Scalar = self.extent
        if self.reductions:  # a loop with results has one iteration at least
            c.depth += 1
            most = c.subtract(self._end(c.lanes), c.lanes, i64, c.depth - 1)
            c.depth -= 1
            c.active_lane_bound = None

        def build(end: Value) -> None:
            self._loop(chunks, {}, 0, end)
            found.extend(self.values)

        prefix = lower_prefix(c, self.assumed, self.outer, most, chunks * c.lanes, build)
        if prefix is None:
            return 0, None
        low, ops = prefix
        if not self.reductions and not reads_in_front(ops):
            b.splice(ops)
            return low, None
        with b.branch(b.compare("sgt", low, 0)) as branch, branch.then():
            b.splice(ops)
        if not self.reductions:
            return low, None
        neutral = [Combine(sink).identity(c.lanes, b) or () for sink in self.reductions]
        return low, [list(map(branch.join, *both)) for both in zip(found, neutral, strict=True)]

    def _facts(self) -> dict[str, Attribute]:
        """The facts of this loop for the passes that choose the order of loops."""
        c, nest = self.c, self.nest
        if not self.by_rows or c.optimize_size or not c.runs:
            return {}
        reads = bool(nest.body.ops_of(Read))
        several = c.programs == 1 and (c.runs == "iteration" or prod(nest.outer) > 1)
        phase = nest.phases[self.sinks[0]]
        facts: dict[str, Attribute] = {RUNS: Keyword(c.runs), **({PHASE: Number(phase, i64)} if phase else {})}
        if all(isinstance(r, Store) for r in self.sinks):
            facts[STORED] = Number(sum(_bytes(r) for r in self.sinks if isinstance(r, Store)), i64)
        holds = {MOVES: is_bound_by_memory(nest, nest.body), TILE: several and not reads}
        return facts | {name: UNIT for name, is_so in holds.items() if is_so}

    # ------------------------------------------------------------------ the loop itself

    def _loop(self, chunks: int, facts: Mapping[str, Attribute], low: Scalar = 0, after: Value | None = None) -> None:
        """The loop from the lane `low` on, `chunks` of whose iterations should be one, to before the lane `behind`.

        Chunks that a cpu.accumulate goes through at once are one iteration.
        """
        c, b = self.c, self.c.b
        at_once = chunks if self.loops else 1
        width = c.lanes * at_once if self.by_rows else 1
        inner = c.depth + 1
        c.depth = inner
        if self.by_rows and width >= self.extent and c.programs == 1 and (self.loops or not facts):
            self.values = self._iteration(0, at_once)
        else:
            end = self._end(c.lanes * chunks) if after is None else after
            with b.parallel(low, end, width, unroll=chunks // at_once, facts=facts) as loop:
                for sink, values in zip(self.reductions, self._iteration(loop.index, at_once), strict=True):
                    b.location = sink.location
                    loop.reduce(values, sink.regions[0])
            results = iter(loop.results)
            self.values = [[next(results) for _ in sink.operands] for sink in self.reductions]
            c.active_lane_bound = None
        c.depth = inner - 1

    def _end(self, width: int) -> Scalar:
        """The end of the loop: behind the masks where nothing beyond them is needed, else the extent."""
        c = self.c
        if c.fast or not self.by_rows or width >= self.extent or c.programs != 1:
            return c.multiply(c.programs, self.extent, i64, 0)
        if c.ends is not None:
            return end_of_copy(c, self.extent, width)
        return end_of_loop(c, self.nest, self.sinks, self.extent, self.outer, width)

    def _iteration(self, index: Scalar, chunks: int) -> list[Sequence[Value]]:
        """The chunks of one iteration: compute, then act; returns what they give to each reduction."""
        c = self.c
        acts: list[Act] = []
        new: dict[Reduce, list[list[Value]]] = {sink: [] for sink in self.reductions}
        accumulated = self._accumulated(index, chunks) if self.loops else []
        for chunk in range(chunks):
            c.forget(c.depth)
            if self.by_rows:
                c.position = c.add(index, chunk * c.lanes, i64, c.depth)
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
        for act in acts:
            act()
        for value in [value for found in accumulated for value in found[0]]:
            del c.reduced[value]
        return [Combine(sink).together(c.b, rows) for sink, rows in new.items()]

    def _accumulated(self, index: Scalar, chunks: int) -> list[Sequence[Found]]:
        """For each cpu.accumulate, its results in each chunk: they differ from chunk to chunk of the iteration at hand.

        Those that are given were computed further out, where versions of the loop are; what is computed from them would
        be taken to be the same in all chunks.
        """
        if self.given:
            return [[{value: self._in_iteration(value, lane) for value, lane in found.items()} for found in self.given]]
        c, where = self.c, (*self.outer, LANE)
        starts = [(chunk * c.lanes, c.add(index, chunk * c.lanes, i64, c.depth)) for chunk in range(chunks)]
        return [accumulate(c, op, [Place(*start, where) for start in starts]) for op in self.loops]

    def _in_iteration(self, value: Value, lane: Lane) -> Lane:
        return Vector(self.c.as_vector(lane, value.type.scalar).value, self.c.depth)

    def _pieces(self) -> Scalar:
        """The loops of pieces that a general loop is split into, where it can be; returns the lane behind them."""
        c = self.c
        if self.reductions or self.loops or any(isinstance(r, ATOMICS) for r in self.sinks):
            return 0
        if c.wraps or c.lanes == self.extent:
            return 0
        ops = dict.fromkeys(op for sink in self.sinks for op in self.nest.closures[sink])
        return lower_pieces(c, list(ops), self.assumed, self.outer, self._act)

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
            values = Combine(sink).across(c.b, values, short=c.optimize_size)
        kind = Uniform if self.by_rows else Vector
        for result, value in zip(sink.results, values, strict=True):
            c.reduced[result] = kind(value, c.depth)


def _bytes(store: Store) -> int:
    return tile_type(store.value).numel * size_of(store.value.type)
