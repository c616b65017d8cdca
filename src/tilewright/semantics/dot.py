"""Matrix products.

dot(a, b)           tt.dot %a, %b, zeros, inputPrecision = tf32
dot(a, b, acc)      tt.dot %a, %b, %acc
dot_scaled(…)       tt.dot_scaled %a scale %s, %b scale %t, %acc lhs = e4m3 rhs = e4m3
"""

from __future__ import annotations

import warnings
from math import prod
from typing import Any

from tilewright.dialects.tt_dot import INPUT_PRECISIONS
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.types import i32
from tilewright.semantics.active import context
from tilewright.semantics.casting import cast
from tilewright.semantics.errors import (
    BadArgument,
    DotShapesDiffer,
    DotTooShallow,
    ShapesDiffer,
    TooManyImpreciseSums,
    WrongOperandType,
)
from tilewright.semantics.shapes import reshape
from tilewright.semantics.tile import Tile, build, constant
from tilewright.semantics.types import block_type, dtype, float16, float32, float64, int8, int32
from tilewright.support.diagnostics import SemanticError

MIN_DEPTH = {8: 32, 16: 16, 32: 8, 64: 4}
"""Min K of a product on NVIDIA's GPUs by the bits of an element, as Triton 3.9 has it."""


def dot(
    lhs: Tile,
    rhs: Tile,
    acc: Tile | None = None,
    *,
    precision: str | None = None,
    imprecise_acc: int | None = None,
    out_dtype: dtype | None = None,
) -> Tile:
    """`lhs @ rhs + acc` of two-dimensional tiles; more axes in front are a batch.

    Args:
        lhs, rhs: … x M x K and … x K x N.
        acc: what is added; its element type is the result's.
        precision: how fp32 operands are rounded; None takes the default of the target.
        imprecise_acc: how many fp8 products may be added with low precision, on targets that do so.
        out_dtype: element type of the result when there is no `acc`.

    Raises:
        SemanticError: shapes or types do not fit.
    """
    _warn_of_deprecated(lhs, rhs)
    lhs, rhs = _operand(lhs), _operand(rhs)
    if len(lhs.type.shape) > 3 and len(rhs.type.shape) == len(lhs.type.shape):
        return _flattened(lhs, rhs, acc, precision, imprecise_acc, out_dtype)
    left, right = lhs.type.shape, rhs.type.shape
    if len(left) != len(right) or left[:-2] != right[:-2] or left[-1] != right[-2]:
        raise SemanticError(DotShapesDiffer(left, right))
    shape = (*left[:-1], right[-1])
    _check_depth(lhs)
    result = block_type(_result_element(lhs.type.scalar, rhs.type.scalar, acc, out_dtype), shape)
    if acc is None:
        acc = constant(0.0 if result.scalar.floating else 0, result)
    elif acc.type is not result:
        raise SemanticError(ShapesDiffer("dot", f"acc of {acc.type}", f"the result {result}"))
    wanted = precision or context().dot_precision
    if wanted not in INPUT_PRECISIONS:
        raise SemanticError(BadArgument("dot", "input_precision", wanted, ", ".join(INPUT_PRECISIONS)))
    attributes: dict[str, Attribute] = {
        "inputPrecision": Keyword(wanted),
        "maxNumImpreciseAcc": Number(_imprecise_sums(lhs, rhs, imprecise_acc), i32),
    }
    return build("tt.dot", [lhs.handle, rhs.handle, acc.handle], result, attributes)


def dot_scaled(
    operands: tuple[Tile, Tile],
    scales: tuple[Tile | None, Tile | None],
    acc: Tile | None,
    *,
    kinds: tuple[str, str],
    along_k: tuple[bool, bool],
    fast: bool,
) -> Tile:
    """The product of operands that are multiplied by their scales, for targets that have it as one operation.

    Args:
        operands: M x K and K x N; elements of 4 bits stand in pairs in bytes.
        scales: M x groups and N x groups, or None.
        acc: what is added; None for nothing.
        kinds: the formats of the elements: `e2m1`, `e4m3`, `e5m2`, `bf16`, `fp16`.
        along_k: per operand, whether pairs lie along K.
        fast: NaNs among the scales do not count.
    """
    lhs, rhs = operands
    rows, columns = lhs.type.shape[-2], rhs.type.shape[-1]
    rows *= 1 if along_k[0] else 2
    columns *= 1 if along_k[1] else 2
    result = block_type(float32, (*lhs.type.shape[:-2], rows, columns))
    if acc is None:
        acc = constant(0.0, result)
    elif acc.type is not result:
        raise SemanticError(ShapesDiffer("dot_scaled", f"acc of {acc.type}", f"the result {result}"))
    attributes: dict[str, Attribute] = {
        "a_elem_type": Keyword(kinds[0]),
        "b_elem_type": Keyword(kinds[1]),
        "fastMath": fast,
        "has_scales": tuple(scale is not None for scale in scales),
        **{name: False for name, along in zip(("lhs_k_pack", "rhs_k_pack"), along_k, strict=True) if not along},
    }
    present = [scale.handle for scale in scales if scale is not None]
    return build("tt.dot_scaled", [lhs.handle, rhs.handle, acc.handle, *present], result, attributes)


