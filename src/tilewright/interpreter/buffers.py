"""The `cpu` dialect: loop nests executed op by op on whole tiles, buffers as arrays.

New buffers are filled with a bit pattern that no kernel expects, so that reading one before it is written shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dialects.cpu import tile_of
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.interpreter.machine import Frame, Machine, executes
from tilewright.interpreter.memory import Array
from tilewright.interpreter.products import multiply_add
from tilewright.ir.core import Op

UNWRITTEN = 0x7B


@executes("cpu.alloc")
def _alloc(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    tile = tile_of(op.results[0].type)
    dtype = numpy_dtype(tile)
    return (np.full(tile.numel * dtype.itemsize, UNWRITTEN, np.uint8).view(dtype).reshape(tile.shape),)


@executes("cpu.write")
def _write(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    tile, buffer = operands
    buffer[...] = np.array(tile)
    return ()


@executes("cpu.read")
def _read(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return (operands[0].copy(),)


@executes("cpu.nest")
def _nest(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return machine.run_region(op.regions[0], (), frame)[1]


@executes("cpu.store")
def _store(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    pointer, value, _, *mask = operands
    machine.memory.write(pointer, value, mask[0] if mask else None, op)
    return ()


@executes("cpu.dot")
def _dot(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    a, b, c = operands
    a, b = (_untransposed(x, op, flag) for x, flag in ((a, "a_transposed"), (b, "b_transposed")))
    start = np.zeros_like(c) if op.attributes.get("zero_init") is True else c
    c[...] = multiply_add(a, b, start)
    return ()


def _untransposed(a: Array, op: Op, flag: str) -> Array:
    return np.swapaxes(a, -1, -2) if op.attributes.get(flag) is True else a
