"""A cpu.nest as loops: the outer ones, then per row the phases with their inner loops.

for i in outer:                           rows
    phase 0: for chunks of lanes along the last axis
    phase 1: …
for chunks of lanes of the last outer axis:      columns
    phase 0: for k along the reduced axis
for 16 rows, for 16 columns:              stores across the loads, which the pass `blocked_transpose` has chosen
    16 vectors along a row each, transposed, are 16 vectors along a column each
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tilewright.backends.cpu.affine import is_affine
from tilewright.backends.cpu.costs import ACCESSES, STORES
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.cpu.loop_facts import COUNTED, ROWS, STORE_IS_OUTER, TRANSPOSED, VALUE_IS_OUTER
from tilewright.backends.cpu.nest.accumulate import Found, Place, accumulate
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.ends import end_of_rows, parts_of_rows
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.inner import InnerLoop
from tilewright.backends.cpu.nest.lane_values import LANE, ZERO, Affine, Index, Scalar, Uniform, Vector, uniform
from tilewright.backends.cpu.nest.loads import is_computed
from tilewright.backends.cpu.nest.scans import lower_scan
from tilewright.backends.cpu.nest.sinks import prepare
from tilewright.backends.cpu.nest.stores import Act, write
from tilewright.backends.cpu.reduction_splitting import Nest
from tilewright.dialects.cpu import Accumulate, Write
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_reduce import Scan
from tilewright.ir.attributes import UNIT, Attribute, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import i64


class NestBuilder:
    """Builds one nest."""

    def __init__(self, c: Context, nest: Nest) -> None:
        self.c, self.nest = c, nest
        self.chunks = {loop[:2]: chunks for loop, chunks in zip(nest.every_loop(), nest.op.chunks, strict=False)}
        self.accumulate = next(iter(nest.body.ops_of(Accumulate)), None)

    def build(self) -> list[Value]:
        if self.nest.op.square:
            self._store_blocks(self.nest.op.square, self.nest.outer, ())
        else:
            self._outer(self.nest.outer if self.nest.mode == "rows" else self.nest.outer[:-1], ())
        return [self._result(v) for v in self.nest.body.terminator.operands]

    def _store_blocks(self, lanes: int, extents: tuple[int, ...], index: Index) -> None:
        """Build a nest whose stores run across its loads, by squares of `lanes` rows and columns."""
        c = self.c
        if len(extents) > 1:
            with self._level(extents[0], 1) as counter:
                self._store_blocks(lanes, extents[1:], (*index, Uniform(counter, c.depth)))
            return
        stores = [store for store in self.nest.sinks if isinstance(store, Store)]
        across = [op.result for op in self.nest.body.ops_of(Load) if TRANSPOSED in op.attributes]
        c.lanes, c.extent = lanes, self.nest.inner_extent(stores[0])
        with self._level(extents[0], lanes) as counter:
            row = Uniform(counter, c.depth)
            with self._level(c.extent, lanes) as c.position:
                column = Uniform(c.position, c.depth)
                for act in [act for store in stores for act in store_block(c, store, across, index, row, column)]:
                    act()

    def _result(self, value: Value) -> Value:
        return self.c.value(uniform(evaluate(self.c, value, ())).value, value.type)

    def _outer(self, extents: tuple[int, ...], index: Index) -> None:
        """One loop per extent, then the body."""
        if not extents:
            if self.nest.mode == "rows":
                self._phases([index])
            else:
                self._column_chunks(index)
            return
        together = self.nest.op.together if len(extents) == 1 else 1
        end, on = end_of_rows(self.c, self.nest, extents[0])
        marks = dict[str, Attribute]()
        if len(extents) == together == 1 and asks_for_runs(self.nest):
            marks[ROWS] = Number(self.nest.inner_extent(self.nest.sinks[0]), i64)
        parts = [(0, end, on)] if on or together > 1 else parts_of_rows(self.c, self.nest, end)
        for number, (low, high, on) in enumerate(parts):
            counted = {COUNTED: UNIT} if number + 1 < len(parts) else {}
            with self._level(high, together, {**marks, **counted}, low) as counter:
                c = self.c
                if together == 1:
                    row = Uniform(counter, c.depth)
                    c.certain, c.certain_at = {(mask, (row, ZERO)): Uniform(1, 0) for mask in on}, c.depth
                    self._outer(extents[1:], (*index, row))
                else:
                    numbers = [c.add(counter, row, i64, c.depth) for row in range(together)]
                    self._phases([(*index, Uniform(number, c.depth)) for number in numbers])

    def _accumulated(self, op: Accumulate, rows: list[Index]) -> list[list[Found]]:
        """The results of the loop `op`, for each row and each chunk of it."""
        c = self.c
        c.extent, c.lanes = op.extent, min(op.extent, self.nest.op.lanes)
        chunks = range(0, c.extent, c.lanes)
        c.blocks[c.depth] = c.b.block
        c.depth += 1
        found = accumulate(c, op, [Place(chunk, chunk, (*row, LANE)) for chunk in chunks for row in rows])
        c.depth -= 1
        return [found[number :: len(rows)] for number in range(len(rows))]

    @contextmanager
    def _level(
        self, extent: Scalar, step: int, marks: Mapping[str, Attribute] | None = None, low: Scalar = 0
    ) -> Iterator[Scalar]:
        """One loop level deeper, from `low` to `extent`; yields the counter."""
        if (low, extent) == (0, step):
            with self._deeper():
                yield 0
        else:
            with self.c.b.loop(low, extent, step, marks=marks) as loop, self._deeper():
                yield loop.index

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        c = self.c
        c.depth += 1
        c.blocks.append(c.b.block)
        yield
        c.forget(c.depth)
        c.blocks.pop()
        c.depth -= 1

    def _column_chunks(self, index: Index) -> None:
        c = self.c
        extent = self.nest.outer[-1]
        c.lanes = min(extent, self.nest.op.lanes)
        c.extent = extent
        with self._level(extent, c.lanes) as counter:
            c.position = counter
            self._phases([(*index, LANE)])

    def _phases(self, rows: list[Index]) -> None:
        """All phases, each for all `rows` before the next one."""
        c, nest = self.c, self.nest
        reduced = [c.reduced, *({} for _ in rows[1:])]
        loop = self.accumulate
        given = [[]] * len(rows) if loop is None or len(rows) == 1 else self._accumulated(loop, rows)
        for phase in sorted(set(nest.phases.values())):
            loops = nest.loops(phase)
            inner = {sink for _, sinks in loops for sink in sinks}
            for index, c.reduced, accumulated in zip(rows, reduced, given, strict=True):
                c.blocks[c.depth] = c.b.block
                for extent, sinks in loops:
                    self._inner(sinks, extent, index, accumulated)
                own = [sink for sink in nest.sinks if nest.phases[sink] == phase and sink not in inner]
                for act in [prepare(c, sink, index) for sink in own]:
                    act()
        c.reduced = reduced[0]

    def _inner(self, sinks: list[Op], extent: int, index: Index, accumulated: list[Found]) -> None:
        c = self.c
        if self.nest.mode == "rows":
            c.lanes, c.extent = min(extent, self.nest.op.lanes), extent
        scans = [r for r in sinks if isinstance(r, Scan)]
        if scans:
            lower_scan(c, self.nest, scans[0], [r for r in sinks if isinstance(r, Write)], extent, index)
        else:
            chunks = self.chunks.get((self.nest.phases[sinks[0]], extent), 1)
            InnerLoop(c, self.nest, sinks, extent, index, accumulated).build(chunks)


def asks_for_runs(nest: Nest) -> bool:
    """Whether each row ends in one store or write, and its lanes are tested at run time for being neighbours."""
    if len(nest.sinks) != 1:  # there is none where the one store of a nest never happens
        return False
    (sink,) = nest.sinks
    is_write = isinstance(sink, STORES) or (isinstance(sink, Write) and not sink.row)
    if not is_write or nest.mode != "rows":
        return False
    accesses = nest.body.ops_of(ACCESSES)
    return any(not is_affine(op.pointer) and is_computed(op.pointer) for op in accesses)


def store_block(
    c: Context, store: Store, loads_across: list[Value], outer: Index, row: Uniform, column: Uniform
) -> list[Act]:
    """Compute W × W elements from (row, column) on, with `loads_across` transposed; what is returned stores them.

    Args:
        c: the context, with W lanes.
        store: the store.
        loads_across: the results of the loads that are read along the other axis.
        outer: the indices of the axes around the block.
        row, column: the indices of its first element.
    """
    along = [(*outer, _next(c, row, i), LANE) for i in range(c.lanes)]
    across = [(*outer, Affine(row.value, 1, row.level, local=True), _next(c, column, i)) for i in range(c.lanes)]
    place, value = store.pointer, store.value
    value_is_outer, store_is_outer = (name in store.attributes for name in (VALUE_IS_OUTER, STORE_IS_OUTER))
    element = value.type.scalar
    asked, other = (across, along) if value_is_outer else (along, across)
    _transpose_loads(c, loads_across, asked, other)
    vectors = [c.as_vector(evaluate(c, value, index), element) for index in asked]
    if value_is_outer != store_is_outer:
        vectors = [Vector(column, c.depth) for column in transposed(c.b, [v.value for v in vectors])]
    places = [evaluate(c, place, index) for index in (across if store_is_outer else along)]
    return [write(c, address, v, None, element) for address, v in zip(places, vectors, strict=True)]


def _transpose_loads(c: Context, loaded: list[Value], asked: list[Index], other: list[Index]) -> None:
    """Load vectors along the axis that is not asked for, and keep their transpose as the answer."""
    for value in loaded:
        if c.known((value, asked[0]), c.memos()) is None:
            own = [c.as_vector(evaluate(c, value, index), value.type.scalar).value for index in other]
            for index, lanes in zip(asked, transposed(c.b, own), strict=True):
                c.remember((value, index), Vector(lanes, c.depth), c.memos())


def _next(c: Context, start: Uniform, number: int) -> Uniform:
    return Uniform(c.add(start.value, number, i64, start.level), start.level)


def transposed(b: LoopBuilder, rows: list[Value]) -> list[Value]:
    """The columns of the square matrix with these rows, a power of two of them: log2 W rounds exchange halves."""
    count = len(rows)
    for half in (1 << bit for bit in range(count.bit_length() - 1)):
        low = [lane if not lane & half else lane - half + count for lane in range(count)]
        high = [lane + half if not lane & half else lane + count for lane in range(count)]
        exchanged = list(rows)
        for i in range(count):
            if not i & half:
                x, y = rows[i], rows[i + half]
                exchanged[i], exchanged[i + half] = b.shuffle(x, y, low), b.shuffle(x, y, high)
        rows = exchanged
    return rows
