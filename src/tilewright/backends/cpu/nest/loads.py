"""Loads for the lanes of a chunk: one vector, one scalar, or one element per lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.backends.cpu.costs import ACCESSES, lazy_closure, makers
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.integers import both
from tilewright.backends.cpu.nest.lane_values import (
    ActiveLaneBound,
    Address,
    Affine,
    Index,
    Lane,
    ModuloRange,
    Offsets,
    RepeatedRange,
    Scalar,
    Uniform,
    Vector,
    affine_address,
    is_chunked,
    level_of,
    pointer,
    size_of,
    uniform,
)
from tilewright.dialects.arith import Constant, Division, Select
from tilewright.dialects.tt_memory import Load
from tilewright.dialects.vector import Load as VectorLoad
from tilewright.dialects.vector import wide_type
from tilewright.ir.attributes import UNIT
from tilewright.ir.core import Value, defining
from tilewright.ir.types import TensorType, Type, bf16, f16, i1, i8, i16, i64
from tilewright.transforms.matching import integer_of

NEAR = 4
"""Elements up to this distance are read as whole vectors."""

USUAL_STEPS = (1, 0, 2)
"""Distances with a version of their own at run time: neighbours, a broadcast number, pairs."""


def load(c: Context, op: Load, operands: list[Lane]) -> Lane:
    """A tt.load of the addresses, mask and default in `operands`."""
    place, *rest = operands
    mask = needed_mask(c, rest[0]) if rest else None
    other = rest[1] if len(rest) > 1 else None
    if isinstance(mask, Uniform) and mask.value == 0:
        return other or Uniform(c.zero(op.result.type.scalar), 0)
    level = _level_of_facts(c, op) if _is_single(place) else 0
    in_runs = is_often_contiguous(c, place, op.pointer)
    found = read(c, place, op.result.type.scalar, mask, other, in_runs=in_runs, inside=level)
    if op.is_volatile and isinstance(found, Vector):
        _keep_single(found.value)
    return found


def _keep_single(value: Value) -> None:
    """Prevent further reads for the result of a volatile load, which may be booleans made from bytes."""
    made = value.op
    for op in (made, *(operand.op for operand in (made.operands if made is not None else ()))):
        if isinstance(op, VectorLoad):
            op.attributes["volatile"] = UNIT


def _level_of_facts(c: Context, op: Load) -> int:
    """The level of what the mask and the addresses of `op` may rely on: outside, no lane may be on, or have them."""
    level, operands = 0, [op.pointer] if op.mask is None else [op.pointer, op.mask]
    if c.fast is not None and (op.mask is not None or _is_told_by_facts(op.pointer)):
        level = c.fast.level
    known = {value for value, _ in c.certain}
    if known and any(result in known for v in operands for maker in makers(v) for result in maker.results):
        level = max(level, c.certain_at)
    return level


def _is_told_by_facts(pointer: Value) -> bool:
    """Whether a version may compute these addresses in another way, which gives none where its facts do not hold."""
    return any(isinstance(op, (Division, Select)) for op in makers(pointer))


def is_often_contiguous(c: Context, place: Lane, pointer: Value) -> bool:
    """Whether lanes that are not known to be neighbours often are: their addresses are computed, not loaded.

    The pixels of an image are, whose coordinates are computed by `//` and `%` from a number, within a row.
    """
    is_open = isinstance(place, Address) and isinstance(place.offset, Vector) and c.lanes > 1 and not c.optimize_size
    return is_open and is_computed(pointer)


def is_computed(value: Value) -> bool:
    """Whether nothing that `value` is computed from is loaded from the program's memory."""
    return not any(isinstance(op, Load) for op in lazy_closure(value))


def needed_mask(c: Context, mask: Lane) -> Lane | None:
    """The mask; None when all lanes are on, or the version relies on that."""
    if c.fast is None:
        return mask
    is_known = (isinstance(mask, Uniform) and mask.value == 1) or (c.facts and is_on(c, mask) in c.facts)
    return None if is_known else mask


