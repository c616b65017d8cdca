"""Control flow, calls, the place in the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.tt_function import callee_of
from tilewright.interpreter.machine import Frame, Machine, executes
from tilewright.ir.attributes import Keyword
from tilewright.ir.core import Op

AXES = ("x", "y", "z")


@executes("scf.for")
def _for(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    low, high, step, *carried = operands
    dtype = numpy_dtype(op.operands[0].type)
    assert step > 0, "the step of scf.for is positive"
    for counter in range(int(low), int(high), int(step)):
        carried = machine.run_region(op.regions[0], [dtype.type(counter), *carried], frame)[1]
    return carried


@executes("scf.if")
def _if(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    region = op.regions[0 if operands[0] else 1]
    return machine.run_region(region, (), frame)[1] if region.blocks else ()


@executes("scf.while")
def _while(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    before, after = op.regions
    carried = operands
    while True:
        _, (condition, *passed) = machine.run_region(before, carried, frame)
        if not condition:
            return passed
        carried = machine.run_region(after, passed, frame)[1]


@executes("tt.call")
def _call(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return machine.call(machine.functions[callee_of(op)], operands)


def _axis(op: Op) -> int:
    axis = op.attributes["axis"]
    assert isinstance(axis, Keyword), "the axis is a keyword"
    return AXES.index(axis.name)


@executes("tt.get_program_id")
def _program_id(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return (np.int32(machine.program[_axis(op)]),)


@executes("tt.get_num_programs")
def _num_programs(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return (np.int32(machine.grid[_axis(op)]),)


@executes(
    *("llvm.intr.assume", "gpu.barrier", "ttg.barrier"),
    *("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents"),
)
def _nothing(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return ()
