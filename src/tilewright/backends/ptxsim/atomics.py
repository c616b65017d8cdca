"""Atomic operations.

    atom.global.gpu.acq_rel.add.u32 %r2, [%rd1], %r1;      red.shared.max.s32 [%r3], %r1;      atom.cas.b64 …;

Lanes with the same address execute in the order of their numbers. Packed and vector forms are atomic per element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim.accesses import (
    STORED,
    check_shared,
    lanes_of,
    locate_shared,
    space_of,
    split,
    synchronise,
)
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, items_of
from tilewright.backends.ptxsim.floats import Lens, arithmetic
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.memory import INITIALISED, VALID, WRITABLE
from tilewright.backends.ptxsim.value_types import TYPES, Array, Mask
from tilewright.support.ptx_syntax import Instruction, Sink

Combine: TypeAlias = Callable[[Array, Array, Array], Array]
"""(old, operand, second operand) → new, all bits of the type."""
OPERATIONS = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")
EXCHANGES: dict[str, Combine] = {
    "exch": lambda old, new, _: new,
    "cas": lambda old, test, new: np.where(old == test, new, old),
}
ARITHMETIC: dict[str, Combine] = {
    "add": lambda old, value, _: old + value,
    "and": lambda old, value, _: old & value,
    "or": lambda old, value, _: old | value,
    "xor": lambda old, value, _: old ^ value,
    "inc": lambda old, top, _: np.where(old >= top, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, top, _: np.where((old == 0) | (old > top), top, old - old.dtype.type(1)),
}
EXTREMA = {"min": (np.minimum, np.fmin), "max": (np.maximum, np.fmax)}


def _combine(operation: str, type_name: str, *, flush: bool) -> Combine:
    kind = TYPES[type_name]
    bits = np.dtype(f"u{kind.bytes}")
    if operation not in EXCHANGES and kind.kind in ("f", "x"):
        return _combine_floats(operation, type_name, flush=flush)
    if operation in EXTREMA:
        pick = EXTREMA[operation][0]
        return lambda old, value, _: pick(old.view(kind.dtype), value.view(kind.dtype)).view(bits)
    return {**EXCHANGES, **ARITHMETIC}[operation]


def _combine_floats(operation: str, type_name: str, *, flush: bool) -> Combine:
    lens = Lens(type_name.removesuffix("x2"), type_name.endswith("x2"), "rn", flush, False, False)
    if operation == "add":
        add = arithmetic("add")(lens)
        return lambda old, value, _: add(lens.numbers(old), lens.numbers(value))
    pick = EXTREMA[operation][1]
    return lambda old, value, _: lens.bits(pick(lens.numbers(old), lens.numbers(value)))


def decode_atomic(instruction: Instruction, code: Decoder) -> Run:
    reduces = instruction.opcode == "red"
    operation = next(part for part in instruction.parts if part in OPERATIONS)
    space, name = space_of(instruction.parts), instruction.type
    kind = TYPES[name]
    result, place, first, *others = instruction.operands if not reduces else (Sink(), *instruction.operands)
    address = code.address(place)
    values = [code.source(item, f"b{kind.bits}") for item in items_of(first)]
    second = code.source(others[0], f"b{kind.bits}") if operation == "cas" else None
    targets = [] if isinstance(result, Sink) else items_of(result)
    writes = [code.target(item, f"b{kind.bits}") for item in targets]
    flush = name == "f32" and space != "shared" and not instruction.has("noftz")
    combine = _combine(operation, name, flush=flush)

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        places = lanes_of(address(machine), lanes, machine)
        for number, value in enumerate(values):
            operand = lanes_of(value(machine), lanes, machine)
            extra = lanes_of(second(machine), lanes, machine) if second else operand
            at = places + number * kind.bytes
            width = kind.bytes * len(values) if not number else kind.bytes
            old = update(machine, space, at, lanes, width, kind.bytes, lambda o, w: combine(o, *w), (operand, extra))
            if writes:
                writes[number](machine, active, machine.spread(old, lanes))
        machine.polled = True

    return run


def update(
    machine: Machine,
    space: str,
    addresses: Array,
    lanes: Array,
    width: int,
    size: int,
    change: Callable[[Array, tuple[Array, Array]], Array],
    operands: tuple[Array, Array],
) -> Array:
    """Change numbers in memory, one lane after the other at equal addresses; returns the old values.

    Args:
        space: a state space of PTX; "" for generic addresses.
        addresses: one for each of the lanes.
        lanes: their numbers.
        width: bytes from each address on that have to be accessible.
        size: bytes of a number.
        change: gives the new numbers, of the old ones and the operands.
        operands: two numbers for each of the lanes.
    """
    old, (first, second) = np.zeros(len(lanes), f"u{size}"), operands
    pieces = split(addresses) if not space else [(space, np.arange(len(lanes)), addresses)]
    for found, chosen, inner in pieces:
        view, units = _locate(machine, found, inner, lanes[chosen], width, size)
        old[chosen] = _one_by_one(machine, view, units, change, (first[chosen], second[chosen]))
    return old


def _locate(machine: Machine, space: str, addresses: Array, lanes: Array, width: int, size: int) -> tuple[Array, Array]:
    """The memory as numbers, and which of them the lanes change."""
    shift = size.bit_length() - 1
    if space == "shared":
        index = locate_shared(machine, addresses, lanes, width, "atomic operation")
        check_shared(machine, index, lanes, size, "atomic")
        return machine.shared.views[size], index >> shift
    if space != "global":
        machine.fail("unsupported", f"atomic operations on {space} memory are not simulated", int(lanes[0]))
    offsets = machine.memory.offsets(addresses)
    fault = machine.memory.fault(offsets, width, "atomic operation", needs=VALID | WRITABLE | INITIALISED)
    machine.check(fault, lanes)
    synchronise(machine, lanes)
    if machine.watcher is not None:
        machine.watcher.atomic(offsets, size, machine.accessors(lanes))
    machine.memory.state[size][offsets >> shift] = int.from_bytes(bytes([STORED]) * size, "little")
    return machine.memory.views[size], offsets >> shift


def _one_by_one(
    machine: Machine,
    view: Array,
    units: Array,
    change: Callable[[Array, tuple[Array, Array]], Array],
    operands: tuple[Array, Array],
) -> Array:
    """Rounds: in each, every place is changed by the first lane that still waits for it."""
    old, (first, second) = np.zeros(len(units), view.dtype), operands
    left = np.arange(len(units))
    while left.size:
        _, at = np.unique(units[left], return_index=True)
        now = left[at]
        before = view[units[now]]
        after = change(before, (first[now], second[now]))
        machine.changes += int((after != before).any())
        old[now], view[units[now]] = before, after
        left = np.delete(left, at)
    return old


HANDLERS: Handlers = {"atom": decode_atomic, "red": decode_atomic}
