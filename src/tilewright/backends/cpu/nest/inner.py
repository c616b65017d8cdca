"""The inner loops of one phase: chunks of lanes (rows) or steps along the reduced axis (columns).

Rows with masks come in two versions: a fast one for rows where all lanes are on, ranges do not wrap and so on, chosen
by one scalar test in front of the loop, and a general one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.backends.cpu.costs import ACCESSES, ATOMICS, STORES, cost
from tilewright.backends.cpu.nest.combine import Combine
from tilewright.backends.cpu.nest.context import Context, MovedRows
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import LANE, ActiveLaneBound, Index, Uniform, Vector
from tilewright.backends.cpu.nest.loads import masks_memory
from tilewright.backends.cpu.nest.sinks import Act, prepare
from tilewright.backends.cpu.nest.streaming import Order
from tilewright.backends.cpu.reduction_splitting import Nest, is_bound_by_memory
from tilewright.backends.llvm.spelling import vector
from tilewright.dialects.arith import IntegerRemainder, Select
from tilewright.dialects.cpu import GuardedStore
from tilewright.dialects.tt_memory import Store
from tilewright.dialects.tt_reduce import Reduce
from tilewright.ir.core import Op, tile_type

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

FEW_REGISTERS = 16
"""The number of vector registers with which no more than two chunks with powers are unrolled: the constants and the
table of exp take most of them, and LLVM keeps what is computed of more chunks in memory (5 to 8 % slower)."""


@dataclass
class Accumulator:
    """A reduction in progress: one vector per operand and unrolled chunk."""

    sink: Reduce
    combine: Combine
    start: list[str] | None
    values: list[list[str]] = field(default_factory=list)

    def together(self, c: Context) -> list[str]:
        """The vectors of all chunks combined into one per operand."""
        rows = self.values
        while len(rows) > 1:
            rows = [self.combine.apply(c.w, a, b, c.lanes) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        return rows[0]


class InnerLoop:
    """One inner loop over `extent` elements for `sinks`, which all run in one phase."""

    def __init__(self, c: Context, nest: Nest, sinks: Sequence[Op], extent: int, outer: Index) -> None:
        self.c, self.nest, self.sinks, self.extent, self.outer = c, nest, sinks, extent, outer
        self.by_rows = nest.mode == "rows"
        self.accumulators = [self._accumulator(r) for r in sinks if isinstance(r, Reduce)]

    def _accumulator(self, sink: Reduce) -> Accumulator:
        combine = Combine(sink)
        identity = combine.identity()
        c = self.c
        if identity is not None:
            identity = [c.w.splat(i, e, c.lanes) for i, e in zip(identity, combine.elements, strict=True)]
        return Accumulator(sink, combine, identity)

    def emit(self) -> None:
        """Write the loop; afterwards `c.reduced` has the results of its reductions."""
        c = self.c
        step = self._chunks_per_step()
        if self.by_rows and self._has_conditions() and not c.optimize_size:
            self._versions(step)
        else:
            self._in_best_order(step)
        for accumulator in self.accumulators:
            self._finish(accumulator)
        c.forget(c.depth + 1)

    def _has_conditions(self) -> bool:
        """Whether there is anything that a fast version could leave out."""
        for sink in self.sinks:
            ops = [sink, *self.nest.closures[sink]]
            if isinstance(sink, ATOMICS):
                return False
            if any(_is_masked(op) or isinstance(op, IntegerRemainder) or op.name == "arith.divf" for op in ops):
                return True
            if any(isinstance(op, Select) and masks_memory(op.condition) for op in ops):
                return True
        return False

    def _chunks_per_step(self) -> int:
        """The chunks of a step: many if they are cheap, which also gives reductions enough independent accumulators."""
        c, nest = self.c, self.nest
        if not self.by_rows or c.optimize_size or any(isinstance(r, ATOMICS) for r in self.sinks):
            return 1
        ops = {o for r in self.sinks for o in nest.closures[r] if not nest.is_row_level(o.result)}
        size = sum(min(cost(o), LONG) for o in ops)
        is_tight = c.target.registers <= FEW_REGISTERS and any(o.name.startswith("math.exp") for o in ops)
        most = 2 if is_tight else 8 if self.accumulators else 4
        wanted = next(n for n in (most, 4, 2, 1) if n <= most and (n * size <= UNROLLED or n == 1))
        chunks, is_tile = self.extent // c.lanes, not nest.outer and not self.accumulators
        return max(1, min(wanted, chunks // ITERATIONS if is_tile else chunks))

    def _versions(self, step: int) -> None:
        """if <guards>: fast loop, else: general loop."""
        c, w = self.c, self.c.w
        condition = w.fresh("fast")
        conditions = w.open_section()
        outcomes: list[list[list[str]]] = []
        with w.branch(condition) as branch:
            for fast, side in ((True, branch.then), (False, branch.otherwise)):
                with side():
                    c.fast = fast
                    if fast:
                        self._in_best_order(step)
                    else:
                        self._loop(1)
                    c.forget(c.depth + 1)
                    outcomes.append([a.together(c) for a in self.accumulators])
        c.fast = False
        for accumulator, fast_values, slow_values in zip(self.accumulators, *outcomes, strict=True):
            types = [vector(e, c.lanes) for e in accumulator.combine.elements]
            joined = [branch.join(t, x, y) for t, x, y in zip(types, fast_values, slow_values, strict=True)]
            accumulator.values = [joined]
        with w.at(conditions):
            name = "true"
            for guard in c.assumed():
                name = guard if name == "true" else w.emit(f"and i1 {name}, {guard}")
            w.do(f"{condition} = and i1 {name}, true")
        c.guards = 0

    def _in_best_order(self, step: int) -> None:
        """The loop, in the order that suits the addresses of what it moves, and past the caches if that pays."""
        c = self.c
        several = self.by_rows and not c.optimize_size and c.programs is not None and step * c.lanes < self.extent
        stores = [r for r in self.sinks if isinstance(r, STORES)]
        stored = sum(map(_bytes, stores)) if several and len(stores) == len(self.sinks) else 0
        w, bound = c.w, is_bound_by_memory(self.nest, self.nest.body)
        rereads = self.nest.phases[self.sinks[0]] > 0
        backwards = w.fresh("backwards") if stored >= ORDERED_TILE and (rereads or not bound) else ""
        streams = w.fresh("streams") if stored >= STREAMED_TILE and bound and not c.target.neon else ""
        if not backwards and not streams:
            self._loop(step)
            return
        conditions = w.open_section()
        c.moved = MovedRows()
        if streams:
            self._streamed(step, backwards, streams, max(1, STREAMED // (c.lanes * _element_bytes(stores[0]))))
        else:
            self._loop(step, backwards)
        with w.at(conditions):
            order = Order(c, stored, rereads=rereads)
            if streams:
                w.do(f"{streams} = and i1 {order.streams()}, true")
            if backwards:
                w.do(f"{backwards} = and i1 {order.backwards(streams)}, true")
        c.moved = None

    def _streamed(self, step: int, backwards: str, streams: str, most: int) -> None:
        """Two loops; where the i1 `streams` holds, the one that stores past the caches, `most` chunks in a step.

        Nests that compute much do not need it: caches take in the stores of one row while the next one is computed.
        """
        c = self.c
        with c.w.branch(streams) as branch:
            with branch.then():
                c.streaming = True
                self._loop(min(step, most), backwards)
                c.forget(c.depth + 1)
                c.streaming = False
            with branch.otherwise():
                self._loop(step, backwards)

    # ------------------------------------------------------------------ the loop itself

    def _loop(self, chunks: int, backwards: str = "") -> None:
        """The loop, with so many chunks in a step; where the i1 `backwards` holds, from the last step to the first."""
        c, w = self.c, self.c.w
        width = c.lanes * chunks if self.by_rows else 1
        inner = c.depth + 1
        c.depth = inner
        for accumulator in self.accumulators:
            accumulator.values = []
        if self.by_rows and width >= self.extent:
            self._iteration("0", chunks, None)
        else:
            carried, end = self._carried(chunks), self._end(width)
            flip = w.emit(f"select i1 {backwards}, i64 {self.extent - width}, i64 0") if backwards else ""
            with w.loop(0, end, width, carried=carried, guarded=end != str(self.extent)) as loop:
                self._restore(loop.carried, chunks)
                index = w.emit(f"xor i64 {loop.index}, {flip}") if flip else loop.index
                self._iteration(index, chunks, loop.index)
                loop.next = [name for a in self.accumulators for row in a.values for name in row]
            self._restore(loop.results, chunks)
            c.active_lane_bound = ""
        c.depth = inner - 1

    def _end(self, width: int) -> str:
        """The end of the loop: behind the last active lane, if it only does masked stores; else the extent."""
        c = self.c
        if c.fast or not self.by_rows or not all(_is_masked(r) for r in self.sinks):
            return str(self.extent)
        c.position = "0"  # what general masks compute here is not used, but must not name another loop's lane
        ends: dict[str, int] = {}
        for sink in self.sinks:
            *_, last = sink.operands  # the mask, or the buffer that keeps it, which has no end
            mask = evaluate(c, last, (*self.outer, LANE))
            if not isinstance(mask, ActiveLaneBound) or mask.level >= c.depth:
                return str(self.extent)
            ends[mask.below] = mask.level
        end, level = "0", c.depth - 1
        for below, where in ends.items():
            end = c.intrinsic(where, "llvm.smax", end, below)
        if len(ends) == 1 and width == c.lanes:
            (c.active_lane_bound,) = ends
        bounded = c.intrinsic(level, "llvm.smin", end, str(self.extent))
        return c.emit(level, f"and i64 {c.add(bounded, str(width - 1), 'i64', level)}, {-width}")

    def _carried(self, chunks: int) -> list[tuple[str, str]]:
        c = self.c
        found = []
        for a in self.accumulators:
            types = [vector(e, c.lanes) for e in a.combine.elements]
            zero = ["zeroinitializer" if c.lanes > 1 else _scalar_zero(e) for e in a.combine.elements]
            for _ in range(chunks):
                found += list(zip(types, a.start or zero, strict=True))
        return found

    def _restore(self, names: Sequence[str], chunks: int) -> None:
        rest = iter(names)
        for a in self.accumulators:
            a.values = [[next(rest) for _ in a.combine.elements] for _ in range(chunks)]

    def _iteration(self, index: str, chunks: int, counter: str | None) -> None:
        """All chunks of one step: compute, reduce, then act."""
        c = self.c
        acts: list[Act] = []
        for chunk in range(chunks):
            c.forget(c.depth)
            if self.by_rows:
                c.position = c.add(index, str(chunk * c.lanes), "i64", c.depth)
            for sink in self.sinks:
                if isinstance(sink, Reduce):
                    self._accumulate(sink, chunk, index, counter)
                else:
                    act = prepare(c, sink, self._index(sink, index))
                    if isinstance(sink, ATOMICS):
                        act()
                    else:
                        acts.append(act)
        for act in acts:
            act()

    def _index(self, sink: Op, inner: str) -> Index:
        if self.by_rows:
            return (*self.outer, LANE)
        found = list(self.outer)
        found.insert(self.nest.axis, Uniform(inner, self.c.depth))
        return tuple(found)

    def _accumulate(self, sink: Reduce, chunk: int, index: str, counter: str | None) -> None:
        c = self.c
        accumulator = next(a for a in self.accumulators if a.sink is sink)
        where = self._index(sink, index)
        new = [
            c.as_vector(evaluate(c, v, where), e).name
            for v, e in zip(sink.operands, accumulator.combine.elements, strict=True)
        ]
        if counter is None:
            accumulator.values.append(new)
            return
        old = accumulator.values[chunk]
        combined = accumulator.combine.apply(c.w, old, new, c.lanes)
        if accumulator.start is None:
            first = c.w.emit(f"icmp eq i64 {counter}, 0")
            combined = accumulator.combine.select(c.w, first, new, combined, c.lanes)
        accumulator.values[chunk] = combined

    def _finish(self, accumulator: Accumulator) -> None:
        """Chunks together, then lanes together (rows)."""
        c = self.c
        values = accumulator.together(c)
        if self.by_rows:
            values = accumulator.combine.across(c.w, values, c.lanes)
        kind = Uniform if self.by_rows else Vector
        for result, name in zip(accumulator.sink.results, values, strict=True):
            c.reduced[result] = kind(name, c.depth)


def _bytes(store: Store | GuardedStore) -> int:
    return tile_type(store.value).numel * _element_bytes(store)


def _element_bytes(store: Store | GuardedStore) -> int:
    return max(8, store.value.type.bits) // 8


def _is_masked(op: Op) -> bool:
    return isinstance(op, ACCESSES) and op.mask is not None


def _scalar_zero(element: str) -> str:
    return "0" if element.startswith("i") else "zeroinitializer"
