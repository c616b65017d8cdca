"""The state of the lowering of a nest: loops, chunk, values computed so far, and the level of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from tilewright.backends.cpu.loop_builder import WASTE, LoopBuilder, known
from tilewright.backends.cpu.loop_structure import Elsewhere
from tilewright.backends.cpu.nest.lane_values import (
    RANGES,
    ActiveLaneBound,
    Affine,
    Index,
    Lane,
    ModuloRange,
    Offsets,
    RepeatedRange,
    Scalar,
    Spread,
    Uniform,
    Vector,
    WrappingLine,
    WrappingSum,
    level_of,
    pointer,
)
from tilewright.dialects.arith import CMPI
from tilewright.dialects.cpu import tile_of
from tilewright.dialects.tt_memory import pointee_type
from tilewright.dialects.vector import wide_type
from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.literals import canonical
from tilewright.ir.types import PointerType, Type, i1, i32, i64, with_element

PREDICATES: dict[str, tuple[str, dict[str, Attribute]]] = {
    **{predicate: ("arith.cmpi", {"predicate": Keyword(predicate)}) for predicate in CMPI},
    **{predicate: ("arith.cmpf", {"predicate": Keyword(predicate)}) for predicate in ("ogt", "olt")},
}


class Period(NamedTuple):
    """A range from `start` on, on lanes between two multiples of `divisor`: quotient and rest + lane exist at `level`.

    Attributes:
        start: the range's element on lane 0.
        divisor: a positive number.
        type: of these numbers.
        quotient: start + lane divided by the divisor.
        rest: the remainder is this much more than the lane.
        level: of the loop over pieces.
        is_one: whether 0 < divisor and 0 ≤ start, and nothing wraps in the tile; an i1.
    """

    start: Scalar
    divisor: Scalar
    type: Type
    quotient: Scalar
    rest: Scalar
    level: int
    is_one: Value


class Guarded(NamedTuple):
    """A version that relies on conditions: what is at `level` or deeper runs where they hold, and only there.

    With a period, it is for its lanes; one for a prefix of the lanes, on which masks are on, goes up to a bound.

    Attributes:
        side: for the lanes of a split row before (1) or behind (2) the place where it is split; 0: for all lanes.
    """

    level: int
    period: Period | None = None
    side: int = 0
    prefix: bool = False

    @property
    def has_bounds(self) -> bool:
        """Whether masks need not be on for the whole tile, but up to a bound."""
        return self.prefix or self.period is not None

    @property
    def guard_level(self) -> int:
        """The level before which its conditions are evaluated: for lanes of a period, that of the loop over pieces."""
        return self.level if self.period is None else self.period.level


Memos = dict[int, dict[tuple[Value, Index], Lane]]
"""Lanes of values at indices, by the level at which they are."""
Hoisted = dict[tuple[object, ...], Value]
"""Ops before the nests of a block, and their results."""


class Context:
    """The state while one nest is lowered.

    Attributes:
        b: the builder.
        scalar: what a scalar, or a buffer, from outside the nest is.
        lanes: W, the lanes of one chunk.
        extent: the number of lanes that the loop over chunks covers.
        lanes_read: how many of them are read, the first ones, an i64; None: all.
        lane_level: the level of the loop over chunks.
        depth: the level at which ops are built now.
        blocks: for each level above `depth`, the block at whose end its ops go; the loop of the next level comes later.
        for_places: what is asked for now is an offset that is added to a pointer: its sums are taken not to wrap.
        fast: the fast version that is being built; None while a general version is built.
        facts: the conditions that it relies on, each an i1; of lanes of a period or a prefix also bounds, each an i64.
        cut: the lanes of the chunk that count, where a fast version covers few of them.
        programs: the nest is for so many programs, whose rows continue one another.
        runs: what the grid runs the nest once for: "program" or "iteration" of the loop around; "" where neither is so.
        wraps: fast versions of ranges modulo something allow for one wrap.
        optimize_size: little code counts for more than speed: no fast versions, nothing unrolled.
        mixes: there are several loads, whose elements may lie at different distances.
        ends: how many rows and columns of a matrix are needed; None: all.
        seen: how many elements of a buffer along an axis other nests show, where these are not all.
        position: the lane at which the current chunk starts, an i64.
        active_lane_bound: where the loop over chunks ends, an i64, if a mask ends there: no chunk starts behind it.
        hoisted: what stands before earlier nests, and may be used again; None if the nest is in a branch.
        reduced: results of the reductions that are finished.
        certain: facts that the bounds of the loop over rows imply for the current row, and a split piece for its side.
        certain_at: the level at which that holds.
    """

    def __init__(self, builder: LoopBuilder, scalar: Callable[[Value], Scalar], depth: int) -> None:
        self.b = builder
        self.scalar = scalar
        self.lanes = 1
        self.extent = 1
        self.lanes_read: Scalar | None = None
        self.lane_level = depth
        self.depth = 0
        self.blocks: list[Block] = [builder.block]
        self.for_places = False
        self.fast: Guarded | None = None
        self.facts: tuple[Value, ...] = ()
        self.cut: ActiveLaneBound | None = None
        self.position: Scalar = 0
        self.active_lane_bound: Scalar | None = None
        self.hoisted: Hoisted | None = None
        self.reduced: dict[Value, Lane] = {}
        self.certain: dict[tuple[Value, Index], Lane] = {}
        self.certain_at = 0
        self.programs: Scalar = 1
        self.runs = ""
        self.optimize_size = False
        self.wraps = False
        self.mixes = False
        self.ends: Sequence[Scalar] | None = None
        self.seen: dict[tuple[Value, int], Scalar] = {}
        self._memos: dict[tuple[Guarded | None, int, bool], Memos] = {}
        self._values: dict[int, dict[tuple[object, ...], Value]] = {}

    # ---- where ops go ----

    def at(self, level: int) -> Elsewhere[LoopBuilder]:
        """Let the builder's ops go to `level`."""
        return self.b.into(self.b.block if level >= self.depth else self.blocks[level])

    def emit(self, level: int, name: str, type: Type, *operands: Value, attributes: Any = None) -> Value:
        """The result of an op without effects, at `level`; the same op is built once.

        Before loops, also earlier nests of the block may have built it. Attributes are known by which object.
        """
        values = self._values.get(level)
        if values is None:
            values = self._values[level] = {}
        key = (name, type, operands, id(attributes))
        found = values.get(key)
        if found is None:
            shared = self.hoisted if level == 0 and self.depth else None
            found = None if shared is None else shared.get(key)
            if found is None:
                b = self.b
                here = b.block
                if level < self.depth:
                    b.block = self.blocks[level]
                found = b.emit(name, operands, type, attributes)
                b.block = here
                if shared is not None:
                    shared[key] = found
            values[key] = found
        return found

    def copy(self, level: int, op: Op, operands: Sequence[Value], lanes: int = 1) -> Value:
        """The result of an op at `level` that does to these operands what `op` does to its own; it is built once."""
        values, key = self._values.setdefault(level, {}), (op, lanes, *operands)
        if key not in values:
            b = self.b
            here = b.block
            if level < self.depth:
                b.block = self.blocks[level]
            values[key] = b.copy(op, operands, lanes).results[0]
            b.block = here
        return values[key]

    # ---- what is known already ----

    def memos(self) -> Memos:
        """The lanes that have been computed for the version and the width at hand."""
        return self._memos.setdefault((self.fast, self.lanes, self.for_places), {})

    def known(self, key: tuple[Value, Index], memos: Memos) -> Lane | None:
        """The lanes of a value that has been computed in this iteration of the loops, or is known there."""
        if self.certain and key in self.certain:
            return self.certain[key]
        depth = self.depth
        for level, memo in memos.items():
            if level <= depth and (found := memo.get(key)) is not None:
                return found
        return None

    def remember(self, key: tuple[Value, Index], lane: Lane, memos: Memos) -> None:
        memos.setdefault(min(level_of(lane), self.depth), {})[key] = lane

    def begin(self, version: Guarded) -> None:
        """Build a version, about which nothing is known yet."""
        self.fast, self.facts = version, ()
        for key in [key for key in self._memos if key[0] == version]:
            del self._memos[key]

    def forget(self, level: int) -> None:
        """Forget values of `level` and deeper: a loop body has ended, or a new chunk starts."""
        for memos in self._memos.values():
            for deeper in [deep for deep in memos if deep >= level]:
                del memos[deeper]
        for deeper in [deep for deep in self._values if deep >= level]:
            del self._values[deeper]

    def all_of(self, conditions: Sequence[Value]) -> Value:
        """Whether all of these i1 hold, of which there is one at least; here and now."""
        return reduce(lambda so_far, condition: self.b.emit("arith.andi", (so_far, condition), i1), conditions)

    # ---- lanes as vectors ----

    def value(self, scalar: Scalar, type: Type) -> Value:
        """A number that may be known, as a value."""
        return self.b.constant(scalar, type) if isinstance(scalar, int) else scalar

    def wide(self, element: Type) -> Type:
        """The type of one value per lane."""
        return wide_type(element, self.lanes)

    def as_vector(self, lane: Lane, element: Type) -> Vector:
        """`lane` as one value per lane, of type `element`."""
        if isinstance(lane, Vector):
            return lane
        level = max(level_of(lane), 0 if isinstance(lane, Uniform) else self.lane_level)
        built, key = self._values.setdefault(level, {}), (lane, element, self.lanes)
        value = built.get(key)
        if value is None:
            value = built[key] = self._spread(lane, element, level)
        return Vector(value, level)

    def _spread(self, lane: Spread, element: Type, level: int) -> Value:
        with self.at(level):
            if isinstance(lane, Uniform):
                return self.splat(lane.value, element, level)
            if isinstance(lane, Affine):
                return self._affine_vector(lane, element, level)
            if isinstance(lane, RepeatedRange):
                return self._repeated_vector(lane, element, level)
            if isinstance(lane, (ActiveLaneBound, WrappingSum)):
                return self._truths(lane, level)
            if isinstance(lane, (ModuloRange, WrappingLine)):
                return self._modulo_vector(lane, element, level)
            whole, base = self.as_vector(lane.offset, i64).value, pointer(lane.base)
            return self.emit(level, "tt.addptr", self.wide(base.type), self.splat(base, base.type, level), whole)

    def splat(self, scalar: Scalar, element: Type, level: int) -> Value:
        """A number in every lane."""
        if isinstance(scalar, int) or self.lanes == 1 or known(scalar) is not None:
            return self.b.splat(self.value(scalar, element), self.lanes)
        return self.emit(level, "vector.broadcast", self.wide(element), scalar)

    def _affine_vector(self, lane: Affine, element: Type, level: int) -> Value:
        start, type = self.start_of(lane, element), self.wide(element)
        if self.lanes == 1:
            return self.value(start, element)
        if isinstance(lane.stride, int) and lane.stride != 1:
            steps = self.b.constants([lane.stride * i for i in range(self.lanes)], type)
        else:
            steps = self.b.step(self.lanes, element)
        if not isinstance(lane.stride, int):
            steps = self.emit(level, "arith.muli", type, self.splat(lane.stride, element, level), steps)
        return steps if start == 0 else self.emit(level, "arith.addi", type, self.splat(start, element, level), steps)

    def start_of(self, lane: Affine, element: Type) -> Scalar:
        """The value on the first lane of the chunk."""
        if lane.local:
            return lane.base
        at, position = max(lane.level, self.lane_level), self.position_as(element)
        return self.add(lane.base, self.multiply(position, lane.stride, element, at), element, at)

    def _repeated_vector(self, lane: RepeatedRange, element: Type, level: int) -> Value:
        steps = self.b.constants([i // lane.times for i in range(self.lanes)], self.wide(element))
        return self.b.add(self.splat(self.start_of_repeated(lane, element), element, level), steps)

    def start_of_repeated(self, lane: RepeatedRange, element: Type) -> Scalar:
        """The value on the first lane of the chunk."""
        first = self.shifted(self.position, lane.times.bit_length() - 1, i64, self.lane_level)
        step = self.extend(first, i64, element, self.lane_level)
        return self.add(lane.base, step, element, max(lane.level, self.lane_level))

    def position_as(self, element: Type) -> Scalar:
        """The lane at which the chunk starts, as an integer of this type."""
        return self.extend(self.position, i64, element, self.lane_level)

    def _active_lanes_vector(self, lane: ActiveLaneBound, at: int) -> Value:
        """steps < count - position, in 32 bits: the count is first brought into 0 … extent, or that of all programs."""
        end = self.multiply(self.programs, self.extent, i64, 0)
        bounded = self.binary("arith.minsi", lane.below, end, i64, lane.level)
        bounded = self.binary("arith.maxsi", bounded, 0, i64, lane.level)
        count = self.extend(bounded, i64, i32, lane.level)
        left = self.subtract(count, self.position_as(i32), i32, max(lane.level, self.lane_level))
        return self.compare("sgt", self.splat(left, i32, at), self.b.step(self.lanes, i32), self.wide(i32), at)

    def end_of(self, mask: ActiveLaneBound) -> Scalar:
        """The lane from which on a mask is off, an i64: the last of all where a sum wraps that it compares."""
        count = self.multiply(self.programs, self.extent, i64, 0)
        end, level = mask.below, mask.level
        for part in mask.parts:
            if isinstance(part, WrappingSum):
                base = self.extend(part.base, part.type, i64, level)
                last = self.subtract((1 << (part.type.bits - 1)) - 1, self.subtract(count, 1, i64, 0), i64, 0)
                end = self.select(self.compare("sgt", base, last, i64, level), count, end, i64, level)
        return end

    def _truths(self, lane: ActiveLaneBound | WrappingSum, level: int) -> Value:
        if isinstance(lane, ActiveLaneBound):
            parts = [self.as_vector(part, i1).value for part in lane.parts]
            return reduce(self.b.and_, parts) if parts else self._active_lanes_vector(lane, level)
        line = Affine(lane.base, 1, lane.level)
        narrow = lane.wide is lane.type
        sums = self.as_vector(line if narrow else WrappingLine(line, lane.type, lane.level), lane.wide)
        bound = self.as_vector(Uniform(lane.bound, lane.level), lane.wide)
        return self.compare(lane.predicate, sums.value, bound.value, self.wide(lane.wide), level)

    def _modulo_vector(self, lane: ModuloRange | WrappingLine, element: Type, level: int) -> Value:
        if isinstance(lane, WrappingLine):
            return self.emit(level, "arith.extsi", self.wide(element), self._affine_vector(lane.line, lane.type, level))
        straight = self._affine_vector(Affine(lane.base, 1, lane.level), element, level)
        wrapped = self.b.sub(straight, self.splat(lane.modulus, element, level))
        on = self._active_lanes_vector(ActiveLaneBound(lane.below, lane.level), level)
        return self.b.select(on, straight, wrapped)

    # ---- arithmetic of integers with constants folded ----

    def add(self, a: Scalar, b: Scalar, type: Type, level: int) -> Scalar:
        if a == 0:
            return b
        if b == 0:
            return a
        if isinstance(a, int) and isinstance(b, int):
            return int(canonical(a + b, type))
        return self.binary("arith.addi", a, b, type, level)

    def subtract(self, a: Scalar, b: Scalar, type: Type, level: int) -> Scalar:
        if b == 0:
            return a
        if isinstance(a, int) and isinstance(b, int):
            return int(canonical(a - b, type))
        return self.binary("arith.subi", a, b, type, level)

    def multiply(self, a: Scalar, b: Scalar, type: Type, level: int) -> Scalar:
        if a == 0 or b == 0:
            return 0
        if a == 1:
            return b
        if b == 1:
            return a
        if isinstance(a, int) and isinstance(b, int):
            return int(canonical(a * b, type))
        return self.binary("arith.muli", a, b, type, level)

    def shifted(self, a: Scalar, bits: int, type: Type, level: int) -> Scalar:
        """`a`, which is not negative, divided by 2 to the power of `bits`."""
        return a >> bits if isinstance(a, int) else self.binary("arith.shrui", a, bits, type, level)

    def extend(self, a: Scalar, source: Type, target: Type, level: int, *, signed: bool = True) -> Scalar:
        """An integer in a wider or narrower type."""
        if source is target:
            return a
        if isinstance(a, int):
            return int(canonical(a if signed else a % (1 << source.bits), target))
        name = "arith.trunci" if source.bits > target.bits else "arith.extsi" if signed else "arith.extui"
        return self.emit(level, name, target, a)

    def binary(self, name: str, a: Scalar, b: Scalar, type: Type, level: int) -> Value:
        """An op of two numbers of one type, the result's."""
        return self.emit(level, name, type, self.value(a, type), self.value(b, type))

    def compare(self, predicate: str, a: Scalar, b: Scalar, type: Type, level: int) -> Value:
        """A comparison of two integers, or lane by lane, by a predicate of `PREDICATES`."""
        name, attributes = PREDICATES[predicate]
        return self.emit(
            level, name, with_element(type, i1), self.value(a, type), self.value(b, type), attributes=attributes
        )

    def select(self, condition: Value, a: Scalar, b: Scalar, type: Type, level: int) -> Value:
        """One of two numbers, by an i1."""
        return self.emit(level, "arith.select", type, condition, self.value(a, type), self.value(b, type))

    # ---- addresses ----

    def add_offset(self, base: Value, offset: Scalar, level: int) -> Value:
        """The address of element `offset` behind `base`."""
        return base if offset == 0 else self.emit(level, "tt.addptr", base.type, base, self.value(offset, i64))

    def pointing_at(self, address: Value, element: Type, level: int) -> Value:
        """The address as one of elements of another type."""
        type = PointerType(element)
        return address if address.type is type else self.emit(level, "tt.bitcast", type, address)

    def buffer(self, value: Value) -> Uniform:
        """The address of the first element of a buffer."""
        address = pointer(Uniform(self.scalar(value), 0))
        return Uniform(self.pointing_at(address, tile_of(value.type).element, 0), 0)

    def zero(self, element: Type) -> Value:
        """The value of a lane that is masked off."""
        if isinstance(element, PointerType):
            return self.emit(0, "tt.int_to_ptr", element, self.b.constant(0, i64))
        return self.b.constant(0, element)

    def waste(self, type: Type, *, is_written: bool = False) -> Value:
        """The address of memory that lanes which are masked off may read, or write.

        These are two places: a masked load waits until a masked store to the same place has reached the cache.
        """
        place = self.add_offset(self.b.waste_slot(), WASTE if is_written else 0, 0)
        return self.pointing_at(place, pointee_type(type), 0)

    # ---- indices: i64 lanes ----

    def scaled(self, lane: Offsets, factor: int) -> Offsets:
        """An index times a number known now."""
        if factor == 1:
            return lane
        if isinstance(lane, Uniform):
            return Uniform(self.multiply(lane.value, factor, i64, lane.level), lane.level)
        if isinstance(lane, Affine):
            base, stride = (self.multiply(part, factor, i64, lane.level) for part in (lane.base, lane.stride))
            return Affine(base, stride, lane.level, lane.local)
        return self._index_op("arith.muli", lane, Uniform(factor, 0))

    def plus(self, a: Offsets, b: Offsets) -> Offsets:
        """The sum of two indices."""
        if isinstance(a, Uniform):
            a, b = b, a
        level = max(level_of(a), level_of(b))
        if isinstance(a, Uniform) and isinstance(b, Uniform):
            return Uniform(self.add(a.value, b.value, i64, level), level)
        if isinstance(a, RANGES) and isinstance(b, Uniform):
            return a._replace(base=self.add(a.base, b.value, i64, level), level=level)
        if isinstance(a, Affine) and isinstance(b, Affine) and a.local == b.local:
            base, stride = (self.add(x, y, i64, level) for x, y in ((a.base, b.base), (a.stride, b.stride)))
            return Affine(base, stride, level, a.local)
        return self._index_op("arith.addi", a, b)

    def divided(self, lane: Offsets, extent: int) -> tuple[Offsets, Offsets]:
        """Quotient and remainder of a non-negative index by a power of two."""
        if extent == 1:
            return lane, Uniform(0, 0)
        if isinstance(lane, Uniform):
            return self.divided_number(lane, extent)
        if isinstance(lane, Affine) and lane[:2] == (0, 1) and self.extent <= extent:
            return Uniform(0, 0), lane
        if isinstance(lane, Affine) and lane[:2] == (0, 1) and not lane.local and extent >= self.lanes:
            level = max(lane.level, self.lane_level)
            start = self.start_of(lane, i64)
            quotient, rest = self.divided_number(Uniform(start, level), extent)
            return quotient, Affine(rest.value, 1, rest.level, local=True)
        shift, mask = extent.bit_length() - 1, extent - 1
        high = self._index_op("arith.shrui", lane, Uniform(shift, 0))
        return high, self._index_op("arith.andi", lane, Uniform(mask, 0))

    def divided_number(self, number: Uniform, extent: int) -> tuple[Uniform, Uniform]:
        """`divided` of one number for all lanes."""
        if extent == 1:
            return number, Uniform(0, 0)
        (value, level), shift, mask = number, extent.bit_length() - 1, extent - 1
        high = Uniform(self.shifted(value, shift, i64, level), level)
        if isinstance(value, int):
            return high, Uniform(value & mask, level)
        return high, Uniform(self.binary("arith.andi", value, mask, i64, level), level)

    def _index_op(self, name: str, a: Offsets, b: Offsets) -> Vector:
        x, y = self.as_vector(a, i64), self.as_vector(b, i64)
        level = max(x.level, y.level)
        return Vector(self.emit(level, name, self.wide(i64), x.value, y.value), level)
