"""A cpu.accumulate in a nest: a loop whose carried values stay in registers, for several chunks of lanes at once.

for start in low … high, carrying v0 … v7:
    if no lane is masked off:  v0 += load …; …; v7 += load …
    else:                      the same under masks
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

from tilewright.backends.cpu.costs import is_tile
from tilewright.backends.cpu.loop_structure import LoopFrame
from tilewright.backends.cpu.nest.context import Context, Guarded
from tilewright.backends.cpu.nest.evaluate import evaluate
from tilewright.backends.cpu.nest.lane_values import Index, Lane, Scalar, Uniform, Vector, uniform
from tilewright.backends.cpu.nest.versions import asked_by, rely
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
        starts += self._lanes_of(op.inits)
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
        return uniform(evaluate(self.c, value, ())).value

    def _by_place(self, values: Sequence[Lane]) -> list[Sequence[Lane]]:
        """The carried values, grouped by place."""
        width = len(self.tiles)
        return [values[start : start + width] for start in range(0, len(values), width)]

    def _body(self, loop: LoopFrame) -> None:
        c, op = self.c, self.op
        c.forget(self.depth)
        level = c.depth = self.depth + 1
        c.blocks.append(c.b.block)
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
        c, b, level = self.c, self.c.b, self.depth + 1
        c.lane_level = level + 1
        assumed = self.op.body.ops_of(Assume)
        if not assumed:
            return self._turn(carried)
        outer, fast = (c.fast, c.facts), Block()
        c.begin(Guarded(level + 1))
        conditions = self._rely(assumed)
        with b.into(fast):
            values = self._turn(carried)
        c.fast, c.facts = outer
        if not conditions:
            b.splice(fast)
            return values
        with b.branch(self._all_of(conditions)) as branch:
            with branch.then():
                b.splice(fast)
            with branch.otherwise():
                c.blocks[level] = b.block
                others = self._turn(carried)
        return list(map(branch.join, values, others))

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
        c, own = self.c, [value for value in conditions if _is_in(value, self.c.b.block)]
        others = [value for value in conditions if value not in own]
        first = reduce(lambda x, y: c.emit(self.depth, "arith.andi", i1, x, y), others) if others else None
        return c.all_of(own if first is None else [*own, first])

    def _rely(self, assumed: Sequence[Assume]) -> Sequence[Value]:
        """Let an iteration rely on what is assumed, at all places; returns the conditions."""
        for *_, where in self.places:
            conditions = rely(self.c, asked_by(assumed, where[:-1]))
        return conditions

    def _turn(self, carried: Sequence[Lane]) -> list[Value]:
        """One iteration at each place, here and now."""
        c, rows = self.c, self._by_place(carried)
        yielded, c.depth = self.op.body.terminator.operands, self.depth + 2

        def bind(number: int) -> None:
            for tile, lane in zip(self.tiles, rows[number], strict=True):
                c.reduced[self.carried[tile]] = lane

        vectors = self._lanes_of(yielded, bind)
        c.depth = self.depth + 1
        c.forget(self.depth + 2)
        return vectors

    def _lanes_of(self, values: Sequence[Value], bind: Callable[[int], None] = lambda number: None) -> list[Value]:
        """The vectors of the tiles among `values` at each place, for which `bind` is called first."""
        c, found = self.c, list[Value]()
        for number, place in enumerate(self.places):
            if number == 0 or place.chunk != self.places[number - 1].chunk:
                c.forget(c.depth)
            c.position = place.position
            bind(number)
            tiles = [values[tile] for tile in self.tiles]
            found += [c.as_vector(evaluate(c, value, place.where), value.type.scalar).value for value in tiles]
        return found


def _is_in(value: Value, block: Block) -> bool:
    """Whether `value` is computed at the top of `block`, or is an argument of it."""
    return value.owner is block or (value.op is not None and value.op.block is block)
