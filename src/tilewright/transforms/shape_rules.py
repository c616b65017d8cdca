"""Canonical forms of ops that only move elements: splats travel outwards, chains become one op.

tt.broadcast (tt.splat %x)              ->  tt.splat %x
tt.broadcast (tt.broadcast %t)          ->  tt.broadcast %t
tt.expand_dims (tt.broadcast %t)        ->  tt.broadcast (tt.expand_dims %t)
tt.trans (tt.trans %t)                  ->  tt.trans %t, orders composed
"""

from __future__ import annotations

from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Join, Reshape, ShapeOp, Splat, Split, Trans, Unsplat
from tilewright.ir.attributes import DenseArray, Number
from tilewright.ir.core import Value, defining, tile_type
from tilewright.ir.rewriter import Fold, Rewriter, Rule
from tilewright.ir.types import TensorType, i32
from tilewright.transforms.matching import number_of

# --- folds --------------------------------------------------------------------------------------------------------


def fold_of_constant(op: ShapeOp) -> Value | Number | None:
    """op(x) to x's own type  ->  x;   op(constant)  ->  constant of the new shape"""
    (x,) = op.operands
    if x.type is op.result.type:
        return x
    number = number_of(x)
    return None if number is None else Number(number.value, op.result.type)


def fold_make_range(op: MakeRange) -> Number | None:
    """make_range(n, n + 1)  ->  n"""
    return Number(op.start, op.result.type) if op.result.type.shape == (1,) else None


def fold_reshape(op: Reshape) -> Value | Number | None:
    """reshape(x) to x's own type  ->  x, unless the order is free;   reshape(constant)  ->  constant"""
    if op.source.type is op.result.type and op.allow_reorder:
        return None
    return fold_of_constant(op)


def fold_trans(op: Trans) -> Value | Number | None:
    """trans(x) in the old order  ->  x, if the layout is the old one;   trans(constant)  ->  constant"""
    x, order = op.source, op.order
    if order == tuple(range(len(order))) and x.type is op.result.type:
        return x
    number = number_of(x)
    return None if number is None else Number(number.value, op.result.type)


def fold_unsplat(op: Unsplat) -> Value | Number | None:
    """unsplat(splat(x))  ->  x;   unsplat(constant)  ->  constant"""
    splat = defining(op.source, Splat)
    return splat.source if splat is not None else fold_of_constant(op)


def fold_split(op: Split) -> list[Value | Number] | None:
    """split(join(a, b))  ->  a, b;   split(constant)  ->  constant, constant"""
    join = defining(op.source, Join)
    if join is not None:
        return list(join.operands)
    number = number_of(op.source)
    return None if number is None else [Number(number.value, result.type) for result in op.results]


def fold_join(op: Join) -> Value | Number | None:
    """join(split(x))  ->  x;   join(c, c)  ->  c"""
    a, b = op.operands
    split = defining(a, Split)
    if split is not None and b.owner is split and (a.index, b.index) == (0, 1):
        return split.source
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


def moved_splat(op: ShapeOp, rewriter: Rewriter) -> bool:
    """broadcast/expand_dims/reshape/trans(splat(x))  ->  splat(x)"""
    splat = defining(op.source, Splat)
    if splat is None:
        return False
    rewriter.replace(op, rewriter.create(op, "tt.splat", splat.operands, (op.result.type,)).results)
    return True


def broadcast_of_broadcast(op: Broadcast, rewriter: Rewriter) -> bool:
    """broadcast(broadcast(x))  ->  broadcast(x)"""
    inner = defining(op.source, Broadcast)
    if inner is None:
        return False
    rewriter.set_operands(op, inner.operands)
    return True


def expand_dims_of_broadcast(op: ExpandDims, rewriter: Rewriter) -> bool:
    """expand_dims(broadcast(x))  ->  broadcast(expand_dims(x))"""
    broadcast = defining(op.source, Broadcast)
    if broadcast is None:
        return False
    small, large, axis = tile_type(broadcast.source), tile_type(op.result), op.axis
    expanded_type = TensorType((*small.shape[:axis], 1, *small.shape[axis:]), large.element, large.encoding)
    expanded = rewriter.create(op, "tt.expand_dims", (broadcast.source,), (expanded_type,), {"axis": Number(axis, i32)})
    rewriter.replace(op, rewriter.create(op, "tt.broadcast", expanded.results, (large,)).results)
    return True


def reshape_of_reshape(op: Reshape, rewriter: Rewriter) -> bool:
    """reshape(reshape(x))  ->  reshape(x), free in its order if either was"""
    inner = defining(op.source, Reshape)
    if inner is None or op.efficient_layout:
        return False
    attributes = dict(op.attributes)
    if inner.allow_reorder:
        attributes["allow_reorder"] = True
    rewriter.replace(op, rewriter.create(op, "tt.reshape", inner.operands, (op.result.type,), attributes).results)
    return True


def trans_of_trans(op: Trans, rewriter: Rewriter) -> bool:
    """trans(trans(x, p), q)  ->  trans(x, p after q)"""
    inner = defining(op.source, Trans)
    if inner is None:
        return False
    order = DenseArray(i32, tuple(inner.order[axis] for axis in op.order))
    rewriter.replace(op, rewriter.create(op, "tt.trans", inner.operands, (op.result.type,), {"order": order}).results)
    return True


RULES: dict[str, tuple[Rule, ...]] = {
    "tt.broadcast": (moved_splat, broadcast_of_broadcast),
    "tt.expand_dims": (moved_splat, expand_dims_of_broadcast),
    "tt.reshape": (moved_splat, reshape_of_reshape),
    "tt.trans": (moved_splat, trans_of_trans),
}
