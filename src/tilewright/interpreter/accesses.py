"""Loads, stores, atomics and block pointers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.dialects.arithmetic_semantics import UNSIGNED
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_atomics import AtomicCas, AtomicRmw
from tilewright.dialects.tt_descriptors import (
    DescriptorGather,
    DescriptorReduce,
    DescriptorScatter,
    MakeTensorDescriptor,
)
from tilewright.dialects.tt_memory import Load, MakeTensorPtr, Store
from tilewright.interpreter.machine import Interpreter, executes
from tilewright.interpreter.memory import Array
from tilewright.ir.attributes import Keyword, Number
from tilewright.ir.core import Op
from tilewright.ir.types import IntType, TensorType

PAD_NAN = 2
"""The number of the padding `pad_nan`, where it stands as a number."""


class BlockPointer(NamedTuple):
    """A block of a tensor in memory: the run-time value of `!tt.ptr<tensor<…>>` and of tensor descriptors.

    Attributes:
        base: address of the tensor's first element.
        shape, strides: of the tensor, in elements.
        offsets: where the block begins, per axis.
        block: extents and element type of the block.
        pads_with_nan: what a load through a descriptor gives outside the tensor is NaN, not 0.
    """

    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offsets: tuple[int, ...]
    block: TensorType
    pads_with_nan: bool = False

    def moved(self, steps: Sequence[Any]) -> BlockPointer:
        """The block `steps` elements further, per axis."""
        return self._replace(offsets=tuple(a + int(b) for a, b in zip(self.offsets, steps, strict=True)))

    def elements(self, checked: Sequence[int]) -> tuple[Array, Array]:
        """The address of each element of the block, and whether it is inside the tensor along the `checked` axes."""
        addresses = np.full(self.block.shape, self.base, np.int64)
        inside = np.ones(self.block.shape, np.bool_)
        size = (self.block.element.bits + 7) // 8
        for axis, places in enumerate(np.indices(self.block.shape, np.int64, sparse=True)):
            index = places + self.offsets[axis]
            addresses += index * (self.strides[axis] * size)
            if axis in checked:
                inside &= (index >= 0) & (index < self.shape[axis])
        return addresses, inside


@executes("tt.make_tensor_ptr")
def _make_block_pointer(machine: Interpreter, op: MakeTensorPtr, *operands: Any) -> Any:
    tile = op.tile
    base, *rest = map(int, operands)
    rank = len(tile.shape)
    lists = [tuple(rest[i : i + rank]) for i in range(0, 3 * rank, rank)]
    return BlockPointer(base, lists[0], lists[1], lists[2], tile)


@executes("tt.advance")
def _advance(machine: Interpreter, op: Op, pointer: Any, *steps: Any) -> Any:
    return pointer.moved(steps)


@executes("tt.load")
def _load(machine: Interpreter, op: Load, pointer: Any, mask: Any = None, other: Any = None) -> Any:
    dtype = numpy_dtype(op.results[0].type)
    if isinstance(pointer, BlockPointer):
        pointer, mask = pointer.elements(op.boundary_check)
        other = np.array(np.nan if _pads_with_nan(op) else 0).astype(dtype)
    loaded = machine.memory.read(pointer, dtype, mask, op)
    if mask is not None and other is not None:
        loaded = np.where(mask, loaded, other)
    return loaded[()]


@executes("tt.store")
def _store(machine: Interpreter, op: Store, pointer: Any, value: Any, mask: Any = None) -> Any:
    if isinstance(pointer, BlockPointer):
        pointer, mask = pointer.elements(op.boundary_check)
    machine.memory.write(pointer, value, mask, op)


def _pads_with_nan(op: Load | MakeTensorDescriptor) -> bool:
    padding = op.attributes.get("padding")
    return padding == Keyword("pad_nan") or (isinstance(padding, Number) and padding.value == PAD_NAN)


# Tensor descriptors, of which every axis is checked


@executes("tt.make_tensor_descriptor")
def _make_descriptor(machine: Interpreter, op: MakeTensorDescriptor, *operands: Any) -> Any:
    base, *rest = map(int, operands)
    block = op.tile
    rank = len(block.shape)
    lists = tuple(rest[:rank]), tuple(rest[rank:]), (0,) * rank
    return BlockPointer(base, *lists, block, _pads_with_nan(op))


@executes("tt.descriptor_load")
def _descriptor_load(machine: Interpreter, op: Op, descriptor: Any, *indices: Any) -> Any:
    result = op.results[0].type
    return read_block(machine, descriptor, indices, numpy_dtype(result), op).reshape(result.shape or ())


def read_block(
    machine: Interpreter, descriptor: BlockPointer, indices: Sequence[Any], dtype: np.dtype[Any], op: Op
) -> Array:
    """The block at `indices`; elements outside the tensor are padding.

    Args:
        descriptor: the tensor.
        indices: the place of the block's first element, one index per axis.
        dtype: the type of an element.
        op: the op that reads, for messages.
    """
    addresses, inside = descriptor.moved(indices).elements(range(len(indices)))
    found = machine.memory.read(addresses, dtype, inside, op)
    return np.where(inside, found, np.array(np.nan).astype(dtype)) if descriptor.pads_with_nan else found


@executes("tt.descriptor_store")
def _descriptor_store(machine: Interpreter, op: Op, *operands: Any) -> Any:
    descriptor, *indices, value = operands
    addresses, inside = descriptor.moved(indices).elements(range(len(indices)))
    machine.memory.write(addresses, value.reshape(addresses.shape), inside, op)


@executes("tt.descriptor_gather")
def _descriptor_gather(machine: Interpreter, op: DescriptorGather, descriptor: Any, rows: Any, column: Any) -> Any:
    return read_rows(machine, descriptor, rows, column, numpy_dtype(op.result.type), op)


def read_rows(
    machine: Interpreter, descriptor: BlockPointer, rows: Array, column: Any, dtype: np.dtype[Any], op: Op
) -> Array:
    """The parts of the rows with these numbers from `column` on, one below the other; arguments as of `read_block`."""
    return np.concatenate([read_block(machine, descriptor, (row, column), dtype, op) for row in rows])


@executes("tt.descriptor_scatter")
def _descriptor_scatter(
    machine: Interpreter, op: DescriptorScatter, descriptor: Any, rows: Any, column: Any, value: Any
) -> Any:
    write_rows(machine, descriptor, rows, column, value, op)


def write_rows(
    machine: Interpreter, descriptor: BlockPointer, rows: Array, column: Any, value: Array, op: Op
) -> None:
    """Write the lines of `value` to the rows with these numbers, from `column` on; what lies outside is dropped."""
    for row, line in zip(rows, value, strict=True):
        addresses, inside = descriptor.moved((row, column)).elements((0, 1))
        machine.memory.write(addresses, line.reshape(addresses.shape), inside, op)


# Atomics: lanes take effect in order


def _unsigned(choose: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def chosen(a: Array, b: Array) -> Array:
        view = UNSIGNED[a.dtype]
        return choose(a.view(view), b.view(view)).view(a.dtype)

    return chosen


UPDATES: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "fadd": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "max": np.maximum,
    "min": np.minimum,
    "umax": _unsigned(np.maximum),
    "umin": _unsigned(np.minimum),
    "exch": lambda a, b: b,
}
"""The functions for what memory holds after an atomic op, from what it held and the operand."""


@executes("tt.descriptor_reduce")
def _descriptor_reduce(machine: Interpreter, op: DescriptorReduce, *operands: Any) -> Any:
    descriptor, *indices, value = operands
    combine_block(machine, descriptor, indices, op.operation, value, op)


def combine_block(
    machine: Interpreter, descriptor: BlockPointer, indices: Sequence[Any], kind: str, value: Array, op: Op
) -> None:
    """Combine the block at `indices` with `value` by PTX's operation `kind`; arguments as of `read_block`."""
    addresses, inside = descriptor.moved(indices).elements(range(len(indices)))
    element = descriptor.block.element
    unsigned = "u" if kind in ("min", "max") and isinstance(element, IntType) and element.sign == "u" else ""
    old = machine.memory.read(addresses, value.dtype, inside, op)
    new = UPDATES[unsigned + kind](old, value.reshape(old.shape))
    machine.memory.write(addresses, new.astype(value.dtype), inside, op)


