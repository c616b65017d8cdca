"""A cpu.accumulate in a nest: a loop whose carried values stay in registers, for several chunks of lanes at once.

for start in low … high, carrying v0 … v7:
    if no lane is masked off:  v0 += load …; …; v7 += load …
    elif no row is:            the same under the masks of columns, if these are the same in all iterations
    else:                      the same under masks
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import NamedTuple

from tilewright.backends.cpu.costs import conjuncts, is_tile
from tilewright.backends.cpu.loop_structure import LoopFrame
from tilewright.backends.cpu.nest.context import Context, Guarded
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import (
    LANE,
    ZERO,
    ActiveLaneBound,
    Index,
    Lane,
    Scalar,
    Uniform,
    Vector,
    level_of,
    uniform,
)
from tilewright.backends.cpu.nest.loads import single_address
from tilewright.backends.cpu.nest.versions import Asked, asked_by, rely
from tilewright.dialects.arith import Binary
from tilewright.dialects.cpu import Accumulate, Assume
from tilewright.dialects.tt_memory import AddPtr
from tilewright.ir.core import Block, Value, defining
from tilewright.ir.types import i1, i64


class Place(NamedTuple):
    """A chunk of lanes: how many lanes behind the start of the step it starts, its first lane, and its index."""

    chunk: int
    position: Scalar
    where: Index


Found = dict[Value, Lane]
"""The results of loops at one place."""
NOTHING: Mapping[Asked, Lane] = {}


def accumulate(c: Context, op: Accumulate, places: Sequence[Place]) -> list[Found]:
    """The results of the loop `op` at each place, `at_once` of them in one loop."""
    groups = [places[start : start + op.at_once] for start in range(0, len(places), op.at_once)]
    return [found for group in groups for found in AccumulateLoop(c, op, group).build()]


class AccumulateLoop:
    """One loop for some places; its body is one level deeper than the loop, what differs from place to place two."""

    def __init__(self, c: Context, op: Accumulate, places: Sequence[Place]) -> None:
        self.c, self.op, self.places = c, op, places
        self.depth, self.lane_level = c.depth, c.lane_level
        counter, *self.carried = op.body.args
        self.counter = counter
        self.tiles = [number for number, value in enumerate(self.carried) if is_tile(value)]
        self.scalars = [number for number, value in enumerate(self.carried) if not is_tile(value)]

    def build(self) -> list[Found]:
        """Build the loop."""
        c, op = self.c, self.op
        bounds = [c.extend(self._number(v), v.type, i64, c.depth) for v in (op.low, op.high, op.step)]
        starts = [c.value(self._number(op.inits[number]), op.inits[number].type) for number in self.scalars]
        starts += self._lanes_of(op.inits, self.places)
        c.blocks.append(c.b.block)
        with c.b.loop(*bounds, carried=starts) as loop:
            self._body(loop)
        c.blocks.pop()
        c.depth, c.lane_level = self.depth, self.lane_level
        c.forget(self.depth)
        for value in op.body.args:
            del c.reduced[value]
        vectors = [Vector(value, self.depth) for value in loop.results[len(self.scalars) :]]
        return [{op.results[n]: x for n, x in zip(self.tiles, row, strict=True)} for row in self._by_place(vectors)]

    def _number(self, value: Value) -> Scalar:
        """`value`, which is no tile: a number or a pointer."""
        return single_address(self.c, evaluate(self.c, value, ())).value

    def _by_place(self, values: Sequence[Lane]) -> list[Sequence[Lane]]:
        """The carried values, grouped by place."""
        width = len(self.tiles)
        return [values[start : start + width] for start in range(0, len(values), width)]

    def _body(self, loop: LoopFrame) -> None:
        c, op = self.c, self.op
        c.forget(self.depth)
        level, self.body = self.depth + 1, c.b.block
        c.depth = level
        c.blocks.append(self.body)
        c.reduced[self.counter] = Uniform(c.extend(loop.index, i64, self.counter.type, level), level)
        for number, value in zip(self.scalars, loop.carried, strict=False):
            c.reduced[self.carried[number]] = Uniform(value, level)
        yielded = op.body.terminator.operands
        scalars = [c.value(self._number(yielded[number]), yielded[number].type) for number in self.scalars]
        vectors = self._versions([Vector(value, level + 1) for value in loop.carried[len(self.scalars) :]])
        loop.next = [*scalars, *vectors]
        self._split_addresses()
        c.blocks.pop()

    def _versions(self, carried: Sequence[Lane]) -> list[Value]:
        """The values that an iteration yields: computed without masks if one test shows that the result is the same."""
        c, level = self.c, self.depth + 1
        c.lane_level = level + 1
        assumed = self.op.body.ops_of(Assume)
        asked = [value for *_, where in self.places for value in asked_by(assumed, where[:-1])]
        rows, columns = self._parts_of_masks(asked)
        if not rows:
            return self._relying(asked, carried, partial(self._iteration, carried))
        before, fast = (c.certain, c.certain_at), Block()
        on, end = self._are_on(rows), self._end_of(columns)
        if end is not None:
            on = c.b.and_(on, c.compare("sgt", end, self.places[0].position, i64, self.depth))
        c.certain, c.certain_at = {**c.certain, **dict.fromkeys(rows, Uniform(1, 0))}, level + 1
        with self.c.b.into(fast):
            values = self._relying(asked, carried, partial(self._iteration_by_halves, carried, columns))
        c.certain, c.certain_at = before
        c.forget(level + 1)
        return self._choose(on, fast, values, partial(self._iteration, carried))

    def _relying(
        self, asked: Sequence[Asked], carried: Sequence[Lane], others: Callable[[], list[Value]]
    ) -> list[Value]:
        """One iteration, in a version that relies on what is asked; where it does not hold, that of `others`."""
        if not asked:
            return self._iteration(carried)
        c, b, level = self.c, self.c.b, self.depth + 1
        outer, fast = (c.fast, c.facts), Block()
        c.begin(Guarded(level + 1))
        conditions = rely(c, asked)
        with b.into(fast):
            values = self._iteration(carried)
        c.fast, c.facts = outer
        if not conditions:
            b.splice(fast)
            return values
        return self._choose(self._all_of(conditions), fast, values, others)

    def _choose(self, on: Value, fast: Block, values: list[Value], others: Callable[[], list[Value]]) -> list[Value]:
        """The `values` that `fast` computes where `on` holds, else those of `others`."""
        c, b, level = self.c, self.c.b, self.depth + 1
        is_outermost = b.block is self.body
        with b.branch(on) as branch:
            with branch.then():
                b.splice(fast)
            with branch.otherwise():
                if is_outermost:
                    c.blocks[level] = b.block
                general = others()
        return list(map(branch.join, values, general))

    def _parts_of_masks(self, asked: Sequence[Asked]) -> tuple[list[Asked], list[Asked]]:
        """The parts of masks for rows, which differ from iteration to iteration, and those for lanes, which do not.

        No rows where masks are of another kind.
        """
        masks = [(value, index) for value, index in asked if value.type.scalar is i1]
        parts = dict.fromkeys((part, _index_in(part, index)) for mask, index in masks for part in conjuncts(mask))
        rows = [key for key in parts if LANE not in key[1]]
        columns = [key for key in parts if LANE in key[1]]
        if not rows or not any(self._is_fixed(key) is False for key in rows) or not all(map(self._is_fixed, columns)):
            return [], []
        return rows, columns

    def _is_fixed(self, key: Asked) -> bool:
        """Whether a part of a mask is the same in all iterations."""
        return level_of(self._regardless_of_chunk(*key)) <= self.depth

    def _regardless_of_chunk(self, value: Value, index: Index) -> Lane:
        """`value` where no chunk has begun: vectors of it, which would be those of the last chunk, are not kept."""
        c = self.c
        c.depth += 1
        with c.b.into(Block()):
            found = evaluate(c, value, index)
            for left in reversed(list(c.b.block)):
                left.erase()
        c.forget(c.depth)
        c.depth -= 1
        return found

    def _are_on(self, rows: Sequence[Asked]) -> Value:
        """Whether `rows` are on, here and now: of a range of them the last one tells."""
        c, level, conditions = self.c, self.depth + 1, dict[Value, None]()
        for part, index in rows:
            below = self._end_of_rows(part, index)
            if below is None:
                on = c.value(uniform(evaluate(c, part, index)).value, i1)
            else:
                last = uniform(self.places[-1].where[-2])
                on = c.compare("sge", below, c.add(last.value, 1, i64, last.level), i64, level)
            conditions[on] = None
        return c.all_of(list(conditions))

    def _end_of_rows(self, part: Value, index: Index) -> Scalar | None:
        """The row before which all rows are on in a part of a mask; None: it is no range of rows."""
        c, shape = self.c, part.type.shape or ()
        if len(shape) < 2 or shape[-2] == 1:
            return None
        extent, c.extent = c.extent, shape[-2]
        bound = self._regardless_of_chunk(part, (*index[:-2], LANE, ZERO))
        c.extent = extent
        return bound.below if isinstance(bound, ActiveLaneBound) else None

    def _iteration_by_halves(self, carried: Sequence[Lane], columns: Sequence[Asked]) -> list[Value]:
        """One iteration in which all rows are on; the second half of them loads nothing if none of its columns is."""
        c, b, outer = self.c, self.c.b, (self.c.fast, self.c.facts, self.c.active_lane_bound)
        halves = [list[Place](), list[Place]()]
        for place in self.places:
            halves[2 * place.chunk >= self.op.extent].append(place)
        first, second = halves
        count, end = len(first) * len(self.tiles), self._end_of(columns)
        c.active_lane_bound = end if len({place.chunk for place in first}) == 1 else None
        found = self._iteration_of_rows(carried[:count], first)
        if second and end is None:
            found += self._iteration_of_rows(carried[count:], second)
        elif second and end is not None:
            with b.branch(c.compare("sgt", end, second[0].position, i64, self.depth)) as branch:
                with branch.then():
                    some = self._iteration_of_rows(carried[count:], second)
                with branch.otherwise():
                    none = self._iteration_of_rows(carried[count:], second, dict.fromkeys(columns, Uniform(0, 0)))
            found += map(branch.join, some, none)
        c.fast, c.facts, c.active_lane_bound = outer
        return found

    def _iteration_of_rows(
        self, carried: Sequence[Lane], places: Sequence[Place], certain: Mapping[Asked, Lane] = NOTHING
    ) -> list[Value]:
        """One iteration at some places, in which all rows are on; what is computed for others is not the same there."""
        c, before = self.c, self.c.certain
        c.begin(Guarded(self.depth + 2))
        c.certain = {**before, **certain}
        found = self._iteration(carried, places)
        c.certain = before
        return found

    def _end_of(self, columns: Sequence[Asked]) -> Scalar | None:
        """The lane from which on the only mask of columns is off, known before the loop; None: there are others."""
        bound = evaluate(self.c, *columns[0]) if len(columns) == 1 else None
        return self.c.end_of(bound) if isinstance(bound, ActiveLaneBound) else None

    def _split_addresses(self) -> None:
        """base + (row + column) → (base + row) + column where an iteration changes nothing but the column."""
        c, body = self.c, self.c.b.block
        for step in [op for op in body.ops_of(AddPtr) if not _is_in(op.pointer, body)]:
            sum = defining(step.offset, Binary)
            if sum is None or sum.name != "arith.addi" or sum.block is not body:
                continue
            fixed, moving = sorted(sum.operands, key=lambda value: _is_in(value, body))
            if not _is_in(fixed, body) and _is_in(moving, body):
                row = c.emit(self.depth, "tt.addptr", step.pointer.type, step.pointer, fixed)
                step.set_operands((row, moving))
                if not sum.result.uses:
                    sum.erase()

    def _all_of(self, conditions: Sequence[Value]) -> Value:
        """Whether all of these i1 hold, here and now; those that no iteration changes are one before the loop."""
        c, own = self.c, [value for value in conditions if _is_in(value, self.body) or _is_in(value, self.c.b.block)]
        others = [value for value in conditions if value not in own]
        first = reduce(lambda x, y: c.emit(self.depth, "arith.andi", i1, x, y), others) if others else None
        return c.all_of(own if first is None else [*own, first])

    def _iteration(self, carried: Sequence[Lane], places: Sequence[Place] = ()) -> list[Value]:
        """One iteration at each place, or at some of them, here and now."""
        c, rows = self.c, self._by_place(carried)
        yielded, c.depth = self.op.body.terminator.operands, self.depth + 2

        def bind(number: int) -> None:
            for tile, lane in zip(self.tiles, rows[number], strict=True):
                c.reduced[self.carried[tile]] = lane

        vectors = self._lanes_of(yielded, places or self.places, bind)
        c.depth = self.depth + 1
        c.forget(self.depth + 2)
        return vectors

    def _lanes_of(
        self, values: Sequence[Value], places: Sequence[Place], bind: Callable[[int], None] = lambda number: None
    ) -> list[Value]:
        """The vectors of the tiles among `values` at each place, for which `bind` is called first."""
        c, found = self.c, list[Value]()
        for number, place in enumerate(places):
            if number == 0 or place.chunk != places[number - 1].chunk:
                c.forget(c.depth)
            c.position = place.position
            bind(number)
            tiles = [values[tile] for tile in self.tiles]
            found += [c.as_vector(evaluate(c, value, place.where), value.type.scalar).value for value in tiles]
        return found


def _index_in(part: Value, index: Index) -> Index:
    """The index of a part of a mask, which is broadcast along axes of one element."""
    return tuple(ZERO if extent == 1 else lane for extent, lane in zip(part.type.shape or (), index, strict=True))


def _is_in(value: Value, block: Block) -> bool:
    """Whether `value` is computed at the top of `block`, or is an argument of it."""
    return value.owner is block or (value.op is not None and value.op.block is block)
