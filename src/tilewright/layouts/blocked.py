"""Blocked layouts chosen for a shape: threads go along the fastest dimension first, warps take what is left.

default_blocked((64, 64), Workers(warps=4))
    #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [2, 2], order = [1, 0]}>
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tilewright.layouts.distributed import Blocked
from tilewright.layouts.keys import Bases
from tilewright.layouts.walk import shape_of_block


class Workers(NamedTuple):
    """The workers of a kernel: CTAs of `warps` warps of `lanes` threads; `ctas` of them share a tile."""

    warps: int = 4
    lanes: int = 32
    ctas: int = 1


def _clamped(value: int, most: int) -> int:
    return max(1, min(value, most))


def split_over_ctas(shape: Sequence[int], size_per_thread: Sequence[int], order: Sequence[int], ctas: int) -> Bases:
    """The division of a tile among `ctas` CTAs: its slowest dimension is split first; CTAs too many hold copies."""
    if ctas == 1:
        return ()
    rank, left = len(order), ctas
    splits = [1] * rank
    for dim in reversed(order):
        splits[dim] = _clamped(left, max(1, shape[dim] // size_per_thread[dim]))
        left //= splits[dim]
    rows: list[tuple[int, ...]] = []
    for dim in order:
        steps = (1 << bit for bit in range(splits[dim].bit_length() - 1))
        rows += [tuple(step if i == dim else 0 for i in range(rank)) for step in steps]
        if dim == rank - 1:
            rows += [(0,) * rank] * (left.bit_length() - 1)
    return tuple(rows)


def fill(shape: Sequence[int], size_per_thread: Sequence[int], order: Sequence[int], workers: Workers) -> Blocked:
    """A layout for tiles of `shape` whose threads have `size_per_thread` elements and fill `order[0]` first."""
    cga = split_over_ctas(shape, size_per_thread, order, workers.ctas)
    return fill_cta(shape, size_per_thread, order, workers, cga)


def fill_cta(
    shape: Sequence[int], size_per_thread: Sequence[int], order: Sequence[int], workers: Workers, cga: Bases
) -> Blocked:
    """The layout that `fill` gives, with a given division among CTAs."""
    extents = shape_of_block(shape, cga)
    lanes, warps, threads = workers.lanes, workers.warps, workers.warps * workers.lanes
    threads_per_warp, warps_per_cta = [1] * len(order), [1] * len(order)
    for dim in order[:-1]:
        along = _clamped(threads, max(1, extents[dim] // size_per_thread[dim]))
        threads_per_warp[dim] = _clamped(along, lanes)
        warps_per_cta[dim] = _clamped(along // threads_per_warp[dim], warps)
        lanes //= threads_per_warp[dim]
        warps //= warps_per_cta[dim]
        threads //= along
    threads_per_warp[order[-1]], warps_per_cta[order[-1]] = lanes, warps
    return Blocked(tuple(size_per_thread), tuple(threads_per_warp), tuple(warps_per_cta), tuple(order), cga)


@cache
def default_blocked(shape: tuple[int, ...], workers: Workers) -> Blocked:
    """The layout of a tile without any preference: one element per thread, row-major."""
    return fill(shape, (1,) * len(shape), tuple(reversed(range(len(shape)))), workers)
