"""Tensor descriptors: a tensor in memory with its shape, read and written block by block.

    d = tl.make_tensor_descriptor(x, [m, n], [n, 1], [64, 32])
    d.store([0, 32], d.load([0, 0]))        # elements beyond the shape are padding, and are not written

Loads and stores are those of block pointers that check every axis; the rest goes through tiles of pointers. On devices
with an engine that moves blocks, loads and stores are its own; see `semantics/tensor_descriptors.py`.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import memory, operations, shaping
from tilewright.language.callable import accept_semantic
from tilewright.semantics.arithmetic import to_tensor
from tilewright.semantics.constexpr import unwrap, unwrap_all
from tilewright.semantics.errors import BadArgument, BlockTooNarrow
from tilewright.semantics.memory import PADDINGS, check_writable, pointee_of
from tilewright.semantics.shapes import constant_shape
from tilewright.semantics.tensor_descriptors import engine_moves, load_block, make_descriptor, store_block
from tilewright.semantics.types import block_type, dtype, int64
from tilewright.support.diagnostics import SemanticError

LEAST_ROW = 16
"""Bytes that a row of a descriptor's block has at least, on every target: so kernels stay portable."""


class tensor_descriptor:  # noqa: N801 - Triton's name
    """A tensor of `shape` and `strides` (in elements) at `base`, moved in blocks of `block_shape`."""

    def __init__(self, base: Any, shape: Any, strides: Any, block_shape: Any, padding: str = "zero") -> None:
        self.base = base
        self.shape = tuple(shape)
        self.strides = tuple(strides)
        self.block_shape = constant_shape(block_shape, "block_shape")
        self.padding = padding
        self.dtype: dtype = pointee_of(base, "make_tensor_descriptor")
        self.block_type = block_type(self.dtype, self.block_shape)
        rank = len(self.block_shape)
        for name, values in (("shape", self.shape), ("strides", self.strides)):
            if len(values) != rank:
                raise SemanticError(
                    BadArgument("make_tensor_descriptor", name, f"{len(values)} values", f"{rank}, one per axis")
                )

    def load(self, offsets: Any) -> Any:
        """The block at `offsets`; what lies outside the tensor is padding."""
        axes = tuple(range(len(self.block_shape)))
        return memory.load(self._block_pointer(offsets), boundary_check=axes, padding_option=self.padding)

    def store(self, offsets: Any, value: Any) -> None:
        """Write `value` to the block at `offsets`; what lies outside the tensor is dropped."""
        axes = tuple(range(len(self.block_shape)))
        memory.store(self._block_pointer(offsets), shaping.reshape(value, self.block_shape), boundary_check=axes)

    def gather(self, x_offsets: Any, y_offset: Any) -> Any:
        """Row `x_offsets[i]` from column `y_offset` on, for each i; the block has one row."""
        pointers, mask = self._rows(x_offsets, y_offset)
        padding = float("nan") if self.padding == "nan" else 0
        return memory.load(pointers, mask=mask, other=padding)

    def scatter(self, value: Any, x_offsets: Any, y_offset: Any) -> None:
        """The counterpart of `gather`: write row i of `value` to row `x_offsets[i]`."""
        pointers, mask = self._rows(x_offsets, y_offset)
        memory.store(pointers, value, mask=mask)

    def atomic_add(self, offsets: Any, value: Any) -> None:
        """Add `value` to the block at `offsets`."""
        memory.atomic_add(*self._elements(offsets, value))

    def atomic_min(self, offsets: Any, value: Any) -> None:
        """Keep the smaller of memory and `value`."""
        memory.atomic_min(*self._elements(offsets, value))

    def atomic_max(self, offsets: Any, value: Any) -> None:
        """Keep the larger of memory and `value`."""
        memory.atomic_max(*self._elements(offsets, value))

    def atomic_and(self, offsets: Any, value: Any) -> None:
        """`memory & value`."""
        memory.atomic_and(*self._elements(offsets, value))

    def atomic_or(self, offsets: Any, value: Any) -> None:
        """`memory | value`."""
        memory.atomic_or(*self._elements(offsets, value))

    def atomic_xor(self, offsets: Any, value: Any) -> None:
        """`memory ^ value`."""
        memory.atomic_xor(*self._elements(offsets, value))

    def _block_pointer(self, offsets: Any) -> Any:
        order = tuple(reversed(range(len(self.block_shape))))
        return memory.make_block_ptr(self.base, self.shape, self.strides, offsets, self.block_shape, order)

    def _elements(self, offsets: Any, value: Any) -> tuple[Any, Any, Any]:
        """Pointers to the elements of the block at `offsets`, what to combine with them, and which lie inside."""
        places = [
            to_tensor(offset) + shaping.arange(0, extent)
            for offset, extent in zip(unwrap_all(offsets), self.block_shape, strict=True)
        ]
        pointers, mask = self._pointers(places)
        return pointers, value, mask

    def _rows(self, x_offsets: Any, y_offset: Any) -> tuple[Any, Any]:
        columns = to_tensor(y_offset) + shaping.arange(0, self.block_shape[1])
        return self._pointers([x_offsets, columns])

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
        """The block at `offsets`; what lies outside the tensor is padding."""
        return load_block(self.handle, self._checked(offsets), self.block_type)

    def store(self, offsets: Any, value: Any) -> None:
        """Write `value` to the block at `offsets`; what lies outside the tensor is dropped."""
        check_writable(self.base)
        block = operations.cast(shaping.reshape(value, self.block_shape), self.dtype)
        store_block(self.handle, self._checked(offsets), block)

    def _checked(self, offsets: Any) -> tuple[Any, ...]:
        given: tuple[Any, ...] = unwrap_all(offsets)
        rank = len(self.block_shape)
        if len(given) != rank:
            raise SemanticError(BadArgument("descriptor", "offsets", f"{len(given)} values", f"{rank}, one per axis"))
        return given


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
        raise SemanticError(
            BadArgument("make_tensor_descriptor", "padding_option", padding, ", ".join(map(repr, PADDINGS)))
        )
    made = _descriptor(base, unwrap_all(shape), unwrap_all(strides), block_shape, padding)
    extent, width = made.block_shape[-1], made.dtype.primitive_bitwidth
    if extent * width < 8 * LEAST_ROW:
        raise SemanticError(BlockTooNarrow(LEAST_ROW, extent, made.dtype, extent * width // 8))
    return made


def _descriptor(base: Any, shape: Any, strides: Any, block_shape: Any, padding: str) -> tensor_descriptor:
    by_pointers = tensor_descriptor(base, shape, strides, block_shape, padding)
    if not engine_moves(by_pointers.block_type, by_pointers.strides):
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