def is_on(c: Context, mask: Lane) -> Value | None:
    """The condition under which a mask is on for the whole tile; None if that is not known before the version.

    In a version for lanes of a period, or for a prefix of all lanes, the bound that a mask gives.
    """
    if c.fast is None or is_chunked(mask) or level_of(mask) >= c.fast.guard_level:
        return None
    if isinstance(mask, Uniform):
        return mask.value if isinstance(mask.value, Value) else None
    if not isinstance(mask, ActiveLaneBound):
        return None
    return c.value(mask.below, i64) if c.fast.has_bounds else _reaches(c, mask.below, mask.level)


def _reaches(c: Context, below: Scalar, level: int) -> Value:
    """Whether a bound is no less than the number of lanes; for a selected one, both alternatives are tested.

    Programs that run as one have the lanes of all their tiles. A part common to several masks is tested once, and a
    part that does not depend on the row before all rows: (on ? n : 0) >= 64 is on and n >= 64.
    """
    choice = defining(below, Select) if isinstance(below, Value) else None
    if choice is None or integer_of(choice.other) != 0 or c.extent <= 0:
        return c.compare("sge", below, c.multiply(c.programs, c.extent, i64, 0), i64, level)
    return c.binary("arith.andi", choice.condition, _reaches(c, choice.chosen, level), i1, level)


def counting(c: Context, mask: Lane | None) -> Lane | None:
    """The mask, on the lanes of the chunk that count."""
    if c.cut is None or mask is None:
        return c.cut or mask
    found = both(c, mask, c.cut)
    if found is not None:
        return found
    x, y = c.as_vector(mask, i1), c.as_vector(c.cut, i1)
    level = max(x.level, y.level)
    return Vector(c.binary("arith.andi", x.value, y.value, x.value.type, level), level)


def masks_memory(value: Value) -> bool:
    """Whether `value` is the mask of a load or a store, so that a fast version relies on it anyway."""
    return any(isinstance(op, ACCESSES) and op.mask is value for op in value.uses)


def is_mask(op: Select) -> bool:
    """Whether a fast version may rely on the condition of `op`: the mask of a load or a store, or one of its own.

    A selection between a value and a number masks lanes off, as those of keys that a query does not see.
    """
    if not isinstance(op.condition.type, TensorType):
        return False
    other = op.other.op
    return masks_memory(op.condition) or (isinstance(other, Constant) and not isinstance(op.chosen.op, Constant))


def read(
    c: Context,
    place: Lane,
    element: Type,
    mask: Lane | None,
    other: Lane | None,
    *,
    in_runs: bool = False,
    inside: int = 0,
) -> Lane:
    """The elements at `place` on the lanes where `mask` holds, `other` (or zero) elsewhere.

    With `in_runs`, lanes that are not known to be neighbours are tested at run time.

    Args:
        c: the context.
        place: the addresses.
        element: the type of an element.
        mask: None: all lanes are on.
        other: None: zero.
        in_runs: test at run time whether lanes are neighbours.
        inside: the level before which there may be no such address, as facts hold only there.
    """
    if element is i1:
        rest = None if other is None else as_bytes(c, other, element)
        return _as_truth(c, _read_bytes(c, place, i8, mask, rest, in_runs=in_runs, inside=inside))
    return _read_bytes(c, place, element, mask, other, in_runs=in_runs, inside=inside)


def _read_bytes(
    c: Context, place: Lane, element: Type, mask: Lane | None, other: Lane | None, *, in_runs: bool, inside: int
) -> Uniform | Vector:
    if _is_single(place) and (mask is None or isinstance(mask, Uniform)):
        return _read_one(c, place, element, mask, other, inside=inside)
    return _read_lanes(c, place, element, mask, other, in_runs=in_runs)


def _is_single(place: Lane) -> bool:
    return isinstance(place, Uniform) or (isinstance(place, Address) and isinstance(place.offset, Uniform))


def single_address(c: Context, place: Lane) -> Uniform:
    """The one address that all lanes have."""
    if isinstance(place, Uniform):
        return place
    base, offset = affine_address(place)
    level = level_of(place)
    return Uniform(c.add_offset(pointer(base), uniform(offset).value, level), level)


