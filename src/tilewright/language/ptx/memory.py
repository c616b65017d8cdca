"""ld and st of a text: memory at the addresses in a register.

@p ld.global.v2.b32 {$0, $1}, [$2+8];      st.global.b8 [$3], $0;
"""

from __future__ import annotations

import re
from typing import Any

from tilewright.language.extra.bits import plus
from tilewright.language.memory import load, store
from tilewright.language.operations import cast
from tilewright.language.ptx.registers import TYPES, UNSIGNED, RegisterFile, refused, width_of
from tilewright.semantics.types import dtype, pointer_type, uint64
from tilewright.support.ptx_syntax import Address, Instruction, Operand, Register, Vector

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
