"""Writing the lanes of a chunk to memory."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import (
    Address,
    Affine,
    Lane,
    Offsets,
    Scalar,
    Uniform,
    affine_address,
    pointer,
    size_of,
    uniform,
)
from tilewright.backends.cpu.nest.loads import (
    as_bytes,
    contiguous_start,
    counting,
    each_address,
    needed_mask,
    reachable,
    single_address,
)
from tilewright.ir.types import Type, i1, i8, i64

Act = Callable[[], None]


def write(
    c: Context, place: Lane, value: Lane, mask: Lane | None, element: Type, *, in_runs: bool = False
) -> Act:
    """Get ready to store `value` at `place` on the lanes where `mask` holds; returns the store itself.

    Everything is computed now, for the chunk at hand; calling what is returned only adds the stores. With `in_runs`,
    lanes that are not known to be neighbours are asked whether they are.
    """
    mask = needed_mask(c, mask) if mask is not None else None
    value, stored = as_bytes(c, value, element), i8 if element is i1 else element
    if c.depth < c.lane_level:
        return _write_one(c, place, value, mask, stored)
    mask = counting(c, mask)
    b, align, start = c.b, size_of(stored), contiguous_start(c, place)
    lanes = c.as_vector(value, stored).value
    on = c.as_vector(mask, i1).value if mask is not None else None
    if start is None:
        access = each_address(c, place)
        put = access.write_run if in_runs else access.write
        return lambda: put(c, lanes, on)
    if on is None:
        return lambda: b.store(lanes, pointer(start), align=align)
    address = reachable(c, start, mask, is_written=True)
    return lambda: b.masked_store(lanes, address, on, align=align)


def _write_one(c: Context, place: Lane, value: Lane, mask: Lane | None, element: Type) -> Act:
    """Write one element per row."""
    b, address, number = c.b, pointer(single_address(c, place)), c.value(uniform(value).value, element)
    if not isinstance(mask, Uniform):
        return lambda: b.store(number, address, align=size_of(element))
    on = c.value(mask.value, i1)
    return lambda: b.masked_store(number, address, on)


def redirected(c: Context, place: Lane, buffer: Address) -> Lane:
    """`place`, or the same element's place in a dense buffer when the nest's stores are redirected there."""
    condition = c.redirected
    if condition is None:
        return place
    if isinstance(place, Uniform):
        place = Address(place, Uniform(0, 0))
    place = affine_address(place)
    there, here = buffer.offset, place.offset
    level = max(place.base.level, there.level, here.level)

    def choose(if_redirected: Scalar, otherwise: Scalar) -> Scalar:
        same = if_redirected == otherwise
        return otherwise if same else c.select(condition, if_redirected, otherwise, i64, level)

    own = pointer(place.base)
    base = Uniform(c.emit(level, "arith.select", own.type, condition, pointer(buffer.base), own), level)
    if isinstance(there, Uniform) and isinstance(here, Uniform):
        return Address(base, Uniform(choose(there.value, here.value), level))
    (start, step), (own_start, own_step) = _line(there), _line(here)
    return Address(base, Affine(choose(start, own_start), choose(step, own_step), level))


def _line(offset: Offsets) -> tuple[Scalar, Scalar]:
    """Start and stride: buffers are dense, and a guarded store has an affine address."""
    return (offset.base, offset.stride) if isinstance(offset, Affine) else (uniform(offset).value, 0)