def _read_one(
    c: Context, place: Lane, element: Type, mask: Uniform | None, other: Lane | None, *, inside: int
) -> Uniform | Vector:
    address = single_address(c, place)
    level = max(address.level, inside, mask.level if mask else 0)
    if mask is None:
        with c.at(level):
            return Uniform(c.b.load(element, pointer(address), align=size_of(element)), level)
    on = c.value(mask.value, i1)
    if other is not None and not isinstance(other, Uniform):
        with c.at(level):
            value = c.b.masked_load(pointer(address), on, c.zero(element), align=1)
        whole, rest = c.as_vector(Uniform(value, level), element), c.as_vector(other, element)
        deep = max(whole.level, rest.level)
        return Vector(c.emit(deep, "arith.select", c.wide(element), on, whole.value, rest.value), deep)
    level = max(level, 0 if other is None else other.level)
    default = c.zero(element) if other is None else c.value(other.value, element)
    with c.at(level):
        return Uniform(c.b.masked_load(pointer(address), on, default, align=1), level)


def _read_lanes(
    c: Context, place: Lane, element: Type, mask: Lane | None, other: Lane | None, *, in_runs: bool
) -> Vector:
    on = default = None
    mask = counting(c, mask)
    if mask is not None:
        on = c.as_vector(mask, i1)
        default = c.as_vector(Uniform(c.zero(element), 0) if other is None else other, element)
    start = contiguous_start(c, place)
    level = max(c.lane_level, level_of(place), *(v.level for v in (on, default, start) if v is not None))
    align = size_of(element)
    if start is not None:
        with c.at(level):
            if on is None or default is None:
                return Vector(c.b.load(c.wide(element), pointer(start), align=align), level)
            return Vector(c.b.masked_load(reachable(c, start, mask), on.value, default.value, align=align), level)
    if on is None and c.lanes > 1 and isinstance(place, Address):
        if level >= c.depth and isinstance(place.offset, Affine):
            return Vector(_read_spaced(c, place, place.offset, element), level)
        if isinstance(place.offset, ModuloRange):
            return Vector(_read_modulo(c, place, place.offset, element, level), level)
        if isinstance(place.offset, RepeatedRange):
            return Vector(_read_repeated(c, place, place.offset, element, level), level)
    access = each_address(c, place)
    level = max(level, access.level)
    with c.at(level):
        asks = in_runs and level >= c.depth
        return Vector((access.read_run if asks else access.read)(c, element, on, default), level)


def _read_spaced(c: Context, place: Address, offset: Affine, element: Type) -> Value:
    """Elements at one distance: whole vectors and shuffles where it is small, which may show at run time only."""
    b, align = c.b, size_of(element)
    stored = c.wide(i16 if element in (f16, bf16) else element)  # as they go from block to block
    first, stride = _first_of(c, place, offset), _bytes_between(c, place, offset)

    def at_distance(step: Scalar) -> Value:
        if step == 0:
            return b.splat(b.load(stored.scalar, first, align=align), c.lanes)
        if step == 1:
            return b.load(stored, first, align=align)
        if isinstance(step, int) and 2 <= step <= NEAR:
            return b.spaced_load(stored, first, step, align=align)
        return b.load(stored, first, align=align, stride=stride)

    def one_of(steps: Sequence[tuple[int, Value]]) -> Value:
        if not steps:
            return at_distance(offset.stride)
        step, condition = steps[0]
        with b.branch(condition) as branch:
            with branch.then():
                found = at_distance(step)
            with branch.otherwise():
                other = one_of(steps[1:])
        return branch.join(found, other)

    steps = () if isinstance(offset.stride, int) else USUAL_STEPS if c.mixes else (2,)
    asked = [(step, c.compare("eq", offset.stride, step, i64, offset.level)) for step in steps]
    return b.bitcast(one_of(asked), c.wide(element))


