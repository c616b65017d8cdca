"""A PTX text as a program: its kernels, decoded on first use.

program = load(text)
program.kernel("add").steps
program.target          # "sm_80"

A launch is a kernel of a program, a grid, and arguments:

    memory = DeviceMemory()
    x = memory.copy_in(np.arange(8, dtype=np.float32), name="x")
    Launch(load(text), "double", grid=(1, 1, 1), threads=32, shared=0).run(memory, [x, 8])
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tilewright.backends.ptxsim.accesses import space_of
from tilewright.backends.ptxsim.code import KernelCode, Step, Uses
from tilewright.backends.ptxsim.comparisons import CONNECTIVES, ORDERED
from tilewright.backends.ptxsim.conversions import INTEGRAL, MODES
from tilewright.backends.ptxsim.decoder import Decode, Decoder, VariableLayout
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.integers import PERMUTE_MODES
from tilewright.backends.ptxsim.machine import Extents, Machine
from tilewright.backends.ptxsim.memory import DeviceMemory
from tilewright.backends.ptxsim.reconvergence import in_reconvergence_order
from tilewright.backends.ptxsim.shadow import GlobalShadow
from tilewright.backends.ptxsim.shared import Uninitialized
from tilewright.backends.ptxsim.uninitialized import FLOWS, suspects
from tilewright.backends.ptxsim.value_types import TYPES, Array
from tilewright.support.progress import Progress
from tilewright.support.ptx_parser import parse_ptx
from tilewright.support.ptx_syntax import (
    Function,
    Immediate,
    Instruction,
    Operand,
    PtxError,
    Register,
    Symbol,
    Variable,
    Vector,
    number_of,
)


class Program:
    """A parsed text.

    Args:
        handlers: the instructions that the machine knows.

    Attributes:
        module: the text as data.
        target: `sm_90a`.
        kernels: the names of the kernels.
    """

    def __init__(self, text: str, handlers: Mapping[str, Decode]) -> None:
        try:
            self.module = parse_ptx(text)
            functions = self.module.functions
            functions.update({name: in_reconvergence_order(it) for name, it in functions.items() if it.defined})
        except PtxError as error:
            raise SimulationError(error.kind, error.text, line=error.line) from None
        self.target = self.module.target
        self.kernels = [name for name, function in self.module.functions.items() if function.entry]
        self._handlers, self._decoded = handlers, dict[str, KernelCode]()

    def kernel(self, name: str | None = None) -> KernelCode:
        """A kernel by name, or the only one.

        Raises:
            SimulationError: there is none, or it has an instruction that the simulator does not know.
        """
        if name is None and len(self.kernels) == 1:
            name = self.kernels[0]
        if name not in self.kernels:
            raise SimulationError("unknown kernel", f"{name!r} is none of {self.kernels}")
        if name not in self._decoded:
            self._decoded[name] = _KernelBuilder(self, name).build()
        return self._decoded[name]

    def place_variables(self, memory: DeviceMemory) -> dict[str, int]:
        """Allocate the module's global and constant variables; returns addresses by name."""
        variables = [v for v in self.module.variables if v.space in ("global", "const")]
        for function in self.module.functions.values():
            variables += [v for v in function.variables if v.space in ("global", "const")]
        addresses = {v.name: memory.allocate(v.size, name=v.name, align=max(v.align, 16)) for v in variables}
        for variable in variables:
            content = _initial_bytes(variable, addresses)
            memory.fill(addresses[variable.name], content, writable=variable.space == "global")
        return addresses

    def decode(self, instruction: Instruction, decoder: Decoder) -> Step:
        """One instruction, by the longest entry of the tables that fits."""
        for count in range(len(instruction.parts), 0, -1):
            handler = self._handlers.get(".".join(instruction.parts[:count]))
            if handler is not None:
                break
        else:
            raise _at(instruction, "unsupported", "the simulator does not know this instruction")
        unknown = unknown_part(instruction.parts)
        if unknown is not None:
            raise _at(instruction, "unsupported", f"the simulator does not know the modifier .{unknown}")
        uses = decoder.uses = Uses()
        try:
            run = handler(instruction, decoder)
        except PtxError as error:
            raise _at(instruction, error.kind, error.text) from None
        except SimulationError as error:
            raise error if error.line else _at(instruction, error.kind, error.text) from None
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
            raise _at(instruction, "unsupported", f"the simulator does not know this form ({error!r})") from error
        guard = decoder.register(instruction.guard) if instruction.guard is not None else -1
        operands = [o.name if isinstance(o, Register) else None for o in instruction.sources]
        uses.operands = tuple(-1 if name is None else decoder.register(name) for name in operands)
        touches = frozenset(uses.reads | uses.writes | ({guard} if guard >= 0 else set()))
        return Step(run, guard, instruction.guard_negated, instruction, uses, touches)


