"""`dot_scaled`: products of microscaled formats; one operation for GPUs, elsewhere a product of widened operands.

    a = e5m2 bytes → fp32 · 2 ** (scale - 127) → bf16          b the same
    dot(a, b, acc)

A scale is an unsigned byte e that means 2 ** (e - 127), one for every 32 elements along K, or an e4m3 for every 16;
`e2m1` packs two 4-bit floats in a byte, the first in the low half. A scaled element has no more bits than bf16, so bf16
is exact, except with an fp16 operand: then all is computed in fp32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.types import Shape
from tilewright.language import operations, shaping
from tilewright.language.core import accept_semantic
from tilewright.semantics import dot as products
from tilewright.semantics.active import context
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import BadArgument, DotShapesDiffer, ScaleFactorsDiffer
from tilewright.semantics.shapes import transpose
from tilewright.semantics.types import (
    bfloat16,
    float8e4nv,
    float8e5,
    float16,
    float32,
    int8,
    int32,
    uint8,
    uint16,
)
from tilewright.support.diagnostics import SemanticError

FORMATS = {"e4m3": float8e4nv, "e5m2": float8e5, "bf16": bfloat16, "fp16": float16}
FOUR_BITS_UNIT = 2.0**14
SINGLE_MANTISSA = 23
NAN_SCALE = 0xFF


def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    acc: Any = None,
    fast_math: Any = False,
    lhs_k_pack: Any = True,
    rhs_k_pack: Any = True,
    out_dtype: Any = float32,
) -> Any:
    """`(lhs * lhs_scale) @ (rhs * rhs_scale) + acc` in fp32.

    Args:
        lhs, rhs: M x K and K x N, or batches of such; elements of `e2m1` stand in pairs in bytes.
        lhs_scale, rhs_scale: M x K / 32 and N x K / 32 bytes, or K / 16 of e4m3, or None for no scale.
        lhs_format, rhs_format: `e2m1`, `e4m3`, `e5m2`, `bf16` or `fp16`.
        acc: what is added.
        fast_math: accepted; NaN scales are honoured on CPUs.
        lhs_k_pack, rhs_k_pack: whether pairs lie along K, or along M and N.
        out_dtype: only fp32.

    Raises:
        SemanticError: an unknown format, or operands that do not fit.
    """
    if unwrap(out_dtype) is not float32:
        raise SemanticError(BadArgument("dot_scaled", "out_dtype", unwrap(out_dtype), "float32"))
    formats = unwrap(lhs_format), unwrap(rhs_format)
    packing = unwrap(lhs_k_pack), unwrap(rhs_k_pack)
    _check_operands((lhs, rhs), formats, packing)
    scales = unwrap(lhs_scale), unwrap(rhs_scale)
    if context().capability:
        given = lhs, rhs, *scales, unwrap(acc)
        return _one_operation(given, formats, packing, fast=unwrap(fast_math))
    wide = float32 if "fp16" in formats else bfloat16
    left = _numbers(lhs, formats[0], -1 if packing[0] else -2)
    right = _numbers(rhs, formats[1], -2 if packing[1] else -1)
    _check_scales(left.type.shape, scales[0], _transposed(right.type.shape), scales[1])
    if scales[0] is not None:
        left = left * _spread(scales[0], left.type.shape[-1])
    if scales[1] is not None:
        right = right * transpose(_spread(scales[1], right.type.shape[-2]))
    left, right = operations.cast(left, wide), operations.cast(right, wide)
    return operations.dot(left, right, acc, input_precision="ieee", out_dtype=float32)


def _check_operands(operands: tuple[Any, Any], formats: tuple[str, str], along_k: tuple[bool, bool]) -> None:
    """Raise unless both sides are matrices, or batches of them, in formats that there are."""
    for side, format, packed in zip(("lhs", "rhs"), formats, along_k, strict=True):
        if format != "e2m1" and format not in FORMATS:
            raise SemanticError(BadArgument("dot_scaled", "format", format, ", ".join(["e2m1", *FORMATS])))
        if not packed and format != "e2m1":
            raise SemanticError(BadArgument("dot_scaled", f"{side}_k_pack", packed, f"True, as {format} is not packed"))
    shapes = [_shape_of(operand) for operand in operands]
    if len(shapes[0]) not in (2, 3) or len(shapes[0]) != len(shapes[1]):
        raise SemanticError(DotShapesDiffer(*shapes))


def _one_operation(given: Sequence[Any], formats: tuple[str, str], along_k: tuple[bool, bool], *, fast: bool) -> Any:
    """`tt.dot_scaled`."""
    lhs, rhs, lhs_scale, rhs_scale, acc = given
    operands = _of_format(lhs, formats[0]), _of_format(rhs, formats[1])
    twice = [2 if format == "e2m1" else 1 for format in formats]
    (rows, depth), (columns, other) = lhs.type.shape[-2:], rhs.type.shape[:-3:-1]
    batch = lhs.type.shape[:-2], rhs.type.shape[:-2]
    left = (*batch[0], rows, depth * twice[0]) if along_k[0] else (*batch[0], rows * twice[0], depth)
    right = (*batch[1], columns, other * twice[1]) if along_k[1] else (*batch[1], columns * twice[1], other)
    _check_scales(left, lhs_scale, right, rhs_scale)
    if left[-1] != right[-1] or batch[0] != batch[1]:
        raise SemanticError(DotShapesDiffer(left, _transposed(right)))
    packed = along_k[0] or formats[0] != "e2m1", along_k[1] or formats[1] != "e2m1"
    scales = lhs_scale, rhs_scale
    return products.dot_scaled(operands, scales, acc, kinds=formats, along_k=packed, fast=fast)


def _of_format(tile: Any, format: str) -> Any:
    """The tile with elements of this format; of 4 bits two are in a byte."""
    return tile if format == "e2m1" else operations.cast(tile, FORMATS[format], bitcast=True)


def _check_scales(lhs: Shape, lhs_scale: Any, rhs: Shape, rhs_scale: Any) -> None:
    """Raise unless each scale has the rows of its operand and covers as many elements along K as the other's."""
    factors = []
    for name, rows, scale in (("lhs_scale", lhs, lhs_scale), ("rhs_scale", rhs, rhs_scale)):
        if scale is None:
            continue
        shape, extent = _shape_of(scale), rows[-1]
        if len(shape) != len(rows) or shape[:-1] != rows[:-1] or extent % shape[-1]:
            expected = f"shape ({', '.join(map(str, rows[:-1]))}, {extent} / n), with an n that divides {extent}"
            raise SemanticError(BadArgument("dot_scaled", name, shape, expected))
        if scale.type.scalar not in (int8, uint8, float8e4nv):
            raise SemanticError(BadArgument("dot_scaled", name, scale.type.scalar, "elements of uint8 or float8e4nv"))
        factors.append(extent // shape[-1])
    if len(set(factors)) > 1:
        raise SemanticError(ScaleFactorsDiffer(*factors))


def _shape_of(tile: Any) -> Shape:
    """The shape, of a scalar ()."""
    return tuple(getattr(tile.type, "shape", ()))


def _transposed(shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2])


