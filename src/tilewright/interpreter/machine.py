"""The machine that executes ops one at a time on NumPy arrays; both interpreters are built on it.

    machine = Interpreter(memory, program=(0, 0, 0), grid=(4, 1, 1), functions={})
    machine.execute(op, [a, b], frame) -> [a + b]

An op without memory accesses or control flow is executed by the `semantics` in its definition; all others have an entry
in EXECUTORS, which the modules `control`, `accesses`, `products`, `folding`, `buffers` and `shared_memory` fill.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

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
Form: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]
"""The dtype and the shape of an array."""


class Known(Value):
    """A value that already has its number or tile; the eager interpreter makes these."""

    __slots__ = ("array",)
    array: Any


class Step(NamedTuple):
    """An op of a block that may run many times, with all that does not change from one time to the next.

    Attributes:
        op: the op.
        function: its executor, which takes the machine first, or its semantics.
        takes_machine: which of the two it is.
        operands: the operands.
        is_known: some operand has its number or tile already.
        results: the results, each with the dtype and the shape that it must have, if any.
    """

    op: Op
    function: Executor
    takes_machine: bool
    operands: Sequence[Value]
    is_known: bool
    results: Sequence[tuple[Value, Form | None]]


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
        steps: the ops of blocks that have run, as they are executed; programs of one module share them.
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
        self.steps: dict[Block, list[Step]] = {}
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
        function, takes_machine = _function(op)
        return _several(function(self, op, *operands) if takes_machine else function(op, *operands))

    def operands(self, op: Op) -> list[Any]:
        """The values of the operands of `op`."""
        return [value.array if type(value) is Known else self.environment[value] for value in op.operands]

    def run_block(self, block: Block, arguments: Sequence[Any]) -> tuple[Op, list[Any]]:
        """Execute `block`; returns its terminator and the values of that one's operands."""
        environment = self.environment
        environment.update(zip(block.args, arguments, strict=True))
        steps = self.steps.get(block)
        if steps is None:
            steps = self.steps[block] = list(map(_step, block))
        with np.errstate(all="ignore"):
            for op, function, takes_machine, operands, is_known, results in steps:
                found = self.operands(op) if is_known else [environment[value] for value in operands]
                if op.definition.terminator:
                    return op, found
                result = function(self, op, *found) if takes_machine else function(op, *found)
                for (value, form), array in zip(results, _several(result), strict=True):
                    environment[value] = array if form is None else fitting(array, form, op)
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


def _function(op: Op) -> tuple[Executor, bool]:
    """The executor or the semantics of an op, and whether it takes the machine first.

    Raises:
        Unsupported: no interpreter can execute such an op.
    """
    execute = EXECUTORS.get(op.name)
    if execute is not None:
        return execute, True
    if op.definition.semantics is None:
        raise located(NotSupported(op.name, "the interpreters cannot execute it"), None)
    return op.definition.semantics, False


def _step(op: Op) -> Step:
    """An op as a step. The setting of NumPy's errors is taken off semantics: it holds for the whole block."""
    is_known = any(type(value) is Known for value in op.operands)
    results = [(value, _form(value.type)) for value in op.results]
    function, takes_machine = (_several, False) if op.definition.terminator else _function(op)
    if not takes_machine:
        function = getattr(function, "__wrapped__", function)
    return Step(op, function, takes_machine, op.operands, is_known, results)


def _several(result: Any) -> Sequence[Any]:
    """The results of an op, of which it may have given one, several or none."""
    if result is None:
        return ()
    return result if result.__class__ in (tuple, list) else (result,)


def checked(result: Any, type: Type, op: Op) -> Any:
    """`result`, which must be what its type says."""
    form = _form(type)
    return result if form is None else fitting(result, form, op)


def fitting(result: Any, form: Form, op: Op) -> Any:
    """`result`, which must have this form."""
    dtype, shape = form
    fits = result.dtype == dtype and result.shape == shape
    assert fits, f"{op.name} gave {result.dtype}{list(result.shape)} for a value of {dtype}{list(shape)}"
    return result


@cache
def _form(type: Type) -> Form | None:
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
