"""Assign every buffer an offset in the thread's scratch arena; buffers with disjoint lifetimes share bytes.

A buffer is live from its first use to its last one; a use inside a loop counts as a use by the whole loop if the buffer
is allocated outside of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tilewright.dialects.cpu import Alloc, tile_of
from tilewright.ir.core import Op
from tilewright.ir.types import Type
from tilewright.transforms.functions import callees_of, callers_first

ALIGNMENT = 64


@dataclass
class Life:
    """The live range of a buffer, as positions in program order, and its size in bytes."""

    alloc: Alloc
    start: int
    end: int
    size: int


def allocate_buffers(module: Op, workspace: int = 0) -> bool:
    """Set the attribute `offset` (bytes) of every cpu.alloc; returns whether there is one.

    The first `workspace` bytes stay free for the micro-kernels. The buffers of a function lie behind those of all its
    callers.
    """
    if not module.ops_of(Alloc):
        return False
    starts: dict[Op, int] = {}
    for function in callers_first(module):
        end = _place(function, starts.get(function, _aligned(workspace)))
        for callee in callees_of(function, module):
            starts[callee] = max(end, starts.get(callee, 0))
    return True


def _place(function: Op, start: int) -> int:
    """Place the buffers of a function at `start` and behind; returns where they end."""
    placed: list[tuple[int, Life]] = []
    for life in sorted(_lives(function), key=lambda life: (-life.size, life.start)):
        offset = _first_fit(life, placed, start)
        life.alloc.offset = offset
        placed.append((offset, life))
    return max((offset + life.size for offset, life in placed), default=start)


def arena_bytes(module: Op, workspace: int = 0) -> int:
    """The bytes that the arena needs, once every buffer in use has its place."""
    return max(_aligned(workspace), end_of(module.ops_of(Alloc)))


def end_of(buffers: Iterable[Alloc]) -> int:
    """The bytes of the arena up to the end of the last of `buffers` that has its place."""
    return max((op.offset + _size(op) for op in buffers if op.offset is not None), default=0)


def bytes_of(element: Type) -> int:
    """The size of one element in memory; truth values take a byte."""
    return max(1, element.bits // 8)


def _lives(function: Op) -> list[Life]:
    starts: dict[Op, int] = {}
    ends: dict[Op | None, int] = {}
    for position, op in enumerate(function.walk()):
        starts[op] = ends[op] = position
    for op in reversed(list(starts)):
        parent = op.parent
        if parent in ends:
            ends[parent] = max(ends[parent], ends[op])
    lives = []
    for alloc in [op for op in starts if isinstance(op, Alloc)]:
        users = [_at_level_of(alloc, user) for user in alloc.result.uses]
        if users:
            lives.append(Life(alloc, min(starts[u] for u in users), max(ends[u] for u in users), _size(alloc)))
    return lives


def _size(alloc: Alloc) -> int:
    """The bytes of a buffer."""
    tile = tile_of(alloc.result.type)
    return _aligned(tile.numel * bytes_of(tile.element))


def _at_level_of(alloc: Alloc, user: Op) -> Op:
    """`user`, or the op around it that is in the block of `alloc`."""
    while user.block is not alloc.block:
        parent = user.parent
        assert parent is not None, "a buffer is used where it is visible"
        user = parent
    return user


def _first_fit(life: Life, placed: list[tuple[int, Life]], start: int) -> int:
    offset = start
    for taken, other in sorted(placed, key=lambda item: item[0]):
        overlaps = other.start <= life.end and life.start <= other.end
        if overlaps and taken < offset + life.size and offset < taken + other.size:
            offset = taken + other.size
    return offset


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
