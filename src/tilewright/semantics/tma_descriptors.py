"""Tensor descriptors of Gluon, whose type includes the layout of blocks in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.types import IntType, TensorDescType, TensorType
from tilewright.semantics.active import active
from tilewright.semantics.buffers import require
from tilewright.semantics.casting import cast
from tilewright.semantics.constexpr import unwrap
from tilewright.semantics.distributed import checked
from tilewright.semantics.errors import NotAPointer
from tilewright.semantics.memory import PADDINGS, pointee_of
from tilewright.semantics.shared_layouts import NVMMASharedLayout, shape_per_cta
from tilewright.semantics.tensor_descriptors import MAX_AXES, MIN_ROW
from tilewright.semantics.tile import Held, Tile, constant
from tilewright.semantics.types import block_type, dtype, int32, int64
from tilewright.support.diagnostics import SemanticError


class tma_type(dtype):  # noqa: N801 - as Triton's types are called
    """A descriptor that moves blocks of the type `block` to and from buffers with this layout.

    Attributes:
        of_images: the tensor has images; a block has pixels and their channels.
    """

    __slots__ = ("block", "memory", "of_images")
    held_by: ClassVar[Callable[..., Any]] = Held
    _made: ClassVar[dict[Any, tma_type]] = {}
    block: block_type
    memory: NVMMASharedLayout
    of_images: bool

    def __new__(cls, block: block_type, layout: Any, of_images: bool = False) -> tma_type:
        encoding = checked(lambda: layout.encoding)
        found = cls._made.get((block, encoding, of_images))
        if found is not None:
            return found
        self = object.__new__(cls)
        self.block, self.memory, self.of_images = block, layout, of_images
        self.name = f"tensor_descriptor{'_im2col' if of_images else ''}<{block}, {layout}>"
        element = block.scalar
        unsigned = element.integer and not element.signed and element.primitive_bitwidth > 1
        stored = IntType(element.primitive_bitwidth, "u") if unsigned else element.ir
        self.ir = TensorDescType(TensorType(block.shape, stored, encoding.text), of_images=of_images)
        self.primitive_bitwidth, self.fp_mantissa_width, self.exponent_bias = 0, 0, 0
        self.floating = self.integer = self.signed = False
        self.scalar = self
        cls._made[block, encoding, of_images] = self
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return tma_type, (self.block, self.memory, self.of_images)

    @property
    def block_type(self) -> block_type:
        """The type of a block, by Triton's name."""
        return self.block

    @property
    def layout(self) -> NVMMASharedLayout:
        """The layout of blocks in shared memory, by Triton's name."""
        return self.memory

    @property
    def cache_key_part(self) -> str:
        return self.name

    def mangle(self) -> str:
        name = "TDI" if self.of_images else "TD"
        return f"{name}{self.block.mangle()}_{self.memory.mangle()}{name}"


class GluonTensor:
    """A tensor in global memory that is moved in blocks.

    Attributes:
        made: the descriptor as a value of the kernel.
        shape, strides: of the tensor, in elements; run-time values.
    """

    def __init__(self, made: Any, shape: Any, strides: Any) -> None:
        self.made, self.shape, self.strides = made, tuple(shape), tuple(strides)

    @property
    def handle(self) -> Any:
        """The value in the IR."""
        return self.made.handle

    @property
    def type(self) -> tma_type:
        """Its type, with `block` and `memory`."""
        found = self.made.type
        assert isinstance(found, tma_type), "a descriptor has such a type"
        return found

    @property
    def block_type(self) -> block_type:
        """The type of a block, without a layout."""
        return self.type.block

    @property
    def block_shape(self) -> tuple[int, ...]:
        """The extents of a block."""
        return tuple(self.type.block.shape)

    @property
    def dtype(self) -> dtype:
        """The elements."""
        return self.type.block.scalar

    @property
    def layout(self) -> NVMMASharedLayout:
        """The layout of blocks in shared memory."""
        return self.type.memory

    @property
    def nbytes_per_cta(self) -> int:
        """The bytes of the part of a block that each CTA has."""
        parts = 1
        for extent, own in zip(self.block_shape, shape_per_cta(self.block_shape, self.layout.cga_layout), strict=True):
            parts *= extent // own
        return self.type.block.nbytes // parts


def made_descriptor(
    base: Any, shape: Sequence[Any], strides: Sequence[Any], kind: tma_type, padding: str
) -> tuple[Held, list[Tile], list[Tile]]:
    """A descriptor of the tensor at `base`, lengths in elements, with its shape and strides as run-time values.

    Args:
        base: a scalar pointer.
        shape: the extents of the tensor.
        strides: the distances along its axes.
        kind: the type of the descriptor.
        padding: `zero` or `nan`, outside the tensor.

    Raises:
        SemanticError: the copy engine cannot move such blocks.
    """
    if not isinstance(base, Tile) or base.type.shape:
        raise SemanticError(NotAPointer("make_tensor_descriptor", getattr(base, "type", type(base).__name__)))
    element = pointee_of(base, "make_tensor_descriptor")
    _check_block(kind, len(shape), strides, element)
    extents = [as_scalar(extent, int32) for extent in shape]
    steps = [as_scalar(stride, int64) for stride in strides]
    require(not (element.integer and padding == "nan"), "Padding option `nan` is not supported for integer blocks")
    require(padding in PADDINGS, f"the padding is one of {', '.join(PADDINGS)}, not {padding}")
    attributes: dict[str, Attribute] = {"padding": Keyword(PADDINGS[padding])} if padding != "zero" else {}
    operands = [base.handle, *(value.handle for value in (*extents, *steps))]
    handle = active().emit("tt.make_tensor_descriptor", operands, (kind.ir,), attributes)[0]
    return Held(handle, kind), extents, steps


def as_scalar(value: Any, kind: dtype) -> Tile:
    """A number, or a scalar of the kernel, as one of this type."""
    number = unwrap(value)
    return cast(number, kind) if isinstance(number, Tile) else constant(number, kind)


def _check_block(kind: tma_type, rank: int, strides: Sequence[Any], element: dtype) -> None:
    block = kind.block.shape
    require(1 <= rank <= MAX_AXES, f"Expected 1 <= ndim <= 5 but got {rank} dimensions")
    require(len(strides) == rank, f"Expected {rank} strides but got {len(strides)}")
    require(len(block) == rank, f"Expected block_shape to have {rank} dimensions but got {len(block)}")
    size = element.primitive_bitwidth // 8
    row = f"but got {block[-1]} * {size} = {block[-1] * size} bytes"
    least = f"Descriptor block shape must have at least {MIN_ROW} bytes in the last dimension"
    require(block[-1] * size >= MIN_ROW, f"{least}, {row}")
    last = unwrap(strides[-1])
    require(last == 1 if isinstance(last, int) else False, f"Tensor descriptor last dim must be 1 but got {last}")
