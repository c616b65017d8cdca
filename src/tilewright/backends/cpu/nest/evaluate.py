"""The lanes of a tile value at an index: the one place where tile ops become vector instructions.

`evaluate(c, value, index)` returns the elements of `value` at `index`, one entry per axis of its tile. Ops that only
move elements evaluate their operand at another index; the others compute. `evaluate_place` returns those of an offset
that is added to a pointer, whose sums are assumed not to wrap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.backends.cpu.affine import extends_as_one, is_affine
from tilewright.backends.cpu.costs import is_tile
from tilewright.backends.cpu.nest.address_sums import widened_sum
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.integers import affine_result, widened
from tilewright.backends.cpu.nest.lane_values import (
    RANGES,
    ZERO,
    Address,
    Affine,
    Index,
    Lane,
    Offsets,
    Scalar,
    Uniform,
    Vector,
    affine_address,
    deeper,
    known_truth,
    level_of,
    pointer,
    size_of,
    uniform,
)
from tilewright.backends.cpu.nest.loads import buffer_address, is_mask, load, needed_mask, read_buffer
from tilewright.backends.cpu.nest.moves import MOVES
from tilewright.backends.llvm.elementwise import is_elementwise
from tilewright.dialects.arith import (
    Bitwise,
    Constant,
    Division,
    IntegerCast,
    ModularArithmetic,
    Select,
)
from tilewright.dialects.cpu import Accumulate, Nest, Read, Redirect, Within, tile_of
from tilewright.dialects.tt_elementwise import Bitcast
from tilewright.dialects.tt_memory import AddPtr, Load
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Splat, Split, Trans
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Op, Value, defining, tile_type
from tilewright.ir.types import IntType, PointerType, TensorType, Type, f32, i1, i64
from tilewright.support.diagnostics import InternalError

_OF_PLACES = (
    Bitwise,
    Broadcast,
    Division,
    ExpandDims,
    IntegerCast,
    MakeRange,
    ModularArithmetic,
    Splat,
    Trans,
)
"""The ops that an offset is computed with; the operands of all others are data."""

ROUNDED: dict[str, Attribute] = {"fastmath": Keyword("none")}
"""The attributes of a product that is rounded before anything is added to it."""


def evaluate(c: Context, value: Value, index: Index) -> Lane:
    """The lanes of `value` at `index`; ops are built where they are needed, and only once."""
    if value in c.reduced:
        return c.reduced[value]
    if c.for_places and not isinstance(value.op, _OF_PLACES):
        return _ask(c, value, index, for_places=False)
    key = (value, index)
    memos = c.memos()
    lane = c.known(key, memos)
    if lane is None:
        lane = _compute(c, value, index)
        c.remember(key, lane, memos)
    return lane


def evaluate_place(c: Context, value: Value, index: Index) -> Lane:
    """The lanes of an offset that is added to a pointer: its sums are taken not to wrap where they are extended."""
    return _ask(c, value, index, for_places=True)


def _ask(c: Context, value: Value, index: Index, *, for_places: bool) -> Lane:
    outer, c.for_places = c.for_places, for_places
    lane = evaluate(c, value, index)
    c.for_places = outer
    return lane


def _compute(c: Context, value: Value, index: Index) -> Lane:
    op = value.op
    if op is None or not isinstance(op.parent, (Accumulate, Nest)):
        if isinstance(op, Constant) and isinstance(op.value, Number):
            return _constant(c, op, index)
        with c.at(0):  # it is remembered there, though conditions of versions may be all that asks for it now
            return Uniform(c.scalar(value), 0)
    outer, c.b.location = c.b.location, op.location
    lane = _result(c, op, value, index)
    c.b.location = outer
    if value.name and isinstance(lane, (Uniform, Vector)) and isinstance(lane.value, Value):
        maker = lane.value.op
        if maker is not None and maker.location is op.location:
            lane.value.name = value.name
    return lane


def _result(c: Context, op: Op, value: Value, index: Index) -> Lane:
    """The lanes of a result of an op in the nest."""
    rule = RULES.get(op.name)
    if rule is not None:
        return rule(c, op, index)
    move = MOVES.get(op.name)
    if move is not None:
        return move(c, op, index, evaluate)
    if isinstance(op, Split):
        return evaluate(c, op.source, (*index, Uniform(value.index, 0)))
    return _elementwise(c, op, index)


def _elementwise(c: Context, op: Op, index: Index) -> Lane:
    if not is_elementwise(op):
        raise InternalError(f"{op.name} has no CPU lowering")
    operands = [evaluate(c, v, index if isinstance(v.type, TensorType) else ()) for v in op.operands]
    numbers = [x.value for x in operands if isinstance(x, Uniform)]
    if 0 in numbers and (decided := _decided_by_zero(op, operands)) is not None:
        return decided
    if len(numbers) == len(operands):
        level = max((level_of(x) for x in operands), default=0)
        values = [c.value(number, v.type.scalar) for number, v in zip(numbers, op.operands, strict=True)]
        return Uniform(c.copy(level, op, values), level)
    special = affine_result(c, op, operands) or _scaled_by_reciprocal(c, op, operands)
    if special is not None:
        return special
    vectors = [c.as_vector(x, v.type.scalar) for x, v in zip(operands, op.operands, strict=True)]
    level = max([v.level for v in vectors])
    return Vector(c.copy(level, op, [v.value for v in vectors], c.lanes), level)


def _decided_by_zero(op: Op, operands: list[Lane]) -> Lane | None:
    """The value that a known zero gives `op`: a sum is its other operand, others are zero.

    What is zero for one chunk, as a quotient of its lanes, says nothing of the next one.
    """
    zero: Lane = next(lane for lane in operands if isinstance(lane, Uniform) and lane.value == 0)
    match op.name:
        case "arith.addi":
            return deeper(operands[1] if operands[0] is zero else operands[0], level_of(zero))
        case "arith.andi" | "arith.muli" | "arith.extsi":
            return zero
    return None


def _scaled_by_reciprocal(c: Context, op: Op, operands: list[Lane]) -> Lane | None:
    """x / s = x · (1 / s) in the fast version, as long as 1 / s is a normal number; at most 1 ulp off.

    Triton's `/` on fp32 allows 2 ulp; `div_rn` is another op. A division takes five times as long as a product.
    """
    if c.fast is None or not c.facts or op.name != "arith.divf":
        return None
    dividend, divisor = operands
    if has_reciprocal(c, divisor) not in c.facts:
        return None
    number, level = uniform(divisor)
    inverse = c.as_vector(Uniform(c.binary("arith.divf", c.b.constant(1.0, f32), number, f32, level), level), f32)
    value = c.as_vector(dividend, f32)
    deep = max(inverse.level, value.level)
    return Vector(c.emit(deep, "arith.mulf", c.wide(f32), value.value, inverse.value, attributes=ROUNDED), deep)


def has_reciprocal(c: Context, divisor: Lane) -> Value | None:
    """Whether 1 / `divisor` is a normal number; None if that is not known before the version."""
    if c.fast is None or not isinstance(divisor, Uniform) or not isinstance(divisor.value, Value):
        return None
    level = divisor.level
    if level >= c.fast.guard_level or divisor.value.type is not f32:
        return None
    size = c.emit(level, "math.absf", f32, divisor.value)
    small = c.compare("ogt", size, c.b.constant(2.0**-125, f32), f32, level)
    large = c.compare("olt", size, c.b.constant(2.0**125, f32), f32, level)
    return c.binary("arith.andi", small, large, i1, level)


def _constant(c: Context, op: Constant, index: Index) -> Lane:
    numbers, type = op.value, op.result.type
    if not isinstance(numbers, Number):
        return read_buffer(c, Uniform(c.b.table(numbers.values, type.scalar), 0), tile_type(op.result), index)
    if isinstance(type.scalar, IntType):
        return Uniform(int(numbers.value), 0)
    return Uniform(c.b.constant(numbers.value, type.scalar), 0)


def _load(c: Context, op: Load, index: Index) -> Lane:
    return load(c, op, [evaluate(c, v, index) for v in op.operands])


def _select(c: Context, op: Select, index: Index) -> Lane:
    """A selection; in the fast version, one by the mask of a load or a store takes the side for active lanes."""
    condition = op.condition
    if c.fast and c.fast.side and is_tile(condition):
        known = known_truth(evaluate(c, condition, index))
        if known is not None:
            return evaluate(c, op.chosen if known else op.other, index)
    if c.fast and is_mask(op) and needed_mask(c, evaluate(c, condition, index)) is None:
        return evaluate(c, op.chosen, index)
    return _elementwise(c, op, index)


def _and(c: Context, op: Op, index: Index) -> Lane:
    """A conjunction; in the fast version, and for the lanes of one side of a split row, some of its parts are known."""
    if c.fast and c.facts and op.result.type.scalar is i1 and is_tile(op.result):
        needed = [v for v in op.operands if needed_mask(c, evaluate(c, v, index)) is not None]
        if len(needed) < 2:
            return evaluate(c, needed[0], index) if needed else Uniform(1, 0)
    if c.fast and c.fast.side and op.result.type.scalar is i1:
        lanes = [evaluate(c, v, index if is_tile(v) else ()) for v in op.operands]
        known = [known_truth(lane) for lane in lanes]
        if 0 in known:
            return Uniform(0, 0)
        if 1 in known:
            return lanes[1 - known.index(1)]
    return _elementwise(c, op, index)


def _read(c: Context, op: Read, index: Index) -> Lane:
    return read_buffer(c, c.buffer(op.buffer), tile_of(op.buffer.type), index[-1:] if op.row else index)


def _redirect(c: Context, op: Redirect, index: Index) -> Address:
    """The place in the buffer, which is dense, where the condition holds, else the other.

    The offsets are a line, unless the other place has an offset of its own for each lane.
    """
    here, condition = evaluate(c, op.pointer, index), c.value(uniform(evaluate(c, op.condition, ())).value, i1)
    buffer, there = buffer_address(c, c.buffer(op.buffer), tile_of(op.buffer.type), index)
    here = affine_address(Address(here, ZERO) if isinstance(here, Uniform) else here)
    level = max(here.base.level, there.level, here.offset.level)

    def choose(if_redirected: Scalar, otherwise: Scalar) -> Scalar:
        same = if_redirected == otherwise
        return otherwise if same else c.select(condition, if_redirected, otherwise, i64, level)

    own = pointer(here.base)
    base = Uniform(c.emit(level, "arith.select", own.type, condition, pointer(buffer), own), level)
    if not isinstance(here.offset, (Affine, Uniform)):
        lanes = c.as_vector(there, i64), c.as_vector(here.offset, i64)
        deepest = max(level, *(lane.level for lane in lanes))
        on = c.as_vector(Uniform(condition, level), i1).value
        return Address(base, Vector(c.select(on, lanes[0].value, lanes[1].value, c.wide(i64), deepest), deepest))
    (start, step), (own_start, own_step) = _line(there), _line(here.offset)
    first, stride = choose(start, own_start), choose(step, own_step)
    are_numbers = isinstance(there, Uniform) and isinstance(here.offset, Uniform)
    return Address(base, Uniform(first, level) if are_numbers else Affine(first, stride, level))


def _within(c: Context, op: Within, index: Index) -> Lane:
    return evaluate(c, op.tile, index)


def _line(offset: Offsets) -> tuple[Scalar, Scalar]:
    """The start and the stride of offsets that are a line."""
    return (offset.base, offset.stride) if isinstance(offset, Affine) else (uniform(offset).value, 0)


def _add_pointer(c: Context, op: AddPtr, index: Index) -> Lane:
    source = op.offset.type.scalar
    place = evaluate(c, op.pointer, index if isinstance(op.pointer.type, TensorType) else ())
    parts = _number_and_lanes(c, op.offset, index)
    if parts is not None and isinstance(place, (Uniform, Address)):
        number, lanes = _widen(c, parts[0], source), _widen(c, parts[1], source)
        start = place if isinstance(place, Uniform) else place.base
        fixed = max(start.level, number.level)
        first = Uniform(c.add_offset(pointer(start), uniform(number).value, fixed), fixed)
        return Address(first, lanes if isinstance(place, Uniform) else c.plus(place.offset, lanes))
    offset = evaluate_place(c, op.offset, index if isinstance(op.offset.type, TensorType) else ())
    if isinstance(offset, RANGES) and not extends_as_one(op.offset):
        offset = c.as_vector(offset, source)
    wide = _widen(c, offset, source)
    if isinstance(place, Uniform):
        return Address(place, wide)
    if isinstance(place, Address):
        return Address(place.base, c.plus(place.offset, wide))
    steps = c.as_vector(wide, i64)
    base = c.as_vector(place, op.result.type.scalar)
    level = max(base.level, steps.level)
    return Vector(c.emit(level, "tt.addptr", c.wide(op.result.type.scalar), base.value, steps.value), level)


def _number_and_lanes(c: Context, offset: Value, index: Index) -> tuple[Uniform, Vector] | None:
    """The parts of an offset that is the sum of a number and of lanes that no line goes through; else None.

    The lanes then are those of other rows, whose numbers differ.
    """
    sum_of_both = defining(offset, ModularArithmetic)
    if sum_of_both is None or sum_of_both.name != "arith.addi" or c.lanes == 1:
        return None
    if is_affine(offset) or not extends_as_one(offset):
        return None
    lanes = [evaluate_place(c, part, index) for part in sum_of_both.operands]
    for number, other in (lanes, lanes[::-1]):
        if isinstance(number, Uniform) and isinstance(other, Vector):
            return number, other
    return None


def _widen(c: Context, offset: Lane, source: Type) -> Offsets:
    """An offset as i64."""
    if isinstance(offset, Affine):
        base = widened_sum(c, offset.base, source, offset.level)
        return offset._replace(base=base, stride=c.extend(offset.stride, source, i64, offset.level))
    if isinstance(offset, RANGES):
        return widened(c, offset, source, i64)
    if isinstance(offset, Uniform):
        return Uniform(widened_sum(c, offset.value, source, offset.level), offset.level)
    found = c.as_vector(offset, source)
    if source is i64:
        return found
    return Vector(c.emit(found.level, "arith.extsi", c.wide(i64), found.value), found.level)


def _bitcast(c: Context, op: Bitcast, index: Index) -> Lane:
    """Pointers keep their address; other bits are reinterpreted."""
    target = op.result.type.scalar
    if not isinstance(target, PointerType):
        return _elementwise(c, op, index)
    lane = evaluate(c, op.operand, index if isinstance(op.operand.type, TensorType) else ())
    element, source = target.pointee, op.operand.type.scalar
    if isinstance(lane, Uniform):
        return Uniform(c.pointing_at(pointer(lane), element, lane.level), lane.level)
    if isinstance(lane, Address) and size_of(element) == lane.size:
        base = c.pointing_at(pointer(lane.base), element, lane.base.level)
        return lane._replace(base=lane.base._replace(value=base))
    if isinstance(lane, Address) and isinstance(lane.offset, Uniform):
        level = level_of(lane)
        start = c.add_offset(pointer(lane.base), lane.offset.value, level)
        return Uniform(c.pointing_at(start, element, level), level)
    whole = c.as_vector(lane, source)
    return Vector(c.emit(whole.level, "tt.bitcast", c.wide(target), whole.value), whole.level)


RULES: dict[str, Callable[[Context, Any, Index], Lane]] = {
    "arith.andi": _and,
    "arith.constant": _constant,
    "arith.select": _select,
    "cpu.read": _read,
    "cpu.redirect": _redirect,
    "cpu.within": _within,
    "tt.addptr": _add_pointer,
    "tt.bitcast": _bitcast,
    "tt.load": _load,
}
