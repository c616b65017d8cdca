"""Gathers in which every element is exchanged with one at a fixed distance, as in sorting networks and `tl.flip`.

%p = arith.xori %i, dense<16>          %i: each element's own index along the axis
%y = tt.gather %x[%p]                  distance_of: 16; the lane of an element determines that of its partner
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.dialects.arith import Binary, Constant
from tilewright.dialects.tt_shape import Broadcast, Gather, Splat
from tilewright.ir.attributes import Number
from tilewright.ir.core import Value, tile_type
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import encoding
from tilewright.layouts.linear_layout import LinearLayout


def distance_of(gather: Gather) -> int | None:
    """The number that each index is XOR its own place along the axis; None if there is no such number."""
    distance = distance_of_indices(gather)
    return (
        distance
        if distance is not None and linear_layout_of(gather.source) == linear_layout_of(gather.indices)
        else None
    )


def distance_of_indices(gather: Gather) -> int | None:
    """The same of tiles without layouts, which may have different shapes off the axis."""
    axis = gather.axis
    distance, length, asked = _distance(gather.indices, axis), gather.source.type.shape, gather.indices.type.shape
    if distance is None or length is None or asked is None:
        return None
    return distance if max(distance, asked[axis] - 1) < length[axis] else None


def is_place(value: Value, axis: int) -> bool:
    """Whether each element of `value` is its own place along `axis`."""
    return _distance(value, axis) == 0


def step_of(layout: LinearLayout, axis: int, distance: int) -> dict[str, int]:
    """The owner of the element at this distance: what to XOR one's own register, lane, warp and block with."""
    owners = layout.pseudo_invert()
    found = owners.image({f"dim{axis}": distance})
    return dict(zip(owners.out_names, owners.unpack(found), strict=True))


def stays_in_warp(gather: Gather) -> bool:
    """The gather has a distance, and partners are in one warp."""
    distance = distance_of(gather)
    if distance is None:
        return False
    step = step_of(linear_layout_of(gather.source), gather.axis, distance)
    return not step["warp"] and not step["block"]


def linear_layout_of(tile: Value) -> LinearLayout:
    """The linear layout of a tile: which thread and register holds each element."""
    type = tile_type(tile)
    assert type.encoding is not None, "tiles of TTGIR have layouts"
    return to_linear_layout(encoding(type.encoding), type.shape)


def _distance(value: Value, axis: int) -> int | None:
    """The number that each element of `value` is XOR its place along `axis`."""
    op = value.op
    rule = RULES.get(op.name) if op is not None else None
    return rule(op, axis) if rule is not None and op is not None else None


def _xor(op: Binary, axis: int) -> int | None:
    for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        constant = _constant(other)
        if constant is not None:
            distance = _distance(value, axis) if constant >= 0 else None
            return None if distance is None else constant ^ distance
    return None


def _constant(value: Value) -> int | None:
    op = value.op
    if isinstance(op, Splat):
        return _constant(op.source)
    number = op.value if isinstance(op, Constant) else None
    return int(number.value) if isinstance(number, Number) else None


def _broadcast(op: Broadcast, axis: int) -> int | None:
    source, result = op.source.type.shape, op.result.type.shape
    if source is None or result is None or source[axis] != result[axis]:
        return None
    return _distance(op.source, axis)


RULES: dict[str, Callable[[Any, int], int | None]] = {
    "arith.xori": _xor,
    "tt.broadcast": _broadcast,
    "tt.expand_dims": lambda op, axis: None if op.axis == axis else _distance(op.source, axis - (op.axis < axis)),
    "tt.make_range": lambda op, axis: 0 if op.start == 0 else None,
    "ttg.convert_layout": lambda op, axis: _distance(op.source, axis),
}
