"""Reading memory for the lanes of a chunk: one vector, one number, or one element per lane."""

from __future__ import annotations

from tilewright.backends.cpu.costs import ACCESSES
from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import (
    ActiveLaneBound,
    Address,
    Affine,
    Index,
    Lane,
    ModuloRange,
    Offsets,
    Uniform,
    Vector,
    affine_address,
    is_chunked,
    level_of,
    uniform,
)
from tilewright.backends.llvm.memory import gather, lane_pointers, masked_load, moved_as, spaced_load
from tilewright.backends.llvm.spelling import bits_of, element_of, literal, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.tt_memory import Load
from tilewright.ir.core import Value
from tilewright.ir.types import TensorType

NEAR = 4
"""Elements up to this distance are read as whole vectors."""


def load(c: Context, op: Load, operands: list[Lane]) -> Lane:
    """A tt.load of the addresses, mask and default in `operands`."""
    pointer, *rest = operands
    element = element_of(op.result.type)
    mask = needed_mask(c, rest[0]) if rest else None
    other = rest[1] if len(rest) > 1 else None
    lane = read(c, pointer, element, mask, other)
    start = contiguous_start(c, pointer) if mask is None and op in c.next_rows else None
    if start is not None:
        c.w.prefetch(c.w.offset(start.name, "i8", c.next_rows[op]))
    return lane


def needed_mask(c: Context, mask: Lane) -> Lane | None:
    """The mask; None when all lanes are on, or the fast version may rely on that: the condition joins the guards."""
    if c.unmasked:
        return None
    if not c.fast or is_chunked(mask) or level_of(mask) >= c.lane_level:
        return mask
    if isinstance(mask, Uniform):
        if mask.name != "true":
            c.assume(mask.name)
        return None
    if isinstance(mask, ActiveLaneBound):
        c.assume(c.emit(mask.level, f"icmp sge i64 {mask.below}, {c.extent}"))
        return None
    return mask


def masks_memory(value: Value) -> bool:
    """Whether `value` is the mask of a load or a store, so that a fast version relies on it anyway."""
    return any(isinstance(op, ACCESSES) and op.mask is value for op in value.uses)


def read(c: Context, pointer: Lane, element: str, mask: Lane | None, other: Lane | None) -> Lane:
    """The elements at `pointer` on the lanes where `mask` holds, `other` (or zero) elsewhere."""
    inside = "i8" if element == "i1" else element
    if _is_single(pointer) and (mask is None or isinstance(mask, Uniform)):
        lane: Uniform | Vector = _read_one(c, pointer, inside, mask, other, element)
    else:
        lane = _read_lanes(c, pointer, inside, mask, other, element)
    return _as_truth(c, lane) if element == "i1" else lane


def _is_single(pointer: Lane) -> bool:
    return isinstance(pointer, Uniform) or (isinstance(pointer, Address) and isinstance(pointer.offset, Uniform))


def single_address(c: Context, pointer: Lane) -> Uniform:
    """The one address that all lanes have."""
    if isinstance(pointer, Uniform):
        return pointer
    base, offset, element = affine_address(pointer)
    level, only = level_of(pointer), uniform(offset).name
    if only == "0":
        return base
    return Uniform(c.emit(level, f"getelementptr {element}, ptr {base.name}, i64 {only}"), level)


def _read_one(
    c: Context, pointer: Lane, inside: str, mask: Uniform | None, other: Lane | None, element: str
) -> Uniform | Vector:
    address = single_address(c, pointer)
    align = bits_of(inside) // 8
    level = max(address.level, mask.level if mask else 0)
    with c.at(level) as w:
        if mask is None:
            return Uniform(w.load(inside, address.name, align=align), level)
        safe = w.emit(f"select i1 {mask.name}, ptr {address.name}, ptr {w.waste_slot()}")
        value = w.load(inside, safe, align=align)
    if other is not None and not isinstance(other, Uniform):
        whole = c.as_vector(Uniform(value, level), inside)
        rest = c.as_vector(as_bytes(c, other, element), inside)
        deep = max(whole.level, rest.level)
        type = vector(inside, c.lanes)
        return Vector(c.emit(deep, f"select i1 {mask.name}, {type} {whole.name}, {type} {rest.name}"), deep)
    default = _zero(inside) if other is None else uniform(as_bytes(c, other, element))
    level = max(level, default.level)
    chosen = f"select i1 {mask.name}, {inside} {value}, {inside} {default.name}"
    return Uniform(c.emit(level, chosen), level)