def _check_depth(lhs: Tile) -> None:
    """GPUs multiply K elements at a time; Triton refuses fewer."""
    least = MIN_DEPTH.get(lhs.type.scalar.primitive_bitwidth, 1)
    if context().capability and lhs.type.shape[-1] < least:
        raise SemanticError(DotTooShallow(least, lhs.type.shape[-1]))


def _warn_of_deprecated(*operands: Any) -> None:
    kinds = {operand.type.scalar.name for operand in operands if isinstance(operand, Tile)}
    for name in sorted(kinds.intersection(context().deprecated_fp8)):
        warnings.warn(
            f"the use of {name} is deprecated on Hopper and later architectures: `dot` converts it to fp16 first",
            stacklevel=2,
        )


def _operand(tile: Any) -> Tile:
    if not isinstance(tile, Tile) or len(tile.type.shape) < 2 or tile.type.scalar.is_ptr():
        raise SemanticError(WrongOperandType("dot", getattr(tile, "type", type(tile)), "tiles of rank 2 or more"))
    return cast(tile, float16) if tile.type.scalar.is_fp8e4b15() else tile


def _imprecise_sums(lhs: Tile, rhs: Tile, wanted: int | None) -> int:
    """The number of products to add with low precision; by default, a target adds only products of fp8 so."""
    of_fp8 = lhs.type.scalar.is_fp8() and rhs.type.scalar.is_fp8()
    if wanted is None:
        return context().imprecise_sums if of_fp8 else 0
    if of_fp8 and wanted > lhs.type.shape[-1]:
        raise SemanticError(TooManyImpreciseSums(wanted, lhs.type.shape[-1]))
    return wanted


def _result_element(left: dtype, right: dtype, acc: Tile | None, out_dtype: dtype | None) -> dtype:
    """The element type of the product, from the operands' and what the program asks for."""
    if left is not right and not (left.is_fp8() and right.is_fp8()):
        raise SemanticError(ShapesDiffer("dot", left, right))
    if left.integer:
        if left is not int8:
            raise SemanticError(WrongOperandType("dot", left, "int8 or floats"))
        return int32
    if left is float64:
        return float64
    wanted = out_dtype or (acc.type.scalar if acc is not None else float32)
    if wanted.is_bf16():
        raise SemanticError(
            BadArgument("dot", "out_dtype", wanted, "float32 or float16; convert with .to(tl.bfloat16)")
        )
    if left is float32 or left.is_bf16():
        return float32
    if not wanted.floating:
        raise SemanticError(BadArgument("dot", "out_dtype", wanted, "float32 or float16"))
    return wanted


def _flattened(lhs: Tile, rhs: Tile, acc: Tile | None, *options: Any) -> Tile:
    """The product with all batch axes made one."""
    batch = lhs.type.shape[:-2]
    if batch != rhs.type.shape[:-2]:
        raise SemanticError(DotShapesDiffer(lhs.type.shape, rhs.type.shape))
    flat_lhs, flat_rhs = _with_one_batch(lhs), _with_one_batch(rhs)
    flat_acc = None if acc is None else _with_one_batch(acc)
    precision, imprecise_acc, out_dtype = options
    product = dot(flat_lhs, flat_rhs, flat_acc, precision=precision, imprecise_acc=imprecise_acc, out_dtype=out_dtype)
    return reshape(product, (*batch, *product.type.shape[1:]))


def _with_one_batch(tile: Tile) -> Tile:
    shape = tile.type.shape
    return reshape(tile, (prod(shape[:-2]), *shape[-2:]))
