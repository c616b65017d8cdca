"""The function of a map as ops on whole tiles, loops and branches included.

while x != 1:  x = step(x)      while any(active): x = step(x)      with  active &= x != 1  and results that stay
                                                                    where an element is no longer active

if c: a else: b                 select(c, a, b)                     both sides are computed

A loop whose bounds are the same for all elements stays as it is. Elements that a branch left out are not active in the
loops inside of it, so a loop ends when it ends for those that are really there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.traits import Loop
from tilewright.dialects.tt_program import Assert
from tilewright.dialects.tt_reduce import MapElementwise
from tilewright.ir.attributes import Attribute, Keyword, Number, span_of
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import FloatType, PointerType, TensorType, Type, i1, i32, i64
from tilewright.support.diagnostics import NotSupported, located
from tilewright.transforms.op_builder import combine_region

Place = Callable[[Op], Op]
"""Puts an op where the code is written."""
Tiles = list[Value]


class TilesOfMap:
    """Code for all elements of the map `op`; `shape` is that of the tiles."""

    def __init__(self, op: MapElementwise, shape: tuple[int, ...]) -> None:
        self.op, self.shape = op, shape
        self.tiles: dict[Value, Value] = {}
        inside = [op.function.block.args, *(inner.results for inner in op.function.walk())]
        inside += [block.args for inner in op.function.walk() for region in inner.regions for block in region.blocks]
        self.inner = {value for values in inside for value in values}
        self.before: Place = lambda new: _block_of(op).insert(new, op)

    def results(self, arguments: Sequence[Value]) -> Tiles:
        """The results of the region for these tiles."""
        block = self.op.function.block
        self.tiles.update(zip(block.args, arguments, strict=True))
        return self._block(block, self.before, None)

    def _tile(self, value: Value) -> Value:
        found = self.tiles.get(value)
        if found is None:  # a constant, or a scalar from outside of the map
            found = self.tiles[value] = self._emit(self.before, "tt.splat", [self._scalar(value)], value.type)
        return found

    def _scalar(self, value: Value) -> Value:
        constant = value.op
        if constant is not None and constant.definition.constant:
            return self.before(constant.clone()).result
        return value

    def _emit(
        self,
        place: Place,
        name: str,
        operands: Sequence[Value],
        type: Type,
        attributes: dict[str, Attribute] | None = None,
    ) -> Value:
        """A new op whose result has elements of this type."""
        return place(Op.create(name, operands, [self._type(type)], attributes, location=self.op.location)).result

    def _type(self, type: Type) -> Type:
        return TensorType(self.shape, type.scalar)

    def _constant(self, number: int, type: Type) -> Value:
        """A tile of this number; of pointers only 0."""
        if isinstance(type.scalar, PointerType):
            return self._emit(self.before, "tt.int_to_ptr", [self._constant(0, i64)], type)
        value = Number(float(number) if isinstance(type.scalar, FloatType) else number, type.scalar)
        scalar = self.before(
            Op.create("arith.constant", (), [type.scalar], {"value": value}, location=self.op.location)
        )
        return self._emit(self.before, "tt.splat", [scalar.result], type)

    def _block(self, block: Block, place: Place, mask: Value | None) -> Tiles:
        """The ops of a block; `mask` says which elements are there, None that all are."""
        for op in block:
            if op.definition.terminator:
                return [self._tile(value) for value in op.operands]
            if not op.definition.constant:
                results = self._op(op, place, mask)
                self.tiles.update(zip(op.results, results, strict=True))
        raise AssertionError("every block has a terminator")

    def _op(self, op: Op, place: Place, mask: Value | None) -> Tiles:
        if isinstance(op, If):
            return self._branch(op, place, mask)
        if isinstance(op, While):
            return self._while(op, place, mask)
        if isinstance(op, For):
            is_same = all(self._is_same_for_all(value) for value in (op.low, op.high, op.step))
            return self._counted(op, place, mask) if is_same else self._for(op, place, mask)
        if isinstance(op, Assert):
            return self._assert(op, place, mask)
        if not is_elementwise(op):
            reason = "the CPU computes all elements at once"
            raise located(NotSupported(f"{op.name} in a function of elements", reason), span_of(op.location))
        operands, types = [self._tile(value) for value in op.operands], [self._type(value.type) for value in op.results]
        return place(Op.create(op.name, operands, types, op.attributes, location=op.location)).results

    def _assert(self, op: Assert, place: Place, mask: Value | None) -> Tiles:
        """Write an assertion about the active elements."""
        holds = self._tile(op.condition)
        if mask is not None:
            absent = self._emit(place, "arith.xori", [mask, self._constant(1, i1)], i1)
            holds = self._emit(place, "arith.ori", [holds, absent], i1)
        place(Op.create(op.name, [holds], (), op.attributes, location=op.location))
        return []

    def _is_same_for_all(self, value: Value) -> bool:
        """Whether `value` is a constant or from outside of the map."""
        return value not in self.inner or (value.op is not None and value.op.definition.constant)

    def _branch(self, op: If, place: Place, mask: Value | None) -> Tiles:
        """Write both sides of a branch, and selections."""
        condition = self._tile(op.condition)
        sides: list[Tiles] = []
        for region, holds in ((op.then, True), (op.otherwise, False)):
            if region.blocks:
                there = self._there(place, condition, mask, holds=holds) if _asks_who_is_there(region) else None
                sides.append(self._block(region.block, place, there))
        if not op.results:
            return []
        pairs = zip(*sides, op.results, strict=True)
        return [self._emit(place, "arith.select", [condition, a, b], result.type) for a, b, result in pairs]

    def _there(self, place: Place, condition: Value, mask: Value | None, *, holds: bool) -> Value:
        """The mask of the active elements of a side of a branch."""
        if not holds:
            condition = self._emit(place, "arith.xori", [condition, self._constant(1, i1)], i1)
        return condition if mask is None else self._emit(place, "arith.andi", [mask, condition], i1)

    def _counted(self, op: For, place: Place, mask: Value | None) -> Tiles:
        """Write a loop that counts the same for all elements."""
        bounds = [self._scalar(value) for value in (op.low, op.high, op.step)]
        initial = [self._tile(value) for value in op.inits]
        counter, body = op.induction_variable, Block()
        number = body.add_argument(counter.type)
        self.tiles[counter] = self._emit(body.append, "tt.splat", [number], counter.type)
        pairs = zip(op.carried, initial, strict=True)
        self.tiles.update((value, body.add_argument(start.type)) for value, start in pairs)
        body.append(Op.create("scf.yield", self._block(op.body, body.append, mask)))
        types = [value.type for value in initial]
        loop = Op.create("scf.for", [*bounds, *initial], types, op.attributes, [Region([body])], location=op.location)
        return place(loop).results

    def _for(self, op: For, place: Place, mask: Value | None) -> Tiles:
        """A loop whose elements count to different numbers: a `while` that carries the counters."""
        start, end, step, *initial = (self._tile(value) for value in op.operands)
        counter, carried = op.induction_variable, op.carried

        def check(place: Place, values: Tiles, mask: Value) -> tuple[Value, Tiles]:
            return self._less(place, values[0], end), values

        def body(place: Place, values: Tiles, mask: Value) -> Tiles:
            self.tiles.update(zip((counter, *carried), values, strict=True))
            results = self._block(op.body, place, mask)
            following = self._emit(place, "arith.addi", [values[0], step], counter.type)
            went_on = self._less(place, values[0], following)  # a counter that wraps around is at its end
            return [self._emit(place, "arith.select", [went_on, following, end], counter.type), *results]

        kinds = [value.type for value in (counter, *carried)]
        return self._masked_loop(place, mask, MaskedLoop([start, *initial], kinds, check, body))[1:]

    def _less(self, place: Place, x: Value, y: Value) -> Value:
        return self._emit(place, "arith.cmpi", [x, y], i1, {"predicate": Keyword("slt")})

    def _while(self, op: While, place: Place, mask: Value | None) -> Tiles:
        before, after = op.before, op.after

        def check(place: Place, values: Tiles, mask: Value) -> tuple[Value, Tiles]:
            self.tiles.update(zip(before.args, values, strict=True))
            condition, *passed = self._block(before, place, mask)
            return condition, passed

        def body(place: Place, values: Tiles, mask: Value) -> Tiles:
            self.tiles.update(zip(after.args, values, strict=True))
            return self._block(after, place, mask)

        initial, kinds = [self._tile(value) for value in op.inits], [value.type for value in op.results]
        return self._masked_loop(place, mask, MaskedLoop(initial, kinds, check, body))

    def _masked_loop(self, place: Place, mask: Value | None, loop: MaskedLoop) -> Tiles:
        """Run until no element is active; the last value that an element passed on stays its result."""
        results = [self._constant(0, kind) for kind in loop.kinds]
        initial = [self._constant(1, i1) if mask is None else mask, *results, *loop.initial]
        before = Block([value.type for value in initial])
        emit: Place = before.append
        active, *rest = before.args
        last, values = rest[: len(results)], rest[len(results) :]
        condition, passed = loop.check(emit, values, active)
        kept = [
            self._emit(emit, "arith.select", [active, new, old], old.type)
            for new, old in zip(passed, last, strict=True)
        ]
        goes_on = self._emit(emit, "arith.andi", [active, condition], i1)
        emit(Op.create("scf.condition", [self._any(emit, goes_on), goes_on, *kept]))
        types = [value.type for value in initial[: 1 + len(results)]]
        after = Block(types)
        active, *last = after.args
        after.append(Op.create("scf.yield", [active, *last, *loop.body(after.append, last, active)]))
        regions = [Region([before]), Region([after])]
        return place(Op.create("scf.while", initial, types, None, regions, location=self.op.location)).results[1:]

    def _any(self, place: Place, tile: Value) -> Value:
        """Whether one of the elements is true."""
        count = math.prod(self.shape)
        if len(self.shape) > 1:
            flat = Op.create("tt.reshape", [tile], [TensorType((count,), i1)], location=self.op.location)
            tile = place(flat).result
        regions = [combine_region("arith.ori", i1)]
        axis: dict[str, Attribute] = {"axis": Number(0, i32)}
        return place(Op.create("tt.reduce", [tile], [i1], axis, regions, location=self.op.location)).result


@dataclass(frozen=True)
class MaskedLoop:
    """A loop over tiles: `check` gives the condition, and what the loop passes on, of types `kinds`, and results in."""

    initial: Tiles
    kinds: Sequence[Type]
    check: Callable[[Place, Tiles, Value], tuple[Value, Tiles]]
    body: Callable[[Place, Tiles, Value], Tiles]


def _asks_who_is_there(region: Region) -> bool:
    """Whether it has loops or assertions."""
    return any(isinstance(op, (Loop, Assert)) for op in region.walk())


def _block_of(op: Op) -> Block:
    assert op.block is not None, "the map stands in a function"
    return op.block
