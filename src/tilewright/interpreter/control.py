"""Control flow, calls, the place in the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.tt_function import Call
from tilewright.dialects.tt_program import AXES, ProgramId
from tilewright.interpreter.machine import Environment, Interpreter, executes
from tilewright.ir.core import Op


@executes("scf.for")
def _for(machine: Interpreter, op: For, operands: list[Any], environment: Environment) -> Sequence[Any]:
    low, high, step, *carried = operands
    dtype = numpy_dtype(op.low.type)
    assert step > 0, "the step of scf.for is positive"
    for counter in range(int(low), int(high), int(step)):
        carried = machine.run_region(op.region, [dtype.type(counter), *carried], environment)[1]
    return carried


@executes("scf.if")
def _if(machine: Interpreter, op: If, operands: list[Any], environment: Environment) -> Sequence[Any]:
    (condition,) = operands
    region = op.then if condition else op.otherwise
    return machine.run_region(region, (), environment)[1] if region.blocks else ()


@executes("scf.while")
def _while(machine: Interpreter, op: While, operands: list[Any], environment: Environment) -> Sequence[Any]:
    before, after = op.regions
    carried = operands
    while True:
        _, (condition, *passed) = machine.run_region(before, carried, environment)
        if not condition:
            return passed
        carried = machine.run_region(after, passed, environment)[1]


@executes("tt.call")
def _call(machine: Interpreter, op: Call, operands: list[Any], environment: Environment) -> Sequence[Any]:
    return machine.call(machine.functions[op.callee], operands)


@executes("tt.get_program_id")
def _program_id(machine: Interpreter, op: ProgramId, operands: list[Any], environment: Environment) -> Sequence[Any]:
    return (np.int32(machine.program[AXES.index(op.axis)]),)


@executes("tt.get_num_programs")
def _num_programs(machine: Interpreter, op: ProgramId, operands: list[Any], environment: Environment) -> Sequence[Any]:
    return (np.int32(machine.grid[AXES.index(op.axis)]),)


@executes(
    *("llvm.intr.assume", "gpu.barrier", "ttg.barrier"),
    *("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents"),
)
def _nothing(machine: Interpreter, op: Op, operands: list[Any], environment: Environment) -> Sequence[Any]:
    return ()
