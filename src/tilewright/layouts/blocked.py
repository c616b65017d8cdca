"""Blocked layouts chosen for a shape, and those of tiles in the same registers with another shape.

default_blocked((64, 64), Workers(warps=4))     #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], …}>
with_dim(blocked, 1)        64 elements as a column: the new dimension has extent 1
joined(blocked)             pairs, both parts of which are in the thread that now holds one
split(joined(blocked))      blocked
reshaped_blocked(Blocked((4, 4), (8, 1), (1, 1), (1, 0)), (32, 4), (128,))     # sizePerThread = [16]
reshaped_blocked(Blocked((2, 2), (4, 8), (1, 1), (1, 0)), (32, 32), (1024,))   # None: no thread has a row of elements
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import prod
from typing import NamedTuple

from tilewright.ir.types import Shape
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
    """A blocked layout that gives every lane, warp and CTA a part of the tile, until it is covered.

    Args:
        shape: extents of the tile.
        size_per_thread: extents of the elements that a thread has side by side.
        order: dimensions, the one along which lanes stand first.
        workers: the number of warps, of lanes per warp and of CTAs.
    """
    cga = split_over_ctas(shape, size_per_thread, order, workers.ctas)
    return fill_cta(shape, size_per_thread, order, workers, cga)


def fill_cta(
    shape: Sequence[int], size_per_thread: Sequence[int], order: Sequence[int], workers: Workers, cga: Bases
) -> Blocked:
    """The layout that `fill` gives, with the division among CTAs in `cga`.

    Args:
        shape, size_per_thread, order, workers: as for `fill`.
        cga: the division.
    """
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


def _with(values: tuple[int, ...], dim: int, value: int) -> tuple[int, ...]:
    return (*values[:dim], value, *values[dim:])


def with_dim(layout: Blocked, dim: int) -> Blocked:
    """A layout whose slice along `dim` has elements where `layout` has them."""
    return Blocked(
        _with(layout.size_per_thread, dim, 1),
        _with(layout.threads_per_warp, dim, 1),
        _with(layout.warps_per_cta, dim, 1),
        tuple(range(layout.rank + 1)),
        tuple(_with(row, dim, 0) for row in layout.cga),
    )


def joined(layout: Blocked) -> Blocked:
    """`layout` with a last, fastest dimension of extent 2, all of which one thread has."""
    rank = layout.rank
    return Blocked(
        (*layout.size_per_thread, 2),
        (*layout.threads_per_warp, 1),
        (*layout.warps_per_cta, 1),
        (rank, *layout.order),
        tuple((*row, 0) for row in layout.cga),
    )


def is_split_by_thread(layout: Blocked) -> bool:
    """Whether each thread has both parts of its pairs along the last dimension, one after the other."""
    return layout.size_per_thread[-1] == 2 and layout.order[0] == layout.rank - 1


def split(layout: Blocked) -> Blocked:
    """`layout` without its last dimension."""
    last = layout.rank - 1
    return Blocked(
        layout.size_per_thread[:-1],
        layout.threads_per_warp[:-1],
        layout.warps_per_cta[:-1],
        tuple(dim for dim in layout.order if dim != last),
        tuple(row[:-1] for row in layout.cga),
    )


def transposed(layout: Blocked, order: Sequence[int]) -> Blocked:
    """`layout` of a tile whose dimension i was dimension `order[i]`."""
    return Blocked(
        tuple(layout.size_per_thread[dim] for dim in order),
        tuple(layout.threads_per_warp[dim] for dim in order),
        tuple(layout.warps_per_cta[dim] for dim in order),
        tuple(order.index(dim) for dim in layout.order),
        tuple(tuple(row[dim] for dim in order) for row in layout.cga),
    )


Group = tuple[list[int], list[int]]


def dimension_groups(shape: Shape, result: Shape) -> list[Group]:
    """Dimensions of `shape` and of `result` that have the same elements, in as many groups as there can be.

    dimension_groups((4, 8, 6), (32, 2, 3))     # [([0, 1], [0]), ([2], [1, 2])]
    """
    groups: list[Group] = [([], [])]
    left = right = 0
    sizes = [1, 1]
    while left < len(shape) or right < len(result):
        more_left = left < len(shape) and (sizes[0] == 1 or shape[left] == 1)
        if sizes[0] < sizes[1] or more_left:
            sizes[0] *= shape[left]
            groups[-1][0].append(left)
            left += 1
        elif sizes[1] < sizes[0] or (right < len(result) and result[right] == 1):
            sizes[1] *= result[right]
            groups[-1][1].append(right)
            right += 1
        else:
            groups.append(([], []))
            sizes = [1, 1]
    return groups


def reshaped_blocked(layout: Blocked, shape: Shape, result: Shape) -> Blocked | None:
    """The layout of a tile of `shape` seen as one of shape `result`; None if no blocked layout keeps the elements."""
    parts = layout.size_per_thread, layout.threads_per_warp, layout.warps_per_cta
    if layout.cga or not all(_divides(part, shape) for part in parts):
        return None
    groups = dimension_groups(shape, result)
    places = [layout.order.index(dim) for dim in range(layout.rank)]
    for dims, _ in groups:
        if not _is_descending([places[dim] for dim in dims]) or not _is_filled(parts, shape, dims):
            return None
    left = list(result)
    registers, lanes, warps = (_filled(part, groups, left) for part in parts)
    groups.sort(key=lambda group: places[group[0][0]])
    order = tuple(dim for _, dims in groups for dim in reversed(dims))
    return Blocked(registers, lanes, warps, order)


def _divides(part: Sequence[int], shape: Shape) -> bool:
    return all(size < count or size % count == 0 for count, size in zip(part, shape, strict=True))


def _is_descending(places: Sequence[int]) -> bool:
    """The dimensions follow one another in memory, the last one fastest."""
    return all(a == b + 1 for a, b in pairwise(places))


def _is_filled(parts: Sequence[Sequence[int]], shape: Shape, dims: Sequence[int]) -> bool:
    """Whether each part (registers, then lanes, then warps) reaches into a dimension only behind all faster ones.

    A part may be larger than what is left of the slowest dimension of all.
    """
    left = [shape[dim] for dim in dims]
    for part in parts:
        for index in reversed(range(len(dims))):
            count = part[dims[index]]
            if count == 1:
                continue
            if any(size != 1 for size in left[index + 1 :]):
                return False
            left[index] = left[index] // count
            if left[index] == 0 and index != 0:
                return False
    return True


def _filled(part: Sequence[int], groups: Sequence[Group], left: list[int]) -> Shape:
    """The part of the result: each group takes what it had, the fastest dimension first; `left` is what remains."""
    taken = [1] * len(left)
    for before, after in groups:
        count = prod(part[dim] for dim in before)
        for dim in reversed(after):
            taken[dim] = min(count, left[dim])
            count //= taken[dim]
            left[dim] //= taken[dim]
        if after:
            taken[after[0]] *= count
    return tuple(taken)
