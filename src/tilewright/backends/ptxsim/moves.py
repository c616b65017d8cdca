"""Moves without conversion: mov with packing and unpacking, selection, and addresses between spaces.

mov.b32 %r1, {%rs1, %rs2};      selp.b32 %r3, %r1, %r2, %p1;      cvta.to.global.u64 %rd2, %rd1;
"""

from __future__ import annotations

import numpy as np

from tilewright.backends.ptxsim.accesses import WINDOW_SIZE, WINDOWS, space_of
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, applied, elementwise, items_of, simple
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.value_types import TYPES, UNSIGNED, Array, Mask
from tilewright.support.ptx_syntax import Instruction, Sink, Vector


def decode_move(instruction: Instruction, code: Decoder) -> Run:
    target, source = instruction.operands
    if isinstance(target, Vector):
        return _decode_unpack(instruction, code)
    if isinstance(source, Vector):
        return _decode_pack(instruction, code)
    return simple(lambda value: value)(instruction, code)


def _decode_unpack(instruction: Instruction, code: Decoder) -> Run:
    items, (source,) = items_of(instruction.destination), instruction.sources
    bits = TYPES[instruction.type].bits
    part = bits // len(items)
    read = code.source(source, f"b{bits}")
    writes = [code.target(item, f"b{part}") for item in items]
    dtype = UNSIGNED[part]

    def run(machine: Machine, active: Mask) -> None:
        parts = np.ascontiguousarray(read(machine)).view(dtype).reshape(-1, len(items))
        for number, write in enumerate(writes):
            write(machine, active, parts[:, number].copy())

    return run


def _decode_pack(instruction: Instruction, code: Decoder) -> Run:
    (source,) = instruction.sources
    items, bits = items_of(source), TYPES[instruction.type].bits
    part = bits // len(items)
    reads = [code.source(item, f"b{part}") for item in items]
    write = code.target(instruction.destination, f"b{bits}")
    dtype, whole = UNSIGNED[part], UNSIGNED[bits]

    def run(machine: Machine, active: Mask) -> None:
        parts = np.empty((machine.lanes, len(reads)), dtype)
        for number, read in enumerate(reads):
            parts[:, number] = read(machine)
        write(machine, active, parts.view(whole)[:, 0])

    return run


def decode_select(instruction: Instruction, code: Decoder) -> Run:
    """selp d, a, b, p: a where p."""
    a, b, predicate = instruction.sources
    kind = instruction.type
    reads = [code.source(predicate, "pred"), code.source(a, kind), code.source(b, kind)]
    return applied(instruction, code, np.where, reads, kind)


def decode_select_by_sign(instruction: Instruction, code: Decoder) -> Run:
    """slct.type.{s32, f32} d, a, b, c: a where c >= 0; a NaN chooses b, -0 chooses a."""
    kind, sign_type = instruction.parts[-2:]
    a, b, c = instruction.sources
    reads = [code.source(c, sign_type), code.source(a, kind), code.source(b, kind)]
    return applied(instruction, code, lambda sign, first, second: np.where(sign >= 0, first, second), reads, kind)


def decode_convert_address(instruction: Instruction, code: Decoder) -> Run:
    """cvta{.to}.space: from a space to generic addresses, or back."""
    start = np.array([WINDOWS.get(space_of(instruction.parts), 0)], np.uint64)
    if instruction.has("to"):
        start = np.uint64(0) - start
    return simple(lambda address: address + start)(instruction, code)


def decode_is_space(instruction: Instruction, code: Decoder) -> Run:
    """isspacep.space p, a: whether the generic address lies in the space."""
    space = space_of(instruction.parts)

    def semantics(addresses: Array) -> Array:
        inside = {name: (addresses >= at) & (addresses < at + WINDOW_SIZE) for name, at in WINDOWS.items()}
        return inside[space] if space in inside else ~np.logical_or.reduce(list(inside.values()))

    return elementwise(instruction, code, semantics, source="u64", result="pred")


def decode_policy(instruction: Instruction, code: Decoder) -> Run:
    """createpolicy: how a cache is to treat accesses; any value will do."""
    write = code.target(instruction.destination if instruction.operands else Sink(), "b64")

    def run(machine: Machine, active: Mask) -> None:
        write(machine, active, np.zeros(1, np.uint64))

    return run


HANDLERS: Handlers = {
    "mov": decode_move,
    "selp": decode_select,
    "slct": decode_select_by_sign,
    "cvta": decode_convert_address,
    "isspacep": decode_is_space,
    "createpolicy": decode_policy,
}