def _read_modulo(c: Context, place: Address, offset: ModuloRange, element: Type, level: int) -> Value:
    """Neighbours in memory up to some lane, neighbours elsewhere from there on: two loads under masks."""
    align = size_of(element)
    straight = ActiveLaneBound(offset.below, offset.level)
    with c.at(level):
        before = c.as_vector(straight, i1).value
        after = c.b.xor(before, c.b.constant(1, before.type))
        first = c.add_offset(pointer(place.base), c.start_of(Affine(offset.base, 1, level), i64), level)
        then = c.add_offset(first, c.subtract(0, offset.modulus, i64, level), level)
        some = c.compare("slt", offset.below, c.add(c.position, c.lanes, i64, level), i64, level)
        then = c.emit(level, "arith.select", then.type, some, then, c.waste(then.type))
        zeros = c.as_vector(Uniform(c.zero(element), 0), element).value
        low = c.b.masked_load(reachable(c, Uniform(first, level), straight), before, zeros, align=align)
        return c.b.masked_load(then, after, low, align=align)


def _read_repeated(c: Context, place: Address, offset: RepeatedRange, element: Type, level: int) -> Value:
    """Neighbours in memory, several times each: a narrower vector and a shuffle."""
    stored = i16 if element in (f16, bf16) else element  # as they go from block to block
    with c.at(level):
        start = c.add_offset(pointer(place.base), c.start_of_repeated(offset, i64), level)
        few = c.b.load(wide_type(stored, c.lanes // offset.times), start, align=size_of(element))
        whole = c.b.shuffle(few, None, [lane // offset.times for lane in range(c.lanes)])
        return c.b.bitcast(whole, c.wide(element))


def reachable(c: Context, place: Uniform, mask: Lane | None, *, is_written: bool = False) -> Value:
    """The address, or the waste slot's when the whole chunk is masked off.

    A masked access of a vector to a page that is not there does nothing, but it takes hundreds of cycles.
    """
    address = pointer(place)
    if c.lanes == 1 or not isinstance(mask, ActiveLaneBound) or (end := c.end_of(mask)) == c.active_lane_bound:
        return address
    some = c.compare("sgt", end, c.position, i64, max(mask.level, c.lane_level))
    level = max(mask.level, c.lane_level, place.level)
    return c.emit(level, "arith.select", address.type, some, address, c.waste(address.type, is_written=is_written))


def contiguous_start(c: Context, place: Lane) -> Uniform | None:
    """The address of the chunk's first lane, if the lanes are neighbours in memory."""
    if not isinstance(place, Address) or not isinstance(place.offset, Affine) or place.offset.stride != 1:
        return None
    base, offset = place.base, place.offset
    if offset.local:
        level = max(base.level, offset.level)
        return Uniform(c.add_offset(pointer(base), offset.base, level), level)
    fixed = max(base.level, offset.level)
    start = c.add_offset(pointer(base), offset.base, fixed)
    level = max(fixed, c.lane_level)
    return Uniform(c.add_offset(start, c.position, level), level)


class EachAddress(NamedTuple):
    """One address per lane: that of `first`, and what is `stride` bytes, or `indices` elements, behind it.

    Attributes:
        first: an address, or one per lane, where nothing else is given.
        level: the level at which all of this exists.
    """

    first: Value
    level: int
    stride: Scalar | None = None
    indices: Value | None = None

    def read(self, c: Context, element: Type, on: Vector | None, default: Vector | None) -> Value:
        """The elements, `default` on the lanes where `on` does not hold."""
        b, align = c.b, size_of(element)
        mask, other = (None, None) if on is None or default is None else (on.value, default.value)
        if self.indices is not None:
            type = c.wide(element)
            return b.gather(type, self.first, self.indices, mask=mask, other=other, align=align)
        if self.stride is None:
            return b.load_each(b.pointing(self.first, element), mask=mask, other=other)
        if mask is None or other is None:
            return b.load(c.wide(element), self.first, align=align, stride=self.stride)
        return b.masked_load(self.first, mask, other, align=1, stride=self.stride)

    def read_run(self, c: Context, element: Type, on: Vector | None, default: Vector | None) -> Value:
        """The lanes that `read` gives, by one vector if the lanes are neighbours."""
        b = c.b
        run, start = self._run(c, element)
        with b.branch(run) as branch:
            with branch.otherwise():
                each = self.read(c, element, on, default)
            with branch.then():
                if on is None or default is None:
                    near = b.load(c.wide(element), start, align=size_of(element))
                else:
                    near = b.masked_load(start, on.value, default.value, align=size_of(element))
        return branch.join(near, each)

    def write_run(self, c: Context, value: Value, mask: Value | None) -> None:
        """Do what `write` does, by one vector if the lanes are neighbours."""
        b, align = c.b, size_of(value.type)
        run, start = self._run(c, value.type.scalar)
        with b.branch(run) as branch:
            with branch.then():
                if mask is None:
                    b.store(value, start, align=align)
                else:
                    b.masked_store(value, start, mask, align=align)
            with branch.otherwise():
                self.write(c, value, mask)

    def _run(self, c: Context, element: Type) -> tuple[Value, Value]:
        """Whether the lanes are neighbours, and the address of the first one; for lanes with indices."""
        b, indices = c.b, self.indices
        assert indices is not None, "lanes at one distance are not asked"
        first = b.extract(indices, 0)
        apart = b.compare("ne", b.sub(indices, b.splat(first, c.lanes)), b.step(c.lanes, i64))
        return b.xor(b.reduce("or", apart), 1), b.pointing(b.offset(self.first, first), element)

    def write(self, c: Context, value: Value, mask: Value | None) -> None:
        """Put the lanes of `value` there where `mask` holds."""
        b, align = c.b, size_of(value.type)
        if self.indices is not None:
            b.scatter(value, self.first, self.indices, mask=mask, align=align)
        elif self.stride is None:
            b.store_each(value, b.pointing(self.first, value.type.scalar), mask=mask)
        elif mask is None:
            b.store(value, self.first, align=align, stride=self.stride)
        else:
            b.masked_store(value, self.first, mask, align=1, stride=self.stride)


def each_address(c: Context, place: Lane) -> EachAddress:
    """One address per lane."""
    if isinstance(place, Address) and isinstance(place.offset, Affine):
        level = max(level_of(place), c.lane_level)
        return EachAddress(_first_of(c, place, place.offset), level, stride=_bytes_between(c, place, place.offset))
    if isinstance(place, Address) and not isinstance(place.offset, Uniform):
        indices = c.as_vector(place.offset, i64)
        return EachAddress(pointer(place.base), max(place.base.level, indices.level), indices=indices.value)
    if isinstance(place, (Address, Uniform)):
        one = single_address(c, place)
        return EachAddress(pointer(one), one.level, stride=0)
    assert isinstance(place, Vector), f"{place} is no address"
    return EachAddress(place.value, place.level)


def _first_of(c: Context, place: Address, offset: Affine) -> Value:
    """The address of the chunk's first lane."""
    level = max(level_of(place), c.lane_level)
    return c.add_offset(pointer(place.base), c.start_of(offset, i64), level)


def _bytes_between(c: Context, place: Address, offset: Affine) -> Scalar:
    return c.multiply(offset.stride, place.size, i64, offset.level)


def _as_truth(c: Context, lane: Uniform | Vector) -> Lane:
    """Bytes from memory as truth values."""
    value = c.value(lane.value, i8)
    return type(lane)(c.compare("ne", value, 0, value.type, lane.level), lane.level)


def as_bytes(c: Context, lane: Lane, element: Type) -> Lane:
    """Truth values as the bytes that memory holds; other values as they are."""
    if element is not i1:
        return lane
    if isinstance(lane, Uniform):
        return Uniform(c.extend(lane.value, i1, i8, lane.level, signed=False), lane.level)
    found = c.as_vector(lane, i1)
    return Vector(c.emit(found.level, "arith.extui", c.wide(i8), found.value), found.level)


def read_buffer(c: Context, base: Uniform, tile: TensorType, index: Index) -> Lane:
    """Elements of the buffer at `base`, which holds `tile` in row-major order."""
    return read(c, buffer_address(c, base, tile, index), tile.element, None, None)


def buffer_address(c: Context, base: Uniform, tile: TensorType, index: Index) -> Address:
    """The address of element `index` of a buffer."""
    offset: Offsets = Uniform(0, 0)
    stride = 1
    for lane, extent in zip(reversed(index), reversed(tile.shape), strict=True):
        offset = c.plus(c.scaled(lane, stride), offset)
        stride *= extent
    return Address(base, offset)
