"""Histograms become comparisons with every bin, which loop nests can execute.

%h = tt.histogram %x : tensor<Nxi32> -> tensor<Bxi32>

%eq = arith.cmpi eq, %x[:, None], %range[None, :]        →        %h = tt.reduce(extui %eq) {axis = 0} (addi)
"""

from __future__ import annotations

from tilewright.dialects.tt_shape import Histogram
from tilewright.ir.attributes import Number
from tilewright.ir.core import Op, Value
from tilewright.ir.types import TensorType, i32
from tilewright.transforms.op_builder import OpBuilder


def expand_histogram(module: Op) -> bool:
    """Replace every tt.histogram; returns whether there is one."""
    found = module.ops_of(Histogram)
    for op in found:
        _expand(op)
    return bool(found)


def _expand(op: Histogram) -> None:
    at, values = OpBuilder(op), op.source
    element = values.type.scalar
    result = op.result.type
    assert result.shape is not None
    assert values.type.shape is not None
    (bins,), (count,) = result.shape, values.type.shape
    row = TensorType((bins,), i32)
    numbers = at.emit("tt.make_range", [], row, {"start": Number(0, i32), "end": Number(bins, i32)})
    if element is not i32:
        numbers = at.cast("arith.extsi" if element.bits > i32.bits else "arith.trunci", numbers, element)
    shape = (count, bins)
    equal = at.compare("eq", _spread(at, values, 1, shape), _spread(at, numbers, 0, shape))
    if op.mask is not None:
        equal = at.compute("arith.andi", equal, _spread(at, op.mask, 1, shape))
    op.replace([at.reduce(at.cast("arith.extui", equal, i32), "arith.addi", 0)])


def _spread(at: OpBuilder, tile: Value, axis: int, shape: tuple[int, int]) -> Value:
    """`tile` along the other axis of `shape`, repeated along `axis`."""
    element = tile.type.scalar
    thin = (shape[0], 1) if axis == 1 else (1, shape[1])
    expanded = at.emit("tt.expand_dims", [tile], TensorType(thin, element), {"axis": Number(axis, i32)})
    return at.emit("tt.broadcast", [expanded], TensorType(shape, element))
