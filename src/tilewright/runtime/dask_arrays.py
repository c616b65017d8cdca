"""Dask arrays: the one module that imports Dask; see `block_maps.py`, which says what is computed."""

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
    if boundary not in BOUNDARIES and (isinstance(boundary, str) or not np.isscalar(boundary)):
        known = ", ".join(map(repr, BOUNDARIES))
        what = f"{known} or a number, so that all blocks have halos"
        raise ArgumentError(f"depth= needs a boundary: {what}; not {boundary!r}")
    return [_with_halo(array, depths[rank - array.ndim :], boundary) for array in arrays]


def _with_halo(array: Any, depths: Sequence[int], boundary: Any) -> Any:
    wanted = dict(enumerate(depths))
    for axis, extent in wanted.items():
        if extent > min(array.chunks[axis]):
            least = f"the {min(array.chunks[axis])} elements of a block along axis {axis}"
            raise ArgumentError(f"depth {extent} is more than {least}: rechunk the array")
    return da.overlap.overlap(array, wanted, dict.fromkeys(wanted, boundary), allow_rechunk=False)


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
