"""`dot_scaled`: products of microscaled formats; one operation for GPUs, elsewhere a product of widened operands.

A scale is an unsigned byte e that means 2 ** (e - 127), one for every 32 elements along K, or for GPUs an e4m3 for
every 16; `e2m1` packs two 4-bit floats in a byte, the first in the low half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.language import operations, shaping
from tilewright.semantics import dot as products
from tilewright.semantics.active import context
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.errors import BadArgument, DotShapesDiffer, ScaleFactorsDiffer
from tilewright.semantics.types import bfloat16, float8e4nv, float8e5, float16, float32, int16, uint8
from tilewright.support.diagnostics import SemanticError

FORMATS = {"e4m3": float8e4nv, "e5m2": float8e5, "bf16": bfloat16, "fp16": float16}
BF16_EXPONENT = 7
Shape = tuple[int, ...]
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
        lhs, rhs: M x K and K x N; elements of `e2m1` stand in pairs in bytes.
        lhs_scale, rhs_scale: M x K / 32 and N x K / 32 bytes, or None for no scale.
        lhs_format, rhs_format: `e2m1`, `e4m3`, `e5m2`, `bf16` or `fp16`.
        acc: what is added.
        fast_math: accepted; NaN scales are always honoured.
        lhs_k_pack, rhs_k_pack: whether pairs lie along K, or along M and N.
        out_dtype: only fp32.

    Raises:
        SemanticError: an unknown format, or operands that do not fit.
    """
    if unwrap(out_dtype) is not float32:
        raise SemanticError(BadArgument("dot_scaled", "out_dtype", unwrap(out_dtype), "float32"))
    left_format, right_format = unwrap(lhs_format), unwrap(rhs_format)
    if context().capability:
        given = lhs, rhs, unwrap(lhs_scale), unwrap(rhs_scale), unwrap(acc)
        packing = unwrap(lhs_k_pack), unwrap(rhs_k_pack)
        return _one_operation(given, (left_format, right_format), packing, fast=unwrap(fast_math))
    # bf16 holds every scaled element exactly, except those of fp16
    wide = float32 if "fp16" in (left_format, right_format) else bfloat16
    left = _widened(lhs, left_format, 1 if unwrap(lhs_k_pack) else 0, wide)
    right = _widened(rhs, right_format, 0 if unwrap(rhs_k_pack) else 1, wide)
    _check_scales(left.type.shape, unwrap(lhs_scale), right.type.shape[::-1], unwrap(rhs_scale))
    if unwrap(lhs_scale) is not None:
        left = left * _spread(lhs_scale, left.type.shape[1], wide)
    if unwrap(rhs_scale) is not None:
        right = right * shaping.trans(_spread(rhs_scale, right.type.shape[0], wide))
    return operations.dot(left, right, acc, input_precision="ieee", out_dtype=float32)


def _one_operation(given: Sequence[Any], formats: tuple[str, str], along_k: tuple[bool, bool], *, fast: bool) -> Any:
    """`tt.dot_scaled`."""
    lhs, rhs, lhs_scale, rhs_scale, acc = given
    factors = _of_format(lhs, formats[0]), _of_format(rhs, formats[1])
    twice = [2 if format == "e2m1" else 1 for format in formats]
    (rows, depth), (columns, other) = lhs.type.shape[-2:], rhs.type.shape[:-3:-1]
    left = (rows, depth * twice[0]) if along_k[0] else (rows * twice[0], depth)
    right = (columns, other * twice[1]) if along_k[1] else (columns * twice[1], other)
    _check_scales(left, lhs_scale, right, rhs_scale)
    if left[1] != right[1]:
        raise SemanticError(DotShapesDiffer(left, right[::-1]))
    packed = along_k[0] or formats[0] != "e2m1", along_k[1] or formats[1] != "e2m1"
    scales = lhs_scale, rhs_scale
    return products.dot_scaled(factors, scales, acc, kinds=formats, along_k=packed, fast=fast)


def _of_format(tile: Any, format: str) -> Any:
    """The tile with elements of this format; of 4 bits two are in a byte."""
    if format == "e2m1":
        return tile
    if format not in FORMATS:
        raise SemanticError(BadArgument("dot_scaled", "format", format, ", ".join(["e2m1", *FORMATS])))
    return operations.cast(tile, FORMATS[format], bitcast=True)


def _check_scales(lhs: Shape, lhs_scale: Any, rhs: Shape, rhs_scale: Any) -> None:
    """Raise unless each scale has the rows of its side and stands for as many elements along K as the other's."""
    sides = (("lhs_scale", lhs, lhs_scale), ("rhs_scale", rhs, rhs_scale))
    factors = []
    for name, (rows, extent), scale in sides:
        if scale is None:
            continue
        shape = scale.type.shape
        if len(shape) != 2 or shape[0] != rows or extent % shape[1]:
            expected = f"shape ({rows}, {extent} / n), with an n that divides {extent}"
            raise SemanticError(BadArgument("dot_scaled", name, shape, expected))
        factors.append(extent // shape[1])
    if len(set(factors)) > 1:
        raise SemanticError(ScaleFactorsDiffer(*factors))


def _widened(tile: Any, format: str, axis: int, wide: Any) -> Any:
    """The elements of `tile` in the format `format` as `wide`."""
    if format == "e2m1":
        return operations.cast(_unpacked(tile, axis), wide)
    if format not in FORMATS:
        raise SemanticError(BadArgument("dot_scaled", "format", format, ", ".join(["e2m1", *FORMATS])))
    return operations.cast(operations.cast(tile, FORMATS[format], bitcast=True), wide)


def _unpacked(tile: Any, axis: int) -> Any:
    """Twice as many bf16 elements along `axis`, from the halves of bytes."""
    if axis == 0:
        return shaping.trans(_unpacked(shaping.trans(tile), 1))
    rows, columns = tile.type.shape
    halves = shaping.join(_four_bits(tile & 0xF), _four_bits((tile >> 4) & 0xF))
    return shaping.reshape(halves, (rows, 2 * columns))


def _four_bits(code: Any) -> Any:
    """sign, 2 bits of exponent (bias 1), 1 bit of mantissa as bf16."""
    wide = operations.cast(code, int16)
    exponent, mantissa = (wide >> 1) & 3, wide & 1
    normal = ((exponent + 126) << BF16_EXPONENT) | (mantissa << (BF16_EXPONENT - 1))
    magnitude = operations.where(exponent == 0, mantissa * (126 << BF16_EXPONENT), normal)
    return operations.cast(magnitude | ((wide >> 3) << 15), bfloat16, bitcast=True)


def _spread(scale: Any, extent: int, wide: Any) -> Any:
    """The scales as `wide` numbers, each repeated for its group of elements along K."""
    rows, groups = scale.type.shape
    factor = operations.cast(_power_of_two(operations.cast(scale, uint8, bitcast=True)), wide)
    repeated = shaping.broadcast_to(shaping.expand_dims(factor, 2), (rows, groups, extent // groups))
    return shaping.reshape(repeated, (rows, extent))


def _power_of_two(code: Any) -> Any:
    """2 ** (code - 127) as bf16; 255 is NaN, and 0 a subnormal number."""
    wide = operations.cast(code, int16)
    bits = operations.where(wide == 0, 1 << (BF16_EXPONENT - 1), wide << BF16_EXPONENT)
    return operations.where(wide == NAN_SCALE, float("nan"), operations.cast(bits, bfloat16, bitcast=True))
