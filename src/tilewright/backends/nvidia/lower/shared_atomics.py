"""Atomic accesses of a tile to a buffer in shared memory, at places that a tile of indices says.

%old = ttg.local_atomic_scatter_rmw add, %buffer[%indices], %values, %mask {axis = 0 : i32}

    @%mask atom.shared.cta.relaxed.add.u32 %old, [%place], %value;

Where several threads of a block have an element, one of them makes the access, and tells the others what was there, if
the program uses it. Each block of a cluster has a buffer of its own.
"""

from __future__ import annotations

from tilewright.backends.nvidia.lower.access_plan import same_as
from tilewright.backends.nvidia.lower.atomics import told_to_all
from tilewright.backends.nvidia.lower.gather import ONE, indexed_places
from tilewright.backends.nvidia.lower.legality import refused
from tilewright.backends.nvidia.lower.lowerer import SHARED_POINTER, Lowerer, Lowering
from tilewright.backends.nvidia.lower.memory import both, only_once
from tilewright.backends.nvidia.lower.register_packing import as_integer, from_integer
from tilewright.backends.nvidia.lower.shared_tiles import memory_bits, pointer_to
from tilewright.dialects.ttg_memory import LocalAtomicScatter

WIDTHS = (32, 64)
SUMS_SINCE = {"half": 70, "bfloat": 90}
"""The first capability that adds such elements of 16 bits."""
KINDS = {"add": "u", "and": "b", "exch": "b", "fadd": "f", "max": "s", "min": "s", "or": "b", "umax": "u", "umin": "u"}
KINDS |= {"xor": "b"}
"""The letter of an operation's type in PTX."""


def _combined(lowerer: Lowerer, op: LocalAtomicScatter) -> None:
    element = lowerer.element(op.value.type)
    bits = memory_bits(element)
    name = _operation(op, element, bits, lowerer.target.capability)
    layout = lowerer.layout(op.value)
    once, same = only_once(lowerer, op.value.type, per_block=True), same_as(layout)
    text = f"atom.shared.cta.relaxed.{name}"
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
    if once is not None and op.result.uses:
        found = told_to_all(lowerer, op, bits, found, once)
    lowerer.bind(op.result, [found[number] for number in same])


def _operation(op: LocalAtomicScatter, element: str, bits: int, capability: int) -> str:
    """The operation and its type: `add.f32`."""
    if op.operation == "fadd" and capability >= SUMS_SINCE.get(element, capability + 1):
        return f"add.noftz.{'b' if element == 'bfloat' else ''}f16"
    if bits not in WIDTHS:
        instead = "elements of 32 or 64 bits are combined, and f16 added; bf16, too, since capability 9.0"
        raise refused(op, f"{op.name} of elements with {bits} bits", instead)
    return f"{op.operation.removeprefix('f').removeprefix('u')}.{KINDS[op.operation]}{bits}"


LOWERINGS: dict[str, Lowering] = {"ttg.local_atomic_scatter_rmw": _combined}
