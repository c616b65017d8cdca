"""The machine that executes ops one at a time on NumPy arrays; both interpreters are built on it.

    machine = Interpreter(memory, program=(0, 0, 0), grid=(4, 1, 1), functions={})
    machine.execute(op, [a, b], frame) -> [a + b]

What an op without memory or control flow does is the `semantics` in its definition; everything else has an entry in
EXECUTORS, which the modules `control`, `accesses`, `products`, `folding`, `buffers` and `shared_memory` fill.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tilewright.dialects.arith import Constant
from tilewright.dialects.cf import Branch, CondBranch
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.interpreter.memory import Array, Memory
from tilewright.ir.attributes import Dense, Number
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.types import AsyncTokenType, PointerType, TensorDescType, TensorType, Type
from tilewright.support.diagnostics import NotSupported, located

Environment: TypeAlias = dict[Value, Any]
"""The values of one function call; regions see those of the ops around them."""
Executor: TypeAlias = Callable[..., Any]
"""A function that executes ops of some kinds: it takes the machine, the op, of the class that these kinds share, and
the op's operands; it gives its result, several as a tuple or a list, or None."""

State = TypeVar("State")

EXECUTORS: dict[str, Executor] = {}
Extents = tuple[int, int, int]


class Known(Value):
    """A value that already has its number or tile; the eager interpreter makes these."""

    __slots__ = ("array",)
    array: Any


def executes(*names: str) -> Callable[[Executor], Executor]:
    """Enter the decorated function into EXECUTORS."""

    def enter(function: Executor) -> Executor:
        for name in names:
            assert name not in EXECUTORS, f"{name} has two executors"
            EXECUTORS[name] = function
        return function

    return enter


class Interpreter:
    """Executes the ops of one program.

    Attributes:
        memory: what pointers point into.
        program: the program's place in the grid.
        grid: the extents of the grid.
        functions: what `tt.call` may call, by symbol.
        environment: the values of the function that runs.
        arena: the program's scratch memory, for `cpu.alloc`; made when it is first needed.
        lasting: the scratch memory that programs leave to the next one, by its place in the arena.
        is_first: no program has run yet that leaves memory to this one.
        rows: the tiles that went, row by row, through buffers of one row.
        left_out: programs whose work this one has done.
    """

    def __init__(self, memory: Memory, *, program: Extents, grid: Extents, functions: Mapping[str, Op]) -> None:
        self.memory = memory
        self.program = program
        self.grid = grid
        self.functions = functions
        self.environment: Environment = {}
        self.arena: Array | None = None
        self.lasting: dict[int, Array] = {}
        self.is_first = True
        self.rows: dict[Value, Array] = {}
        self.left_out: list[Extents] = []
        self._states: dict[str, Any] = {}

    def state(self, name: str, make: Callable[[], State]) -> State:
        """The state that executors keep about the program under `name`; made when it is first asked for."""
        if name not in self._states:
            self._states[name] = make()
        found: State = self._states[name]
        return found

    def execute(self, op: Op, operands: Sequence[Any]) -> Sequence[Any]:
        """The results of `op`.

        Raises:
            Unsupported: no interpreter can execute such an op.
        """
        execute = EXECUTORS.get(op.name)
        if execute is not None:
            result = execute(self, op, *operands)
        elif op.definition.semantics is not None:
            result = op.definition.semantics(op, *operands)
        else:
            raise located(NotSupported(op.name, "the interpreters cannot execute it"), None)
        if result is None:
            return ()
        return result if result.__class__ in (tuple, list) else (result,)

    def operands(self, op: Op) -> list[Any]:
        """The values of the operands of `op`."""
        return [value.array if type(value) is Known else self.environment[value] for value in op.operands]

    def run_block(self, block: Block, arguments: Sequence[Any]) -> tuple[Op, list[Any]]:
        """Execute `block`; returns its terminator and the values of that one's operands."""
        environment = self.environment
        environment.update(zip(block.args, arguments, strict=True))
        for op in block:
            operands = self.operands(op)
            if op.definition.terminator:
                return op, operands
            for value, result in zip(op.results, self.execute(op, operands), strict=True):
                environment[value] = checked(result, value.type, op)
        raise AssertionError("the block has no terminator")

    def run_region(self, region: Region, arguments: Sequence[Any]) -> tuple[Op, list[Any]]:
        """Execute a region from its entry along `cf` jumps to another terminator."""
        block = region.block
        while True:
            end, operands = self.run_block(block, arguments)
            if isinstance(end, Branch):
                block, arguments = end.successors[0], operands
            elif isinstance(end, CondBranch):
                first, second = end.successors
                condition, *passed = operands
                count = len(first.args)
                block, arguments = (first, passed[:count]) if condition else (second, passed[count:])
            else:
                return end, operands

    def call(self, function: Op, arguments: Sequence[Any]) -> list[Any]:
        """The values that `function` returns."""
        caller, self.environment = self.environment, {}
        results = self.run_region(function.regions[0], arguments)[1]
        self.environment = caller
        return results


def checked(result: Any, type: Type, op: Op) -> Any:
    """`result`, which must be what its type says."""
    form = _form(type)
    if form is not None:
        dtype, shape = form
        fits = result.dtype == dtype and result.shape == shape
        assert fits, f"{op.name} gave {result.dtype}{list(result.shape)} for a value of type {type}"
    return result


@cache
def _form(type: Type) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """The dtype and shape of values of `type`; None for those that are no NumPy arrays."""
    if isinstance(type, TensorDescType | AsyncTokenType) or (
        isinstance(type, PointerType) and isinstance(type.pointee, TensorType)
    ):
        return None
    return numpy_dtype(type), type.shape or ()


def constant_array(value: Number | Dense) -> Array:
    """The value of an `arith.constant`."""
    type = value.type
    dtype, shape = numpy_dtype(type), type.shape or ()
    if isinstance(value, Number):
        scalar = np.array(value.value).astype(dtype)[()]
        return np.broadcast_to(scalar, shape) if shape else scalar
    return np.array(value.values).astype(dtype).reshape(shape)


@executes("arith.constant")
def _constant(machine: Interpreter, op: Constant, *_: Any) -> Any:
    known: dict[Op, Array] = machine.state("constants", dict)
    if op not in known:
        known[op] = constant_array(op.value)
    return known[op]


@executes("ub.poison")
def _poison(machine: Interpreter, op: Op, *_: Any) -> Any:
    type = op.results[0].type
    if isinstance(type, AsyncTokenType):
        return (None,)  # orders nothing
    return np.zeros(type.shape or (), numpy_dtype(type))[()]