@executes("tt.atomic_rmw")
def _atomic_rmw(machine: Interpreter, op: AtomicRmw, pointer: Any, value: Any, mask: Any = None) -> Any:
    update = UPDATES[op.operation]
    return _update(machine, op, pointer, mask, lambda lanes, old: update(old, value[lanes]))


@executes("tt.atomic_cas")
def _atomic_cas(machine: Interpreter, op: AtomicCas, pointer: Any, compared: Any, new: Any) -> Any:

    def swap(lanes: Any, old: Array) -> Array:
        return np.where(_bits(old) == _bits(compared[lanes]), new[lanes], old)

    return _update(machine, op, pointer, None, swap)


def _bits(a: Array) -> Array:
    return np.asarray(a).view(f"i{a.dtype.itemsize}")


def _update(
    machine: Interpreter, op: Op, pointer: Array, mask: Array | None, new_value: Callable[[Any, Array], Array]
) -> Array:
    """Read, compute `new_value(lanes, old)` and write; one lane after the other where addresses are equal."""
    memory, dtype = machine.memory, numpy_dtype(op.results[0].type)
    with np.errstate(all="ignore"):
        if np.size(pointer) == 1 or np.unique(pointer).size == np.size(pointer):
            old = memory.read(pointer, dtype, mask, op)[()]
            memory.write(pointer, np.asarray(new_value((), old)).astype(dtype), mask, op)
            return old
        old = np.zeros(pointer.shape, dtype)
        for lane in np.ndindex(pointer.shape):
            if mask is None or mask[lane]:
                old[lane] = memory.read(pointer[lane], dtype, None, op)[()]
                memory.write(pointer[lane], np.asarray(new_value(lane, old[lane])).astype(dtype), None, op)
    return old