def _numbers(tile: Any, format: str, axis: int) -> Any:
    """The elements of `tile` in fp32; `axis` is the one along which `e2m1` is packed."""
    if format != "e2m1":
        return operations.cast(_of_format(tile, format), float32)
    if axis == -2:
        return transpose(_numbers(transpose(tile), format, -1))
    *rows, columns = tile.type.shape
    code = operations.cast(operations.cast(tile, uint8, bitcast=True), uint16)
    halves = shaping.join(_four_bits(code << 9, code << 12), _four_bits(code << 5, code << 8))
    return operations.cast(shaping.reshape(halves, (*rows, 2 * columns)), float32) * FOUR_BITS_UNIT


def _four_bits(size: Any, sign: Any) -> Any:
    """e2m1 as fp16, in units of FOUR_BITS_UNIT: its last bits of exponent and first bit of mantissa, and the sign."""
    return operations.cast((size & 0x0E00) | (sign & 0x8000), float16, bitcast=True)


def _spread(scale: Any, extent: int) -> Any:
    """The scales in fp32, each repeated for its group of elements along K."""
    *rows, groups = scale.type.shape
    factor = _scale_numbers(scale)
    repeated = shaping.broadcast_to(shaping.expand_dims(factor, len(rows) + 1), (*rows, groups, extent // groups))
    return shaping.reshape(repeated, (*rows, extent))


def _scale_numbers(scale: Any) -> Any:
    """An e4m3 is a number; a byte is 2 ** (byte - 127), where 255 is NaN and 0 gives a subnormal number."""
    if scale.type.scalar is float8e4nv:
        return operations.cast(scale, float32)
    code = operations.cast(operations.cast(scale, uint8, bitcast=True), int32)
    bits = operations.where(code == 0, 1 << (SINGLE_MANTISSA - 1), code << SINGLE_MANTISSA)
    return operations.where(code == NAN_SCALE, float("nan"), operations.cast(bits, float32, bitcast=True))


accept_semantic(globals())
