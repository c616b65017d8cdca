"""Writing the lanes of a chunk to memory."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import (
    Address,
    Affine,
    Lane,
    Offsets,
    Uniform,
    affine_address,
    is_chunked,
    uniform,
)
from tilewright.backends.cpu.nest.loads import (
    as_bytes,
    contiguous_start,
    each_address,
    needed_mask,
    reachable,
    single_address,
)
from tilewright.backends.cpu.nest.streaming import store_past_caches
from tilewright.backends.llvm.memory import masked_store, scatter
from tilewright.backends.llvm.spelling import bits_of, vector

Act = Callable[[], None]


def write(c: Context, pointer: Lane, value: Lane, mask: Lane | None, element: str, *, stream: bool = False) -> Act:
    """Get ready to store `value` at `pointer` on the lanes where `mask` holds; returns the store itself.

    With `stream`, the store bypasses the caches where the context asks for that.

    Everything is computed now, for the chunk at hand; calling what is returned only adds the store instructions.
    """
    mask = needed_mask(c, mask) if mask is not None else None
    value, inside = as_bytes(c, value, element), "i8" if element == "i1" else element
    if c.depth < c.lane_level:
        return _write_one(c, pointer, value, mask, inside)
    align, lanes = bits_of(inside) // 8, c.lanes
    start = contiguous_start(c, pointer)
    name = c.as_vector(value, inside).name
    mask_name = c.as_vector(mask, "i1").name if mask is not None else None
    if start is None:
        pointers, _ = each_address(c, pointer, inside)
        return lambda: scatter(c.w, pointers, inside, name, align=align, mask=mask_name)
    if mask_name is None and stream and c.streaming and not is_chunked(pointer):
        return lambda: store_past_caches(c, inside, name, start.name)
    if mask_name is None:
        return lambda: c.w.store(vector(inside, lanes), name, start.name, align=align)
    place = reachable(c, start, mask)
    return lambda: masked_store(c.w, place, inside, lanes, name, mask_name, align=align)


def _write_one(c: Context, pointer: Lane, value: Lane, mask: Lane | None, inside: str) -> Act:
    """Write one element per row."""
    address, number = single_address(c, pointer).name, uniform(value).name
    align = bits_of(inside) // 8
    if isinstance(mask, Uniform):
        address, align = c.w.emit(f"select i1 {mask.name}, ptr {address}, ptr {c.w.waste_slot()}"), 1
    return lambda: c.w.store(inside, number, address, align=align)


def redirected(c: Context, pointer: Lane, place: Address) -> Lane:
    """`pointer`, or the same element's `place` in a dense buffer when the nest's stores are redirected there."""
    if c.redirected is None:
        return pointer
    if isinstance(pointer, Uniform):
        pointer = Address(pointer, Uniform("0", 0), place.element)
    pointer = affine_address(pointer)
    there, here = place.offset, pointer.offset
    level = max(pointer.base.level, there.level, here.level)

    def choose(type: str, if_redirected: str, otherwise: str) -> str:
        if if_redirected == otherwise:
            return otherwise
        return c.emit(level, f"select i1 {c.redirected}, {type} {if_redirected}, {type} {otherwise}")

    base = Uniform(choose("ptr", place.base.name, pointer.base.name), level)
    if isinstance(there, Uniform) and isinstance(here, Uniform):
        return Address(base, Uniform(choose("i64", there.name, here.name), level), place.element)
    (start, step), (own_start, own_step) = _line(there), _line(here)
    offset = Affine(choose("i64", start, own_start), choose("i64", step, own_step), level)
    return Address(base, offset, place.element)


def _line(offset: Offsets) -> tuple[str, str]:
    """Start and stride: buffers are dense, and a guarded store has an affine address."""
    return (offset.base, offset.stride) if isinstance(offset, Affine) else (uniform(offset).name, "0")
