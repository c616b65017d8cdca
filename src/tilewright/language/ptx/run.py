"""A text of inline assembly, computed: one instruction after the other, each for all elements.

run(parse_inline("shl.b32 $0, $1, 3;", …), registers)      $0 holds what $1 holds, shifted

ld and st access memory at the addresses in a register:

@p ld.global.v2.b32 {$0, $1}, [$2+8];      st.global.b8 [$3], $0;
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilewright.language.extra.bits import plus
from tilewright.language.memory import load, store
from tilewright.language.operations import cast
from tilewright.language.ptx.conversions import conversion
from tilewright.language.ptx.floats import FLOATS, HALVES, SMALLEST, flushed, from_zero_to_one, without_negatives
from tilewright.language.ptx.integers import INTEGERS
from tilewright.language.ptx.registers import (
    TYPES,
    UNSIGNED,
    RegisterFile,
    Semantics,
    joined,
    parts,
    read_as,
    refused,
    width_of,
)
from tilewright.semantics.types import bfloat16, dtype, float16, float32, int1, int16, pointer_type, uint16, uint64
from tilewright.support.ptx_syntax import Address, Function, Instruction, Operand, Register, Vector, number_of

HALF_OF = {"f16x2": float16, "bf16x2": bfloat16, "u16x2": uint16, "s16x2": int16, "f32x2": float32}
"""The type of each half of a register."""
OF_FLOATS = ("ftz", "sat", "relu")
"""Parts of a name that change the operands or the result of any instruction on floats."""


def run(body: Function, registers: RegisterFile) -> None:
    """Go through the instructions of a text.

    Raises:
        SemanticError: an instruction has no exact meaning here, or a register none of the width that is needed.
    """
    if body.variables:
        raise refused(f"`{body.variables[0].name}` is a variable in the memory of GPUs")
    for instruction in body.instructions:
        _execute(instruction, registers)


def _execute(instruction: Instruction, registers: RegisterFile) -> None:
    if instruction.opcode in ("ld", "st"):
        access(instruction, registers)
    elif instruction.opcode == "mov" and any(isinstance(operand, Vector) for operand in instruction.operands):
        _rearranged(instruction, registers)
    else:
        try:
            _computed(instruction, registers)
        except (TypeError, ValueError) as error:  # of Python: `SemanticError` is none of these
            raise refused(f"`{instruction.name}` does not take these operands") from error


def _computed(instruction: Instruction, registers: RegisterFile) -> None:
    """An instruction that reads registers and writes one."""
    semantics, type, changes = _semantics_of(instruction)
    target, *operands = instruction.operands
    constants = [number_of(operands.pop())] if semantics.constant and operands else []
    kinds = semantics.kinds(TYPES.get(type, TYPES["b32"]), len(operands))
    values = [registers.read(*pair, chops=semantics.extends) for pair in zip(operands, kinds, strict=True)]
    if type in HALF_OF:
        result = _of_halves(semantics, values, type, changes)
    else:
        result = _changed(semantics, [*values, *constants], type, changes)
    registers.write(target, result, registers.guard(instruction), extends=semantics.extends)


def _semantics_of(instruction: Instruction) -> tuple[Semantics, str, list[str]]:
    """The semantics of an instruction, its type, and those of `OF_FLOATS` that its name has."""
    opcode, *modifiers = instruction.parts
    type = modifiers[-1] if modifiers else ""
    if opcode == "cvt" and len(modifiers) > 1:
        found = conversion(modifiers)
        if found is not None:
            return found, type, []
    else:
        exact = ".".join(instruction.parts[:-1])
        plain = ".".join(part for part in instruction.parts[:-1] if part not in OF_FLOATS)
        for table, stem in ((INTEGERS, exact), (FLOATS, plain), (HALVES, plain)):
            entry = table.get(stem)
            if entry is not None and type in entry.types:
                changes = [part for part in modifiers if part in OF_FLOATS] if table is not INTEGERS else []
                if "ftz" not in changes or type in SMALLEST:
                    return entry, type, changes
    raise refused(f"`{instruction.name}` is an instruction of GPUs")


def _changed(semantics: Semantics, values: Sequence[Any], type: str, changes: Sequence[str]) -> Any:
    """The result with what `changes` say of operands and result."""
    if "ftz" in changes:
        values = [flushed(value, type) if value.type.scalar.is_floating() else value for value in values]
    result = semantics.compute(*values)
    if result.type.scalar == int1:
        return result
    result = flushed(result, type) if "ftz" in changes else result
    result = from_zero_to_one(result) if "sat" in changes else result
    return without_negatives(result) if "relu" in changes else result


def _of_halves(semantics: Semantics, values: Sequence[Any], type: str, changes: Sequence[str]) -> Any:
    """The same for both halves of registers."""
    kind = HALF_OF[type]
    lower, upper = zip(*([read_as(half, kind) for half in parts(value, 2)] for value in values), strict=True)
    return joined([_changed(semantics, half, type, changes) for half in (lower, upper)], 2 * width_of(kind))


def _rearranged(instruction: Instruction, registers: RegisterFile) -> None:
    """mov between a register and several that together are as wide."""
    target, source = instruction.operands
    kind = TYPES.get(instruction.name.removeprefix("mov."))
    if kind is None:
        raise refused(f"`{instruction.name}` is an instruction of GPUs")
    guard = registers.guard(instruction)
    if isinstance(source, Vector):
        pieces = _pieces(source)
        part = UNSIGNED[width_of(kind) // len(pieces)]
        registers.write(target, joined([registers.read(piece, part) for piece in pieces], width_of(kind)), guard)
        return
    pieces = _pieces(target)
    for piece, value in zip(pieces, parts(registers.read(source, kind), len(pieces)), strict=True):
        registers.write(piece, value, guard)


def _pieces(vector: Operand) -> Sequence[Operand]:
    items = vector.items if isinstance(vector, Vector) else (vector,)
    if len(items) not in (2, 4):
        raise refused(f"`{vector}` has {len(items)} registers, not 2 or 4")
    return items


IGNORED = re.compile(r"(weak|global|volatile|nc|ca|cg|cs|cv|lu|wb|wt|L[12]::\w+)\Z")
"""Spaces that are all of memory here, and hints to caches."""
VECTORS = {"v2": 2, "v4": 4}


def access(instruction: Instruction, registers: RegisterFile) -> None:
    """Run one ld or st."""
    opcode, *modifiers, type = instruction.parts
    rest = [name for name in modifiers if not IGNORED.match(name)]
    count = VECTORS.get(rest[0], 0) if rest else 1
    kind = TYPES.get(type)
    if kind is None or not count or len(rest) > 1 or len(instruction.operands) != 2:
        raise refused(f"`{instruction.name}` is an instruction of GPUs")
    address, held = instruction.operands if opcode == "st" else reversed(instruction.operands)
    items = held.items if isinstance(held, Vector) else (held,)
    if len(items) != count:
        raise refused(f"`{instruction.name}` takes {count} registers, not {len(items)}")
    pointers = [_pointers(address, place, kind, registers) for place in range(count)]
    guard = registers.guard(instruction)
    if opcode == "st":
        for pointer, item in zip(pointers, items, strict=True):
            store(pointer, registers.read(item, UNSIGNED[width_of(kind)], chops=True), guard)
        return
    loaded = [cast(load(pointer, guard), kind, bitcast=True) for pointer in pointers]
    for item, value in zip(items, loaded, strict=True):
        registers.write(item, value, guard, extends=True)


def _pointers(address: Operand, place: int, kind: dtype, registers: RegisterFile) -> Any:
    if not isinstance(address, Address) or not isinstance(address.base, Register) or address.coordinates:
        raise refused(f"`{address}` is no address in a register")
    start = registers.read(address.base, uint64)
    offset = address.offset + place * width_of(kind) // 8
    bits = UNSIGNED[width_of(kind)]
    return cast(plus(start, offset % (1 << 64)) if offset else start, pointer_type(bits))
