"""Layout inference for ops: the layout of results from that of the operands, and the other way round.

layout_of_results(reduce, blocked)          # #ttg.slice<{dim = 1, parent = #blocked}>
layout_of_operands(reduce, slice)           # #blocked
layout_of_results(add, mma)                 # mma: element i of the result needs elements i of the operands

None means that the op cannot have such a layout, so a conversion has to stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, TypeAlias

from tilewright.dialects.arith import Constant
from tilewright.dialects.scf import Condition, For, While, Yield
from tilewright.dialects.traits import Atomic, PointerAccess
from tilewright.dialects.tt_memory import Load, Store
from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_reduce import MapElementwise, Reduce, Scan
from tilewright.dialects.tt_shape import (
    Broadcast,
    Cat,
    ExpandDims,
    Gather,
    Histogram,
    Join,
    Reshape,
    Splat,
    Split,
    Trans,
)
from tilewright.dialects.ttg_memory import LocalAlloc, LocalLoad, LocalStore
from tilewright.dialects.ttg_program import ConvertLayout
from tilewright.dialects.ttng_mma import PackedArith, WarpGroupDotWait
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType
from tilewright.layouts import inference
from tilewright.layouts.encodings import (
    AmdMfma,
    AmdWmma,
    Blocked,
    Distributed,
    DotOperand,
    Encoding,
    LayoutError,
    NvidiaMma,
    Slice,
    encoding_as,
)
from tilewright.layouts.movement import reorders_registers
from tilewright.layouts.queries import is_expensive_view, is_legal_cat
from tilewright.transforms.gpu.tile_ops import workers_of

SAME_LAYOUT = (Splat, Broadcast, Scan, MapElementwise, Atomic, PackedArith)
"""Ops whose operands and results share one layout, besides elementwise ones."""
PASSING = (*SAME_LAYOUT, Load, Store, While, Yield, Condition, WarpGroupDotWait)
"""Ops that take and give tiles in one layout."""
FORWARDED = (*PASSING, For)
"""Ops whose results have the layout that their operands have."""
VIEWS = (ExpandDims, Reshape, Trans, Join, Split)
"""Ops after which each thread has the same elements, under other names."""
FREE_RESULTS = (ConvertLayout, Constant, MakeRange, Splat, Histogram, LocalAlloc, LocalLoad, LocalStore)
"""Ops that can give their result in any layout, whatever the operands have."""
Rule: TypeAlias = Callable[[Any, Distributed], Encoding | None]
MATRIX = (NvidiaMma, AmdMfma, AmdWmma)
"""Layouts of results of matrix instructions."""


def tile_layout(value: Value) -> Distributed | None:
    """The layout of a tile; None for anything else."""
    type = value.type
    if not isinstance(type, TensorType) or not type.encoding:
        return None
    return encoding_as(Distributed, type.encoding)


def keeps_layout(op: Op) -> bool:
    """Whether operands and results of `op` share one layout."""
    return op.definition.elementwise or isinstance(op, SAME_LAYOUT)


# --- forwards -----------------------------------------------------------------------------------------------------


def layout_of_results(op: Op, layout: Distributed) -> Distributed | None:
    """The layout of the results of `op` if its operands have `layout`; None if it cannot have operands like that."""
    return _through(op, layout, FORWARDED, _FORWARDS)


def _through(
    op: Op, layout: Distributed, passing: tuple[type[Op], ...], rules: Mapping[str, Rule]
) -> Distributed | None:
    if isinstance(op, Scan) and not isinstance(layout, Blocked):
        return None
    if op.definition.elementwise or isinstance(op, passing):
        return layout
    if op.name not in rules:
        return None
    try:
        found = rules[op.name](op, layout)
    except LayoutError:
        return None
    assert found is None or isinstance(found, Distributed), "tiles have layouts of registers"
    return found


def _shape(value: Value) -> tuple[int, ...]:
    assert value.type.shape is not None, "a tile"
    return value.type.shape


def _parent(op: Reduce | ExpandDims, layout: Distributed) -> Encoding | None:
    return layout.parent if isinstance(layout, Slice) and layout.dim == op.axis else None


def _reshaped(op: Reshape, layout: Distributed, source: Value, result: Value) -> Distributed:
    """The layout of `result`, which has the elements that `source` has with `layout`."""
    wish = tile_layout(result) if op.allow_reorder else None
    return inference.reshaped(layout, _shape(source), _shape(result), wish=wish)


_FORWARDS: dict[str, Rule] = {
    "tt.reduce": lambda op, layout: Slice(op.axis, layout) if layout.rank > 1 else None,
    "tt.expand_dims": _parent,
    "tt.join": lambda op, layout: inference.joined(layout, _shape(op.lhs)),
    "tt.split": lambda op, layout: inference.split(layout, _shape(op.source)),
    "tt.trans": lambda op, layout: inference.transposed(layout, _shape(op.source), op.order),
    "tt.reshape": lambda op, layout: _reshaped(op, layout, op.source, op.result),
    "tt.gather": lambda op, layout: layout,
    "ttg.fp4_to_fp": lambda op, layout: inference.unpacked_fp4(layout, _shape(op.source), op.axis),
}

# --- backwards ----------------------------------------------------------------------------------------------------


def layout_of_operands(op: Op, layout: Distributed) -> Distributed | None:
    """The layout that operands of `op` need so that its results have `layout`; None if there is none."""
    return _through(op, layout, PASSING, _BACKWARDS)


_BACKWARDS: dict[str, Rule] = {
    "tt.reduce": _parent,
    "tt.expand_dims": lambda op, layout: Slice(op.axis, layout),
    "tt.join": lambda op, layout: inference.split(layout, _shape(op.result)),
    "tt.split": lambda op, layout: inference.joined(layout, _shape(op.result)),
    "tt.trans": lambda op, layout: inference.transposed(layout, _shape(op.result), inference.inverse(op.order)),
    "tt.reshape": lambda op, layout: _reshaped(op, layout, op.result, op.source),
    "tt.gather": lambda op, layout: layout,
    "ttg.fp4_to_fp": lambda op, layout: inference.packed_fp4(layout, _shape(op.result), op.axis),
}

# --- ops that choose ----------------------------------------------------------------------------------------------


def can_give(op: Op, layout: Distributed) -> bool:
    """Whether `op` can give its result in `layout` and take the operands that it has."""
    if op.definition.elementwise:
        return False
    if isinstance(op, Cat):
        x = op.lhs
        source = tile_layout(x)
        assert source is not None, "all tiles around a cat have layouts"
        return is_legal_cat(source, _shape(x), layout, _shape(op.result))
    if isinstance(op, ConvertLayout):
        return not isinstance(layout, NvidiaMma) or tile_layout(op.source) is layout
    if isinstance(op, Reshape):
        return can_reorder(op) and not moves_data(op.source, op.result, layout)
    return isinstance(op, FREE_RESULTS)


def can_reorder(reshape: Reshape) -> bool:
    """Whether `reshape` may give its elements in any order."""
    return reshape.allow_reorder and not has_chosen_layout(reshape)


def has_chosen_layout(op: Reshape | Gather) -> bool:
    """Whether a pass chose the layouts of `op` so that little has to move."""
    return op.attributes.get("efficient_layout", False) is not False


def moves_data(x: Value, result: Value, layout: Distributed) -> bool:
    """Whether a reshape of `x` to the shape of `result`, in `layout`, would have to move elements between threads."""
    source = tile_layout(x)
    assert source is not None, "both sides of a reshape have layouts"
    return is_expensive_view(source, _shape(x), layout, _shape(result))


def is_free(op: Op) -> bool:
    """Whether `op` is a conversion that only renames the registers of each thread."""
    return isinstance(op, ConvertLayout) and free_between(op.source, tile_layout(op.result))


def free_between(value: Value, layout: Distributed | None) -> bool:
    """Whether a conversion of `value` to `layout` only renames the registers of each thread."""
    source = tile_layout(value)
    return source is not None and layout is not None and reorders_registers(source, layout, _shape(value))


def is_expensive_access(op: PointerAccess) -> bool:
    """Whether a load or store reads or writes so much that its layout matters: at least one element per thread."""
    pointer = op.pointer.type
    workers = workers_of(op)
    return isinstance(pointer, TensorType) and prod(pointer.shape) >= workers.warps * workers.lanes


def is_dot_operand(value: Value) -> bool:
    """Whether `value` has the layout of an operand of a matrix product."""
    return isinstance(tile_layout(value), DotOperand)