def _read_lanes(c: Context, pointer: Lane, inside: str, mask: Lane | None, other: Lane | None, element: str) -> Vector:
    lanes, align = c.lanes, bits_of(inside) // 8
    mask_vector = None if mask is None else c.as_vector(mask, "i1")
    default = None
    if mask_vector is not None:
        default = c.as_vector(_zero(inside) if other is None else as_bytes(c, other, element), inside)
    start = contiguous_start(c, pointer)
    levels = [c.lane_level, level_of(pointer), *(v.level for v in (mask_vector, default) if v is not None)]
    level = max(levels)
    if start is not None:
        level = max(level, start.level)
        if c.moved is not None and isinstance(pointer, Address) and not is_chunked(pointer):
            c.moved.loads.append(pointer)
        with c.at(level) as w:
            if mask_vector is None:
                return Vector(w.load(vector(inside, lanes), start.name, align=align), level)
            assert default is not None
            pointer_name = reachable(c, start, mask)
            args = (inside, lanes, mask_vector.name, default.name)
            return Vector(masked_load(w, pointer_name, *args, align=align), level)
    if mask_vector is None and lanes > 1 and isinstance(pointer, Address):
        if level >= c.depth and isinstance(pointer.offset, Affine):
            return Vector(_read_spaced(c, pointer, pointer.offset, inside), level)
        if isinstance(pointer.offset, ModuloRange):
            return Vector(_read_modulo(c, pointer, pointer.offset, inside, level), level)
    pointers, deep = each_address(c, pointer, inside)
    level = max(level, deep)
    with c.at(level) as w:
        names = (mask_vector.name, default.name) if mask_vector and default else (None, None)
        return Vector(gather(w, pointers, inside, align=align, mask=names[0], other=names[1]), level)


def _read_spaced(c: Context, pointer: Address, offset: Affine, inside: str) -> str:
    """Elements at one distance: whole vectors and shuffles where it is small, which may show at run time only."""
    w, lanes, align, stored = c.w, c.lanes, bits_of(inside) // 8, moved_as(inside)
    first = _first_of(c, pointer, offset)

    def near(step: int) -> str:
        return spaced_load(w, first, stored, lanes, step, align=align)

    def far() -> str:
        return gather(w, _line_of(w, first, offset, pointer.element, lanes), stored, align=align)

    if offset.stride.lstrip("-").isdigit():
        step = int(offset.stride)
        found = near(step) if 2 <= step <= NEAR else far()
    else:
        with w.branch(c.emit(offset.level, f"icmp eq i64 {offset.stride}, 2")) as branch:
            with branch.then():
                if_near = near(2)
            with branch.otherwise():
                if_far = far()
        found = branch.join(vector(stored, lanes), if_near, if_far)
    return w.convert("bitcast", found, vector(stored, lanes), vector(inside, lanes))


def _read_modulo(c: Context, pointer: Address, offset: ModuloRange, inside: str, level: int) -> str:
    """Neighbours in memory up to some lane, neighbours elsewhere from there on: two loads under masks."""
    lanes, align = c.lanes, bits_of(inside) // 8
    straight = ActiveLaneBound(offset.below, offset.level)
    with c.at(level) as w:
        before = c.as_vector(straight, "i1").name
        behind = w.emit(f"xor {vector('i1', lanes)} {before}, {w.splat('true', 'i1', lanes)}")
        first = _behind(
            c, pointer.base.name, pointer.element, c.start_of(Affine(offset.base, "1", level), "i64"), level
        )
        then = _behind(c, first, pointer.element, c.subtract("0", offset.modulus, "i64", level), level)
        some = c.emit(level, f"icmp slt i64 {offset.below}, {c.add(c.position, str(lanes), 'i64', level)}")
        then = c.emit(level, f"select i1 {some}, ptr {then}, ptr {w.waste_slot()}")
        zeros = c.as_vector(_zero(inside), inside).name
        low = masked_load(w, reachable(c, Uniform(first, level), straight), inside, lanes, before, zeros, align=align)
        return masked_load(w, then, inside, lanes, behind, low, align=align)


def reachable(c: Context, pointer: Uniform, mask: Lane | None) -> str:
    """`pointer`, or the waste slot when the whole chunk is masked off.

    A masked access to a page that is not there does nothing, but it takes hundreds of cycles.
    """
    if not isinstance(mask, ActiveLaneBound) or mask.below == c.active_lane_bound:
        return pointer.name
    level = max(mask.level, c.lane_level)
    some = c.emit(level, f"icmp sgt i64 {mask.below}, {c.position}")
    level = max(level, pointer.level)
    return c.emit(level, f"select i1 {some}, ptr {pointer.name}, ptr {c.w.waste_slot()}")


def _zero(inside: str) -> Uniform:
    return Uniform(literal(0, inside), 0)