KNOWN = frozenset(
    (
        *TYPES,
        *MODES,
        *INTEGRAL,
        *PERMUTE_MODES,
        *ORDERED,
        *(f"{name}u" for name in ORDERED),
        *CONNECTIVES,
        *("num", "nan", "finite", "infinite", "number", "notanumber", "normal", "subnormal"),
        *("ftz", "sat", "satfinite", "relu", "NaN", "xorsign", "abs", "approx", "full", "pack"),
        *("lo", "hi", "wide", "cc", "wrap", "clamp", "l", "r", "shiftamt"),
        *("to", "global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "const"),
    )
)


def unknown_part(parts: tuple[str, ...]) -> str | None:
    """The first part of a scalar instruction's opcode that is not known; None for others, and where all are."""
    if parts[0] not in FLOWS:
        return None
    return next((part for part in parts[1:] if part not in KNOWN), None)


def _at(instruction: Instruction, kind: str, text: str) -> SimulationError:
    return SimulationError(kind, text, line=instruction.line, instruction=instruction.text, source=instruction.source)


def _initial_bytes(variable: Variable, addresses: Mapping[str, int]) -> bytes:
    """The initialiser, filled up with zeros as PTX has it."""
    numbers = [_initial_number(operand, variable.element, addresses) for operand in variable.initial]
    content = b"".join((n & ((1 << 8 * variable.element) - 1)).to_bytes(variable.element, "little") for n in numbers)
    return content.ljust(variable.size, b"\0")


def _initial_number(operand: Operand, size: int, addresses: Mapping[str, int]) -> int:
    if isinstance(operand, Symbol):
        return addresses[operand.name] + operand.offset
    if not isinstance(operand, Immediate):
        raise SimulationError("syntax", f"`{operand}` is no initial value")
    if operand.float_bits is not None:
        return operand.float_bits[0]
    if operand.whole is not None:
        return operand.whole
    return int.from_bytes(np.array(float(operand.text), f"f{size}").tobytes(), "little")


def width_in(space: str, instruction: Instruction) -> int:
    """Bytes that an instruction touches at once in a space, where that may be fewer than eight; else eight."""
    operands = instruction.operands
    if instruction.opcode in ("ld", "st", "atom", "red") and space_of(instruction.parts) in ("", space):
        vector = next((operand for operand in operands if isinstance(operand, Vector)), None)
        several = vector is not None and instruction.opcode in ("ld", "st")
        return TYPES[instruction.type].bytes * (len(vector.items) if several and vector else 1)
    if instruction.parts[:2] == ("cp", "async") and len(operands) > 2:
        _, _, size, *_ = operands
        return number_of(size) if isinstance(size, Immediate) else 8
    return 8


class _KernelBuilder:
    """Lays a kernel and the functions it calls out, callees first, and decodes them."""

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.functions = program, program.module.functions
        directives = self.functions[name].directives
        (registers,) = directives.get("maxnreg", (0,))
        self.code = KernelCode(name, threads=directives.get("reqntid"), registers_at_entry=registers)
        self.layout = VariableLayout(functions=self.functions)
        self.order: list[Function] = []

    def build(self) -> KernelCode:
        kernel = self.functions[self.code.name]
        self._visit(kernel, ())
        self._place_shared()
        self._place_parameters(kernel)
        for function in self.order:
            self._place_frame(function)
        position = 0
        for function in self.order:
            self.code.entries[function.name] = position
            position += len(function.instructions) + 1
        self.code.entry = self.code.entries[kernel.name]
        for function in self.order:
            self._decode(function)
            for instruction in function.instructions:
                self.code.shared_unit = min(self.code.shared_unit, width_in("shared", instruction))
                self.code.global_unit = min(self.code.global_unit, width_in("global", instruction))
        self.code.suspects = suspects(self.code)
        return self.code

    def _visit(self, function: Function, callers: tuple[str, ...]) -> None:
        if function.name in callers:
            raise SimulationError("unsupported", f"`{function.name}` calls itself", kernel=self.code.name)
        if function in self.order:
            return
        for instruction in function.instructions:
            for operand in instruction.operands:
                called = self.functions.get(operand.name) if isinstance(operand, Symbol) else None
                if called is not None and called.defined:
                    self._visit(called, (*callers, function.name))
        self.order.append(function)

    def _place_shared(self) -> None:
        inner = [v for function in self.order for v in function.variables]
        found = [v for v in (*self.program.module.variables, *inner) if v.space == "shared"]
        end = 0
        for variable in found:
            if variable.size:
                end = -(-end // variable.align) * variable.align
                self.layout.shared[variable.name] = end
                end += variable.size
        self.code.shared = end
        for variable in found:
            if not variable.size:
                align = max(variable.align, 16)
                self.code.shared = -(-end // align) * align
                self.layout.shared[variable.name] = self.code.shared

    def _place_parameters(self, kernel: Function) -> None:
        end = 0
        for variable in kernel.parameters:
            end = -(-end // variable.align) * variable.align
            self.layout.parameters[variable.name] = end
            self.code.parameters.append((variable, end))
            end += variable.size
        self.code.parameter_bytes = end

    def _place_frame(self, function: Function) -> None:
        inside = [v for v in function.variables if v.space in ("local", "param")]
        formal = [] if function.entry else [*function.parameters, *function.results]
        for variable in (*inside, *formal):
            align = max(variable.align, 1)
            self.code.frame = -(-self.code.frame // align) * align
            self.layout.frame[function.name, variable.name] = self.code.frame
            self.code.frame += variable.size

    def _decode(self, function: Function) -> None:
        first = len(self.code.registers)
        numbers = {name: first + index for index, name in enumerate(function.registers)}
        self.code.registers += function.registers.values()
        self.code.own_registers.append((len(self.code.steps), range(first, len(self.code.registers))))
        decoder = Decoder(function, self.code, self.layout, numbers)
        self.code.steps += [self.program.decode(instruction, decoder) for instruction in function.instructions]
        # Whoever runs off the end of a function returns from it.
        line = function.instructions[-1].line if function.instructions else 0
        closing = Instruction(("ret",), (), None, False, line, "}", None)
        self.code.steps.append(self.program.decode(closing, decoder))


BATCH = 4096
"""The approximate number of threads that run at a time; every batch has whole clusters."""


RESIDENT = 4
"""The part of the clusters that starts at once, one of so many, where those that run may take over the others."""


def _print(text: str) -> None:
    sys.stdout.write(text)


@dataclass(frozen=True)
class Launch:
    """A kernel to run, with its grid and its memory.

    Attributes:
        program, kernel: the code; the kernel's name may be None if the program has one.
        grid: extents in CTAs.
        threads: of a CTA, a number or extents; None takes them from `.reqntid`.
        shared: bytes of dynamic shared memory.
        cluster: extents in CTAs; the grid is a multiple of them.
        checks: watch for races.
        uninitialized: `report` reads of shared memory that nothing has stored, or let them give a `nan`.
        output: takes the text that kernels print.
    """

    program: Program
    kernel: str | None = None
    grid: Extents = (1, 1, 1)
    threads: int | Extents | None = None
    shared: int = 0
    cluster: Extents = (1, 1, 1)
    checks: bool = True
    uninitialized: Uninitialized = "report"
    output: Callable[[str], None] = _print

    def run(self, memory: DeviceMemory, arguments: Sequence[Any]) -> None:
        """Run every CTA.

        Args:
            memory: where pointers among the arguments point.
            arguments: one number or bytes per parameter.

        Raises:
            SimulationError: the kernel did something wrong.
        """
        code = self.program.kernel(self.kernel)
        parameters = pack_parameters(code.parameters, arguments, code.name)
        symbols = self.program.place_variables(memory)
        watcher, time, total = None, 1, prod(self.grid)
        if self.checks:
            watcher = GlobalShadow(memory.used, code.global_unit, total)
        pending = deque(self._clusters())
        members = prod(self.cluster)
        with memory.launch(), Progress(f"simulating {self.kernel}", total) as progress:
            for ctas in self._batches(code, pending):
                machine = Machine(
                    code,
                    memory,
                    symbols=symbols,
                    parameters=parameters,
                    grid=self.grid,
                    block=self._block(code.threads),
                    cluster=self.cluster,
                    ctas=ctas,
                    pending=pending,
                    shared=code.shared + self.shared,
                    checks=self.checks,
                    uninitialized=self.uninitialized,
                    watcher=watcher,
                    time=time,
                    output=self.output,
                )
                machine.run()
                time = machine.clocks.time
                progress.at(total - len(pending) * members)

    def _block(self, required: tuple[int, ...] | None) -> Extents:
        block = required if self.threads is None else self.threads
        if block is None:
            raise SimulationError("launch", "the kernel does not say how many threads it wants")
        extents = (block,) if isinstance(block, int) else tuple(block)
        x, y, z = (*extents, 1, 1, 1)[:3]
        if required is not None and (x, y, z) != (*required, 1, 1, 1)[:3]:
            raise SimulationError("launch", f"the kernel wants {required} threads, not {(x, y, z)}")
        return x, y, z

    def _batches(self, code: KernelCode, pending: deque[list[Extents]]) -> Iterator[list[Extents]]:
        """The CTAs to run at a time, taken out of the pending clusters; others may be taken out meanwhile."""
        if any(n % c for n, c in zip(self.grid, self.cluster, strict=True)):
            raise SimulationError("launch", f"the grid {self.grid} is no multiple of the cluster {self.cluster}")
        block = self._block(code.threads)
        threads = prod(block) * len(pending[0]) if pending else 1
        step = max(1, BATCH // threads)
        if code.takes_over:
            step = min(step, -(-len(pending) // RESIDENT))
        while pending:
            yield [cta for _ in range(min(step, len(pending))) for cta in pending.popleft()]

    def _clusters(self) -> Iterator[list[Extents]]:
        """The CTAs of every cluster, x fastest in both."""
        counts = [range(0, n, c) for n, c in zip(self.grid, self.cluster, strict=True)]
        inner = [range(c) for c in self.cluster]
        for z, y, x in product(*reversed(counts)):
            yield [(x + i, y + j, z + k) for k, j, i in product(*reversed(inner))]


def pack_parameters(variables: Sequence[tuple[Variable, int]], arguments: Sequence[Any], kernel: str) -> Array:
    """The bytes of the parameter space.

    Raises:
        SimulationError: there are too many or too few, or bytes have the wrong length.
    """
    if len(variables) != len(arguments):
        raise SimulationError("launch", f"{kernel} takes {len(variables)} arguments, not {len(arguments)}")
    end = max((offset + variable.size for variable, offset in variables), default=0)
    space = bytearray(-(-end // 16) * 16 + 16)
    for (variable, offset), argument in zip(variables, arguments, strict=True):
        content = _argument_bytes(argument, variable.size)
        if len(content) != variable.size:
            raise SimulationError("launch", f"{variable.name} has {variable.size} bytes, not {len(content)}")
        space[offset : offset + variable.size] = content
    return np.frombuffer(bytes(space), np.uint8)


def _argument_bytes(argument: Any, size: int) -> bytes:
    if isinstance(argument, bytes | bytearray):
        return bytes(argument)
    if isinstance(argument, np.generic):
        return argument.tobytes()
    if isinstance(argument, float):
        return np.array(argument, f"f{size}").tobytes()
    return (int(argument) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
