"""Rows at arbitrary addresses get bounds, which a nest compares with those of its stores.

    %rows = tt.addptr %x, (tt.load %index) * %columns          %low, %high = tt.reduce %rows
    %p = tt.broadcast %rows                               →    %near = "cpu.within"(%rows, %low, %high)
    tt.store %q, (tt.load %p + range)                          %p = tt.broadcast %near
                                                               tt.store %q, (tt.load %p + range)

Rows that an index selects may be those that the tile is stored to, so such a tile would be loaded into a buffer before
any of it is stored. But the selected rows lie between two addresses, which inspecting the index once determines.
`add_alias_checks.py` compares them at run time.
"""

from __future__ import annotations

from tilewright.backends.cpu.affine import is_affine
from tilewright.backends.cpu.costs import is_lazy_tile, is_tile, lazy_closure
from tilewright.dialects.tt_memory import AddPtr, Load, Store
from tilewright.dialects.tt_shape import Broadcast, ExpandDims
from tilewright.ir.core import Op, Value, tile_type
from tilewright.ir.types import PointerType, TensorType, i64, with_element
from tilewright.transforms.op_builder import OpBuilder

SHORTEST_ROW = 16
"""The least number of elements of a row for which its address is looked at twice."""

FARTHEST = 1 << 59
"""A number beyond the elements of any memory: a lane that the mask leaves out may have any address."""


def bound_rows(module: Op) -> bool:
    """Bound the loaded rows of `module` that are stored elsewhere by two addresses; returns whether there are any."""
    found = dict[Value, None]()
    for load in module.ops_of(Load):
        if not load.is_volatile and is_tile(load.result) and _is_copied(load):
            found.update(dict.fromkeys(_chosen_rows(load)))
    for rows in found:
        _bound(rows)
    return bool(found)


def _is_copied(load: Load) -> bool:
    """Whether a store of the same block, to places that are a line, computes what it stores from the loaded tile."""
    stack, seen = [load.result], set[Op]()
    while stack:
        for user in stack.pop().uses:
            if user in seen or user.block is not load.block:
                continue
            seen.add(user)
            if isinstance(user, Store) and is_affine(user.pointer):
                return True
            if is_lazy_tile(user) and not isinstance(user, Load):
                stack += user.results
    return False


def _chosen_rows(load: Load) -> list[Value]:
    """The numbers or addresses of the rows of `load`, if they alone keep its address from being a line."""
    found, stack, elements = dict[Value, None](), [load.pointer], tile_type(load.result).numel
    while stack:
        value = stack.pop()
        op = value.op
        if is_affine(value):
            continue
        if isinstance(op, Broadcast) and _is_column(op.source, elements // SHORTEST_ROW):
            found[op.source] = None
        elif isinstance(op, (AddPtr, Broadcast, ExpandDims)) or (op is not None and op.name == "arith.addi"):
            stack += op.operands
        else:
            return []
    is_loaded = all(any(isinstance(op, Load) and not op.is_volatile for op in lazy_closure(rows)) for rows in found)
    return list(found) if len(found) == 1 and is_loaded else []


def _is_column(tile: Value, most: int) -> bool:
    """Whether `tile` has one number for each row, and not more than `most`."""
    type = tile_type(tile)
    return type.shape[-1] == 1 and type.numel <= most


def _bound(rows: Value) -> None:
    """Let those who ask for whole rows ask for `rows` within bounds."""
    assert rows.op is not None, "it is loaded"
    at, type = OpBuilder.after(rows.op), tile_type(rows)
    numbers = at.cast("tt.ptr_to_int", rows, i64) if isinstance(type.element, PointerType) else rows
    element = numbers.type.scalar
    flat = at.emit("tt.reshape", (numbers,), TensorType((type.numel,), element))
    low, high = (at.reduce(flat, name, 0) for name in ("arith.minsi", "arith.maxsi"))
    if element is i64:
        low = at.compute("arith.maxsi", low, at.literal(-FARTHEST, i64))
        high = at.compute("arith.minsi", high, at.literal(FARTHEST, i64))
    bounds = [at.emit("tt.splat", (bound,), with_element(type, element)) for bound in (low, high)]
    within = at.emit("cpu.within", (rows, *bounds), type)
    for user in list(rows.uses):
        if isinstance(user, Broadcast):
            user.set_operand(0, within)


