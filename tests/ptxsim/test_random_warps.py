"""Instructions of whole warps on random values, members and segments, lane by lane in Python's numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_, xor

import numpy as np
import pytest
from ptx_programs import compute

WARPS, ABSENT = 6, 0xABCD
Lanes = dict[int, int]
"""The values of the members of a warp, by lane."""


def bits(lanes: Lanes, votes: Callable[[int], bool] = bool) -> int:
    """The lanes whose value votes so, as bits."""
    return sum(1 << lane for lane, value in lanes.items() if votes(value))


def signed(value: int) -> int:
    return value - (value >> 31 << 32)


def members_of(lanes: Lanes) -> int:
    return bits(lanes, lambda value: True)


def agreed(lanes: Lanes) -> int:
    return members_of(lanes) if len(set(lanes.values())) == 1 else 0


REDUCTIONS: dict[str, Callable[[list[int]], int]] = {
    "add.u32": sum,
    "min.u32": min,
    "max.u32": max,
    "min.s32": lambda values: min(values, key=signed),
    "max.s32": lambda values: max(values, key=signed),
    "and.b32": lambda values: reduce(and_, values),
    "or.b32": lambda values: reduce(or_, values),
    "xor.b32": lambda values: reduce(xor, values),
}
PREDICATE = "selp.b32 %r9, 1, 0, %p3;"
CASES: dict[str, Callable[[int, Lanes], int]] = {
    "vote.sync.ballot.b32 %r9, %p2, %r3;": lambda lane, lanes: bits(lanes, lambda value: value % 2 == 1),
    f"vote.sync.all.pred %p3, %p2, %r3; {PREDICATE}": lambda lane, lanes: all(v % 2 for v in lanes.values()),
    f"vote.sync.any.pred %p3, %p2, %r3; {PREDICATE}": lambda lane, lanes: any(v % 2 for v in lanes.values()),
    f"vote.sync.uni.pred %p3, !%p2, %r3; {PREDICATE}": lambda lane, lanes: len({v % 2 for v in lanes.values()}) == 1,
    "match.any.sync.b32 %r9, %r1, %r3;": lambda lane, lanes: bits(lanes, lanes[lane].__eq__),
    "match.all.sync.b32 %r9, %r1, %r3;": lambda lane, lanes: agreed(lanes),
    f"match.all.sync.b32 %r8|%p3, %r1, %r3; {PREDICATE}": lambda lane, lanes: agreed(lanes) > 0,
    "elect.sync %r9|%p3, %r3;": lambda lane, lanes: min(lanes),
    f"elect.sync %r8|%p3, %r3; {PREDICATE}": lambda lane, lanes: lane == min(lanes),
    "activemask.b32 %r9;": lambda lane, lanes: members_of(lanes),
    **{
        f"redux.sync.{name} %r9, %r1, %r3;": lambda lane, lanes, combine=combine: combine([*lanes.values()]) % 2**32
        for name, combine in REDUCTIONS.items()
    },
}


@pytest.mark.quick
@pytest.mark.parametrize("number", range(len(CASES)))
def test_members(number: int) -> None:
    """The warps have all lanes, one, or some; in two of them few values occur, or one."""
    code, expected = list(CASES.items())[number]
    rng = np.random.default_rng(number)
    here = rng.random((WARPS, 32)) < 0.6
    here[0], here[1], here[2] = True, np.arange(32) == 31, here[2] | (np.arange(32) == 0)
    values = rng.integers(0, 2**32, (WARPS, 32), dtype=np.uint32)
    values[3], values[4], values[5] = values[3] & 3, 2**32 - 2, values[5] | 1
    named = (here << np.arange(32, dtype=np.uint32)).sum(axis=1, dtype=np.uint32).repeat(32)
    text = f"""mov.u32 %r9, {ABSENT}; setp.ne.u32 %p1, %r2, 0; and.b32 %r10, %r1, 1; setp.ne.u32 %p2, %r10, 0;
    @!%p1 bra skip; {code} skip:"""
    found = compute(text, "u4", values.ravel(), here.astype(np.uint32).ravel(), named).reshape(WARPS, 32)
    for row, present, outcome in zip(values.tolist(), here.tolist(), found.tolist(), strict=True):
        lanes = {lane: value for lane, value in enumerate(row) if present[lane]}
        assert outcome == [int(expected(lane, lanes)) if lane in lanes else ABSENT for lane in range(32)]


def source_of(mode: str, lane: int, offset: int, clamp: int) -> tuple[int, bool]:
    """The lane that one reads, as PTX writes it, and whether its segment has it."""
    b, c, mask = offset & 31, clamp & 31, clamp >> 8 & 31
    last, first = (lane & mask) | (c & ~mask), lane & mask
    if mode == "up":
        j = lane - b
        inside = j >= last
    elif mode == "down":
        j = lane + b
        inside = j <= last
    elif mode == "bfly":
        j = lane ^ b
        inside = j <= last
    else:
        j = first | (b & ~mask)
        inside = j <= last
    return (j, True) if inside else (lane, False)


@pytest.mark.quick
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_segments(mode: str) -> None:
    """Any segments and limits, and offsets that differ by lane and have more than five bits."""
    rng = np.random.default_rng(len(mode))
    values = rng.integers(0, 2**30, 32 * WARPS, dtype=np.uint32) << 1
    offsets = rng.integers(0, 64, 32 * WARPS, dtype=np.uint32)
    clamps = (rng.integers(0, 32, WARPS) << 8 | rng.integers(0, 32, WARPS)).astype(np.uint32)
    clamps[:2] = 0 if mode == "up" else 31
    code = f"shfl.sync.{mode}.b32 %r9|%p1, %r1, %r2, %r3, -1; @%p1 add.u32 %r9, %r9, 1;"
    found = compute(code, "u4", values, offsets, clamps.repeat(32))
    for thread, outcome in enumerate(found.tolist()):
        lane, warp = thread % 32, thread // 32
        source, inside = source_of(mode, lane, int(offsets[thread]), int(clamps[warp]))
        assert outcome == int(values[32 * warp + source]) + inside
