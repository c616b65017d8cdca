"""Dask arrays: the only module that imports Dask; `block_maps.py` describes the computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tilewright.runtime.block_maps import BlockLaunch
from tilewright.runtime.errors import ArgumentError

try:
    import dask.array as da
except ImportError as error:
    raise ImportError(f"map_blocks needs Dask: pip install 'tilewright[dask]' ({error})") from error

BOUNDARIES = ("reflect", "periodic", "nearest")


def mapped_blocks(
    arguments: Sequence[Any],
    launch: Callable[[Callable[[Any], int | None], Any], BlockLaunch],
    *,
    dtype: Any,
    chunks: Any,
    depth: Any,
    boundary: Any,
) -> Any:
    """The lazy result of `block_maps.map_blocks`.

    Args:
        launch: makes what runs for each block, of a function that numbers the arrays and of the result's dtype.
    """
    arrays = [argument for argument in arguments if isinstance(argument, da.Array)]
    if not arrays:
        raise ArgumentError("map_blocks needs a Dask array among the arguments; a NumPy array is launched on as it is")
    _refuse_unknown(arrays)
    numbers = {id(array): number for number, array in enumerate(arrays)}
    kind = np.dtype(arrays[0].dtype if dtype is None else dtype)
    aligned, extents = _aligned(arrays)
    made = launch(lambda argument: numbers.get(id(argument)), kind)
    rank = len(extents)
    return da.map_blocks(
        made,
        *_with_halos(aligned, depth, boundary),
        dtype=kind,
        chunks=_checked_chunks(chunks, extents) if chunks is not None else extents,
        meta=np.empty((0,) * rank, kind),
        name=f"{made.__name__}-{da.core.tokenize(made, depth, boundary, chunks, *aligned)}",
    )


def folded_blocks(
    fold: Callable[..., Any], array: Any, axes: tuple[int, ...], dtype: np.dtype[Any], initial: Any
) -> Any:
    """The lazy fold of an array along axes, from the first element to the last, as of an array that is whole.

    The first of the axes may be in several blocks: each goes on with what the one before it gave. Blocks along axes
    that are not folded are independent of each other.

    Args:
        fold: the fold of a block; of a block and what is before it.
        axes: sorted.
        dtype: of the result.
        initial: a number before the first element, or None.

    Raises:
        ValueError: there are no elements, and no `initial`.
    """
    _refuse_unknown([array])
    whole = array.rechunk(dict.fromkeys(axes[1:], -1)) if axes[1:] else array
    everything = tuple(range(array.ndim))
    kept = tuple(axis for axis in everything if axis not in axes)
    so_far = initial
    for part in _along(whole, axes[0]) if axes else [whole]:
        before = (so_far, kept if isinstance(so_far, da.Array) else None)
        facts = {"dtype": dtype, "meta": np.empty((0,) * len(kept), dtype), "concatenate": True}
        so_far = da.blockwise(fold, kept, part, everything, *before, **facts)
    if not isinstance(so_far, da.Array):
        if initial is None:
            raise ValueError("zero-size array to reduction operation which has no identity")
        chunks = tuple(whole.chunks[axis] for axis in kept)
        so_far = da.full([sum(part) for part in chunks], initial, dtype=dtype, chunks=chunks)
    return so_far


def _along(array: Any, axis: int) -> list[Any]:
    """The parts of an array with one block each along an axis, those without elements left out."""
    ends = np.cumsum(array.chunks[axis]).tolist()
    before = (slice(None),) * axis
    parts = zip([0, *ends], ends, strict=False)
    return [array[(*before, slice(begin, end))] for begin, end in parts if begin < end]


def _refuse_unknown(arrays: Sequence[Any]) -> None:
    for array in arrays:
        if any(np.isnan(extent) for extent in array.shape):
            raise ArgumentError("a Dask array whose chunks have unknown sizes: call compute_chunk_sizes() first")


def _aligned(arrays: Sequence[Any]) -> tuple[list[Any], tuple[tuple[int, ...], ...]]:
    """The arrays with blocks that fit each other, and the extents of the blocks along each axis of all together."""
    rank = max(array.ndim for array in arrays)
    pairs = [(array, tuple(range(rank - array.ndim, rank))) for array in arrays]
    found, aligned = da.core.unify_chunks(*chain.from_iterable(pairs))
    return list(aligned), tuple(found[axis] for axis in range(rank))


def _with_halos(arrays: Sequence[Any], depth: Any, boundary: Any) -> list[Any]:
    """The arrays whose blocks have elements of their neighbours."""
    rank = max(array.ndim for array in arrays)
    depths = _depths(depth, rank)
    if not any(depths):
        if boundary is not None:
            raise ArgumentError("boundary= says what is beyond the ends of halos, and depth= is 0")
        return list(arrays)
    boundaries = _boundaries(boundary, depths)
    return [_with_halo(a, depths[rank - a.ndim :], boundaries[rank - a.ndim :]) for a in arrays]


def _boundaries(boundary: Any, depths: Sequence[int]) -> tuple[Any, ...]:
    """The boundary of each axis; of those without halos it says nothing."""
    if isinstance(boundary, Mapping):
        boundary = tuple(boundary.get(axis) for axis in range(len(depths)))
    found = tuple(boundary) if isinstance(boundary, tuple | list) else (boundary,) * len(depths)
    if len(found) != len(depths):
        raise ArgumentError(f"boundary= is one for all, or one for each of {len(depths)} axes; not {boundary!r}")
    for depth, kind in zip(depths, found, strict=True):
        if depth and kind not in BOUNDARIES and (isinstance(kind, str) or not np.isscalar(kind)):
            known = ", ".join(map(repr, BOUNDARIES))
            what = f"{known} or a number, so that all blocks have halos"
            raise ArgumentError(f"depth= needs a boundary: {what}; not {kind!r}")
    return tuple(kind if depth else "nearest" for depth, kind in zip(depths, found, strict=True))


def _with_halo(array: Any, depths: Sequence[int], boundaries: Sequence[Any]) -> Any:
    wanted = dict(enumerate(depths))
    for axis, extent in wanted.items():
        if extent > min(array.chunks[axis]):
            least = f"the {min(array.chunks[axis])} elements of a block along axis {axis}"
            raise ArgumentError(f"depth {extent} is more than {least}: rechunk the array")
    return da.overlap.overlap(array, wanted, dict(enumerate(boundaries)), allow_rechunk=False)


def _depths(depth: Any, rank: int) -> tuple[int, ...]:
    if isinstance(depth, Mapping):
        depth = tuple(depth.get(axis, 0) for axis in range(rank))
    found = tuple(depth) if isinstance(depth, Sequence) else (depth,) * rank
    if len(found) != rank or not all(isinstance(extent, int) and extent >= 0 for extent in found):
        raise ArgumentError(f"depth= is a number of elements, or one for each of {rank} axes; not {depth!r}")
    return found


def _checked_chunks(chunks: Any, extents: Sequence[Sequence[int]]) -> Any:
    """The blocks of the result: as many along each axis as the arrays have."""
    counts = [len(part) for part in extents]
    pairs = zip(chunks, counts, strict=False)
    given = tuple(part if isinstance(part, tuple) else (part,) * count for part, count in pairs)
    if len(chunks) != len(counts) or [len(part) for part in given] != counts:
        grid = " x ".join(map(str, counts))
        raise ArgumentError(f"chunks= has to give {grid} blocks, as the arrays have; not {chunks!r}")
    return given
