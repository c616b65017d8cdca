"""Tensor descriptors: a tensor in memory with its shape, read and written block by block.

    d = tl.make_tensor_descriptor(x, [m, n], [n, 1], [64, 32])
    d.store([0, 32], d.load([0, 0]))        # elements beyond the shape are padding, and are not written

Loads and stores are those of block pointers that check every axis; the rest goes through tiles of pointers. On devices
with a copy engine, it executes all but `scatter`; see `semantics/tensor_descriptors.py`.

In Triton 3.0 to 3.3, kernels gave the block shape and the element type:

    tl._experimental_descriptor_load(desc, [i, j], [16, 32], tl.float16)        desc.load([i, j])
    tl._experimental_descriptor_store(desc, value, [i, j])                      desc.store([i, j], value)

Descriptors made for that on the host know only the width of elements; `compat/deprecated.py` makes those.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import memory, operations, shaping
from tilewright.language.core import accept_semantic
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.atomics import atomic_rmw
from tilewright.semantics.casting import bitcast
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.errors import BadArgument, BlockTooNarrow, NotAPointer
from tilewright.semantics.memory import PADDINGS, check_writable, pointee_of
from tilewright.semantics.shapes import constant_shape
from tilewright.semantics.tensor_descriptors import (
    MAX_AXES,
    MIN_ROW,
    engine_moves,
    engine_reads_rows,
    gather_rows,
    load_block,
    make_descriptor,
    reduce_block,
    store_block,
)
from tilewright.semantics.types import (
    bfloat16,
    block_type,
    dtype,
    float16,
    float32,
    int16,
    int32,
    int64,
    uint32,
    uint64,
)
from tilewright.support.diagnostics import SemanticError

MIN_ROWS, MIN_COLUMN_BITS = 8, 32
"""Min rows of a block that a gather or a scatter moves; bits of a word, 8 of which are its shortest row."""
WHOLE = (int32, uint32, int64, uint64)
SUMMED = (int32, uint32, uint64, float32, float16, bfloat16)
"""Elements that are combined in memory, by the engine of GPUs and therefore everywhere: in general, and added."""
HALVES = (float16, bfloat16)
"""Elements of which only the engine finds minima and maxima: memory itself cannot."""


class tensor_descriptor:  # noqa: N801 - Triton's name
    """A tensor of `shape` and `strides` (in elements) at `base`, moved in blocks of `block_shape`.

    Attributes:
        padding: what a load gives outside of the tensor: `zero` or `nan`.
    """

    def __init__(self, base: Any, shape: Any, strides: Any, block_shape: Any, padding: str = "zero") -> None:
        self.base = base
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.block_shape = constant_shape(block_shape, "block_shape")
        self.padding = padding
        self.dtype: dtype = pointee_of(base, "make_tensor_descriptor")
        self.block_type = block_type(self.dtype, self.block_shape)
        if base.type.shape:
            raise SemanticError(NotAPointer("make_tensor_descriptor", base.type))
        rank = len(self.block_shape)
        for name, values in (("shape", self.shape), ("strides", self.strides)):
            if len(values) != rank:
                raise _unfit(name, f"{len(values)} values", f"{rank}, one per axis")
        if not 1 <= rank <= MAX_AXES:
            raise _unfit("block_shape", f"{rank} axes", f"1 to {MAX_AXES}")
        if isinstance(self.strides[-1], int) and self.strides[-1] != 1:
            raise _unfit("strides[-1]", self.strides[-1], "1: the last axis is contiguous")
        if padding == "nan" and not self.dtype.floating:
            raise _unfit("padding_option", padding, f"zero: {self.dtype} has no NaN")

    def load(self, offsets: Any) -> Any:
        """The block at `offsets`; elements outside the tensor are padding."""
        axes = tuple(range(len(self.block_shape)))
        return memory.load(self._block_pointer(offsets), boundary_check=axes, padding_option=self.padding)

    def store(self, offsets: Any, value: Any) -> None:
        """Write `value` to the block at `offsets`; elements outside the tensor are dropped."""
        axes = tuple(range(len(self.block_shape)))
        memory.store(self._block_pointer(offsets), self._checked_block(value, "store"), boundary_check=axes)

    def gather(self, x_offsets: Any, y_offset: Any) -> Any:
        """Row `x_offsets[i]` from column `y_offset` on, for each i; the block has one row."""
        pointers, mask = self._rows(x_offsets, y_offset, "gather")
        zero = 0.0 if self.dtype.floating else 0
        padding = float("nan") if self.padding == "nan" else zero
        return memory.load(pointers, mask=mask, other=padding)

    def scatter(self, value: Any, x_offsets: Any, y_offset: Any) -> None:
        """The counterpart of `gather`: write row i of `value` to row `x_offsets[i]`."""
        pointers, mask = self._rows(x_offsets, y_offset, "scatter")
        memory.store(pointers, value, mask=mask)

    def atomic_add(self, offsets: Any, value: Any) -> None:
        """Add `value` to the block at `offsets`."""
        self._combine("add", offsets, value)

    def atomic_min(self, offsets: Any, value: Any) -> None:
        """Keep the smaller of memory and `value`."""
        self._combine("min", offsets, value)

    def atomic_max(self, offsets: Any, value: Any) -> None:
        """Keep the larger of memory and `value`."""
        self._combine("max", offsets, value)

    def atomic_and(self, offsets: Any, value: Any) -> None:
        """`memory & value`."""
        self._combine("and", offsets, value)

    def atomic_or(self, offsets: Any, value: Any) -> None:
        """`memory | value`."""
        self._combine("or", offsets, value)

    def atomic_xor(self, offsets: Any, value: Any) -> None:
        """`memory ^ value`."""
        self._combine("xor", offsets, value)

    def _combine(self, operation: str, offsets: Any, value: Any) -> None:
        pointers, values, mask = self._elements(offsets, value, f"atomic_{operation}")
        atomic_rmw(operation, pointers, values, mask)

    def _block_pointer(self, offsets: Any) -> Any:
        order, places = tuple(reversed(range(len(self.block_shape)))), self._checked(offsets)
        return memory.make_block_ptr(self.base, self.shape, self.strides, places, self.block_shape, order)

    def _checked(self, offsets: Any) -> tuple[Any, ...]:
        """One offset per axis."""
        given: tuple[Any, ...] = unwrap_all(offsets)
        rank = len(self.block_shape)
        if len(given) != rank:
            raise SemanticError(BadArgument("descriptor", "offsets", f"{len(given)} values", f"{rank}, one per axis"))
        return given

    def _checked_block(self, value: Any, operation: str) -> Any:
        """`value`, a tile with the shape of a block."""
        shape = tuple(getattr(to_tensor(value).type, "shape", ()))
        if shape != tuple(self.block_shape):
            raise SemanticError(BadArgument(operation, "a value of shape", shape, f"the block's, {self.block_shape}"))
        return value

    def _elements(self, offsets: Any, value: Any, operation: str) -> tuple[Any, Any, Any]:
        """Pointers to the elements of the block at `offsets`, what to combine with them, and which lie inside."""
        self._check_combined(operation)
        places = [
            to_tensor(offset) + shaping.arange(0, extent)
            for offset, extent in zip(self._checked(offsets), self.block_shape, strict=True)
        ]
        pointers, mask = self._pointers(places)
        return pointers, self._checked_block(value, operation), mask

    def _check_combined(self, operation: str) -> None:
        """Refuse elements that neither memory nor an engine combines so."""
        accepted = SUMMED if operation == "atomic_add" else WHOLE
        if self.dtype not in accepted:
            expected = ", ".join(map(str, accepted))
            if self.dtype in HALVES and operation in ("atomic_min", "atomic_max"):
                expected += "; 16-bit floats on GPUs since 9.0, whose engine moves the blocks"
            raise SemanticError(BadArgument(f"descriptor.{operation}", "dtype", self.dtype, expected))

    def _rows(self, x_offsets: Any, y_offset: Any, operation: str) -> tuple[Any, Any]:
        """Pointers to the elements from column `y_offset` on of the rows `x_offsets`, and which lie inside."""
        self._check_rows(x_offsets, operation)
        columns = to_tensor(y_offset) + shaping.arange(0, self.block_shape[1])
        return self._pointers([x_offsets, columns])

    def _check_rows(self, x_offsets: Any, operation: str) -> block_type:
        """The type of the tile that a gather of the rows `x_offsets` gives; refuses what no engine would move."""
        shape, width = self.block_shape, self.dtype.primitive_bitwidth
        if len(shape) != 2 or shape[0] != 1:
            raise SemanticError(BadArgument(operation, "a descriptor of blocks", shape, "blocks of one row, (1, n)"))
        rows: tuple[int, ...] = tuple(getattr(x_offsets.type, "shape", ()))
        if len(rows) != 1 or x_offsets.type.scalar not in (int16, int32):
            raise SemanticError(BadArgument(operation, "x_offsets", x_offsets.type, "one axis of int32 or int16"))
        least = MIN_COLUMN_BITS // width * 8
        if rows[0] < MIN_ROWS or shape[1] < least:
            expected = f"{MIN_ROWS} rows or more, of {least} {self.dtype} or more"
            raise SemanticError(BadArgument(operation, "blocks of", f"{rows[0]} x {shape[1]}", expected))
        return block_type(self.dtype, (rows[0], shape[1]))

    def _pointers(self, places: list[Any]) -> tuple[Any, Any]:
        """Pointers to all combinations of the one-dimensional `places`, and which of them lie inside the tensor."""
        pointers, mask = self.base, None
        for axis, place in enumerate(places):
            others = [other for other in range(len(places)) if other != axis]
            index = shaping.expand_dims(place, others) if others else place
            pointers = pointers + operations.cast(index, int64) * self.strides[axis]
            inside = (index >= 0) & (index < self.shape[axis])
            mask = inside if mask is None else mask & inside
        return pointers, mask


class engine_descriptor(tensor_descriptor):  # noqa: N801 - beside Triton's name
    """A descriptor whose blocks an engine moves: `handle` is the descriptor as a value of the kernel."""

    def __init__(
        self, base: Any, shape: Any, strides: Any, block_shape: Any, padding: str = "zero", handle: Any = None
    ) -> None:
        super().__init__(base, shape, strides, block_shape, padding)
        if handle is None:
            handle = make_descriptor(base, self.shape, self.strides, self.block_type, padding)
        self.handle = handle

    def load(self, offsets: Any) -> Any:
        """The block at `offsets`; elements outside the tensor are padding."""
        return load_block(self.handle, self._checked(offsets), self.block_type)

    def store(self, offsets: Any, value: Any) -> None:
        """Write `value` to the block at `offsets`; elements outside the tensor are dropped."""
        check_writable(self.base)
        block = operations.cast(self._checked_block(value, "store"), self.dtype)
        store_block(self.handle, self._checked(offsets), block)

    def gather(self, x_offsets: Any, y_offset: Any) -> Any:
        """Row `x_offsets[i]` from column `y_offset` on, for each i; the block has one row."""
        if not engine_reads_rows():
            return super().gather(x_offsets, y_offset)
        return gather_rows(self.handle, x_offsets, y_offset, self._check_rows(x_offsets, "gather"))

    def _combine(self, operation: str, offsets: Any, value: Any) -> None:
        if operation not in ("min", "max") or self.dtype not in HALVES:
            self._check_combined(f"atomic_{operation}")
        check_writable(self.base)
        block = operations.cast(self._checked_block(value, f"atomic_{operation}"), self.dtype)
        reduce_block(self.handle, operation, self._checked(offsets), block)


def _unfit(name: str, value: Any, expected: str) -> SemanticError:
    return SemanticError(BadArgument("make_tensor_descriptor", name, value, expected))


def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> tensor_descriptor:
    """A descriptor of the tensor at `base`.

    Args:
        base: pointer to the first element.
        shape, strides: one number per axis, strides in elements.
        block_shape: what one load or store moves; constants.
        padding_option: what loads give outside the tensor: `zero` or `nan`.

    Raises:
        SemanticError: the lists differ in length, or there is no such padding.
    """
    padding = unwrap(padding_option)
    if padding not in PADDINGS:
        raise _unfit("padding_option", padding, ", ".join(map(repr, PADDINGS)))
    made = _descriptor(base, unwrap_all(shape), unwrap_all(strides), block_shape, padding)
    extent, width = made.block_shape[-1], made.dtype.primitive_bitwidth
    if extent * width < 8 * MIN_ROW:
        raise SemanticError(BlockTooNarrow(MIN_ROW, extent, made.dtype, extent * width // 8))
    return made


def _descriptor(base: Any, shape: Any, strides: Any, block_shape: Any, padding: str) -> tensor_descriptor:
    by_pointers = tensor_descriptor(base, shape, strides, block_shape, padding)
    if not engine_moves(by_pointers.block_type, by_pointers.strides, padding):
        return by_pointers
    return engine_descriptor(base, shape, strides, block_shape, padding)


def host_descriptor(parts: Any) -> tensor_descriptor:
    """The descriptor that a host passes.

    Args:
        parts: its base, shape, strides, block shape and padding; where an engine moves its blocks, the engine's own
            descriptor too.
    """
    base, shape, strides, block_shape, padding, *made = parts
    if made:
        return engine_descriptor(base, unwrap_all(shape), unwrap_all(strides), block_shape, padding, handle=made[0])
    return tensor_descriptor(base, shape, strides, block_shape, padding)


def load_tensor_descriptor(desc: tensor_descriptor, offsets: Any) -> Any:
    """`desc.load(offsets)`."""
    return desc.load(offsets)


def store_tensor_descriptor(desc: tensor_descriptor, offsets: Any, value: Any) -> None:
    """`desc.store(offsets, value)`."""
    desc.store(offsets, value)


accept_semantic(globals())


def experimental_descriptor_load(desc: tensor_descriptor, offsets: Any, block_shape: Any, dtype: Any) -> Any:
    """The block at `offsets`, with elements of type `dtype`.

    Args:
        desc: what is read.
        offsets: the offsets of the block, one per axis.
        block_shape: the shape of the result.
        dtype: as wide as the descriptor's elements.
    """
    return bitcast(shaping.reshape(desc.load(offsets), block_shape), unwrap(dtype))


def experimental_descriptor_store(desc: tensor_descriptor, value: Any, offsets: Any) -> None:
    """Write the bits of `value` to the block at `offsets`."""
    desc.store(offsets, bitcast(value, desc.dtype))
