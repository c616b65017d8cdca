"""Versions for sorts of far fewer elements than their tile has: on one vector of lanes, or on a part of one.

%x = tt.load %p, %range < %n, %inf               scf.if %n <= 4 { the same on tensor<4xf32> }
… steps of a sort on tensor<256xf32> …     →     else { scf.if %n <= 16 … }
tt.store %q, %y, %range < %n

The lanes beyond hold the value that the load fills them with. If each step leaves them unchanged, as `known_lanes`
determines, a partner beyond is that value, and no store stores them. A step with such a partner is left out only if its
selections are known: NaN compares greater than nothing, so steps on ordered elements remain.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.analysis.gather_distance import distance_of_indices
from tilewright.analysis.index_tables import ENUMERATED
from tilewright.analysis.known_lanes import KnownLanes
from tilewright.backends.cpu.costs import touches_tiles
from tilewright.dialects.arith import Compare, Constant, Select
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Gather, Splat
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Region, Value, defining, tile_type
from tilewright.ir.declare import Effect
from tilewright.ir.types import TensorType, Type, i32
from tilewright.transforms.functions import functions_of
from tilewright.transforms.op_builder import OpBuilder

PARTS = (4, 1)
"""Parts of a vector register that are the lanes of a version; the smaller the fewer steps it takes."""


def add_short_tiles(module: Op, vector_bits: int) -> bool:
    """Version functions that sort a masked tile for masks of few lanes; returns whether there were any."""
    found = False
    for function in functions_of(module):
        block = function.body
        for part in PARTS:
            otherwise = _add_version(block, vector_bits // part)
            if otherwise is not None:
                block, found = otherwise, True
    return found


def _add_version(block: Block, bits: int) -> Block | None:
    """Add a version for lanes of so many bits; returns the block with the tiles as they were, None if there is none."""
    gathers = (op for op in (block if Gather in block.kinds else ()) if isinstance(op, Gather))
    far = next((op for op in gathers if _distance(op) * op.source.type.bits >= bits), None)
    if far is None:
        return None
    source = tile_type(far.source)
    most, ops = bits // source.bits, _tile_ops(block)
    bound = _bound(ops)
    if most < 2 or source.numel > ENUMERATED or not all(_is_kept(op, source.shape) for op in ops):
        return None
    if bound is None or bound.op in ops or not _is_closed(ops):
        return None
    short = ShortVersion(KnownLanes(source.numel, bound, most), most)
    if not all(short.take(op) for op in ops):
        short.drop()
        return None
    short.leave_out_unused()
    return _branch(ops, bound, short)


def _branch(ops: Sequence[Op], bound: Value, short: ShortVersion) -> Block:
    """Put the short version before `ops`, and these into the other arm, whose block this returns."""
    at, otherwise = OpBuilder(ops[0]), Block()
    condition = at.compare("sle", bound, at.constant(short.most, bound.type))
    at.op("scf.if", (condition,), regions=[Region([short.block]), Region([otherwise])])
    for op in ops:
        op.unlink()
        otherwise.append(op)
    for arm in (short.block, otherwise):
        arm.append(Op.create("scf.yield"))
    return otherwise


def _distance(op: Gather) -> int:
    return distance_of_indices(op) or 0


def _tile_ops(block: Block) -> list[Op]:
    """All ops from the first one with tiles to the last one."""
    ops = list(block)
    places = [place for place, op in enumerate(ops) if touches_tiles(op)]
    return ops[places[0] : places[-1] + 1]


def _bound(ops: Sequence[Op]) -> Value | None:
    """The bound that a load's mask keeps its lanes below."""
    for op in ops:
        mask = defining(op.mask, Compare) if isinstance(op, Load) and op.mask is not None else None
        limit = None if mask is None or mask.predicate != "slt" else defining(mask.rhs, Splat)
        if limit is not None:
            return limit.source
    return None


def _is_kept(op: Op, shape: Sequence[int]) -> bool:
    """Whether `op` may be done on fewer lanes, as far as is known of the op alone."""
    types = [value.type for value in (*op.operands, *op.results) if isinstance(value.type, TensorType)]
    if op.regions or any(type.shape != shape for type in types):
        return False
    if isinstance(op, Constant):
        return isinstance(op.value, Number)
    moves = isinstance(op, (Gather, Load, MakeRange, Splat, Store))
    return moves or (op.definition.effect is Effect.NONE and (op.definition.elementwise or not types))


def _is_closed(ops: Sequence[Op]) -> bool:
    """Whether no other op uses a result."""
    own = set(ops)
    return all(user in own for op in ops for result in op.results for user in result.uses)


class ShortVersion:
    """The same ops on the first `most` lanes, in `block`."""

    def __init__(self, lanes: KnownLanes, most: int) -> None:
        self.lanes, self.most, self.block = lanes, most, Block()
        self.values: dict[Value, Value] = {}

    def take(self, op: Op) -> bool:
        """Add the short form of `op`; False if it has none."""
        self.lanes.visit(op)
        if isinstance(op, Store) and not self._shows_nothing_beyond(op):
            return False
        if isinstance(op, Gather) and not self._has_near_partners(op):
            return self._constant(op)
        if isinstance(op, Select) and (side := self._side(op)) is not None:
            self.values[op.result] = self.values.get(side, side)
            return True
        operands = [self.values.get(value, value) for value in op.operands]
        types = [self._short(result.type) for result in op.results]
        attributes = dict(op.attributes)
        if isinstance(op, MakeRange):
            attributes["end"] = Number(op.start + self.most, i32)
        elif isinstance(op, Constant) and isinstance(op.value, Number):
            attributes["value"] = Number(op.value.value, types[0])
        copy = Op(op.definition, operands, types, attributes, location=op.location)
        self.values.update(zip(op.results, self.block.append(copy).results, strict=True))
        return True

    def _short(self, type: Type) -> Type:
        return TensorType((self.most,), type.element) if isinstance(type, TensorType) else type

    def _shows_nothing_beyond(self, op: Store) -> bool:
        if op.mask is None:
            return False
        mask = self.lanes.of(op.mask)
        return bool((mask.known & ~mask.numbers)[self.most :].all())

    def _has_near_partners(self, op: Gather) -> bool:
        distance = distance_of_indices(op)
        return distance is not None and distance < self.most

    def _constant(self, op: Gather) -> bool:
        """The partners beyond, if they all are one number."""
        number, type = self.lanes.of(op.result).number_below(self.most), self._short(op.result.type)
        if number is None:
            return False
        made = Op.create("arith.constant", (), (type,), {"value": Number(number, type)}, location=op.location)
        self.values[op.result] = self.block.append(made).result
        return True

    def _side(self, op: Select) -> Value | None:
        """The side of a selection that all short lanes take."""
        condition = self.lanes.of(op.condition)
        on = condition.numbers[: self.most].astype(bool)
        if not condition.known[: self.most].all() or on.any() != on.all():
            return None
        return op.chosen if on.all() else op.other

    def drop(self) -> None:
        """Leave no uses of what is outside."""
        for op in self.block:
            op.drop_uses()

    def leave_out_unused(self) -> None:
        op = self.block.last
        while op is not None:
            before = op.previous
            if op.definition.effect is Effect.NONE and not any(result.uses for result in op.results):
                op.erase()
            op = before
