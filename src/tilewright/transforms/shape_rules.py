"""Canonical forms of ops that only move elements: splats travel outwards, chains become one op.

tt.broadcast (tt.splat %x)              ->  tt.splat %x
tt.broadcast (tt.broadcast %t)          ->  tt.broadcast %t
tt.expand_dims (tt.broadcast %t)        ->  tt.broadcast (tt.expand_dims %t)
tt.trans (tt.trans %t)                  ->  tt.trans %t, orders composed
"""

from __future__ import annotations

from tilewright.ir.attributes import DenseArray, Number
from tilewright.ir.core import Op, Value, defining_op
from tilewright.ir.rewriter import Fold, Rewriter, Rule
from tilewright.ir.types import TensorType, i32
from tilewright.transforms.matching import number_of

# --- folds --------------------------------------------------------------------------------------------------------


def fold_of_constant(op: Op) -> Value | Number | None:
    """op(x) to x's own type  ->  x;   op(constant)  ->  constant of the new shape"""
    x = op.operands[0]
    if x.type is op.result.type:
        return x
    number = number_of(x)
    return None if number is None else Number(number.value, op.result.type)


def fold_make_range(op: Op) -> Number | None:
    """make_range(n, n + 1)  ->  n"""
    start = op.attributes["start"]
    assert isinstance(start, Number), "a range has a start"
    return Number(start.value, op.result.type) if op.result.type.shape == (1,) else None


def fold_reshape(op: Op) -> Value | Number | None:
    """reshape(x) to x's own type  ->  x, unless the order is free;   reshape(constant)  ->  constant"""
    if op.operands[0].type is op.result.type and op.attributes.get("allow_reorder"):
        return None
    return fold_of_constant(op)


def fold_trans(op: Op) -> Value | Number | None:
    """trans(x) in the old order  ->  x, if the layout is the old one;   trans(constant)  ->  constant"""
    order = _order(op)
    if order == tuple(range(len(order))) and op.operands[0].type is op.result.type:
        return op.operands[0]
    number = number_of(op.operands[0])
    return None if number is None else Number(number.value, op.result.type)


def fold_unsplat(op: Op) -> Value | Number | None:
    """unsplat(splat(x))  ->  x;   unsplat(constant)  ->  constant"""
    splat = defining_op(op.operands[0], "tt.splat")
    return splat.operands[0] if splat is not None else fold_of_constant(op)


def fold_split(op: Op) -> list[Value | Number] | None:
    """split(join(a, b))  ->  a, b;   split(constant)  ->  constant, constant"""
    join = defining_op(op.operands[0], "tt.join")
    if join is not None:
        return list(join.operands)
    number = number_of(op.operands[0])
    return None if number is None else [Number(number.value, result.type) for result in op.results]


def fold_join(op: Op) -> Value | Number | None:
    """join(split(x))  ->  x;   join(c, c)  ->  c"""
    a, b = op.operands
    split = defining_op(a, "tt.split")
    if split is not None and b.owner is split and (a.index, b.index) == (0, 1):
        return split.operands[0]
    number = number_of(a)
    return Number(number.value, op.result.type) if number is not None and a is b else None


FOLDS: dict[str, Fold] = {
    "tt.splat": fold_of_constant,
    "tt.broadcast": fold_of_constant,
    "tt.expand_dims": fold_of_constant,
    "tt.make_range": fold_make_range,
    "tt.reshape": fold_reshape,
    "tt.trans": fold_trans,
    "tt.unsplat": fold_unsplat,
    "tt.split": fold_split,
    "tt.join": fold_join,
}

# --- rules --------------------------------------------------------------------------------------------------------


def _order(op: Op) -> tuple[int, ...]:
    order = op.attributes["order"]
    assert isinstance(order, DenseArray), "trans has an order"
    return order.values


def moved_splat(op: Op, rewriter: Rewriter) -> bool:
    """broadcast/expand_dims/reshape/trans(splat(x))  ->  splat(x)"""
    splat = defining_op(op.operands[0], "tt.splat")
    if splat is None:
        return False
    rewriter.replace(op, rewriter.create(op, "tt.splat", splat.operands, (op.result.type,)).results)
    return True


def broadcast_of_broadcast(op: Op, rewriter: Rewriter) -> bool:
    """broadcast(broadcast(x))  ->  broadcast(x)"""
    inner = defining_op(op.operands[0], "tt.broadcast")
    if inner is None:
        return False
    rewriter.set_operands(op, inner.operands)
    return True


def expand_dims_of_broadcast(op: Op, rewriter: Rewriter) -> bool:
    """expand_dims(broadcast(x))  ->  broadcast(expand_dims(x))"""
    broadcast = defining_op(op.operands[0], "tt.broadcast")
    axis = op.attributes["axis"]
    if broadcast is None:
        return False
    assert isinstance(axis, Number), "expand_dims has an axis"
    x, at = broadcast.operands[0], int(axis.value)
    assert x.type.shape is not None, "only tiles are broadcast"
    result_type = op.result.type
    assert isinstance(result_type, TensorType), "expand_dims gives a tile"
    shape = (*x.type.shape[:at], 1, *x.type.shape[at:])
    expanded_type = TensorType(shape, result_type.element, result_type.encoding)
    expanded = rewriter.create(op, "tt.expand_dims", (x,), (expanded_type,), {"axis": axis})
    rewriter.replace(op, rewriter.create(op, "tt.broadcast", expanded.results, (op.result.type,)).results)
    return True


def reshape_of_reshape(op: Op, rewriter: Rewriter) -> bool:
    """reshape(reshape(x))  ->  reshape(x), free in its order if either was"""
    inner = defining_op(op.operands[0], "tt.reshape")
    if inner is None or op.attributes.get("efficient_layout"):
        return False
    attributes = dict(op.attributes)
    if inner.attributes.get("allow_reorder"):
        attributes["allow_reorder"] = True
    rewriter.replace(op, rewriter.create(op, "tt.reshape", inner.operands, (op.result.type,), attributes).results)
    return True


def trans_of_trans(op: Op, rewriter: Rewriter) -> bool:
    """trans(trans(x, p), q)  ->  trans(x, p after q)"""
    inner = defining_op(op.operands[0], "tt.trans")
    if inner is None:
        return False
    first, second = _order(inner), _order(op)
    order = DenseArray(i32, tuple(first[axis] for axis in second))
    rewriter.replace(op, rewriter.create(op, "tt.trans", inner.operands, (op.result.type,), {"order": order}).results)
    return True


RULES: dict[str, tuple[Rule, ...]] = {
    "tt.broadcast": (moved_splat, broadcast_of_broadcast),
    "tt.expand_dims": (moved_splat, expand_dims_of_broadcast),
    "tt.reshape": (moved_splat, reshape_of_reshape),
    "tt.trans": (moved_splat, trans_of_trans),
}
