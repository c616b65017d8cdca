"""Atomic accesses of a tile to a buffer in shared memory, at places that a tile of indices says.

%old = ttg.local_atomic_scatter_rmw add, %buffer[%indices], %values, %mask {axis = 0 : i32}

    @%mask atom.shared.cta.relaxed.add.u32 %old, [%place], %value;

Where several threads have an element, one of them makes the access; what was there is then known to that one alone, so
a program that asks for it is refused.
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.access_plan import same_as
from tilewright.backends.nvidia.lower.gather import ONE, indexed_places
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer, Lowering
from tilewright.backends.nvidia.lower.memory import both, only_once
from tilewright.backends.nvidia.lower.register_packing import as_integer, from_integer
from tilewright.backends.nvidia.lower.shared_tiles import memory_bits, pointer_to
from tilewright.dialects.ttg_memory import LocalAtomicScatter

WIDTHS = (32, 64)
KINDS = {"add": "u", "and": "b", "exch": "b", "fadd": "f", "max": "s", "min": "s", "or": "b", "umax": "u", "umin": "u"}
KINDS |= {"xor": "b"}
"""The letter of an operation's type in PTX."""


def _combined(lowerer: Lowerer, op: LocalAtomicScatter) -> None:
    element = lowerer.element(op.value.type)
    bits = memory_bits(element)
    if bits not in WIDTHS:
        raise refused(op, f"{op.name} of elements with {bits} bits", "elements of 32 or 64 bits are combined")
    layout = lowerer.layout(op.value)
    once, same = only_once(lowerer, op.value.type), same_as(layout)
    if once is not None and op.result.uses:
        raise refused(op, f"the result of {op.name} of a tile that several threads hold", "leave the result unused")
    name = op.operation
    text = f"atom.shared.cta.relaxed.{name.removeprefix('f').removeprefix('u')}.{KINDS[name]}{bits}"
    masks = lowerer.registers(op.mask) if op.mask is not None else None
    (move,) = ONE.moves
    found: dict[int, str] = {}
    values, places = lowerer.registers(op.value), indexed_places(lowerer, op)
    for number in dict.fromkeys(same):
        predicate = both(lowerer, once, masks[number] if masks is not None else None)
        pointer = pointer_to(lowerer, ONE, move, places[number])
        operands = [(SHARED_POINTER, pointer), (f"i{bits}", as_integer(lowerer.w, element, values[number]))]
        line = f"{text} $0, [ $1 + 0 ], $2;"
        if predicate is not None:
            line = f"mov.u{bits} $0, 0x0;\n\t@$3 {line}"
            operands.append(("i1", predicate))
        (old,) = lowerer.assembly_results([f"i{bits}"], line, operands)
        found[number] = from_integer(lowerer.w, element, old)
    lowerer.bind(op.result, [found[number] for number in same])


LOWERINGS: dict[str, Lowering] = {"ttg.local_atomic_scatter_rmw": _combined}
