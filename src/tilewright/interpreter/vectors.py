"""The memory accesses of vector loops: a pointer, an offset in bytes, and possibly a stride of elements or rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dialects.amx import TileLoad, TileStore
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tile_semantics import element_bytes
from tilewright.dialects.vector import (
    Alloca,
    Gather,
    Load,
    MaskedLoad,
    MaskedStore,
    Prefetch,
    Scatter,
    Store,
    Table,
    lanes_of,
)
from tilewright.interpreter.machine import Interpreter, executes
from tilewright.interpreter.memory import Array, HostBuffer, Memory, buffer_of
from tilewright.ir.attributes import Dense
from tilewright.ir.core import Value
from tilewright.ir.types import Type


@executes("vector.load")
def _load(machine: Interpreter, op: Load, *place: Any) -> Any:
    type = op.results[0].type
    dtype = numpy_dtype(type)
    run = _run(machine.memory, type, dtype, *place)
    if run is None:
        return machine.memory.read(_addresses(type, *place), dtype, None, op)[()]
    return run[1].copy() if type.shape else run[1][0]


@executes("vector.store")
def _store(machine: Interpreter, op: Store, base: Any, offset: Any, value: Any, *stride: Any) -> None:
    type = op.value.type
    run = _run(machine.memory, type, numpy_dtype(type), base, offset, *stride)
    if run is None or not run[0].writable:
        machine.memory.write(_addresses(type, base, offset, *stride), value, None, op)
    else:
        run[1][...] = value


@executes("vector.maskedload")
def _masked_load(
    machine: Interpreter, op: MaskedLoad, base: Any, offset: Any, mask: Any, other: Any, *stride: Any
) -> Any:
    type = op.results[0].type
    found = machine.memory.read(_addresses(type, base, offset, *stride), numpy_dtype(type), mask, op)
    return np.where(mask, found, other)[()]


@executes("vector.maskedstore")
def _masked_store(
    machine: Interpreter, op: MaskedStore, base: Any, offset: Any, value: Any, mask: Any, *stride: Any
) -> None:
    machine.memory.write(_addresses(op.value.type, base, offset, *stride), value, mask, op)


@executes("vector.gather")
def _gather(machine: Interpreter, op: Gather, base: Any, indices: Any, mask: Any = None, other: Any = None) -> Any:
    dtype = numpy_dtype(op.results[0].type)
    found = machine.memory.read(_places(op.base, base, indices), dtype, mask, op)
    return found[()] if mask is None else np.where(mask, found, other)[()]


@executes("vector.scatter")
def _scatter(machine: Interpreter, op: Scatter, base: Any, indices: Any, value: Any, mask: Any = None) -> None:
    machine.memory.write(_places(op.base, base, indices), value, mask, op)


@executes("vector.prefetch")
def _prefetch(machine: Interpreter, op: Prefetch, base: Any, offset: Any) -> None:
    """Nothing that shows."""


@executes("vector.alloca")
def _alloca(machine: Interpreter, op: Alloca) -> Any:
    return np.int64(machine.memory.reserve(op.size, op.alignment))


@executes("vector.table")
def _table(machine: Interpreter, op: Table) -> Any:
    kept: dict[Table, Array] = machine.state("tables", dict)
    if op not in kept:
        literal = op.value
        values = literal.values if isinstance(literal, Dense) else [literal.value] * lanes_of(literal.type)
        kept[op] = _constants(machine.memory, np.array(values, numpy_dtype(literal.type)))
    return kept[op]


@executes("amx.tile_load")
def _tile_load(machine: Interpreter, op: TileLoad, base: Any, offset: Any, stride: Any) -> Any:
    type = op.results[0].type
    return machine.memory.read(_rows(type, base, offset, stride), numpy_dtype(type), None, op)


@executes("amx.tile_store")
def _tile_store(machine: Interpreter, op: TileStore, base: Any, offset: Any, value: Any, stride: Any) -> None:
    machine.memory.write(_rows(op.value.type, base, offset, stride), value, None, op)


def _rows(type: Type, base: Any, offset: Any, stride: Any) -> Array:
    """The address of each element of rows that are `stride` bytes apart."""
    assert type.shape is not None, "it has rows and columns"
    rows, columns = (np.arange(extent, dtype=np.int64) for extent in type.shape)
    return np.int64(base) + np.int64(offset) + rows[:, None] * np.int64(stride) + columns * numpy_dtype(type).itemsize


def _constants(memory: Memory, values: Array) -> Array:
    """The address of new memory that holds `values`."""
    values.setflags(write=False)
    memory.buffers.append(buffer_of("a table", values))
    return np.int64(values.ctypes.data)


def _places(pointer: Value, base: Any, indices: Any) -> Array:
    """The addresses of elements by number."""
    return np.int64(base) + indices * element_bytes(pointer.type)


def _run(
    memory: Memory, type: Type, dtype: np.dtype[Any], base: Any, offset: Any, stride: Any = None
) -> tuple[HostBuffer, Array] | None:
    """The elements in memory where they are one behind the other in one buffer, and that buffer; else None."""
    if stride is not None and stride != dtype.itemsize:
        return None
    return memory.run(int(base) + int(offset), type.shape[0] if type.shape else 1, dtype)


def _addresses(type: Type, base: Any, offset: Any, stride: Any = None) -> Array:
    """The address of each element."""
    first = int(base) + int(offset)
    if not type.shape:
        return np.int64(first)
    step = numpy_dtype(type).itemsize if stride is None else int(stride)
    return first + step * np.arange(type.shape[0], dtype=np.int64)
