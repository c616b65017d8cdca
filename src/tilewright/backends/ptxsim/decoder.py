"""The interface by which instruction families access operands.

A family is a table from the leading parts of an opcode to a function that decodes one instruction, once per program,
into a closure that runs it. The longest matching entry wins: `cp.async.bulk` before `cp.async`.

    def decode_not(instruction: Instruction, code: Decoder) -> Run:
        (source,) = instruction.sources
        read = code.source(source, instruction.type)
        write = code.target(instruction.destination, instruction.type)

        def run(machine: Machine, active: Mask) -> None:
            write(machine, active, ~read(machine))

        return run

    HANDLERS: Handlers = {"not": decode_not}

To add a family: write such a file, and name its table in `families.py`. `read(machine)` gives one value per lane,
inactive lanes included, or an array of one element where all lanes have the same. State that belongs to a machine
(barriers, copies in flight) is a class with a `Machine` as its only argument: `machine.family(Barriers)`.
A closure returns None to go on; a branch returns `[(step, mask), …]`.
`simple(meaning)` decodes an instruction that is one NumPy expression.
`machine.fail(kind, text, lane)` reports an error of the kernel with all that is known about its location.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim.code import KernelCode, Run, Uses
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import WARP, Extents, Machine
from tilewright.backends.ptxsim.value_types import TYPES, UNSIGNED, Array, Mask, Type
from tilewright.support.cached_property import cached_property
from tilewright.support.ptx_syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)

AXES = "xyz"
NAME = re.compile(r"[%$\w]+")
_ONE = np.uint64(1)


def thread_index(machine: Machine, axis: int) -> Array:
    number = machine.everyone % machine.padded
    x, y, _ = machine.block
    return (number % x, number // x % y, number // (x * y))[axis]


def _cta(which: Callable[[Array, int], Array], axis: int, machine: Machine) -> Array:
    """The number that `which` makes of the coordinate of the CTA, and of the extent of its cluster."""
    return which(machine.ctas[machine.cta, axis], machine.cluster[axis])


def extent(extents: Callable[[Machine], Extents], axis: int, machine: Machine) -> Array:
    return np.full(machine.lanes, extents(machine)[axis])


def clusters(machine: Machine) -> Extents:
    x, y, z = (-(-n // c) for n, c in zip(machine.grid, machine.cluster, strict=True))
    return x, y, z


def lane_index(machine: Machine) -> Array:
    return machine.everyone % machine.padded % WARP


def steps_done(machine: Machine) -> Array:
    """The value of clocks, which count the instructions that the machine has executed."""
    return np.full(machine.lanes, machine.executed)


def lane_mask(which: Callable[[Array], Array], machine: Machine) -> Array:
    return which(lane_index(machine).astype(np.uint64))


SPECIAL: dict[str, Callable[[Machine], Array]] = {
    "%laneid": lane_index,
    "%warpid": lambda machine: machine.everyone % machine.padded // WARP,
    "%nwarpid": lambda machine: np.full(machine.lanes, machine.warps_per_cta),
    "%smid": lambda machine: machine.cta,
    "%nsmid": lambda machine: np.full(machine.lanes, len(machine.ctas)),
    "%gridid": lambda machine: np.zeros(machine.lanes, np.int64),
    "%cluster_ctarank": lambda machine: machine.cta % machine.cluster_size,
    "%cluster_nctarank": lambda machine: np.full(machine.lanes, machine.cluster_size),
    "%is_explicit_cluster": lambda machine: np.full(machine.lanes, machine.cluster_size > 1),
    "%clock": steps_done,
    "%clock_hi": lambda machine: np.zeros(machine.lanes, np.int64),
    "%clock64": steps_done,
    "%globaltimer": steps_done,
    "%globaltimer_lo": steps_done,
    "%globaltimer_hi": lambda machine: np.zeros(machine.lanes, np.int64),
    "%lanemask_eq": partial(lane_mask, lambda n: _ONE << n),
    "%lanemask_lt": partial(lane_mask, lambda n: (_ONE << n) - _ONE),
    "%lanemask_le": partial(lane_mask, lambda n: (_ONE << n + _ONE) - _ONE),
    "%lanemask_gt": partial(lane_mask, lambda n: np.uint64(0xFFFFFFFF) & ~((_ONE << n + _ONE) - _ONE)),
    "%lanemask_ge": partial(lane_mask, lambda n: np.uint64(0xFFFFFFFF) & ~((_ONE << n) - _ONE)),
    "%dynamic_smem_size": lambda machine: np.full(machine.lanes, machine.shared.size - machine.code.shared),
    "%total_smem_size": lambda machine: np.full(machine.lanes, machine.shared.size),
    "WARP_SZ": lambda machine: np.full(machine.lanes, WARP),
}
for _axis, _letter in enumerate(AXES):
    SPECIAL |= {
        f"%tid.{_letter}": partial(thread_index, axis=_axis),
        f"%ctaid.{_letter}": partial(_cta, lambda cta, _: cta, _axis),
        f"%clusterid.{_letter}": partial(_cta, lambda cta, size: cta // size, _axis),
        f"%cluster_ctaid.{_letter}": partial(_cta, lambda cta, size: cta % size, _axis),
        f"%ntid.{_letter}": partial(extent, lambda machine: machine.block, _axis),
        f"%nctaid.{_letter}": partial(extent, lambda machine: machine.grid, _axis),
        f"%nclusterid.{_letter}": partial(extent, clusters, _axis),
        f"%cluster_nctaid.{_letter}": partial(extent, lambda machine: machine.cluster, _axis),
    }


Read: TypeAlias = Callable[[Machine], Array]
Write: TypeAlias = Callable[[Machine, Mask, Array], None]
Decode: TypeAlias = "Callable[[Instruction, Decoder], Run]"
Handlers: TypeAlias = dict[str, Decode]


@dataclass
class VariableLayout:
    """The places of variables, by name.

    Attributes:
        shared: offsets in a CTA's shared memory.
        frame: offsets in a thread's frame, by function and variable: local variables, and parameters of calls.
        parameters: offsets in the kernel's parameter space.
        functions: all of the module.
    """

    shared: dict[str, int] = field(default_factory=dict)
    frame: dict[tuple[str, str], int] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)


class Decoder:
    """Decodes the instructions of one function.

    Attributes:
        function: the one that is decoded.
        kernel: what is being built; `kernel.entries` and labels know all steps.
        layout: the places of variables.
        labels: the step that a label of this function stands for.
        uses: what the instruction that is decoded now reads and writes.
    """

    def __init__(self, function: Function, kernel: KernelCode, layout: VariableLayout, numbers: dict[str, int]) -> None:
        self.function, self.kernel, self.layout = function, kernel, layout
        self._numbers = numbers
        self.uses = Uses()
        start = kernel.entries[function.name]
        self.labels = {name: start + index for name, index in function.labels.items()}

    def register(self, name: str) -> int:
        """The index of a register of this function."""
        return self._numbers[name]

    def source(self, operand: Operand, type_name: str) -> Read:
        """Reads an operand as values of a type: NumPy's dtype where there is one, else bits."""
        kind = TYPES[type_name]
        if isinstance(operand, Register):
            return self._read_register(operand, kind)
        if isinstance(operand, Immediate):
            value = constant(operand, kind)
            return lambda machine: value
        if isinstance(operand, Not):
            inner = self.source(operand.operand, type_name)
            return lambda machine: ~inner(machine)
        if isinstance(operand, Special):
            return self._read_special(operand, kind)
        if isinstance(operand, Symbol):
            return self._read_symbol(operand, kind)
        raise SimulationError("syntax", f"`{operand}` is no source")

    def sources(self, instruction: Instruction, type_name: str, start: int = 1) -> list[Read]:
        """Readers of the operands from `start` on, all of one type."""
        return [self.source(operand, type_name) for operand in instruction.operands[start:]]

    def _read_register(self, operand: Register, kind: Type) -> Read:
        index, bits, dtype = self.register(operand.name), self.function.registers[operand.name], kind.dtype
        stored = UNSIGNED[bits]
        self.uses.reads.add(index)
        if stored == dtype:
            return lambda machine: machine.registers[index]
        if bits == kind.bits:
            return lambda machine: machine.registers[index].view(dtype)
        # A register wider than the type is cut off; a narrower one does not come out of a compiler.
        narrow = UNSIGNED[kind.bits]
        return lambda machine: machine.registers[index].astype(narrow).view(dtype)

    def _read_special(self, operand: Special, kind: Type) -> Read:
        make = SPECIAL.get(operand.name)
        if make is None:
            raise SimulationError("unsupported", f"the simulator does not know the special register {operand.name}")
        dtype = UNSIGNED[kind.bits]
        return lambda machine: make(machine).astype(dtype).view(kind.dtype)

    def _read_symbol(self, operand: Symbol, kind: Type) -> Read:
        name, offset, dtype = operand.name, operand.offset, kind.dtype
        place = self.place(name)
        if place is not None:
            value = np.array([place + offset], dtype)
            if name in self.layout.shared:
                return lambda machine: value + machine.windows.astype(dtype) if machine.cluster_size > 1 else value
            return lambda machine: value
        return lambda machine: np.array([machine.symbols[name] + offset], dtype)

    def place(self, name: str) -> int | None:
        """The address of a variable in its space, or the first step of a function; None for global variables."""
        if (self.function.name, name) in self.layout.frame:
            return self.layout.frame[self.function.name, name]
        for known in (self.layout.shared, self.layout.parameters, self.kernel.entries):
            if name in known:
                return known[name]
        return None

    def target(self, operand: Operand, type_name: str) -> Write:
        """Writes values of a type to a register: widened by sign or zero where the register is wider."""
        if isinstance(operand, Sink):
            return lambda machine, active, values: None
        if not isinstance(operand, Register):
            raise SimulationError("syntax", f"`{operand}` is no register to write")
        index = self.register(operand.name)
        self.uses.writes.add(index)
        fit = _fitting(TYPES[type_name], self.function.registers[operand.name])

        def write(machine: Machine, active: Mask, values: Array) -> None:
            registers = machine.registers
            values = fit(values)
            if active is not None:
                registers[index] = np.where(active, values, registers[index])
            elif len(values) == machine.lanes:
                registers[index] = values
            else:
                registers[index] = np.repeat(values, machine.lanes)

        return write

    def targets(self, operand: Operand, type_name: str) -> list[Write]:
        """Writers of the items of `{a, b, …}`, or of a single register."""
        return [self.target(item, type_name) for item in items_of(operand)]

    def is_read(self, operand: Operand) -> bool:
        """Whether another instruction of the function names the register that `operand` is."""
        return isinstance(operand, Register) and self._mentions[str(operand)] > 1

    @cached_property
    def _mentions(self) -> Counter[str]:
        """How many times the function names each register."""
        texts = (instruction.text for instruction in self.function.instructions)
        return Counter(name for text in texts for name in NAME.findall(text))

    def pair(self, operand: Operand, type_name: str, companion: str) -> tuple[Write, Write]:
        """Writers of `a|b`; the second does nothing where there is no companion."""
        if isinstance(operand, Pair):
            return self.target(operand.first, type_name), self.target(operand.second, companion)
        return self.target(operand, type_name), self.target(Sink(), companion)

    def address(self, operand: Operand) -> Read:
        """The addresses that `[base+offset]` stands for, as int64; in the space of the instruction."""
        if not isinstance(operand, Address):
            operand = Address(operand)
        base, offset = operand.base, operand.offset
        bits = 64
        if isinstance(base, Register):
            bits = self.function.registers[base.name]
            self.uses.addresses.add(self.register(base.name))
        read = self.source(base, f"u{bits}")
        if bits == 64 and not offset:
            return lambda machine: read(machine).view(np.int64)
        if bits == 64:
            return lambda machine: read(machine).view(np.int64) + offset
        return lambda machine: (read(machine).astype(np.int64) + offset) & 0xFFFFFFFF

    def label(self, operand: Operand) -> int:
        """The step that a branch target stands for."""
        if isinstance(operand, Symbol) and operand.name in self.labels:
            target = self.labels[operand.name]
            self.uses.jumps.append(target)
            return target
        raise SimulationError("syntax", f"`{operand}` is no label")


