"""Block pointers: a base, a shape, strides and offsets in one value, with a tile as pointee.

p = make_block_ptr(x, (m, k), (stride, 1), (0, 0), (64, 32), (1, 0))     tt.make_tensor_ptr
p = advance(p, (0, 32))                                                  tt.advance
"""

from __future__ import annotations

from typing import Any, SupportsIndex

from tilewright.ir.attributes import DenseArray
from tilewright.ir.types import i32
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap_all
from tilewright.semantics.errors import BadArgument, BadPermutation, NotAPointer, WrongOperandType
from tilewright.semantics.memory import as_byte_pointer, pointee_of, scalar_pointer
from tilewright.semantics.shapes import constant_shape
from tilewright.semantics.tile import Tile, build, constant
from tilewright.semantics.types import block_type, dtype, int1, int32, int64, pointer_type
from tilewright.support.diagnostics import SemanticError


def make_block_ptr(base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any) -> Tile:
    """A pointer to the block of `block_shape` at `offsets` of a tensor with `shape` and `strides` (in elements).

    Args:
        base: a scalar pointer.
        shape: the extents of the tensor.
        strides: the distances along its axes, in elements.
        offsets: the place of the block's first element.
        block_shape: the extents of the block, constants.
        order: a permutation of the axes, constants.

    Raises:
        SemanticError: `base` is no pointer to elements, or the lists differ in length.
    """
    element = pointee_of(base, "make_block_ptr")
    if base.type.shape or not isinstance(element, dtype):
        raise SemanticError(NotAPointer("make_block_ptr", base.type))
    if element is int1:
        base = as_byte_pointer(base)
    extents = constant_shape(block_shape, "block_shape")
    axes = constant_shape(order, "order")
    if sorted(axes) != list(range(len(extents))):
        raise SemanticError(BadPermutation(axes, len(extents)))
    groups = (
        _scalars("shape", shape, int64, len(extents)),
        _scalars("strides", strides, int64, len(extents)),
        _scalars("offsets", offsets, int32, len(extents)),
    )
    pointee = scalar_pointer(base)
    block = block_type(pointee.element_ty.scalar, extents)
    operands = [base.handle, *(tile.handle for group in groups for tile in group)]
    kind = pointer_type(block, pointee.address_space, pointee.const)
    return build("tt.make_tensor_ptr", operands, kind, {"order": DenseArray(i32, axes)})


def advance(pointer: Any, offsets: Any) -> Tile:
    """`pointer` moved by `offsets` elements per axis."""
    block = pointee_of(pointer, "advance")
    if not isinstance(block, block_type):
        raise SemanticError(WrongOperandType("advance", pointer.type, "a block pointer"))
    steps = _scalars("offsets", offsets, int32, len(block.shape))
    return build("tt.advance", [pointer.handle, *(step.handle for step in steps)], pointer.type)


def _scalars(name: str, values: Any, target: dtype, count: int) -> list[Tile]:
    """Integers as scalars of `target`."""
    values = unwrap_all(values)
    items = values if isinstance(values, tuple) else (values,)
    if len(items) != count:
        raise SemanticError(BadArgument("make_block_ptr", name, f"{len(items)} values", f"{count}, one per axis"))
    return [_scalar(name, item, target) for item in items]


def _scalar(name: str, value: Any, target: dtype) -> Tile:
    if not isinstance(value, Tile):
        if not isinstance(value, SupportsIndex):
            raise SemanticError(BadArgument("make_block_ptr", name, repr(value), "integers"))
        return constant(value, target)
    if value.type.shape or not value.type.scalar.integer:
        raise SemanticError(WrongOperandType(name, value.type, "integers"))
    if value.type.scalar.primitive_bitwidth > target.primitive_bitwidth:
        raise SemanticError(WrongOperandType(name, value.type, f"at most {target.primitive_bitwidth} bits"))
    return cast(to_tensor(value), target)
