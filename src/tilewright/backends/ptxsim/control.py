"""Branches, calls and returns; and the device functions by which kernels print and assert.

    @%p1 bra $L3;      brx.idx %r1, table;      call.uni (retval0), f, (param0);      ret;      exit;      trap;

A function has one return address per lane. This is enough because no function is recursive.

vprintf("pid (%d, %d): x = %f\\n", &arguments)       # arguments one after the other, each at its alignment
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim.accesses import generic_bytes, place_of
from tilewright.backends.ptxsim.code import Moves, Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, command
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Function, Group, Instruction, Operand, Symbol, name_of

BuiltIn: TypeAlias = Callable[[list[int], list[int]], Run]
"""(offsets of the results in the frame, of the arguments) → the call."""

_CONVERSION = re.compile(r"%([-+ #0]*)(\d+|\*)?(?:\.(\d+|\*))?(hh|h|ll|l|z|j|t)?([diouxXcsfFeEgGaAp%])")


def print_formatted(results: list[int], arguments: list[int]) -> Run:
    """int vprintf(const char *format, void *arguments); returns the number of arguments."""

    def run(machine: Machine, active: Mask) -> None:
        frame = machine.frame[1].reshape(machine.lanes, -1)
        for lane in machine.active_lanes(active):
            format_, values = (frame[lane, offset : offset + 8].view("u8")[0] for offset in arguments)
            text = c_string(machine, int(format_), int(lane))
            machine.output(formatted(machine, text, int(values), int(lane)))
            if results:
                count = len([found for found in _CONVERSION.finditer(text) if found[5] != "%"])
                frame[lane, results[0] : results[0] + 4] = list(struct.pack("<i", count))

    return run


def formatted(machine: Machine, text: str, values: int, lane: int) -> str:
    """The text with its arguments, which stand in memory from `values` on (a generic address)."""
    place = values

    def replace(found: re.Match[str]) -> str:
        nonlocal place
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        size = 8 if kind in "fFeEgGaAps" or length in ("ll", "l", "z", "j", "t") else 4
        place = -(-place // size) * size
        raw = generic_bytes(machine, place, size, lane)
        place += size
        how = f"%{flags}{width or ''}" + (f".{precision}" if precision is not None else "")
        return _one(machine, how, kind, raw, lane)

    return _CONVERSION.sub(replace, text)


def _one(machine: Machine, how: str, kind: str, raw: bytes, lane: int) -> str:
    if kind in "fFeEgG":
        return str((how + kind) % struct.unpack("<d", raw)[0])
    if kind in "aA":
        text: str = struct.unpack("<d", raw)[0].hex()
        return text.upper() if kind == "A" else text
    if kind == "s":
        return (how + "s") % c_string(machine, int.from_bytes(raw, "little"), lane)
    if kind == "p":
        return f"0x{int.from_bytes(raw, 'little'):x}"
    if kind == "c":
        return chr(raw[0])
    number = int.from_bytes(raw, "little", signed=kind in "di")
    return (how + ("d" if kind in "diu" else kind)) % number


def c_string(machine: Machine, address: int, lane: int) -> str:
    """The text at a generic address, up to its zero byte."""
    texts = machine.family(_Texts).known
    if address not in texts or place_of(address)[0] != "global":
        found = bytearray()
        while (byte := generic_bytes(machine, address + len(found), 1, lane)) != b"\0":
            found += byte
        texts[address] = found.decode(errors="replace")
    return texts[address]


class _Texts:
    """The constants that prints have read, by their addresses."""

    def __init__(self, _: Machine) -> None:
        self.known: dict[int, str] = {}


def assertion_failed(results: list[int], arguments: list[int]) -> Run:
    """void __assertfail(const char *message, const char *file, unsigned line, const char *function, size_t size)."""
    place = arguments[0]  # where it stands, `.loc` says better

    def run(machine: Machine, active: Mask) -> None:
        lane = int(machine.active_lanes(active)[0])
        frame = machine.frame[1].reshape(machine.lanes, -1)[lane]
        machine.fail("assertion", c_string(machine, int(frame[place : place + 8].view("u8")[0]), lane), lane)

    return run


BUILT_IN: dict[str, BuiltIn] = {"vprintf": print_formatted, "__assertfail": assertion_failed}


def decode_branch(instruction: Instruction, code: Decoder) -> Run:
    if instruction.has("idx"):
        return _decode_indexed(instruction, code)
    target = code.label(instruction.destination)

    def run(machine: Machine, active: Mask) -> Moves:
        return [(target, active)]

    return run


def _decode_indexed(instruction: Instruction, code: Decoder) -> Run:
    index, table = instruction.operands
    read = code.source(index, "u32")
    targets = np.array([code.label(Symbol(name)) for name in code.function.tables[name_of(table)]])

    def run(machine: Machine, active: Mask) -> Moves:
        lanes = machine.active_lanes(active)
        indices = np.broadcast_to(read(machine), machine.lanes)[lanes]
        wrong = indices >= len(targets)
        if wrong.any():
            machine.fail("wild branch", "the index is outside of the table", int(lanes[wrong.argmax()]))
        return _by_target(machine, lanes, targets[indices])

    return run


def _by_target(machine: Machine, lanes: Array, targets: Array) -> Moves:
    moves = []
    for target in np.unique(targets):
        mask = np.zeros(machine.lanes, bool)
        mask[lanes[targets == target]] = True
        moves.append((int(target), mask))
    return moves


def decode_return(_: Instruction, code: Decoder) -> Run:
    if code.function.entry:
        return end
    name = code.function.name

    def run(machine: Machine, active: Mask) -> Moves:
        lanes = machine.active_lanes(active)
        return _by_target(machine, lanes, machine.returns[name][lanes])

    return run


def end(machine: Machine, active: Mask) -> Moves:
    """The lanes have come to their end."""
    machine.end(active)
    return []


def trap(machine: Machine, active: Mask) -> None:
    machine.fail("trap", "the kernel stops itself", int(machine.active_lanes(active)[0]))


def decode_call(instruction: Instruction, code: Decoder) -> Run:
    groups = [operand for operand in instruction.operands if isinstance(operand, Group)]
    place = next(i for i, operand in enumerate(instruction.operands) if not isinstance(operand, Group))
    results = groups[0].items if place else ()
    arguments = groups[-1].items if len(groups) > bool(place) else ()
    called = instruction.operands[place]
    if not isinstance(called, Symbol):
        raise SimulationError("unsupported", "calls through registers are not simulated")
    function = code.layout.functions[called.name]
    if not function.defined:
        if called.name not in BUILT_IN:
            raise SimulationError("unsupported", f"`{called.name}` is declared, and defined nowhere")
        return BUILT_IN[called.name](_offsets(results, code), _offsets(arguments, code))
    return _decode_defined_call(function, results, _offsets(arguments, code), code)


def _offsets(operands: Sequence[Operand], code: Decoder) -> list[int]:
    """The offsets of a call's parameters in the frame."""
    offsets = []
    for operand in operands:
        place = code.place(operand.name) if isinstance(operand, Symbol) else None
        assert place is not None, "arguments of calls are parameter variables"
        offsets.append(place)
    return offsets


def _decode_defined_call(function: Function, results: Sequence[Operand], arguments: list[int], code: Decoder) -> Run:
    frame = code.layout.frame
    copies = [(a, frame[function.name, v.name], v.size) for a, v in zip(arguments, function.parameters, strict=True)]
    for result, variable in zip(results, function.results, strict=True):
        # The caller's variable for a result is the function's own: no copy on return.
        frame[code.function.name, name_of(result)] = frame[function.name, variable.name]
    entry, name = code.kernel.entries[function.name], function.name

    def run(machine: Machine, active: Mask) -> Moves:
        lanes = machine.active_lanes(active)
        places = machine.frame[1].reshape(machine.lanes, -1)
        for source, target, size in copies:
            places[lanes, target : target + size] = places[lanes, source : source + size]
        returns = machine.returns.setdefault(name, np.zeros(machine.lanes, np.int64))
        returns[lanes] = machine.at + 1
        return [(entry, active)]

    return run


HANDLERS: Handlers = {
    "bra": decode_branch,
    "brx": decode_branch,
    "call": decode_call,
    "exit": command(end),
    "ret": decode_return,
    "trap": command(trap),
    "brkpt": command(trap),
}
