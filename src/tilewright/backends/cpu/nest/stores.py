"""Stores of the lanes of a chunk."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.backends.cpu.nest.context import Context
from tilewright.backends.cpu.nest.lane_values import (
    Address,
    Lane,
    Uniform,
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
from tilewright.ir.types import Type, i1, i8

Act = Callable[[], None]


def write(c: Context, place: Lane, value: Lane, mask: Lane | None, element: Type, *, in_runs: bool = False) -> Act:
    """Get ready to store `value` at `place` on the lanes where `mask` holds; returns the store itself.

    Everything is computed now, for the chunk at hand; calling what is returned only adds the stores. With `in_runs`,
    lanes that are not known to be neighbours are tested at run time.

    Args:
        c: the context.
        place: the addresses.
        value: the elements.
        mask: None: all lanes are on.
        element: the type of an element.
        in_runs: test at run time whether lanes are neighbours.
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
    """Write one element per row, which may be an address."""
    one = single_address(c, value) if isinstance(value, Address) else uniform(value)
    b, address, number = c.b, pointer(single_address(c, place)), c.value(one.value, element)
    if not isinstance(mask, Uniform):
        return lambda: b.store(number, address, align=size_of(element))
    on = c.value(mask.value, i1)
    return lambda: b.masked_store(number, address, on)
