"""The choice of the buffer that a loaded tile should go to, for all that use it.

shared_layout_for(value)      the one swizzled layout from which all dots that use `value` read their operand
"""

from __future__ import annotations

from functools import cache

from tilewright.dialects.ttg_memory import LocalLoad
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.ir.core import Op, Value
from tilewright.ir.types import MemDescType, TensorType
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Distributed, DotOperand, Encoding, SwizzledShared, encoding
from tilewright.layouts.linear_layout import log2
from tilewright.layouts.queries import buffer_order, cga_layout, contiguous_per_thread, memory_order, thread_order
from tilewright.layouts.shared_choice import swizzled_for, swizzled_rows
from tilewright.layouts.walk import operand_order
from tilewright.transforms.gpu.relayout import distributed_of


class IncompatibleUsersError(Exception):
    """Two users of a tile need different buffers."""


def shared_layout_for(value: Value) -> SwizzledShared | None:
    """The layout of a buffer that all users of `value` read operands of dots from; None: some do something else.

    Raises:
        IncompatibleUsersError: all are operands of dots, but of different kinds.
    """
    found: SwizzledShared | None = None
    for user in value.uses:
        if len(user.results) != 1:
            return None
        wanted = _wanted(value, user)
        if wanted is None:
            return None
        if found is not None and found is not wanted:
            raise IncompatibleUsersError
        found = wanted
    return found


def has_compatible_users(value: Value) -> bool:
    """Whether one buffer serves all users of `value`, as far as they are operands of dots."""
    try:
        shared_layout_for(value)
    except IncompatibleUsersError:
        return False
    return True


def _wanted(value: Value, user: Op) -> SwizzledShared | None:
    """The layout from which `user` reads `value`."""
    result = user.results[0]
    if isinstance(result.type, MemDescType):
        layout = encoding(result.type.encoding)
        if not isinstance(layout, SwizzledShared) or shared_layout_for(result) is None:
            return None
        return layout
    if not isinstance(user, (LocalLoad, ConvertLayout)) or not isinstance(result.type, TensorType):
        return None
    operand = encoding(result.type.encoding or "")
    type = value.type
    assert isinstance(type, TensorType | MemDescType), "what is loaded is a tile"
    source = encoding(type.encoding or "")
    if isinstance(operand, DotOperand):
        return swizzled_for(operand, type.shape, _order(source, type.shape), bits=type.bits, cga=cga_layout(operand))
    return _wanted_by_rows(distributed_of(result), type.shape, type.bits)


@cache
def _wanted_by_rows(layout: Distributed, shape: tuple[int, ...], bits: int) -> SwizzledShared | None:
    """The layout as for an operand of a dot, if lanes hold eight rows of four pieces each as there; else None."""
    order = thread_order(layout, shape)
    rank = len(order)
    index = next((index for index in (0, 1) if rank > 1 and operand_order(index, rank) == order), None)
    if index is None:
        return None
    inner, outer = order[:2]
    width = contiguous_per_thread(layout, shape)[inner]
    bases = to_linear_layout(layout, shape).bases
    count = log2(width)
    tile = [*bases["register"][:count], *bases["lane"]]
    wanted = [(inner, 1 << bit) for bit in range(count + 2)] + [(outer, 1 << bit) for bit in range(3)]
    if tile != [tuple(step if dim == axis else 0 for dim in range(rank)) for axis, step in wanted]:
        return None
    others = [*bases["register"][count:], *bases["warp"], *bases["block"]]
    if any(row[inner] % (4 * width) or row[outer] % 8 for row in others):
        return None
    return swizzled_rows(index, width, shape, order, bits=bits, cga=cga_layout(layout))


def _order(layout: Encoding, shape: tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(layout, Distributed):
        return memory_order(layout, shape)
    assert isinstance(layout, SwizzledShared), "a buffer for operands of dots is swizzled"
    return buffer_order(layout)
