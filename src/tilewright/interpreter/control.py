"""Control flow, calls, program ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dialects.cpu import Accumulate
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.dialects.scf import For, If, Parallel, While
from tilewright.dialects.tt_function import Call
from tilewright.dialects.tt_program import AXES, ProgramId
from tilewright.interpreter.folding import combine_lanes
from tilewright.interpreter.machine import Interpreter, executes
from tilewright.ir.core import Op


@executes("cpu.accumulate", "scf.for")
def _for(machine: Interpreter, op: Accumulate | For, low: Any, high: Any, step: Any, *inits: Any) -> Any:
    carried: Sequence[Any] = inits
    dtype = numpy_dtype(op.low.type)
    for counter in range(int(low), int(high), int(step)) if step > 0 else ():
        carried = machine.run_region(op.region, [dtype.type(counter), *carried])[1]
    return carried


@executes("scf.parallel")
def _parallel(machine: Interpreter, op: Parallel, low: Any, high: Any, step: Any, backwards: Any = False) -> Any:
    """One iteration after the other, in the order that the op prefers."""
    counters, reductions = range(int(low), int(high), int(step)), op.reductions
    combined: list[Any] = []
    for counter in reversed(counters) if backwards else counters:
        machine.run_block(op.body, [numpy_dtype(op.low.type).type(counter)])
        new = [[machine.environment[value] for value in reduction.values] for reduction in reductions]
        pairs = zip(reductions, combined, new, strict=True) if combined else ()
        combined = [combine_lanes(machine, *pair) for pair in pairs] or new
    assert combined or not reductions, "a loop with results has an iteration"
    return [value for values in combined for value in values]


@executes("scf.reduce")
def _reduce(machine: Interpreter, op: Op, *_: Any) -> Any:
    """The loop around reads the values."""


@executes("scf.if")
def _if(machine: Interpreter, op: If, condition: Any) -> Any:
    region = op.then if condition else op.otherwise
    return machine.run_region(region, ())[1] if region.blocks else ()


@executes("scf.while")
def _while(machine: Interpreter, op: While, *operands: Any) -> Any:
    before, after = op.regions
    carried: Sequence[Any] = operands
    while True:
        _, (condition, *passed) = machine.run_region(before, carried)
        if not condition:
            return passed
        carried = machine.run_region(after, passed)[1]


@executes("tt.call")
def _call(machine: Interpreter, op: Call, *operands: Any) -> Any:
    return machine.call(machine.functions[op.callee], operands)


@executes("tt.get_program_id")
def _program_id(machine: Interpreter, op: ProgramId, *_: Any) -> Any:
    return np.int32(machine.program[AXES.index(op.axis)])


@executes("tt.get_num_programs")
def _num_programs(machine: Interpreter, op: ProgramId, *_: Any) -> Any:
    return np.int32(machine.grid[AXES.index(op.axis)])


@executes(
    *("llvm.intr.assume", "gpu.barrier", "ttg.barrier", "ttg.local_dealloc"),
    *("tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents"),
    *("ttng.fence_async_shared", "ttng.tensormap_fenceproxy_acquire", "ttng.cluster_barrier"),
    *("ttng.fence_mbarrier_init_release_cluster", "ttng.tmem_wait"),
)
def _nothing(machine: Interpreter, op: Op, *_: Any) -> Any:
    """Other programs and threads are what these are for."""
