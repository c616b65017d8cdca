"""Canonical forms of ops that only move elements: splats move outwards, chains become one op."""

from __future__ import annotations

from tilewright.dialects.tt_program import MakeRange
from tilewright.dialects.tt_shape import Broadcast, ExpandDims, Join, Reshape, Split, Trans
from tilewright.ir.attributes import DenseArray, Number
from tilewright.ir.core import Value, defining, tile_type
from tilewright.ir.rewriter import Rewriter
from tilewright.ir.types import TensorType, i32
from tilewright.transforms.arith_rules import has_the_type_of_the_result
from tilewright.transforms.equations import Equation, by_op
from tilewright.transforms.matching import number_of

# --- folds --------------------------------------------------------------------------------------------------------


def keeps_type_and_order(op: Reshape, x: Value) -> bool:
    """has the type of the result, and the order is not free"""
    return x.type is op.result.type and not op.allow_reorder


def keeps_axes(op: Trans, x: Value) -> bool:
    """has the type of the result, and the order is the old one"""
    return x.type is op.result.type and op.order == tuple(range(len(op.order)))


def one_step(op: MakeRange) -> Number | None:
    """make_range(n, n + 1) → n"""
    return Number(op.start, op.result.type) if op.result.type.shape == (1,) else None


def split_of_join(op: Split) -> list[Value | Number] | None:
    """split(join(a, b)) → a, b;   split(constant) → constant, constant"""
    join = defining(op.source, Join)
    if join is not None and [value.type for value in join.operands] == [result.type for result in op.results]:
        return list(join.operands)
    number = number_of(op.source)
    return None if number is None else [Number(number.value, result.type) for result in op.results]


def join_of_split(op: Join) -> Value | Number | None:
    """join(split(x)) → x, unless its layout is another one;   join(c, c) → c"""
    a, b = op.operands
    split = defining(a, Split)
    halves = split is not None and b.owner is split and (a.index, b.index) == (0, 1)
    if split is not None and halves and split.source.type == op.result.type:
        return split.source
    number = number_of(a)
    return Number(number.value, op.result.type) if number is not None and a is b else None


IDENTITIES = (
    Equation("broadcast_to_own_shape", "broadcast(x) → x", given=has_the_type_of_the_result),
    Equation("reshaped_to_own_shape", "reshape(x) → x", given=keeps_type_and_order),
    Equation("transposed_to_own_order", "trans(x) → x", given=keeps_axes),
    Equation("shape_of_constant", "splat(c), unsplat(c), broadcast(c), expand_dims(c), reshape(c), trans(c) → c"),
    Equation("element_of_splat", "unsplat(splat(x)) → x"),
    Equation.of(one_step, "tt.make_range"),
    Equation.of(split_of_join, "tt.split"),
    Equation.of(join_of_split, "tt.join"),
)
FOLDS = by_op(IDENTITIES)

# --- rules --------------------------------------------------------------------------------------------------------


def expand_dims_of_broadcast(op: ExpandDims, rewriter: Rewriter) -> bool:
    """expand_dims(broadcast(x)) → broadcast(expand_dims(x))"""
    broadcast = defining(op.source, Broadcast)
    if broadcast is None:
        return False
    small, large, axis = tile_type(broadcast.source), tile_type(op.result), op.axis
    expanded_type = TensorType((*small.shape[:axis], 1, *small.shape[axis:]), large.element, large.encoding)
    expanded = rewriter.create(op, "tt.expand_dims", (broadcast.source,), (expanded_type,), {"axis": Number(axis, i32)})
    rewriter.replace(op, rewriter.create(op, "tt.broadcast", expanded.results, (large,)).results)
    return True


def reshape_of_reshape(op: Reshape, rewriter: Rewriter) -> bool:
    """reshape(reshape(x)) → reshape(x), free in its order if either was"""
    inner = defining(op.source, Reshape)
    if inner is None or op.efficient_layout:
        return False
    attributes = {**op.attributes, **({"allow_reorder": True} if inner.allow_reorder else {})}
    rewriter.replace(op, rewriter.create(op, "tt.reshape", inner.operands, (op.result.type,), attributes).results)
    return True


def trans_of_trans(op: Trans, rewriter: Rewriter) -> bool:
    """trans(trans(x, p), q) → trans(x, p after q)"""
    inner = defining(op.source, Trans)
    if inner is None:
        return False
    order = DenseArray(i32, tuple(inner.order[axis] for axis in op.order))
    rewriter.replace(op, rewriter.create(op, "tt.trans", inner.operands, (op.result.type,), {"order": order}).results)
    return True


ROWS = (
    Equation(
        "splat_of_splat", "broadcast(splat(x)), expand_dims(splat(x)), reshape(splat(x)), trans(splat(x)) → splat(x)"
    ),
    Equation("broadcast_of_broadcast", "broadcast(broadcast(x)) → broadcast(x)"),
    Equation.of(expand_dims_of_broadcast, "tt.expand_dims", reason="the smaller tile is moved"),
    Equation.of(reshape_of_reshape, "tt.reshape", given="the layout is not chosen for efficiency"),
    Equation.of(trans_of_trans, "tt.trans"),
)
RULES = by_op(ROWS)
