"""Tensor descriptors as values of the kernel, for devices with a copy engine.

d = make_descriptor(x, (m, n), (n, 1), block, "zero")     tt.make_tensor_descriptor %x, [%m, %n], [%n, %c1]
t = load_block(d, (i, j), block)                          tt.descriptor_load %d[%i, %j]
store_block(d, (i, j), t)                                 tt.descriptor_store %d[%i, %j], %t
reduce_block(d, "min", (i, j), t)                         tt.descriptor_reduce min, %d[%i, %j], %t
t = gather_rows(d, rows, j, tile)                         tt.descriptor_gather %d[%rows, %j]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from tilewright.ir.attributes import Keyword
from tilewright.ir.types import IntType, TensorDescType, TensorType
from tilewright.semantics.active import active, gpu_capability
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.casting import cast
from tilewright.semantics.errors import BadArgument, WrongOperandType
from tilewright.semantics.memory import padding_attribute
from tilewright.semantics.tile import Tile, build
from tilewright.semantics.types import block_type, dtype, int32, int64
from tilewright.support.diagnostics import SemanticError

FIRST_WITH_ENGINE, FIRST_WITH_ROWS = 90, 100
"""The first compute capability of devices that move blocks, and of those that read rows by their numbers."""
MAX_AXES = 5
MIN_ROW = 16
"""Min bytes of a block's row that the engine moves."""
FILLED = (16, 32)
"""The bits of the floats for which the engine has a NaN to fill with."""


class descriptor_type(dtype):  # noqa: N801 - beside Triton's names of types
    """A descriptor that moves blocks of the type `block`."""

    __slots__ = ("block",)
    _descriptors: ClassVar[dict[block_type, descriptor_type]] = {}
    block: block_type

    def __new__(cls, block: block_type) -> descriptor_type:
        found = cls._descriptors.get(block)
        if found is not None:
            return found
        self = object.__new__(cls)
        self.block = block
        self.name = f"tensordesc<{block.scalar}{list(block.shape)}>"
        element = block.scalar
        unsigned = element.integer and not element.signed
        stored = IntType(element.primitive_bitwidth, "u") if unsigned else element.ir
        self.ir = TensorDescType(TensorType(block.shape, stored))
        self.primitive_bitwidth, self.fp_mantissa_width, self.exponent_bias = 0, 0, 0
        self.floating = self.integer = self.signed = False
        self.scalar = self
        cls._descriptors[block] = self
        return self

    def __reduce__(self) -> tuple[type[descriptor_type], tuple[block_type]]:  # type: ignore[override]  # own arguments
        return descriptor_type, (self.block,)

    @property
    def cache_key_part(self) -> str:
        return self.name

    def mangle(self) -> str:
        return f"D{self.block.mangle()}"


def engine_moves(block: block_type, strides: Sequence[Any], padding: str) -> bool:
    """Whether the device has an engine that can move such blocks of a tensor with these strides, padded like this."""
    element = block.scalar
    return (
        gpu_capability() >= FIRST_WITH_ENGINE
        and len(block.shape) <= MAX_AXES
        and isinstance(strides[-1], int)
        and strides[-1] == 1
        and element.primitive_bitwidth >= 8
        and (padding == "zero" or element.primitive_bitwidth in FILLED)
        and block.shape[-1] * element.primitive_bitwidth >= 8 * MIN_ROW
    )


def make_descriptor(base: Tile, shape: Sequence[Any], strides: Sequence[Any], block: block_type, padding: str) -> Tile:
    """A descriptor of the tensor at `base`; lengths in elements.

    Args:
        base: a scalar pointer.
        shape: the extents of the tensor.
        strides: the distances along its axes.
        padding: `zero` or `nan`, outside the tensor.

    Raises:
        SemanticError: integers cannot be padded with NaN.
    """
    attributes = {} if padding == "zero" else padding_attribute("make_tensor_descriptor", padding, block.scalar)
    numbers = [*_scalars(shape, int32), *_scalars(strides, int64)]
    handles = [base.handle, *(number.handle for number in numbers)]
    return build("tt.make_tensor_descriptor", handles, descriptor_type(block), attributes)


def load_block(descriptor: Tile, offsets: Sequence[Any], block: block_type) -> Tile:
    """The block at `offsets`; elements outside the tensor are padding."""
    return build("tt.descriptor_load", _place(descriptor, offsets), block)


def store_block(descriptor: Tile, offsets: Sequence[Any], value: Tile) -> None:
    """Write `value`, which is a block, to the block at `offsets`; elements outside the tensor are dropped."""
    active().emit("tt.descriptor_store", [*_place(descriptor, offsets), value.handle], ())


def reduce_block(descriptor: Tile, kind: str, offsets: Sequence[Any], value: Tile) -> None:
    """Combine `value`, which is a block, with the block at `offsets`; `kind` is what PTX calls the operation."""
    operands = [*_place(descriptor, offsets), value.handle]
    active().emit("tt.descriptor_reduce", operands, (), {"kind": Keyword(kind)})


def engine_reads_rows() -> bool:
    """Whether the device has an engine that reads rows by their numbers.

    It writes rows as well on some devices, but on none of them may a number be that of no row: below 0.
    """
    return gpu_capability() >= FIRST_WITH_ROWS


def gather_rows(descriptor: Tile, rows: Tile, column: Any, tile: block_type) -> Tile:
    """The parts of `rows` from `column` on, as a tile of the type `tile`; elements outside the tensor are padding."""
    handle, start = _place(descriptor, (column,))
    return build("tt.descriptor_gather", [handle, rows.handle, start], tile)


def _place(descriptor: Tile, offsets: Sequence[Any]) -> list[Any]:
    wide = next((offset for offset in offsets if isinstance(offset, Tile) and not _is_offset(offset)), None)
    if wide is not None:
        raise SemanticError(WrongOperandType("descriptor offsets", wide.type, "integers of up to 32 bits"))
    return [descriptor.handle, *(number.handle for number in _scalars(offsets, int32))]


def _is_offset(tile: Tile) -> bool:
    kind = tile.type.scalar
    return kind.integer and kind.primitive_bitwidth <= 32 and not tile.extents


def _scalars(values: Sequence[Any], kind: dtype) -> list[Tile]:
    other = next((value for value in values if not isinstance(value, (Tile, int))), None)
    if other is not None:
        raise SemanticError(BadArgument("descriptor", "a number", other, "integers"))
    return [cast(to_tensor(value), kind) for value in values]
