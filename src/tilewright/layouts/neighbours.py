"""Blocked layouts of tiles that share their registers with a tile of another shape: nothing moves between the two.

with_dim(blocked, 1)        64 elements as a column: the new dimension has extent 1
joined(blocked)             pairs, both parts of which are in the thread that has one of them now
split(joined(blocked))      blocked
transposed(blocked, (1, 0))
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.layouts.distributed import Blocked


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