def items_of(operand: Operand) -> Sequence[Operand]:
    """The items of `{a, b, …}`, or the operand alone."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def constant(number: Immediate, kind: Type) -> Array:
    """A number of the text as an array of one element of the type."""
    if number.float_bits is not None:
        bits, size = number.float_bits
        return _reinterpreted(np.array([bits], UNSIGNED[size]).view(f"f{size // 8}"), kind)
    if number.whole is None:
        return _reinterpreted(np.array([float(number.text)]), kind)
    if kind.kind == "p":
        return np.array([number.whole != 0])
    return np.array([number.whole & ((1 << kind.bits) - 1)], UNSIGNED[kind.bits]).view(kind.dtype)


def _reinterpreted(number: Array, kind: Type) -> Array:
    """A float constant: converted for another float type, else its bits."""
    if kind.kind == "f":
        return number.astype(kind.dtype)
    bits = number.view(f"u{number.dtype.itemsize}")
    return bits.astype(kind.dtype)


def _fitting(kind: Type, bits: int) -> Callable[[Array], Array]:
    """Turns values of a type into what a register of so many bits stores."""
    stored = UNSIGNED[bits]
    if kind.kind == "p" or kind.bits == bits:
        return lambda values: values.view(stored)
    if kind.kind == "s":
        wide = np.dtype(f"i{bits // 8}")
        return lambda values: values.astype(wide).view(stored)
    return lambda values: values.view(UNSIGNED[kind.bits]).astype(stored)


InstructionSemantics: TypeAlias = Callable[..., Array]


def elementwise(
    instruction: Instruction, code: Decoder, semantics: InstructionSemantics, *, source: str, result: str
) -> Run:
    """Runs `semantics` on all operands, which are read as type `source`.

    Args:
        code: the decoder of its function.
        semantics: computes the result of arrays, lane by lane.
        source, result: names of PTX's types.
    """
    return applied(instruction, code, semantics, code.sources(instruction, source), result)


def applied(
    instruction: Instruction, code: Decoder, semantics: InstructionSemantics, reads: list[Read], result: str
) -> Run:
    """Runs `semantics` on what `reads` give, and writes values of type `result`.

    Args:
        code: the decoder of its function.
        semantics: computes the result of arrays, lane by lane.
        reads: read the operands.
        result: the name of PTX's type.
    """
    write = code.target(instruction.destination, result)
    if len(reads) == 2:
        first, second = reads

        def run_two(machine: Machine, active: Mask) -> None:
            write(machine, active, semantics(first(machine), second(machine)))

        return run_two

    def run(machine: Machine, active: Mask) -> None:
        write(machine, active, semantics(*[read(machine) for read in reads]))

    return run


def command(run: Run) -> Decode:
    """An instruction that takes nothing from its text."""
    return lambda instruction, code: run


def simple(semantics: InstructionSemantics) -> Decode:
    """An instruction whose operands and result have the type it names."""

    def decode(instruction: Instruction, code: Decoder) -> Run:
        return elementwise(instruction, code, semantics, source=instruction.type, result=instruction.type)

    return decode
