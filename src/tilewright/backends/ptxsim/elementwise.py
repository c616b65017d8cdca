"""Decoding that elementwise instructions share: reading all operands, one NumPy expression, writing the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decode, Decoder, Read
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction

InstructionSemantics: TypeAlias = Callable[..., Array]


def elementwise(
    instruction: Instruction, code: Decoder, semantics: InstructionSemantics, *, source: str, result: str
) -> Run:
    """Runs `semantics` on all operands, which are read as type `source`."""
    return applied(instruction, code, semantics, code.sources(instruction, source), result)


def applied(
    instruction: Instruction, code: Decoder, semantics: InstructionSemantics, reads: list[Read], result: str
) -> Run:
    """Runs `semantics` on what `reads` give, and writes values of type `result`."""
    write = code.target(instruction.destination, result)
    if len(reads) == 2:
        first, second = reads

        def run_two(machine: Machine, active: Mask) -> None:
            write(machine, active, semantics(first(machine), second(machine)))

        return run_two

    def run(machine: Machine, active: Mask) -> None:
        write(machine, active, semantics(*[read(machine) for read in reads]))

    return run


def simple(semantics: InstructionSemantics) -> Decode:
    """An instruction whose operands and result have the type it names."""

    def decode(instruction: Instruction, code: Decoder) -> Run:
        return elementwise(instruction, code, semantics, source=instruction.type, result=instruction.type)

    return decode
