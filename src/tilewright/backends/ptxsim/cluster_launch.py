"""Cluster launch control: a cluster takes over the work of one that has not started.

    clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r2];
    clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %rq1;
    clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r3, %rq1;

The clusters that have not started are those of later batches, the next one first. The 16 bytes of an answer have the
simulator's own format: the coordinates of the first CTA, and whether there is one. A CTA that has received a negative
answer may not request again, as in PTX. With `.multicast::cluster::all` every CTA of the cluster gets the answer, and
its mbarrier at the same offset is signalled.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tilewright.backends.ptxsim.accesses import engine_has_written, engine_writes, lanes_of, locate_shared
from tilewright.backends.ptxsim.bulk_copies import one
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import AXES, Decoder, Handlers, items_of
from tilewright.backends.ptxsim.machine import Machine
from tilewright.backends.ptxsim.mbarriers import MBarriers, located_barriers
from tilewright.backends.ptxsim.value_types import Array, Mask
from tilewright.support.ptx_syntax import Instruction

SIZE = 16
NONE = 0
FOUND = 1


class Answers:
    """The CTAs that have seen that nothing is left to take over."""

    def __init__(self, machine: Machine) -> None:
        self.over = np.zeros(len(machine.ctas), bool)


def decode_request(instruction: Instruction, code: Decoder) -> Run:
    """clusterlaunchcontrol.try_cancel… [answer], [mbarrier]."""
    to_all = instruction.has("multicast::cluster::all")
    place, barrier = (code.address(operand) for operand in instruction.operands)
    code.kernel.takes_over = True

    def run(machine: Machine, active: Mask) -> None:
        lanes = machine.active_lanes(active)
        keys = located_barriers(machine, barrier(machine), lanes)
        for lane, key in zip(lanes.tolist(), keys, strict=True):
            if machine.family(Answers).over[machine.cta[lane]]:
                machine.fail("launch", "the CTA asks for work again, and has seen that nothing is left", lane)
            start = one(machine, place, lane)
            if start % SIZE:
                machine.fail("misaligned address", f"an answer at {start:#x}, no multiple of {SIZE}", lane)
            index = locate_shared(machine, start + np.arange(SIZE), np.full(SIZE, lane), 1, "answer")
            answer = _answer(machine)
            for moved in _distances(machine, lane) if to_all else (0,):
                engine_writes(machine, index + moved, answer, lane)
                land = partial(engine_has_written, machine, index + moved, answer, lane)
                machine.family(MBarriers).bytes_later(key + moved, lane, SIZE, land)

    return run


def _distances(machine: Machine, lane: int) -> list[int]:
    """How far the shared memory of each CTA of a lane's cluster is from that of the lane's own."""
    rank = int(machine.cta[lane]) % machine.cluster_size
    return [(other - rank) * machine.shared.stride for other in range(machine.cluster_size)]


def _answer(machine: Machine) -> Array:
    """The bytes of an answer: the first CTA of a cluster that will not start now, or zeros."""
    first = machine.pending.popleft()[0] if machine.pending else None
    words = [NONE] * 4 if first is None else [*first, FOUND]
    return np.array(words, np.uint32).view(np.uint8)


def decode_is_canceled(instruction: Instruction, code: Decoder) -> Run:
    """clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer."""
    (source,) = instruction.sources
    read, write = code.source(source, "b128"), code.target(instruction.destination, "pred")

    def run(machine: Machine, active: Mask) -> None:
        found = _words(read(machine))[:, 3] == FOUND
        lanes = machine.active_lanes(active)
        machine.family(Answers).over[machine.cta[lanes[~lanes_of(found, lanes, machine)]]] = True
        write(machine, active, found)

    return run


def decode_first_cta(instruction: Instruction, code: Decoder) -> Run:
    """clusterlaunchcontrol.query_cancel.get_first_ctaid{::x, ::y, ::z}.b32.b128 d, answer; or .v4.b32 {x, y, z, _}."""
    (source,) = instruction.sources
    read, targets = code.source(source, "b128"), code.targets(instruction.destination, "b32")
    axis = next((AXES.index(part[-1]) for part in instruction.parts if part.startswith("get_first_ctaid::")), 0)
    words = range(axis, axis + len(items_of(instruction.destination)))

    def run(machine: Machine, active: Mask) -> None:
        answer = _words(read(machine))
        for word, write in zip(words, targets, strict=True):
            write(machine, active, np.ascontiguousarray(answer[:, word]))

    return run


def _words(answers: Array) -> Array:
    """(answer, word)."""
    return np.ascontiguousarray(answers).view(np.uint32).reshape(-1, 4)


HANDLERS: Handlers = {
    "clusterlaunchcontrol.try_cancel": decode_request,
    "clusterlaunchcontrol.query_cancel.is_canceled": decode_is_canceled,
    "clusterlaunchcontrol.query_cancel.get_first_ctaid": decode_first_cta,
    **{f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}": decode_first_cta for axis in AXES},
}
