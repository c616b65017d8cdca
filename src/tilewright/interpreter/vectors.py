"""Memory as vector loops read and write it: a pointer, an offset in bytes, and perhaps a distance between elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.vector import Load, Store
from tilewright.interpreter.machine import Interpreter, executes
from tilewright.interpreter.memory import Array
from tilewright.ir.types import Type


@executes("vector.load")
def _load(machine: Interpreter, op: Load, *place: Any) -> Any:
    type = op.results[0].type
    return machine.memory.read(_addresses(type, *place), numpy_dtype(type), None, op)[()]


@executes("vector.store")
def _store(machine: Interpreter, op: Store, base: Any, offset: Any, value: Any, *stride: Any) -> None:
    machine.memory.write(_addresses(op.value.type, base, offset, *stride), value, None, op)


def _addresses(type: Type, base: Any, offset: Any, stride: Any = None) -> Array:
    """The address of each element."""
    first = int(base) + int(offset)
    if not type.shape:
        return np.int64(first)
    step = numpy_dtype(type).itemsize if stride is None else int(stride)
    return first + step * np.arange(type.shape[0], dtype=np.int64)
