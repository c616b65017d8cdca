"""Reductions of two elements that give both the result become gathers of each element's partner.

    %y = tt.reshape %x : 64x2x4                        %p = tt.gather %x[%i ^ 4]
    %v = arith.mulf %y, (1 - range(2))                 %v = arith.mulf %x, (1 - (%i >> 2 & 1))
    %r = tt.reduce add %v {axis = 1} : 64x4      →     %w = arith.mulf %p, (1 - (%i >> 2 & 1 ^ 1))
    %b = … %r back along axis 1 … : 64x2x4             %z = arith.addf %v, %w
    %z = tt.reshape %b : 512

A sort that a kernel spells out combines partners in this way. A reduction would be a nest of its own, which writes half
a tile; partners are exchanged in registers where they are near, and are read from one buffer where they are not.
"""

from __future__ import annotations

from math import prod

from tilewright.dialects.arith import Constant, Division, NumberExtreme
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_reduce import Reduce
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Reshape, Splat
from tilewright.ir.attributes import Number
from tilewright.ir.core import Block, Op, Value, defining, tile_type
from tilewright.ir.types import TensorType, i32
from tilewright.transforms.functions import functions_of
from tilewright.transforms.op_builder import OpBuilder

MAX_DEPTH = 16
"""Max number of cheap ops in a chain that both of a pair compute."""


def exchange_pairs(module: Op) -> bool:
    """Replace reductions of pairs whose result both elements get by gathers; returns whether there were any."""
    found = False
    for function in functions_of(module):
        rows: dict[tuple[Block, int, int], Rows] = {}
        for op in function.ops_of(Reshape):
            reduce = _reduction_of(op)
            if reduce is not None:
                _replace(op, reduce, rows)
                found = True
    return found


def _reduction_of(op: Reshape) -> Reduce | None:
    """The reduction of pairs whose result all elements of the row `op` are."""
    wide = defining(op.source, Broadcast)
    thin = None if wide is None else defining(wide.source, ExpandDims)
    reduce = None if thin is None else defining(thin.source, Reduce)
    if thin is None or reduce is None or thin.axis != reduce.axis or len(reduce.operands) != 1:
        return None
    shape = tile_type(reduce.operands[0]).shape
    is_row = len(tile_type(op.result).shape) == 1 and shape == tile_type(op.source).shape
    return reduce if is_row and shape[reduce.axis] == 2 and _combination(reduce) is not None else None


def _combination(reduce: Reduce) -> Op | None:
    """The op that a reduction consists of, if it does not matter which of two elements comes first.

    It does to the larger number of 0 and -0, which is either of them: both of a pair have to get the same one.
    """
    block = reduce.regions[0].block
    combine, *rest = block
    is_any_order = combine.definition.commutative and not isinstance(combine, NumberExtreme)
    if not is_any_order or len(rest) != 1 or {*combine.operands} != {*block.args}:
        return None
    return combine if [*rest[0].operands] == [*combine.results] else None


def _replace(op: Reshape, reduce: Reduce, rows: dict[tuple[Block, int, int], Rows]) -> None:
    """Put a combination with the partner into the place of `op`, unless the partner's value takes other ops."""
    (value,), combine, type, at = reduce.operands, _combination(reduce), tile_type(op.result), OpBuilder(op)
    distance = prod(tile_type(value).shape[reduce.axis + 1 :])
    assert combine is not None, "it is a reduction of pairs"
    row = rows.setdefault((at.block, type.numel, distance), Rows(type.numel, distance))
    row.at = at
    own, partner = (row.of(value, reduce.axis, is_partner=side) for side in (False, True))
    if own is None or partner is None:
        return
    both = at.insert(Op(combine.definition, (own, partner), (type,), combine.attributes, location=op.location))
    unused = op.source.op
    op.replace(both.results)
    while unused is not None and not unused.result.uses:
        made, unused = unused, None if unused is reduce else unused.operands[0].op
        made.erase()


class Rows:
    """Tiles of pairs as rows, in ops at the end of what is there of a block.

    Attributes:
        at: where ops go.
        depth: the length of the chain of arithmetic that is followed.
    """

    at: OpBuilder

    def __init__(self, length: int, distance: int) -> None:
        self.length, self.distance, self.depth = length, distance, 0
        self.made: dict[tuple[Value, int, bool], Value | None] = {}

    def of(self, value: Value, axis: int, *, is_partner: bool) -> Value | None:
        """The elements of `value`, or their partners along `axis`, as a row; None if that takes other ops.

        A number is the same for all.
        """
        if not isinstance(value.type, TensorType):
            return value
        key = value, axis, is_partner
        if key not in self.made:
            self.made[key] = self.row(value, axis, is_partner=is_partner)
        return self.made[key]

    def row(self, value: Value, axis: int, *, is_partner: bool) -> Value | None:
        op, type = value.op, TensorType((self.length,), value.type.scalar)
        found: Value | None = None
        match op:
            case Splat():
                found = self.at.emit("tt.splat", op.operands, type)
            case Constant():
                found = self.at.constant(op.value.value, type) if isinstance(op.value, Number) else None
            case Broadcast():
                found = self.of(op.source, axis, is_partner=is_partner)
            case ExpandDims():
                if op.axis != axis:
                    found = self.of(op.source, axis - (op.axis < axis), is_partner=is_partner)
            case MakeRange():
                if axis == 0 and (op.start, op.end) == (0, 2):
                    found = self.side(is_partner=is_partner)
            case Op() if self.is_cheap(op):
                found = self.computed(op, axis, is_partner=is_partner)
            case _:
                found = self.whole(value, is_partner=is_partner)
        return found

    def is_cheap(self, op: Op) -> bool:
        """Whether both of a pair should compute the result of `op` than ask for it."""
        return op.name.startswith("arith.") and not isinstance(op, Division) and self.depth < MAX_DEPTH

    def computed(self, op: Op, axis: int, *, is_partner: bool) -> Value | None:
        """The result of cheap arithmetic, which both of a pair compute."""
        self.depth += 1
        operands = [self.of(operand, axis, is_partner=is_partner) for operand in op.operands]
        self.depth -= 1
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands) or len(op.results) != 1:
            return None
        type = TensorType((self.length,), op.result.type.scalar)
        return self.at.insert(Op(op.definition, known, (type,), op.attributes, location=op.location)).result

    def whole(self, value: Value, *, is_partner: bool) -> Value | None:
        """A tile of all elements as a row."""
        type = tile_type(value)
        if type.numel != self.length:
            return None
        row = TensorType((self.length,), type.element)
        reshape = defining(value, Reshape)
        flat = reshape.source if reshape is not None and reshape.source.type is row else None
        if flat is None:
            flat = self.at.emit("tt.reshape", (value,), row)
        if not is_partner:
            return flat
        partners = self.at.compute("arith.xori", self.places(), self.number(self.distance))
        return self.at.emit("tt.gather", (flat, partners), row, {"axis": Number(0, i32)})

    def side(self, *, is_partner: bool) -> Value:
        """0 or 1: which of a pair an element is."""
        shift = self.number(self.distance.bit_length() - 1)
        side = self.at.compute("arith.andi", self.at.compute("arith.shrui", self.places(), shift), self.number(1))
        return self.at.compute("arith.xori", side, self.number(1)) if is_partner else side

    def places(self) -> Value:
        """The place of each element in the row."""
        ends = {"start": Number(0, i32), "end": Number(self.length, i32)}
        return self.at.emit("tt.make_range", (), TensorType((self.length,), i32), {**ends})

    def number(self, number: int) -> Value:
        return self.at.constant(number, TensorType((self.length,), i32))
