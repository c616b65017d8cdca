"""Decoded kernels: made by `Program` from the text, and executed by the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tilewright.backends.ptxsim.value_types import Mask
from tilewright.support.ptx_syntax import Instruction, Variable

Moves: TypeAlias = list[tuple[int, Mask]]
"""The next steps of lanes: (index of a step, mask). Lanes that are named nowhere have ended, or were parked."""
Run: TypeAlias = Callable[[Any, Mask], Moves | None]
"""Execute one instruction: (machine, lanes that do it) → None to go on with the next one, else where the lanes go."""


@dataclass
class Uses:
    """The registers of an instruction, by their indices.

    Attributes:
        reads, writes: all of them.
        addresses: those of `reads` that are part of an address.
        operands: of the second operand on, the register, or -1 for what is none.
        jumps: the steps that it may send lanes to.
    """

    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    addresses: set[int] = field(default_factory=set)
    operands: tuple[int, ...] = ()
    jumps: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Step:
    """One decoded instruction.

    Attributes:
        run: does it.
        guard: the index of the predicate register, or -1.
        negated: run where the predicate is false.
        uses: the registers.
        touches: all of them, the guard as well.
    """

    run: Run
    guard: int
    negated: bool
    instruction: Instruction
    uses: Uses
    touches: frozenset[int]


@dataclass
class KernelCode:
    """One kernel with the functions it calls, callees first: lanes in a callee run before those that wait behind it.

    Attributes:
        steps: of all functions.
        entry: the index of the kernel's first step.
        entries: the index of the first step, per function.
        registers: bits per register; an instruction's registers are indices here.
        parameters: of the kernel, with offsets in the parameter space.
        frame: bytes of local memory and call parameters per thread.
        shared: bytes of static shared memory.
        shared_unit: bytes of the narrowest access to shared memory, at most eight.
        global_unit: the same for global memory.
        own_registers: per function, its first step and its registers.
        suspects: registers that may be read before they are written.
        accumulators, fragments: registers of products of warp groups, sums and first operands.
        threads: the extents that `.reqntid` asks for, or None.
        registers_at_entry: how many `.maxnreg` gives each thread, or 0.
        takes_over: whether CTAs may take over the work of those that have not started.
    """

    name: str
    entry: int = 0
    steps: list[Step] = field(default_factory=list)
    entries: dict[str, int] = field(default_factory=dict)
    registers: list[int] = field(default_factory=list)
    parameters: list[tuple[Variable, int]] = field(default_factory=list)
    parameter_bytes: int = 0
    frame: int = 0
    shared: int = 0
    shared_unit: int = 8
    global_unit: int = 8
    own_registers: list[tuple[int, range]] = field(default_factory=list)
    suspects: frozenset[int] = frozenset()
    accumulators: set[int] = field(default_factory=set)
    fragments: set[int] = field(default_factory=set)
    threads: tuple[int, ...] | None = None
    registers_at_entry: int = 0
    takes_over: bool = False
