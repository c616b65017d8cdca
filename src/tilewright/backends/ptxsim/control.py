"""Branches, calls and ends.

    @%p1 bra $L3;      brx.idx %r1, table;      call.uni (retval0), f, (param0);      ret;      exit;      trap;

A function has one return address per lane: none calls itself, so lanes that are in it came in from outside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.backends.ptxsim.code import Moves, Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.reports import BUILT_IN
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Function, Group, Instruction, Operand, Symbol, name_of


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


def decode_exit(_: Instruction, code: Decoder) -> Run:
    return end


def decode_trap(_: Instruction, code: Decoder) -> Run:
    def run(machine: Machine, active: Mask) -> None:
        machine.fail("trap", "the kernel stops itself", int(machine.active_lanes(active)[0]))

    return run


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
    "exit": decode_exit,
    "ret": decode_return,
    "trap": decode_trap,
    "brkpt": decode_trap,
}
