"""Histograms become comparisons with every bin, which the loop nests can do.

%h = tt.histogram %x : tensor<Nxi32> -> tensor<Bxi32>

%eq = arith.cmpi eq, %x[:, None], %range[None, :]        →        %h = tt.reduce(extui %eq) {axis = 0} (addi)
"""

from __future__ import annotations

from tilewright.backends.cpu.insertion import combine_region, op_before
from tilewright.dialects.tt_shape import Histogram
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType, i1, i32


def expand_histogram(module: Op) -> bool:
    """Replace every tt.histogram; returns whether there is one."""
    found = [op for op in module.walk() if isinstance(op, Histogram)]
    for op in found:
        _expand(op)
    return bool(found)


def _expand(op: Histogram) -> None:
    values = op.source
    element = values.type.scalar
    result = op.results[0].type
    assert result.shape is not None
    assert values.type.shape is not None
    (bins,), (count,) = result.shape, values.type.shape
    bounds: dict[str, Attribute] = {"start": Number(0, i32), "end": Number(bins, i32)}
    numbers = op_before(op, "tt.make_range", [], TensorType((bins,), i32), bounds)
    if element is not i32:
        cast = "arith.extsi" if element.bits > i32.bits else "arith.trunci"
        numbers = op_before(op, cast, [numbers], TensorType((bins,), element))
    shape = (count, bins)
    equal = op_before(
        op,
        "arith.cmpi",
        [_spread(op, values, 1, shape), _spread(op, numbers, 0, shape)],
        TensorType(shape, i1),
        {"predicate": Keyword("eq")},
    )
    if op.mask is not None:
        equal = op_before(op, "arith.andi", [equal, _spread(op, op.mask, 1, shape)], TensorType(shape, i1))
    ones = op_before(op, "arith.extui", [equal], TensorType(shape, i32))
    op.replace(
        [op_before(op, "tt.reduce", [ones], result, {"axis": Number(0, i32)}, [combine_region("arith.addi", i32)])]
    )


def _spread(op: Op, tile: Value, axis: int, shape: tuple[int, int]) -> Value:
    """`tile` along the other axis of `shape`, repeated along `axis`."""
    element = tile.type.scalar
    thin = (shape[0], 1) if axis == 1 else (1, shape[1])
    expanded = op_before(op, "tt.expand_dims", [tile], TensorType(thin, element), {"axis": Number(axis, i32)})
    return op_before(op, "tt.broadcast", [expanded], TensorType(shape, element))
