"""The value of every special register in each thread of a grid of clusters with blocks of three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import NamedTuple

import numpy as np
import pytest
from ptx_programs import kernel_text

from tilewright.backends.ptxsim import DeviceMemory, Launch, load
from tilewright.backends.ptxsim.decoder import SPECIAL

THREADS, GRID, CLUSTER = (8, 2, 5), (2, 4, 4), (1, 2, 4)
COUNT = 8 * 2 * 5


class Place(NamedTuple):
    """A thread's number in its block, its lane, its own and its block's coordinates."""

    number: int
    lane: int
    thread: tuple[int, ...]
    block: tuple[int, ...]


def rank_in_cluster(place: Place) -> int:
    x, y, z = (at % size for at, size in zip(place.block, CLUSTER, strict=True))
    return x + CLUSTER[0] * (y + CLUSTER[1] * z)


WANTED: dict[str, Callable[[Place], int]] = {
    "%laneid": lambda p: p.lane,
    "%warpid": lambda p: p.number // 32,
    "%nwarpid": lambda p: 3,
    "%gridid": lambda p: 0,
    "%cluster_ctarank": rank_in_cluster,
    "%cluster_nctarank": lambda p: 8,
    "%is_explicit_cluster": lambda p: 1,
    "%clock_hi": lambda p: 0,
    "%globaltimer_hi": lambda p: 0,
    "%lanemask_eq": lambda p: 1 << p.lane,
    "%lanemask_lt": lambda p: (1 << p.lane) - 1,
    "%lanemask_le": lambda p: (2 << p.lane) - 1,
    "%lanemask_gt": lambda p: 0xFFFFFFFF - (2 << p.lane) + 1,
    "%lanemask_ge": lambda p: 0xFFFFFFFF - (1 << p.lane) + 1,
    "%dynamic_smem_size": lambda p: 96,
    "%total_smem_size": lambda p: 96 + 32,
    "WARP_SZ": lambda p: 32,
}
for _axis, _letter in enumerate("xyz"):
    WANTED |= {
        f"%tid.{_letter}": lambda p, axis=_axis: p.thread[axis],
        f"%ctaid.{_letter}": lambda p, axis=_axis: p.block[axis],
        f"%clusterid.{_letter}": lambda p, axis=_axis: p.block[axis] // CLUSTER[axis],
        f"%cluster_ctaid.{_letter}": lambda p, axis=_axis: p.block[axis] % CLUSTER[axis],
        f"%ntid.{_letter}": lambda p, axis=_axis: THREADS[axis],
        f"%nctaid.{_letter}": lambda p, axis=_axis: GRID[axis],
        f"%nclusterid.{_letter}": lambda p, axis=_axis: GRID[axis] // CLUSTER[axis],
        f"%cluster_nctaid.{_letter}": lambda p, axis=_axis: CLUSTER[axis],
    }
FREE = {"%smid", "%nsmid", "%clock", "%clock64", "%globaltimer", "%globaltimer_lo"}
"""Registers whose values PTX does not fix."""


def places() -> list[Place]:
    found = []
    for block in np.ndindex(*reversed(GRID)):
        for number in range(COUNT):
            x, rest = number % THREADS[0], number // THREADS[0]
            thread = (x, rest % THREADS[1], rest // THREADS[1])
            found.append(Place(number, number % 32, thread, block[::-1]))
    return found


@cache
def said() -> dict[str, list[int]]:
    """The value of each register, thread by thread of block by block."""
    body = f"""mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z; mad.lo.u32 %r3, %r2, {THREADS[1]}, %r1;
    mad.lo.u32 %r3, %r3, {THREADS[0]}, %r0; mov.u32 %r4, %ctaid.z; mov.u32 %r5, %ctaid.y; mov.u32 %r6, %ctaid.x;
    mad.lo.u32 %r4, %r4, {GRID[1]}, %r5; mad.lo.u32 %r4, %r4, {GRID[0]}, %r6; mad.lo.u32 %r3, %r4, {COUNT}, %r3;
    mul.wide.u32 %d1, %r3, 4; add.s64 %d1, %d1, %d0;"""
    count = COUNT * prod(GRID)
    registers = [*WANTED, "%smid", "%nsmid"]
    for number, register in enumerate(registers):
        body += f"mov.u32 %r9, {register}; st.global.b32 [%d1+{4 * count * number}], %r9;\n"
    text = kernel_text(body, 1, head=".shared .align 4 .b8 own[32];").replace(".reqntid 32", "")
    memory = DeviceMemory()
    address = memory.copy_in(np.zeros((len(registers), count), np.uint32))
    Launch(load(text), grid=GRID, threads=THREADS, cluster=CLUSTER, shared=96).run(memory, [address])
    found = memory.copy_out(address, (len(registers), count), np.uint32)
    return dict(zip(registers, found.tolist(), strict=True))


def test_all_are_known() -> None:
    assert set(SPECIAL) == set(WANTED) | FREE


@pytest.mark.quick
@pytest.mark.parametrize("register", WANTED)
def test_what_it_says(register: str) -> None:
    assert said()[register] == [WANTED[register](place) for place in places()]


def test_multiprocessors_are_numbered() -> None:
    """Blocks of one batch run side by side, each on its own."""
    numbers, counts = np.array(said()["%smid"]), np.array(said()["%nsmid"])
    assert (numbers < counts).all()
    assert (numbers.reshape(-1, COUNT) == numbers[::COUNT, None]).all()


@pytest.mark.parametrize("register", ["%clock64", "%globaltimer"])
def test_clocks_go_on(register: str) -> None:
    body = f"mov.u64 %d1, {register}; mov.u64 %d2, {register}; sub.s64 %d3, %d2, %d1; st.global.b64 [%d0], %d3;"
    memory = DeviceMemory()
    address = memory.copy_in(np.zeros(1, np.int64))
    Launch(load(kernel_text(body, 1, threads=1))).run(memory, [address])
    assert memory.copy_out(address, (1,), np.int64)[0] > 0
