"""Scaled products: accessors of `tt.dot_scaled`, and its transposition if only the right operand has a scale.

%d = tt.dot_scaled %a, %b scale %s, %c lhs = bf16 rhs = e4m3
    %d1 = tt.dot_scaled %bt scale %s, %at, %ct lhs = e4m3 rhs = bf16
    %d = tt.trans %d1

The scaled operand is then the left one, which may stay in registers. Products without an instruction of their own are
decomposed: the operands are scaled first, in 16 bits, and then multiplied.

%d = tt.dot_scaled %a scale %s, %b, %c lhs = e2m1 rhs = bf16 : tensor<64x16xi8>, tensor<64x1xi8> * …

    %a1 = ttg.fp4_to_fp %a {axis = 1} : tensor<64x16xi8> -> tensor<64x32xbf16>
    %s1 = …                                 the scales as bf16, each as often as there are elements that share it
    %a2 = arith.mulf %a1, %s1
    %a3 = arith.select %nan, %NaN, %a2      unless NaN scales may be ignored
    %d = tt.dot %a3, %b, %c

An 8-bit scale is the exponent of a power of two, in the format of the exponent field of bf16 (and f32).
"""

from __future__ import annotations

from math import nan
from typing import NamedTuple

from tilewright.dialects.tt_dot import Dot, DotScaled
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Value, tile_type, typed
from tilewright.ir.types import FLOATS, FloatType, TensorType, Type, bf16, f16, f32, i1, i16, i32, with_element
from tilewright.layouts.blocked import default_blocked
from tilewright.layouts.encodings import DotOperand, Slice
from tilewright.layouts.inference import unpacked_fp4
from tilewright.transforms.gpu.tile_ops import TileOps, distributed_of, layout_of, workers_of

ROWS_AND_COLUMNS = (1, 0)
PACKED = ("lhs_k_pack", "rhs_k_pack")
MIN_TERMS, MIN_TERMS_OF_FOUR_BITS = 32, 64
"""Min number of terms of each sum of a scaled product, and where both operands have four bits."""


class ScaledDot(NamedTuple):
    """A `tt.dot_scaled`; everything there are two of is in the order left, right.

    Attributes:
        op: the op.
        operands: what is multiplied.
        scales: their scales, if they have any.
        kinds: the types of their elements: `e2m1`, `e4m3`, …
        along_k: whether two elements of 4 bits in one byte follow each other along K.
        fast: NaNs among the scales do not count.
    """

    op: DotScaled
    operands: tuple[Value, Value]
    scales: tuple[Value | None, Value | None]
    kinds: tuple[str, str]
    along_k: tuple[bool, bool]
    fast: bool

    @property
    def terms(self) -> int:
        """The number of terms of each sum."""
        extent = tile_type(self.operands[0]).shape[-1]
        return 2 * extent if self.kinds[0] == "e2m1" and self.along_k[0] else extent

    @property
    def has_terms(self) -> bool:
        """Whether the sums have as many terms as one instruction adds up at least."""
        return self.terms >= (MIN_TERMS_OF_FOUR_BITS if self.kinds == ("e2m1", "e2m1") else MIN_TERMS)

    def group(self, index: int) -> int:
        """The number of elements that share one scale of the operand `index`."""
        scale = self.scales[index]
        assert scale is not None, "the operand has a scale"
        axis = -1 if index == 0 else -2
        extent = tile_type(self.operands[index]).shape[axis]
        if self.kinds[index] == "e2m1" and self.along_k[index]:
            extent *= 2
        return extent // tile_type(scale).shape[-1]


def scaled_dot(op: DotScaled) -> ScaledDot:
    """The parts of a `tt.dot_scaled`."""
    scales, kinds = (op.a_scale, op.b_scale), (op.a_type, op.b_type)
    return ScaledDot(op, (op.a, op.b), scales, kinds, (op.lhs_k_pack, op.rhs_k_pack), op.fast_math)


def transpose_dot(dot: ScaledDot) -> None:
    """Compute the transposed product of the transposed operands."""
    op = dot.op
    ops = TileOps(op)
    left, right, start = (
        ops.transposed(value, ROWS_AND_COLUMNS) for value in (*reversed(dot.operands), op.accumulator)
    )
    scales = [scale for scale in reversed(dot.scales) if scale is not None]
    kept = {name: value for name, value in op.attributes.items() if name not in PACKED}
    packed = dict(zip(PACKED, reversed(dot.along_k), strict=True))
    attributes: dict[str, Attribute] = {
        **kept,
        **{name: False for name, along in packed.items() if not along},
        "a_elem_type": Keyword(dot.kinds[1]),
        "b_elem_type": Keyword(dot.kinds[0]),
        "has_scales": tuple(scale is not None for scale in reversed(dot.scales)),
    }
    product = ops.emit("tt.dot_scaled", (left, right, start, *scales), start.type, attributes)
    ops.replace(ops.transposed(product, ROWS_AND_COLUMNS))


