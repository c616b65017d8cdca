"""A text of inline assembly, computed: one instruction after the other, each for all elements.

run("shl.b32 $0, $1, 3;", registers)      registers.find("$0").tile is registers.find("$1").tile << 3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.language.ptx.conversions import conversion
from tilewright.language.ptx.errors import refused
from tilewright.language.ptx.floats import FLOATS, HALVES, SMALLEST, flushed, from_zero_to_one, without_negatives
from tilewright.language.ptx.instruction import Instruction
from tilewright.language.ptx.integers import INTEGERS
from tilewright.language.ptx.memory import access
from tilewright.language.ptx.registers import INTEGER, TYPES, UNSIGNED, Registers, joined, parts, read_as, width_of
from tilewright.language.ptx.text import Declaration, Scope, Statement, statements
from tilewright.semantics.types import bfloat16, float16, float32, int1, int16, uint16

HALF_OF = {"f16x2": float16, "bf16x2": bfloat16, "u16x2": uint16, "s16x2": int16, "f32x2": float32}
"""The type of each half of a register."""
OF_FLOATS = ("ftz", "sat", "relu")
"""Parts of a name that change the operands or the result of any instruction on floats."""


def run(text: str, registers: Registers) -> None:
    """Go through the instructions of `text`.

    Raises:
        SemanticError: an instruction has no exact meaning here, or a register none of the width that is needed.
    """
    for item in statements(text):
        match item:
            case Scope(opens=True):
                registers.open()
            case Scope():
                registers.close()
            case Declaration():
                registers.declare(item.type, item.names)
            case Statement():
                _execute(item, registers)


def _execute(statement: Statement, registers: Registers) -> None:
    opcode = statement.name.partition(".")[0]
    if opcode in ("ld", "st"):
        access(statement, registers)
    elif opcode == "mov" and any(operand[0] == "{" for operand in statement.operands):
        _rearranged(statement, registers)
    else:
        try:
            _computed(statement, registers)
        except (TypeError, ValueError) as error:  # of Python: `SemanticError` is none of these
            raise refused(f"`{statement.name}` does not take these operands") from error


def _computed(statement: Statement, registers: Registers) -> None:
    """An instruction that reads registers and writes one."""
    instruction, type, changes = _meaning_of(statement.name)
    target, *operands = statement.operands
    constants = [_constant(operands.pop())] if instruction.constant and operands else []
    kinds = instruction.kinds(TYPES.get(type, TYPES["b32"]), len(operands))
    values = [registers.read(*pair, chops=instruction.extends) for pair in zip(operands, kinds, strict=True)]
    if type in HALF_OF:
        result = _of_halves(instruction, values, type, changes)
    else:
        result = _changed(instruction, [*values, *constants], type, changes)
    registers.write(target, result, registers.guard(statement.guard), extends=instruction.extends)


def _meaning_of(name: str) -> tuple[Instruction, str, list[str]]:
    """The meaning of an instruction, its type, and those of `OF_FLOATS` that its name has."""
    opcode, *modifiers = name.split(".")
    type = modifiers[-1] if modifiers else ""
    if opcode == "cvt" and len(modifiers) > 1:
        found = conversion(modifiers)
        if found is not None:
            return found, type, []
    else:
        exact = ".".join(name.split(".")[:-1])
        plain = ".".join(part for part in name.split(".")[:-1] if part not in OF_FLOATS)
        for table, stem in ((INTEGERS, exact), (FLOATS, plain), (HALVES, plain)):
            entry = table.get(stem)
            if entry is not None and type in entry.types:
                changes = [part for part in modifiers if part in OF_FLOATS] if table is not INTEGERS else []
                if "ftz" not in changes or type in SMALLEST:
                    return entry, type, changes
    raise refused(f"`{name}` is an instruction of GPUs")


def _changed(instruction: Instruction, values: Sequence[Any], type: str, changes: Sequence[str]) -> Any:
    """The result with what `changes` say of operands and result."""
    if "ftz" in changes:
        values = [flushed(value, type) if value.type.scalar.is_floating() else value for value in values]
    result = instruction.meaning(*values)
    if result.type.scalar == int1:
        return result
    result = flushed(result, type) if "ftz" in changes else result
    result = from_zero_to_one(result) if "sat" in changes else result
    return without_negatives(result) if "relu" in changes else result


def _of_halves(instruction: Instruction, values: Sequence[Any], type: str, changes: Sequence[str]) -> Any:
    """The same for both halves of registers."""
    kind = HALF_OF[type]
    lower, upper = zip(*([read_as(half, kind) for half in parts(value, 2)] for value in values), strict=True)
    return joined([_changed(instruction, half, type, changes) for half in (lower, upper)], 2 * width_of(kind))


def _constant(text: str) -> int:
    if not INTEGER.match(text):
        raise refused(f"`{text}` is no number")
    return int(text.removesuffix("U"), 0)


def _rearranged(statement: Statement, registers: Registers) -> None:
    """mov between a register and several that together are as wide."""
    target, source = statement.operands
    kind = TYPES.get(statement.name.removeprefix("mov."))
    if kind is None:
        raise refused(f"`{statement.name}` is an instruction of GPUs")
    guard = registers.guard(statement.guard)
    if target[0] != "{":
        pieces = _names(source)
        part = UNSIGNED[width_of(kind) // len(pieces)]
        registers.write(target, joined([registers.read(piece, part) for piece in pieces], width_of(kind)), guard)
        return
    pieces = _names(target)
    for piece, value in zip(pieces, parts(registers.read(source, kind), len(pieces)), strict=True):
        registers.write(piece, value, guard)


def _names(vector: str) -> list[str]:
    names = [name.strip() for name in vector.strip("{}").split(",")]
    if len(names) not in (2, 4):
        raise refused(f"`{vector}` has {len(names)} registers, not 2 or 4")
    return names
