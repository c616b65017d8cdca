"""Exchange between the lanes of a warp, and votes on the values of its lanes.

    shfl.sync.bfly.b32 %r2|%p1, %r1, 16, 31, -1;      vote.sync.ballot.b32 %r1, %p1, -1;
    match.any.sync.b32 %r2, %r1, -1;                  match.all.sync.b64 %r2|%p1, %rd1, -1;
    redux.sync.max.s32 %r2, %r1, -1;                  redux.sync.min.abs.NaN.f32 %f2, %f1, -1;
    elect.sync %r2|%p1, -1;                           activemask.b32 %r1;

A lane may read from members that execute the instruction with it. The elected lane is the lowest of the members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.cta_barriers import require_members
from tilewright.backends.ptxsim.decoder import Decoder, Handlers
from tilewright.backends.ptxsim.machine import WARP, Machine
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction

_INTEGERS: dict[str, Callable[..., Array]] = {
    "add": np.add.reduce,
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}
_FLOATS: dict[tuple[str, bool], Callable[..., Array]] = {
    ("min", True): np.minimum.reduce,
    ("max", True): np.maximum.reduce,
    ("min", False): np.fmin.reduce,
    ("max", False): np.fmax.reduce,
}


def match_any(values: Array, members: Array) -> Array:
    """The members of the warp that have the same value, as bits, by warp and lane."""
    same = (values[:, :, None] == values[:, None, :]) & members[:, None, :]
    return ballot(same.reshape(-1, WARP)).reshape(values.shape)


def match_all(values: Array, members: Array) -> tuple[Array, Array]:
    """All members as bits if they have one value, else 0, and whether they have; by warp and lane."""
    found, everyone = match_any(values, members), ballot(members)[:, None]
    agree = ((found == everyone) | ~members).all(axis=1, keepdims=True)
    agree = np.broadcast_to(agree, found.shape)
    return np.where(agree, everyone, np.uint32(0)), agree


def reduced(values: Array, members: Array, function: Callable[..., Array]) -> Array:
    """One value for each warp, from its members; by warp and lane."""
    rows = [function(row[chosen]) if chosen.any() else row[0] for row, chosen in zip(values, members, strict=True)]
    return np.repeat(np.array(rows).astype(values.dtype)[:, None], WARP, axis=1)  # sums wrap


def _members(machine: Machine, active: Mask, named: Array) -> Array:
    """The lanes that take part, by warp; all named lanes execute the instruction."""
    require_members(machine, active, np.broadcast_to(named, machine.lanes))
    return (machine.alive if active is None else active).reshape(-1, WARP)


def _rows(machine: Machine, values: Array) -> Array:
    return np.broadcast_to(values, machine.lanes).reshape(-1, WARP)


def decode_match(instruction: Instruction, code: Decoder) -> Run:
    """match.{any, all}.sync.{b32, b64} d{|p}, a, members."""
    source, members = instruction.sources
    write, write_agree = code.pair(instruction.destination, "b32", "pred")
    read, named = code.source(source, instruction.type), code.source(members, "b32")
    every = instruction.has("all")

    def run(machine: Machine, active: Mask) -> None:
        members, values = _members(machine, active, named(machine)), _rows(machine, read(machine))
        if every:
            found, agree = match_all(values, members)
            write_agree(machine, active, agree.ravel())
        else:
            found = match_any(values, members)
        write(machine, active, found.ravel())

    return run


def decode_reduce(instruction: Instruction, code: Decoder) -> Run:
    """redux.sync.op{.abs}{.NaN}.type d, a, members."""
    operation, kind = instruction.parts[2], instruction.type
    source, members = instruction.sources
    write = code.target(instruction.destination, kind)
    read, named = code.source(source, kind), code.source(members, "b32")
    magnitude = instruction.has("abs")
    function: Any = _FLOATS[operation, instruction.has("NaN")] if kind == "f32" else _INTEGERS[operation]

    def run(machine: Machine, active: Mask) -> None:
        members, values = _members(machine, active, named(machine)), _rows(machine, read(machine))
        values = np.abs(values) if magnitude else values
        write(machine, active, reduced(values, members, function).ravel())

    return run


def decode_elect(instruction: Instruction, code: Decoder) -> Run:
    """elect.sync d|p, members: d is the elected lane, p is true there."""
    write, write_elected = code.pair(instruction.destination, "b32", "pred")
    (named,) = code.sources(instruction, "b32")

    def run(machine: Machine, active: Mask) -> None:
        leader = _members(machine, active, named(machine)).argmax(axis=1)
        lanes = np.repeat(leader, WARP)
        write(machine, active, lanes.astype(np.uint32))
        write_elected(machine, active, machine.everyone % WARP == lanes)

    return run


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


HANDLERS: Handlers = {
    "match": decode_match,
    "redux": decode_reduce,
    "elect": decode_elect,
    "shfl": decode_shuffle,
    "vote": decode_vote,
    "activemask": decode_active_mask,
}
