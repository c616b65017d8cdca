"""Values that go from lane to lane of a warp: shfl, vote, activemask.

    shfl.sync.bfly.b32 %r2|%p1, %r1, 16, 31, -1;      vote.sync.ballot.b32 %r1, %p1, -1;

A lane may read from members that execute the instruction with it; `match`, `redux` and `elect` stand in a file of
their own.
"""

from __future__ import annotations

import numpy as np

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.cta_barriers import require_members
from tilewright.backends.ptxsim.decoder import Decoder, Handlers
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction


def decode_shuffle(instruction: Instruction, code: Decoder) -> Run:
    """shfl.sync.{up, down, bfly, idx}.b32 d{|p}, a, b, c, members: lane j reads `a` of the lane that b and c say."""
    mode = next(part for part in instruction.parts if part in ("up", "down", "bfly", "idx"))
    write, write_inside = code.pair(instruction.destination, "b32", "pred")
    value, offset, clamp, *members = code.sources(instruction, "b32")

    def run(machine: Machine, active: Mask) -> None:
        if members:
            require_members(machine, active, np.broadcast_to(members[0](machine), machine.lanes))
        lane = machine.everyone % WARP
        b, c = (np.broadcast_to(read(machine), machine.lanes).astype(np.int64) & 0x1F1F for read in (offset, clamp))
        source, inside = source_lanes(mode, lane, b & 31, c)
        origin = machine.everyone - lane + source
        _require_active(machine, active, origin)
        write(machine, active, np.broadcast_to(value(machine), machine.lanes)[origin])
        write_inside(machine, active, inside)

    return run


def source_lanes(mode: str, lane: Array, offset: Array, clamp: Array) -> tuple[Array, Array]:
    """The lane that each lane reads, and whether that lies inside its segment (else it reads itself).

    Args:
        mode: of `shfl`.
        lane: 0 … 31.
        offset: b, five bits.
        clamp: c: the clamp in bits 0 to 4, the mask of segments in bits 8 to 12.
    """
    segment = (clamp >> 8) & 31
    limit, low = (lane & segment) | (clamp & 31 & ~segment), lane & segment
    if mode == "up":
        source = lane - offset
        inside = source >= limit
    else:
        source = {"down": lane + offset, "bfly": lane ^ offset, "idx": low | (offset & ~segment)}[mode]
        inside = source <= limit
    return np.where(inside, source, lane), inside


def _require_active(machine: Machine, active: Mask, origin: Array) -> None:
    """Reading a lane that does not execute the shuffle gives an undefined value."""
    if active is None:
        return
    absent = active & ~active[origin]
    if absent.any():
        lane = int(absent.argmax())
        text = f"the thread reads lane {int(origin[lane]) % WARP}, which does not execute the shuffle"
        machine.fail("divergent warp", text, lane)


def decode_vote(instruction: Instruction, code: Decoder) -> Run:
    """vote.sync.{all, any, uni}.pred p, {!}q, members; vote.sync.ballot.b32 d, {!}q, members."""
    mode = instruction.parts[-2]
    source, *named = instruction.sources
    write, read = code.target(instruction.destination, instruction.type), code.source(source, "pred")
    members = [code.source(operand, "b32") for operand in named]

    def run(machine: Machine, active: Mask) -> None:
        if members:
            require_members(machine, active, np.broadcast_to(members[0](machine), machine.lanes))
        here = (machine.alive if active is None else active).reshape(-1, WARP)
        votes = np.broadcast_to(read(machine), machine.lanes).reshape(-1, WARP)
        write(machine, active, np.repeat(tally(mode, here, votes), WARP))

    return run


def tally(mode: str, here: Array, votes: Array) -> Array:
    """The result of a vote per warp, of arrays with one row per warp."""
    if mode == "ballot":
        return ballot(here & votes)
    every, some = (votes | ~here).all(axis=1), (votes & here).any(axis=1)
    return {"all": every, "any": some, "uni": every | ~some}[mode]


def ballot(rows: Array) -> Array:
    """Per row of 32 bools, the number with these bits."""
    return np.packbits(rows, axis=1, bitorder="little").view(np.uint32)[:, 0]


def decode_active_mask(instruction: Instruction, code: Decoder) -> Run:
    write = code.target(instruction.destination, "b32")

    def run(machine: Machine, active: Mask) -> None:
        here = machine.alive if active is None else active
        write(machine, active, np.repeat(ballot(here.reshape(-1, WARP)), WARP))

    return run


HANDLERS: Handlers = {"shfl": decode_shuffle, "vote": decode_vote, "activemask": decode_active_mask}
