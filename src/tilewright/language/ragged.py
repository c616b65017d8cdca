"""Rows of a matrix in slices of different lengths, without leaving one: `triton.tools.ragged_tma` in kernels.

block = load_ragged(desc, slice_off, slice_size, [row, column])        rows slice_off + row …, zeros from slice_size on

A descriptor clips at the ends of its axes only. So the ragged axis, of R rows, is entered at its end: the descriptor
begins R rows in front of the tensor, and an axis in front of all, with the same stride, says where the slice ends:

    address = tensor - R + (slice_off + slice_size) + (R - slice_size + row) = tensor + slice_off + row
    outside   where R - slice_size + row ≥ R, which is row ≥ slice_size

An NVIDIA GPU faults if a descriptor begins where there is no memory, though nothing there is read (seen on an H200). So
for its tensors R is 2³⁰, and one more axis leads back: R steps of 2³⁴ elements less one row are 2⁶⁴ elements, which is
none, less R rows.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import shaping
from tilewright.language.descriptors import tensor_descriptor
from tilewright.semantics.constexpr import unwrap


def load_ragged(TMA: tensor_descriptor, slice_off: Any, slice_size: Any, coords: Any, ragged_dim: Any = 0) -> Any:  # noqa: N803 - Triton's name
    """The block at `coords` within a slice; what lies behind the slice is zero.

    Args:
        TMA: a ragged descriptor.
        slice_off, slice_size: where the slice begins on the ragged axis, and how long it is.
        coords: the coordinates of the block, one per axis of the tensor.
        ragged_dim: which axis is ragged.
    """
    block = TMA.load(_offsets(TMA, slice_off, slice_size, coords, ragged_dim))
    return shaping.reshape(block, TMA.block_shape[len(TMA.block_shape) - len(coords) :])


def store_ragged(
    TMA: tensor_descriptor,  # noqa: N803 - Triton's name
    slice_off: Any,
    slice_size: Any,
    coords: Any,
    data: Any,
    ragged_dim: Any = 0,
) -> None:
    """Write `data` to the block at `coords` within a slice, and nothing behind it; arguments as for `load_ragged`."""
    block = shaping.reshape(data, TMA.block_shape)
    TMA.store(_offsets(TMA, slice_off, slice_size, coords, ragged_dim), block)


def atomic_add_ragged(
    TMA: tensor_descriptor,  # noqa: N803 - Triton's name
    slice_off: Any,
    slice_size: Any,
    coords: Any,
    data: Any,
    ragged_dim: Any = 0,
) -> None:
    """Add `data` to the block at `coords` within a slice, and nothing behind it; arguments as for `load_ragged`."""
    block = shaping.reshape(data, TMA.block_shape)
    TMA.atomic_add(_offsets(TMA, slice_off, slice_size, coords, ragged_dim), block)


def _offsets(desc: tensor_descriptor, slice_off: Any, slice_size: Any, coords: Any, ragged_dim: Any) -> list[Any]:
    axis, places = unwrap(ragged_dim), list(coords)
    ahead = len(desc.block_shape) - len(places)
    rows = desc.shape[ahead + axis]
    places[axis] = rows - slice_size + places[axis]
    return [*[rows] * (ahead - 1), slice_off + slice_size, *places]
