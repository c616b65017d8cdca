"""Uninitialised registers: which may be read without a value, and where such a value spreads.

    @%p1 ld.global.b32 %r1, [%rd1];      // lanes without %p1 have no %r1
    add.s32 %r2, %r1, 1;                 // nor %r2
    selp.b32 %r3, %r2, 0, %p1;           // but all have %r3

Compilers leave registers unset where their values do not matter, so computing with one is fine. It is an error to use
it as an address, to branch or predicate on it, or to store it to global memory.

Before a program runs, a walk over all its paths finds the registers that may be read unset. Most programs have none,
and then nothing is tracked. Values that pass through memory or another lane count as set, and so do the results of
`prmt`, and those that `mov` or `cvt` combine from several registers, unless all sources of `cvt` are unset: compilers
combine parts of which some are unset, and later extract only the others.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tilewright.backends.ptxsim.code import KernelCode, Step
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Vector

FLOWS = frozenset(
    (
        *("abs", "add", "addc", "div", "dp2a", "dp4a", "fma", "mad", "madc", "max", "min", "mul", "neg", "rem", "sad"),
        *("sub", "subc", "copysign", "cos", "ex2", "lg2", "rcp", "rsqrt", "sin", "sqrt", "tanh"),
        *("and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "lop3", "not", "or", "popc", "shf", "shl"),
        *("shr", "szext", "xor", "cvt", "cvta", "mov", "selp", "set", "setp", "slct", "testp"),
    )
)
"""Opcodes whose results are unset where an operand is."""
STORES = ("st", "red", "atom")
ENDS = ("ret", "exit", "trap", "brkpt")


def suspects(code: KernelCode) -> frozenset[int]:
    """The registers that some path reads before it has written them."""
    steps = code.steps
    writes = [_bits(step.uses.writes) for step in steps]
    reads = [_bits(step.uses.reads) | (1 << step.guard if step.guard >= 0 else 0) for step in steps]
    unset: list[int | None] = [None] * len(steps)
    for first, own in code.own_registers:
        unset[first] = _bits(own)
    following = [_successors(step, at, len(steps)) for at, step in enumerate(steps)]
    changes = True
    while changes:  # two or three times: programs mostly run downwards
        changes = False
        for at, step in enumerate(steps):
            before = unset[at]
            if before is None:
                continue
            after = before if step.guard >= 0 else before & ~writes[at]
            for target in following[at]:
                known = unset[target]
                merged = after if known is None else known | after
                if merged != known:
                    unset[target] = merged
                    changes |= target <= at
    found = 0
    for before, read in zip(unset, reads, strict=True):
        found |= (before or 0) & read
    return frozenset(index for index in range(len(code.registers)) if found >> index & 1)


def _flows(step: Step) -> bool:
    """Whether the result is unset where an operand is."""
    instruction = step.instruction
    packs = instruction.opcode == "mov" and any(isinstance(operand, Vector) for operand in instruction.sources)
    return instruction.opcode in FLOWS and not packs


def _bits(registers: Iterable[int]) -> int:
    found = 0
    for register in registers:
        found |= 1 << register
    return found


def _successors(step: Step, at: int, count: int) -> list[int]:
    opcode, guarded = step.instruction.opcode, step.guard >= 0
    following = list(step.uses.jumps)
    if guarded or opcode not in (*ENDS, "bra", "brx"):
        following.append(at + 1)
    return [target for target in following if target < count]


class UninitializedRegisters:
    """The registers of a machine that nothing has set.

    Attributes:
        unset: masks of lanes by register; those that are not there are set everywhere.
    """

    def __init__(self, code: KernelCode, lanes: int) -> None:
        self.unset: dict[int, Array] = {register: np.ones(lanes, bool) for register in code.suspects}

    def mistake(self, step: Step, here: Mask, doing: Mask) -> tuple[str, int] | None:
        """The mistake in executing a step: the text, and the first lane; `here`: lanes that look at the guard."""
        if step.guard >= 0 and (lane := self._first(step.guard, here)) is not None:
            return "whether this is executed depends on a register that nothing has set", lane
        for register in step.uses.addresses:
            if (lane := self._first(register, doing)) is not None:
                return "the address comes from a register that nothing has set", lane
        opcode, parts = step.instruction.opcode, step.instruction.parts
        if opcode in STORES and ("global" in parts or opcode != "st"):
            for register in step.uses.reads:
                if (lane := self._first(register, doing)) is not None:
                    return "the stored value comes from a register that nothing has set", lane
        return None

    def _first(self, register: int, lanes: Mask) -> int | None:
        unset = self.unset.get(register)
        if unset is None:
            return None
        wrong = unset if lanes is None else unset & lanes
        return int(wrong.argmax()) if wrong.any() else None

    def follow(self, step: Step, doing: Mask, registers: list[Array]) -> None:
        """Note what the step makes set and unset; to be called before it runs."""
        results = self._results(step, registers) if _flows(step) else None
        for register in step.uses.writes:
            before = self.unset.get(register)
            after = results
            if doing is not None:
                kept = before & ~doing if before is not None else None
                made = results & doing if results is not None else None
                after = kept if made is None else made if kept is None else kept | made
            if after is not None and after.any():
                self.unset[register] = after
            elif before is not None:
                del self.unset[register]

    def _results(self, step: Step, registers: list[Array]) -> Array | None:
        """The lanes where an instruction's result is unset; None: nowhere."""
        opcode, operands = step.instruction.opcode, step.uses.operands
        unset = [self.unset.get(register) for register in operands]
        if all(mask is None for mask in unset):
            others = [self.unset[register] for register in step.uses.reads if register in self.unset]
            return np.logical_or.reduce(others) if others else None
        masks = [np.zeros(1, bool) if mask is None else mask for mask in unset]
        if opcode == "cvt":
            return np.asarray(np.logical_and.reduce(np.broadcast_arrays(*masks)))
        if opcode == "selp" and (choice := operands[-1]) >= 0:
            return np.asarray(masks[2] | np.where(registers[choice], masks[0], masks[1]))
        if opcode in ("and", "or") and step.instruction.type == "pred":
            decided = [self._decides(opcode, register, registers) for register in operands]
            return np.asarray((masks[0] | masks[1]) & ~decided[0] & ~decided[1])
        return np.asarray(np.logical_or.reduce(np.broadcast_arrays(*masks)))

    def _decides(self, opcode: str, register: int, registers: list[Array]) -> Array:
        """The lanes where a set operand alone gives the result."""
        if register < 0:
            return np.zeros(1, bool)
        value = registers[register] if opcode == "or" else ~registers[register]
        unset = self.unset.get(register)
        return value if unset is None else value & ~unset
