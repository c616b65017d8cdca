"""The blocked layout of a reshaped tile, where there is one that keeps every element with its thread.

reshaped_blocked(Blocked((4, 4), (8, 1), (1, 1), (1, 0)), (32, 4), (128,))     # sizePerThread = [16]
reshaped_blocked(Blocked((2, 2), (4, 8), (1, 1), (1, 0)), (32, 32), (1024,))   # None: a thread's block is no line
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from tilewright.layouts.distributed import Blocked

Shape = tuple[int, ...]
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
