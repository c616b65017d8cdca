"""ld and st of a text: memory at the addresses in a register.

@p ld.global.v2.b32 {$0, $1}, [$2+8];      st.global.b8 [$3], $0;
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilewright.language.extra.bits import plus
from tilewright.language.memory import load, store
from tilewright.language.operations import cast
from tilewright.language.ptx.errors import refused
from tilewright.language.ptx.registers import SINK, TYPES, UNSIGNED, Registers, width_of
from tilewright.language.ptx.text import Statement
from tilewright.semantics.types import dtype, pointer_type, uint64

ADDRESS = re.compile(r"\[\s*([%$\w]+)\s*(?:\+\s*(-?\w+)\s*)?\]")
IGNORED = re.compile(r"(weak|global|volatile|nc|ca|cg|cs|cv|lu|wb|wt|L[12]::\w+)\Z")
"""Spaces that are all of memory here, and hints to caches."""
VECTORS = {"v2": 2, "v4": 4}


def access(statement: Statement, registers: Registers) -> None:
    """Run one ld or st."""
    opcode, *modifiers, type = statement.name.split(".")
    rest = [name for name in modifiers if not IGNORED.match(name)]
    count = VECTORS.get(rest[0], 0) if rest else 1
    kind = TYPES.get(type)
    if kind is None or not count or len(rest) > 1 or len(statement.operands) != 2:
        raise refused(f"`{statement.name}` is an instruction of GPUs")
    address, held = statement.operands if opcode == "st" else reversed(statement.operands)
    names = [name.strip() for name in held.strip("{}").split(",")]
    if len(names) != count:
        raise refused(f"`{statement.name}` takes {count} registers, not {len(names)}")
    pointers = [_pointers(address, place, kind, registers) for place in range(count)]
    guard = registers.guard(statement.guard)
    if opcode == "st":
        for pointer, name in zip(pointers, names, strict=True):
            store(pointer, registers.read(name, UNSIGNED[width_of(kind)], chops=True), guard)
        return
    _write(registers, names, [cast(load(pointer, guard), kind, bitcast=True) for pointer in pointers], guard)


def _write(registers: Registers, names: Sequence[str], loaded: Sequence[Any], guard: Any) -> None:
    for name, value in zip(names, loaded, strict=True):
        if name != SINK:
            registers.write(name, value, guard, extends=True)


def _pointers(text: str, place: int, kind: dtype, registers: Registers) -> Any:
    found = ADDRESS.fullmatch(text)
    if found is None:
        raise refused(f"`{text}` is no address in a register")
    start = registers.read(found[1], uint64)
    offset = int(found[2] or "0", 0) + place * width_of(kind) // 8
    bits = UNSIGNED[width_of(kind)]
    return cast(plus(start, offset % (1 << 64)) if offset else start, pointer_type(bits))
