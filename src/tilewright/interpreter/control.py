"""Control flow, calls, the place in the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.tt_function import Call
from tilewright.dialects.tt_program import AXES, ProgramId
from tilewright.interpreter.machine import Frame, Machine, executes
from tilewright.ir.core import Op


@executes("scf.for")
def _for(machine: Machine, op: For, operands: list[Any], frame: Frame) -> Sequence[Any]:
    low, high, step, *carried = operands
    dtype = numpy_dtype(op.low.type)
    assert step > 0, "the step of scf.for is positive"
    for counter in range(int(low), int(high), int(step)):
        carried = machine.run_region(op.region, [dtype.type(counter), *carried], frame)[1]
    return carried


@executes("scf.if")
def _if(machine: Machine, op: If, operands: list[Any], frame: Frame) -> Sequence[Any]:
    (condition,) = operands
    region = op.then if condition else op.otherwise
    return machine.run_region(region, (), frame)[1] if region.blocks else ()


@executes("scf.while")
def _while(machine: Machine, op: While, operands: list[Any], frame: Frame) -> Sequence[Any]:
    before, after = op.regions
    carried = operands
    while True:
        _, (condition, *passed) = machine.run_region(before, carried, frame)
        if not condition:
            return passed
        carried = machine.run_region(after, passed, frame)[1]


@executes("tt.call")
def _call(machine: Machine, op: Call, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return machine.call(machine.functions[op.callee], operands)


@executes("tt.get_program_id")
def _program_id(machine: Machine, op: ProgramId, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return (np.int32(machine.program[AXES.index(op.axis)]),)


@executes("tt.get_num_programs")
def _num_programs(machine: Machine, op: ProgramId, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return (np.int32(machine.grid[AXES.index(op.axis)]),)


@executes(
    *("llvm.intr.assume", "gpu.barrier", "ttg.barrier"),
    *("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents"),
)
def _nothing(machine: Machine, op: Op, operands: list[Any], frame: Frame) -> Sequence[Any]:
    return ()
