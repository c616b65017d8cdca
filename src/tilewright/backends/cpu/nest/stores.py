"""Writing the lanes of a chunk to memory."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import Address, Affine, Index, Lane, Uniform
from tilewright.backends.cpu.nest.loads import (
    as_bytes,
    contiguous_start,
    each_address,
    needed_mask,
    reachable,
    single_address,
)
from tilewright.backends.llvm.memory import masked_store, scatter
from tilewright.backends.llvm.spelling import bits_of, vector

Act = Callable[[], None]


def write(c: Context, pointer: Lane, value: Lane, mask: Lane | None, element: str) -> Act:
    """Get ready to store `value` at `pointer` on the lanes where `mask` holds; returns the store itself.

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
    if mask_name is None:
        return lambda: c.w.store(vector(inside, lanes), name, start.name, align=align)
    place = reachable(c, start.name, mask)
    return lambda: masked_store(c.w, place, inside, lanes, name, mask_name, align=align)


def _write_one(c: Context, pointer: Lane, value: Lane, mask: Lane | None, inside: str) -> Act:
    """One element per row."""
    assert isinstance(value, Uniform), "a row has one value"
    address = single_address(c, pointer).name
    align = bits_of(inside) // 8
    if isinstance(mask, Uniform):
        address, align = c.w.emit(f"select i1 {mask.name}, ptr {address}, ptr {c.w.waste_slot()}"), 1
    return lambda: c.w.store(inside, value.name, address, align=align)


def redirected(c: Context, pointer: Lane, buffer: str, row: Index, extent: int) -> Lane:
    """`pointer`, or the same place in the dense buffer when the nest's stores are redirected there.

    Args:
        pointer: affine or one address per row.
        buffer: the address of the buffer.
        row: index of the row, linear; extent: elements per row.
    """
    if c.redirected is None or not isinstance(pointer, Address):
        return pointer
    base, offset, element = pointer
    (linear,) = row
    assert isinstance(linear, Uniform)
    assert isinstance(offset, Affine | Uniform)
    level = max(base.level, offset.level, linear.level)
    start = offset.base if isinstance(offset, Affine) else offset.name
    inside = c.multiply(linear.name, str(extent), "i64", linear.level)
    new_base = c.emit(level, f"select i1 {c.redirected}, ptr {buffer}, ptr {base.name}")
    new_start = c.emit(level, f"select i1 {c.redirected}, i64 {inside}, i64 {start}")
    if isinstance(offset, Uniform):
        return Address(Uniform(new_base, level), Uniform(new_start, level), element)
    stride = offset.stride
    if stride != "1":
        stride = c.emit(level, f"select i1 {c.redirected}, i64 1, i64 {stride}")
    return Address(Uniform(new_base, level), Affine(new_start, stride, level), element)
