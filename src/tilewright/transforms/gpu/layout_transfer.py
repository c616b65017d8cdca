"""How layouts go through ops: which layout a result has if the operands have a given one, and the other way round.

layout_of_results(reduce, blocked)          # #ttg.slice<{dim = 1, parent = #blocked}>
layout_of_operands(reduce, slice)           # #blocked
layout_of_results(add, mma)                 # mma: element i of the result needs elements i of the operands

None: the op cannot work that way, so a conversion has to stay.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilewright.ir.attributes import DenseArray, Number
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
    encoding,
)
from tilewright.layouts.movement import reorders_registers
from tilewright.layouts.queries import is_expensive_view, is_legal_cat
from tilewright.transforms.gpu.workers import workers_of

SAME_LAYOUT = frozenset({"tt.splat", "tt.broadcast", "tt.scan", "tt.map_elementwise", "tt.atomic_rmw", "tt.atomic_cas"})
"""Ops whose operands and results share one layout, besides elementwise ones."""
PASSING = SAME_LAYOUT | {"tt.load", "tt.store", "scf.while", "scf.yield", "scf.condition", "ttng.warp_group_dot_wait"}
"""Ops that take and give tiles in one layout."""
VIEWS = frozenset({"tt.expand_dims", "tt.reshape", "tt.trans", "tt.join", "tt.split"})
"""Ops after which each thread has the same elements, under other names."""
DOTS = frozenset({"tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled"})
"""Matrix products."""
FREE_RESULTS = frozenset(
    {
        "ttg.convert_layout",
        "arith.constant",
        "tt.make_range",
        "tt.splat",
        "tt.histogram",
        "ttg.local_alloc",
        "ttg.local_load",
        "ttg.local_store",
    }
)
"""Ops that can give their result in any layout, whatever the operands have."""
MATRIX = (NvidiaMma, AmdMfma, AmdWmma)
"""Layouts of results of matrix instructions."""


def tile_layout(value: Value) -> Distributed | None:
    """The layout of a tile; None for anything else."""
    type = value.type
    if not isinstance(type, TensorType) or not type.encoding:
        return None
    found = encoding(type.encoding)
    assert isinstance(found, Distributed), f"{type} is no layout of registers"
    return found


def keeps_layout(op: Op) -> bool:
    """Whether operands and results of `op` share one layout."""
    return op.definition.elementwise or op.name in SAME_LAYOUT


# --- forwards -----------------------------------------------------------------------------------------------------


def layout_of_results(op: Op, layout: Distributed) -> Distributed | None:
    """The layout of the results of `op` if its operands have `layout`; None if it cannot have operands like that."""
    if op.name == "tt.scan" and not isinstance(layout, Blocked):
        return None
    if op.definition.elementwise or op.name in PASSING or op.name == "scf.for":
        return layout
    rule = _FORWARDS.get(op.name)
    return None if rule is None else _inferred(rule, op, layout)


def _inferred(rule: Callable[[Op, Distributed], Encoding | None], op: Op, layout: Distributed) -> Distributed | None:
    try:
        found = rule(op, layout)
    except LayoutError:
        return None
    assert found is None or isinstance(found, Distributed), "tiles have layouts of registers"
    return found


def _shape(value: Value) -> tuple[int, ...]:
    assert value.type.shape is not None, "a tile"
    return value.type.shape


def _axis(op: Op) -> int:
    axis = op.attributes["axis"]
    assert isinstance(axis, Number), f"{op.name} has an axis"
    return int(axis.value)


def _order(op: Op) -> tuple[int, ...]:
    order = op.attributes["order"]
    assert isinstance(order, DenseArray), f"{op.name} has an order"
    return order.values


def _reduced(op: Op, layout: Distributed) -> Encoding | None:
    return inference.reduced(layout, _axis(op)) if layout.rank > 1 else None


def _parent(op: Op, layout: Distributed) -> Encoding | None:
    return layout.parent if isinstance(layout, Slice) and layout.dim == _axis(op) else None


def _sliced(op: Op, layout: Distributed) -> Encoding | None:
    return inference.reduced(layout, _axis(op))


def _transposed(op: Op, layout: Distributed) -> Encoding | None:
    return inference.transposed(layout, _shape(op.operands[0]), _order(op))


def _turned_back(op: Op, layout: Distributed) -> Encoding | None:
    return inference.transposed(layout, _shape(op.results[0]), inference.inverse(_order(op)))


def _reshaped(op: Op, layout: Distributed) -> Encoding | None:
    x, result = op.operands[0], op.results[0]
    wish = tile_layout(result) if op.attributes.get("allow_reorder") else None
    return inference.reshaped(layout, _shape(x), _shape(result), wish=wish)


def _shaped_back(op: Op, layout: Distributed) -> Encoding | None:
    x, result = op.operands[0], op.results[0]
    wish = tile_layout(x) if op.attributes.get("allow_reorder") else None
    return inference.reshaped(layout, _shape(result), _shape(x), wish=wish)


_FORWARDS: dict[str, Callable[[Op, Distributed], Encoding | None]] = {
    "tt.reduce": _reduced,
    "tt.expand_dims": _parent,
    "tt.join": lambda op, layout: inference.joined(layout, _shape(op.operands[0])),
    "tt.split": lambda op, layout: inference.split(layout, _shape(op.operands[0])),
    "tt.trans": _transposed,
    "tt.reshape": _reshaped,
    "tt.gather": lambda op, layout: layout,
    "ttg.fp4_to_fp": lambda op, layout: inference.unpacked_fp4(layout, _shape(op.operands[0]), _axis(op)),
}

# --- backwards ----------------------------------------------------------------------------------------------------


def layout_of_operands(op: Op, layout: Distributed) -> Distributed | None:
    """The layout that operands of `op` need so that its results have `layout`; None if there is none."""
    if op.name == "tt.scan" and not isinstance(layout, Blocked):
        return None
    if op.definition.elementwise or op.name in PASSING:
        return layout
    rule = _BACKWARDS.get(op.name)
    return None if rule is None else _inferred(rule, op, layout)


_BACKWARDS: dict[str, Callable[[Op, Distributed], Encoding | None]] = {
    "tt.reduce": _parent,
    "tt.expand_dims": _sliced,
    "tt.join": lambda op, layout: inference.split(layout, _shape(op.results[0])),
    "tt.split": lambda op, layout: inference.joined(layout, _shape(op.results[0])),
    "tt.trans": _turned_back,
    "tt.reshape": _shaped_back,
    "tt.gather": lambda op, layout: layout,
    "ttg.fp4_to_fp": lambda op, layout: inference.packed_fp4(layout, _shape(op.results[0]), _axis(op)),
}

# --- ops that choose ----------------------------------------------------------------------------------------------


def can_give(op: Op, layout: Distributed) -> bool:
    """Whether `op` can give its result in `layout` and take the operands that it has."""
    if op.name == "tt.cat":
        return _legal_cat(op, layout)
    if op.name == "ttg.convert_layout":
        return not isinstance(layout, NvidiaMma) or tile_layout(op.operands[0]) is layout
    if op.name == "tt.reshape":
        return can_reorder(op) and not moves_data(op, layout)
    return op.name in FREE_RESULTS


def can_reorder(reshape: Op) -> bool:
    """Whether a `tt.reshape` may give its elements in any order."""
    return bool(reshape.attributes.get("allow_reorder")) and not has_chosen_layout(reshape)


def has_chosen_layout(op: Op) -> bool:
    """Whether a pass chose the layouts of a `tt.reshape` or `tt.gather` so that little has to move."""
    return op.attributes.get("efficient_layout", False) is not False


def moves_data(reshape: Op, layout: Distributed) -> bool:
    """Whether a `tt.reshape` to `layout` would have to move elements between threads."""
    x, result = reshape.operands[0], reshape.results[0]
    source = tile_layout(x)
    assert source is not None, "both sides of a reshape have layouts"
    return is_expensive_view(source, _shape(x), layout, _shape(result))


def _legal_cat(op: Op, layout: Distributed) -> bool:
    x = op.operands[0]
    source = tile_layout(x)
    assert source is not None, "all tiles around a cat have layouts"
    return is_legal_cat(source, _shape(x), layout, _shape(op.results[0]))


def is_free(conversion: Op) -> bool:
    """Whether `conversion` only renames the registers of each thread."""
    return conversion.name == "ttg.convert_layout" and free_between(
        conversion.operands[0], tile_layout(conversion.results[0])
    )


def free_between(value: Value, layout: Distributed | None) -> bool:
    """Whether a conversion of `value` to `layout` only renames the registers of each thread."""
    source = tile_layout(value)
    return source is not None and layout is not None and reorders_registers(source, layout, _shape(value))


def is_expensive_access(op: Op) -> bool:
    """Whether a load or store reads or writes so much that its layout matters: at least one element per thread."""
    pointer = op.operands[0].type
    if not isinstance(pointer, TensorType) or (count := prod(pointer.shape)) == 1:
        return False
    workers = workers_of(op)
    return count >= workers.warps * workers.lanes


def is_dot_operand(value: Value) -> bool:
    """Whether `value` has the layout of an operand of a matrix product."""
    return isinstance(tile_layout(value), DotOperand)