ALL_ONES = -1
"""A scale of 8 bits that stands for NaN."""
KINDS = {"e4m3": FLOATS["f8E4M3FN"], "e5m2": FLOATS["f8E5M2"], "bf16": bf16, "fp16": f16}
EXPONENTS = {bf16: (bf16, i16, 7), f16: (f32, i32, 23)}
"""Per type to compute in: one with all powers of two that a scale may be, the integer as wide, and its mantissa."""


def decompose_scaled(dot: ScaledDot) -> Dot:
    """Replace a `tt.dot_scaled` by a `tt.dot`, which is returned."""
    op = dot.op
    ops = TileOps(op)
    element = f16 if "fp16" in dot.kinds else bf16
    a, b = (
        ops.converted(_scaled(ops, dot, index, element), DotOperand(index, distributed_of(op.result)))
        for index in (0, 1)
    )
    attributes: dict[str, Attribute] = {"inputPrecision": Keyword("ieee"), "maxNumImpreciseAcc": Number(0, i32)}
    return typed(ops.finish("tt.dot", (a, b, op.accumulator), op.result.type, attributes), Dot)


def _scaled(ops: TileOps, dot: ScaledDot, index: int, element: FloatType) -> Value:
    """An operand times its scale."""
    value = _wide(ops, dot, index, element)
    scale = dot.scales[index]
    if scale is None:
        return value
    rank = len(tile_type(value).shape)
    if index == 1:  # scales have the columns of the right operand as rows
        scale = ops.transposed(scale, (*range(rank - 2), rank - 1, rank - 2))
    axis, layout = rank - 1 - index, layout_of(value)
    number = _number(ops, scale, element)
    each = ops.converted(_for_each(ops, dot, index, number, axis), layout)
    product = ops.emit("arith.mulf", (value, each), value.type)
    if dot.fast:
        return product
    bad = ops.converted(_for_each(ops, dot, index, _is_nan(ops, scale, number), axis), layout)
    return ops.emit("arith.select", (bad, ops.constant(nan, product.type), product), product.type)


def _wide(ops: TileOps, dot: ScaledDot, index: int, element: FloatType) -> Value:
    """An operand without its scale."""
    value, kind = dot.operands[index], dot.kinds[index]
    tile = tile_type(value)
    if kind == "e2m1":
        along = len(tile.shape) - (1 if dot.along_k[index] != bool(index) else 2)
        shape = tuple(extent * 2 if axis == along else extent for axis, extent in enumerate(tile.shape))
        layout = unpacked_fp4(distributed_of(value), tile.shape, along)
        type = TensorType(shape, element, layout.text)
        return ops.emit("ttg.fp4_to_fp", (value,), type, {"axis": Number(along, i32)})
    if tile.element is not KINDS[kind]:
        value = ops.cast("tt.bitcast", value, KINDS[kind])
    return value if KINDS[kind] is element else ops.cast("tt.fp_to_fp", value, element)


def _number(ops: TileOps, scale: Value, element: FloatType) -> Value:
    """Scales as numbers of the type to compute in."""
    if isinstance(scale.type.scalar, FloatType):
        return ops.cast("tt.fp_to_fp", scale, element)
    large, integer, mantissa = EXPONENTS[element]
    bits = ops.cast("arith.extui", scale, integer)
    shifted = ops.emit("arith.shli", (bits, ops.constant(mantissa, bits.type)), bits.type)
    number = ops.cast("tt.bitcast", shifted, large)
    return number if large is element else ops.cast("arith.truncf", number, element)


def _is_nan(ops: TileOps, scale: Value, number: Value) -> Value:
    truth: Type = with_element(scale.type, i1)
    if isinstance(scale.type.scalar, FloatType):
        return ops.emit("arith.cmpf", (number, number), truth, {"predicate": Keyword("uno")})
    ones = ops.constant(ALL_ONES, scale.type)
    return ops.emit("arith.cmpi", (scale, ones), truth, {"predicate": Keyword("eq")})


def _for_each(ops: TileOps, dot: ScaledDot, index: int, scale: Value, axis: int) -> Value:
    """A value per scale, repeated along `axis` for the elements that share the scale."""
    shape, rank, count = tile_type(scale).shape, len(tile_type(scale).shape), dot.group(index)
    layout = default_blocked((*shape, 1), workers_of(dot.op))
    column = ops.expanded(ops.converted(scale, Slice(rank, layout)), rank)
    copies = ops.broadcast(column, (*shape, count))
    moved = ops.transposed(copies, (*range(axis + 1), rank, *range(axis + 1, rank)))
    return ops.reshaped(moved, tuple(size * count if i == axis else size for i, size in enumerate(shape)))