def contiguous_start(c: Context, pointer: Lane) -> Uniform | None:
    """The address of the chunk's first lane, if the lanes are neighbours in memory."""
    if not isinstance(pointer, Address) or not isinstance(pointer.offset, Affine) or pointer.offset.stride != "1":
        return None
    base, offset = pointer.base, pointer.offset
    if offset.local:
        level = max(base.level, offset.level)
        return Uniform(_behind(c, base.name, pointer.element, offset.base, level), level)
    fixed = max(base.level, offset.level)
    start = _row_start(c, base, offset, pointer.element, fixed)
    level = max(fixed, c.lane_level)
    return Uniform(_behind(c, start, pointer.element, c.position, level), level)


def _row_start(c: Context, base: Uniform, offset: Affine, element: str, level: int) -> str:
    key = ("row start", base, offset, element, level)
    found = c.cached(key)
    return found if found is not None else c.cache(key, _behind(c, base.name, element, offset.base, level))


def _behind(c: Context, base: str, element: str, offset: str, level: int) -> str:
    if offset == "0":
        return base
    return c.emit(level, f"getelementptr {element}, ptr {base}, i64 {offset}")


def each_address(c: Context, pointer: Lane, element: str) -> tuple[list[str], int]:
    """One address per lane, and the level where they exist."""
    lanes = c.lanes
    if isinstance(pointer, Address):
        if isinstance(pointer.offset, Uniform):
            one = single_address(c, pointer)
            return [one.name] * lanes, one.level
        if isinstance(pointer.offset, Affine):
            return _strided(c, pointer, pointer.offset)
        offsets = c.as_vector(pointer.offset, "i64")
        level = max(pointer.base.level, offsets.level)
        with c.at(level) as w:
            return lane_pointers(w, pointer.base.name, offsets.name, pointer.element, lanes), level
    if isinstance(pointer, Uniform):
        return [pointer.name] * lanes, pointer.level
    whole = c.as_vector(pointer, "ptr")
    with c.at(whole.level) as w:
        return _lanes_of(w, whole.name, lanes), whole.level


def _lanes_of(w: LlvmWriter, pointers: str, lanes: int) -> list[str]:
    if lanes == 1:
        return [pointers]
    return [w.extract(vector("ptr", lanes), pointers, lane) for lane in range(lanes)]


def _strided(c: Context, pointer: Address, offset: Affine) -> tuple[list[str], int]:
    level = max(level_of(pointer), c.lane_level)
    with c.at(level) as w:
        return _line_of(w, _first_of(c, pointer, offset), offset, pointer.element, c.lanes), level


def _first_of(c: Context, pointer: Address, offset: Affine) -> str:
    """The address of the chunk's first lane."""
    level = max(level_of(pointer), c.lane_level)
    return _behind(c, pointer.base.name, pointer.element, c.start_of(offset, "i64"), level)


def _line_of(w: LlvmWriter, first: str, offset: Affine, element: str, lanes: int) -> list[str]:
    """The addresses of all lanes."""
    found = [first]
    for _ in range(1, lanes):
        found.append(w.emit(f"getelementptr {element}, ptr {found[-1]}, i64 {offset.stride}"))
    return found


def _as_truth(c: Context, lane: Uniform | Vector) -> Lane:
    """Bytes from memory as truth values."""
    lanes = c.lanes if isinstance(lane, Vector) else 1
    zero = "0" if lanes == 1 else "zeroinitializer"
    name = c.emit(lane.level, f"icmp ne {vector('i8', lanes)} {lane.name}, {zero}")
    return type(lane)(name, lane.level)


def as_bytes(c: Context, lane: Lane, element: str) -> Lane:
    """Truth values as the bytes that memory holds; other values as they are."""
    if element != "i1":
        return lane
    if isinstance(lane, Uniform):
        if lane.name in ("true", "false"):
            return Uniform(str(int(lane.name == "true")), 0)
        return Uniform(c.emit(lane.level, f"zext i1 {lane.name} to i8"), lane.level)
    found = c.as_vector(lane, "i1")
    types = vector("i1", c.lanes), vector("i8", c.lanes)
    return Vector(c.emit(found.level, f"zext {types[0]} {found.name} to {types[1]}"), found.level)


def read_buffer(c: Context, base: Uniform, tile: TensorType, index: Index) -> Lane:
    """Elements of the buffer at `base`, which holds `tile` in row-major order."""
    element = element_of(tile)
    return read(c, buffer_address(c, base, tile, index), element, None, None)


def buffer_address(c: Context, base: Uniform, tile: TensorType, index: Index) -> Address:
    """The address of element `index` of a buffer."""
    element = element_of(tile)
    inside = "i8" if element == "i1" else element
    offset: Offsets = Uniform("0", 0)
    stride = 1
    for lane, extent in zip(reversed(index), reversed(tile.shape), strict=True):
        offset = c.plus(c.scaled(lane, stride), offset)
        stride *= extent
    return Address(base, offset, inside)
