"""Runs a module of TTIR, TTGIR or ttcir on NumPy arrays: the oracle for passes and back ends.

    run_ir(module, {"x": x, "out": out, "n": 100}, grid=(4,))        out is updated in place

Programs run one after the other, in order. Every address is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_function import Func
from tilewright.interpreter import (
    accesses,
    assembly,
    buffers,
    control,
    dots,
    folding,
    reports,
    scaled_dots,
    shared_memory,
    vectors,
)
from tilewright.interpreter.machine import Extents, Interpreter, Step
from tilewright.interpreter.memory import Array, HostBuffer, Memory, buffer_of
from tilewright.ir.core import Block, Op, Value
from tilewright.ir.literals import canonical
from tilewright.ir.types import PointerType

EXECUTED_IN = (accesses, assembly, buffers, control, folding, dots, reports, scaled_dots, shared_memory, vectors)
"""The modules whose import enters the executors."""


def run_ir(
    module: Op,
    arguments: Mapping[str, Any] | Sequence[Any],
    grid: Iterable[int] = (1, 1, 1),
    *,
    memory_of: Callable[[Extents], Memory] | None = None,
) -> None:
    """Run every program of `grid`.

    Args:
        module: with one public tt.func, the kernel.
        arguments: for each parameter of the kernel an array (pointers) or a number, in order or by name.
        grid: one to three extents.
        memory_of: the memory of a program, by its place in the grid, where it is not to be that of the arrays.

    Raises:
        OutOfBoundsError: a program touches memory outside of its arrays.
        DeviceAssertError: a tt.assert does not hold.
        Unsupported: the module has an op that cannot be interpreted.
    """
    functions = {op.symbol: op for op in module.regions[0].block if isinstance(op, Func)}
    public = [function for function in functions.values() if function.is_public]
    assert len(public) == 1, f"the module must have one public function, not {len(public)}"
    kernel = public[0]
    parameters = kernel.body.args
    values = [arguments[p.name or ""] for p in parameters] if isinstance(arguments, Mapping) else list(arguments)
    memory = Memory([_buffer(p, v) for p, v in zip(parameters, values, strict=True) if hasattr(v, "shape") and v.shape])
    concrete = [_argument(p, v) for p, v in zip(parameters, values, strict=True)]
    extents, done, lasting = full_grid(grid), set[Extents](), dict[int, Array]()
    steps: dict[Block, list[Step]] = {}
    for program in programs(extents):
        if program not in done:
            own = memory if memory_of is None else memory_of(program)
            machine = Interpreter(own, program=program, grid=extents, functions=functions)
            machine.steps = steps
            if memory_of is None:
                machine.lasting, machine.is_first = lasting, not done
            machine.call(kernel, concrete)
            done.add(program)
            done.update(machine.left_out)


def full_grid(grid: Iterable[int]) -> Extents:
    """Three extents, of which the missing ones are 1."""
    x, y, z = (*map(int, grid), 1, 1)[:3]
    return x, y, z


def programs(grid: Extents) -> Iterator[Extents]:
    """The places of all programs; x changes fastest."""
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                yield x, y, z


def _buffer(parameter: Value, array: Any) -> HostBuffer:
    return buffer_of(parameter.name or f"argument {parameter.index}", array)


def _argument(parameter: Value, value: Any) -> Any:
    """The run-time value of a parameter: an address or a number."""
    if isinstance(parameter.type, PointerType):
        return np.int64(buffer_of("", value).start if hasattr(value, "shape") and value.shape else int(value))
    number = canonical(value, parameter.type)
    return np.array(number).astype(numpy_dtype(parameter.type))[()]
