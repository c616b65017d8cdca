"""Buffers in shared and tensor memory as values of Gluon, and views of them.

allocate(float16, (2, 64, 64), layout)      ttg.local_alloc : () -> !ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>
indexed(buffer, i)                          ttg.memdesc_index %b[%i]
loaded(buffer, layout)                      ttg.local_load %b
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar

from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number
from tilewright.ir.core import Value
from tilewright.ir.types import MemDescType, i32
from tilewright.layouts import inference
from tilewright.layouts.buffer_views import reason_against_reinterpreting
from tilewright.layouts.conversion import to_linear_layout
from tilewright.layouts.encodings import Encoding, NvmmaShared
from tilewright.semantics.active import active
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.broadcasting import broadcast
from tilewright.semantics.distributed import checked, distributed_type
from tilewright.semantics.errors import BadBuffer
from tilewright.semantics.layout_values import Layout, plain, steps_of_ctas
from tilewright.semantics.shared_layouts import (
    SharedLayout,
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    memory_layout_of,
    shape_per_cta,
)
from tilewright.semantics.tile import Held, Tile, build
from tilewright.semantics.types import dtype, int1, int32
from tilewright.support.diagnostics import SemanticError

SHARED, TENSOR = "#ttg.shared_memory", "#ttng.tensor_memory"
TENSOR_LAYOUTS = (TensorMemoryLayout, TensorMemoryScalesLayout)


def require(condition: object, problem: str) -> None:
    """Raise SemanticError about `problem` unless `condition` holds."""
    if not condition:
        raise SemanticError(BadBuffer(problem))


class buffer_type:  # noqa: N801 - as Triton's types are called
    """The type of a view of memory.

    Attributes:
        element_ty: the elements.
        shape: of the view, a list.
        layout: which element lies where.
        alloc_shape: of the allocation that it is a part of.
        ir: the type in the IR.
    """

    __slots__ = ("alloc_shape", "element_ty", "ir", "layout", "shape")
    space: ClassVar[str] = SHARED
    kinds: ClassVar[tuple[type[Layout], ...]] = (SharedLayout,)
    expected: ClassVar[str] = "a SharedLayout"
    name: ClassVar[str] = "shared_memory_descriptor"
    held_by: ClassVar[Callable[[Value, Any], Buffer]]
    _interned: ClassVar[dict[tuple[Any, ...], Any]] = {}
    element_ty: dtype
    shape: list[int]
    layout: Any
    alloc_shape: list[int]
    ir: MemDescType

    def __new__(cls, element_ty: Any, shape: Any, layout: Any, alloc_shape: Any) -> Any:
        element, extents, value, whole = plain(element_ty), plain(shape), plain(layout), plain(alloc_shape)
        require(isinstance(element, dtype), f"expected 'element_ty' to be a dtype but got {element}")
        integers = isinstance(extents, list) and all(isinstance(extent, int) for extent in extents)
        require(integers, f"all elements of 'shape' must be integers but got {extents}")
        require(isinstance(value, cls.kinds), f"expected 'layout' to be {cls.expected} but got {value}")
        encoding: Encoding = checked(lambda: value.encoding)
        key = cls, element, tuple(extents), encoding, tuple(whole)
        found = buffer_type._interned.get(key)
        if found is None:
            found = buffer_type._interned[key] = object.__new__(cls)
            found.element_ty, found.shape, found.layout, found.alloc_shape = element, extents, value, whole
            found.ir = MemDescType(tuple(extents), element.ir, encoding.text, cls.space, True, tuple(whole))
        return found

    @property
    def scalar(self) -> dtype:
        """The type of an element."""
        return self.element_ty

    @property
    def nbytes_per_cta(self) -> int:
        """The bytes of the part that each CTA has."""
        return prod(shape_per_cta(self.shape, steps_of_ctas(self.layout))) * self.element_ty.primitive_bitwidth // 8

    def mangle(self) -> str:
        """The part of a mangled function name for this type."""
        shape, whole = ("_".join(map(str, extents)) for extents in (self.shape, self.alloc_shape))
        return f"MD{self.element_ty.mangle()}S{shape}SL{self.layout.mangle()}LAS{whole}ASMD"

    def __str__(self) -> str:
        return f"{self.name}<{self.element_ty}, {self.shape}, {self.layout}, {self.alloc_shape}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.element_ty, self.shape, self.layout, self.alloc_shape)


class tensor_buffer_type(buffer_type):  # noqa: N801 - as Triton's types are called
    """The type of a view of tensor memory."""

    __slots__ = ()
    space: ClassVar[str] = TENSOR
    kinds: ClassVar[tuple[type[Layout], ...]] = TENSOR_LAYOUTS
    expected: ClassVar[str] = "a TensorMemoryLayout"
    name: ClassVar[str] = "tensor_memory_descriptor"

    def mangle(self) -> str:
        shape = "_".join(map(str, self.shape))
        return f"MD{self.element_ty.mangle()}S{shape}SL{self.layout.mangle()}LAS{self.alloc_shape}ASMD"


class Buffer(Held):
    """A view of shared or tensor memory."""

    __slots__ = ()
    type: buffer_type

    @property
    def dtype(self) -> dtype:
        """The type of an element."""
        return self.type.element_ty

    @property
    def shape(self) -> list[int]:
        """The extents."""
        return self.type.shape

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.type.shape)

    @property
    def nbytes_per_cta(self) -> int:
        """The bytes of the part that each CTA has."""
        return self.type.nbytes_per_cta

    @property
    def layout(self) -> Any:
        """The place of each element."""
        return self.type.layout

    def __str__(self) -> str:
        return str(self.type)


def made(name: str, operands: list[Value], kind: buffer_type, attributes: dict[str, Attribute] | None = None) -> Any:
    """Emit the op `name`, which gives a buffer of this type."""
    return type(kind).held_by(active().emit(name, operands, (kind.ir,), attributes)[0], kind)


def allocate(kind: buffer_type, value: Tile | None = None) -> Any:
    """A buffer, which starts with the elements of `value` if there is one.

    Raises:
        SemanticError: no tile of this shape lies in memory like that: its rows are shorter than the swizzle.
    """
    name = "ttg.local_alloc" if kind.space == SHARED else "ttng.tmem_alloc"
    layout: Encoding = kind.layout.encoding
    if isinstance(layout, NvmmaShared):
        # Others may have any extents, as a buffer has that only takes up memory.
        checked(lambda: to_linear_layout(layout, tuple(kind.shape[-layout.rank :])))
    return made(name, [] if value is None else [value.handle], kind)


def loaded(buffer: Buffer, layout: Any) -> Tile:
    """The elements of a buffer in shared memory, as a tile with this layout."""
    return build("ttg.local_load", [buffer.handle], distributed_type(buffer.dtype, buffer.shape, layout))


def stored(buffer: Buffer, value: Any) -> None:
    """Put a tile into a buffer in shared memory."""
    check_contents(buffer, value)
    active().emit("ttg.local_store", [value.handle, buffer.handle])


def check_contents(buffer: Buffer, value: Any) -> None:
    """Raise unless `value` is a tile with the shape and elements of the buffer."""
    require(isinstance(value, Tile), f"expected 'value' to be a tensor, but got a {type(value)}")
    shape, kind = list(value.type.shape), value.type.scalar
    require(shape == buffer.shape, f"source shape {shape} and destination shape {buffer.shape} must match")
    require(kind is buffer.dtype, f"source dtype {kind} and destination dtype {buffer.dtype} must match")


# Elements by index


def gathered(buffer: Buffer, indices: Any, axis: Any) -> Tile:
    """The elements of a buffer at `indices` along `axis`."""
    attributes = _axis_of(buffer, indices, axis)
    result = indices.type.with_element_ty(buffer.dtype)
    return build("ttg.local_gather", [buffer.handle, indices.handle], result, attributes)


def scattered(buffer: Buffer, values: Any, indices: Any, axis: Any) -> None:
    """Put `values` into a buffer at `indices` along `axis`."""
    attributes = _axis_of(buffer, indices, axis)
    _check_values(buffer, values)
    values, indices = broadcast(values, indices)
    active().emit("ttg.local_scatter", [buffer.handle, values.handle, indices.handle], (), attributes)


def combined(operation: str, buffer: Buffer, values: Any, indices: Any, axis: Any, mask: Any) -> Tile:
    """Combine `values` with what is in a buffer at `indices` along `axis`, atomically; returns the old value.

    Args:
        operation: the name of the atomic operation.
        values: the operands.
        indices: the place of each along the axis.
        axis: the axis, a constant.
        mask: which elements take part; None: all.
    """
    attributes = _axis_of(buffer, indices, axis)
    _check_values(buffer, values)
    values, indices = broadcast(values, indices)
    operands = [buffer.handle]
    if mask is not None:
        mask, values = broadcast(to_tensor(mask), values)
        values, indices = broadcast(values, indices)
        require(mask.type.scalar is int1, f"mask must have boolean dtype, got {mask.type.scalar}")
    operands += [values.handle, indices.handle, *([] if mask is None else [mask.handle])]
    attributes = {**attributes, "atomic_rmw_op": _rmw(operation, buffer.dtype)}
    return build("ttg.local_atomic_scatter_rmw", operands, values.type, attributes)


def _axis_of(buffer: Buffer, indices: Any, axis: Any) -> dict[str, Attribute]:
    require(isinstance(indices, Tile), f"expected 'indices' to be a tensor, but got a {type(indices)}")
    require(isinstance(axis, int), f"expected 'axis' to be an int, but got a {type(axis)}")
    rank = len(indices.type.shape)
    require(rank == buffer.rank, f"indices rank must match memdesc rank: got {rank} and {buffer.rank}")
    require(0 <= axis < buffer.rank, f"axis {axis} is out of bounds for memdesc rank {buffer.rank}")
    require(indices.type.scalar.integer, f"indices must have integer dtype, got {indices.type.scalar}")
    return {"axis": Number(axis, i32)}


def _check_values(buffer: Buffer, values: Any) -> None:
    require(isinstance(values, Tile), f"expected 'values' to be a tensor, but got a {type(values)}")
    kinds = f"{values.type.scalar} and {buffer.dtype}"
    same = values.type.scalar is buffer.dtype
    require(same, f"values element type must match destination element type: got {kinds}")


def _rmw(operation: str, element: dtype) -> Keyword:
    numbers = element.integer if operation not in ("add", "xchg") else element.integer or element.floating
    require(numbers, f"atomic_scatter_{operation} does not support dtype {element}")
    if operation in ("max", "min"):
        return Keyword(operation if element.signed else f"u{operation}")
    return Keyword({"add": "fadd" if element.floating else "add", "xchg": "exch"}.get(operation, operation))


# Views


def sliced(buffer: Buffer, start: Any, length: Any, axis: Any) -> Any:
    """The part of `length` elements from `start` on along `axis`."""
    for name, value in (("start", start), ("length", length), ("dim", axis)):
        require(isinstance(value, int), f"expected '{name}' to be an int but got {value}")
    offsets = tuple(start if position == axis else 0 for position in range(buffer.rank))
    shape = [length if position == axis else extent for position, extent in enumerate(buffer.shape)]
    kind = type(buffer.type)(buffer.dtype, shape, buffer.layout, buffer.type.alloc_shape)
    return made("ttg.memdesc_subslice", [buffer.handle], kind, {"offsets": DenseArray(i32, offsets)})


def indexed(buffer: Buffer, index: Any) -> Any:
    """One of several buffers."""
    place = to_tensor(index)
    require(place.type is int32, f"expected 'index' to be int32 but got {place.type}")
    kind = type(buffer.type)(buffer.dtype, buffer.shape[1:], buffer.layout, buffer.shape[1:])
    return made("ttg.memdesc_index", [buffer.handle, place.handle], kind)


def permuted(buffer: Buffer, order: Sequence[Any]) -> Any:
    """The view whose axis i is axis `order[i]`."""
    integers = all(isinstance(axis, int) for axis in order)
    require(integers, f"all elements of 'order' must be integers but got {order}")
    fits = sorted(order) == list(range(buffer.rank))
    require(fits, f"source rank ({buffer.rank}) and order length ({len(order)}) must match")
    kind, axes = buffer.type, tuple(order)
    shape = tuple(kind.shape)
    encoding = checked(lambda: inference.transposed(kind.layout.encoding, shape, axes))
    front = kind.alloc_shape[: -len(shape)]
    whole = [*front, *(kind.alloc_shape[len(front) + axis] for axis in axes)]
    extents = [shape[axis] for axis in axes]
    layout = memory_layout_of(encoding, tuple(extents))
    result = type(kind)(kind.element_ty, extents, layout, whole)
    return made("ttg.memdesc_trans", [buffer.handle], result, {"order": DenseArray(i32, axes)})


def reshaped(buffer: Buffer, shape: Sequence[Any]) -> Any:
    """The elements in another shape, without moving them."""
    integers = all(isinstance(extent, int) for extent in shape)
    require(integers, f"all elements of 'shape' must be integers but got {list(shape)}")
    kind, extents = buffer.type, tuple(shape)
    same = prod(extents) == prod(kind.shape)
    require(same, f"memdesc_reshape total elements mismatch: {kind.shape} -> {list(extents)}")
    encoding = checked(lambda: inference.reshaped_memory(kind.layout.encoding, tuple(kind.shape), extents))
    layout = memory_layout_of(encoding, extents)
    whole = [*kind.alloc_shape[: -len(kind.shape)], *extents]
    return made("ttg.memdesc_reshape", [buffer.handle], type(kind)(kind.element_ty, extents, layout, whole))


def reinterpreted(buffer: Buffer, element: Any, shape: Any, layout: Any) -> Any:
    """The bytes as elements of another type, shape or layout; None keeps what is."""
    kind = buffer.type
    extents = kind.shape if shape is None else shape
    found = type(kind)(
        kind.element_ty if element is None else element, extents, kind.layout if layout is None else layout, extents
    )
    reason = checked(lambda: reason_against_reinterpreting(kind.ir, found.ir))
    require(reason is None, f"reinterpret as {list(extents)} of {found.element_ty} is not possible: {reason}")
    return made("ttg.memdesc_reinterpret", [buffer.handle], found)
