"""Accesses to slices of different lengths of a matrix's rows: `triton.tools.ragged_tma` in kernels.

block = load_ragged(desc, slice_off, slice_size, [row, column])        rows slice_off + row …, zeros from slice_size on

A descriptor clips at the ends of its axes only. Therefore the ragged axis is declared with R = 2³⁰ rows and accessed
near its end; a first axis, with the same stride, selects where the slice ends; and another axis leads back:
R steps of 2³⁴ elements less one row are 2⁶⁴ elements, which is zero, less R rows.

    address = tensor - R + (slice_off + slice_size) + (R - slice_size + row) = tensor + slice_off + row
    outside   where R - slice_size + row ≥ R, which is row ≥ slice_size

The descriptor begins where the tensor does, for two reasons: kernels can make it again from the tensor's pointer with
its shape and strides, and an NVIDIA GPU faults if a descriptor begins where there is no memory, even if nothing there
is read (observed on an H200). Addresses wrap on every machine.
"""

from __future__ import annotations

from typing import Any

from tilewright.language import shaping
from tilewright.language.descriptors import tensor_descriptor
from tilewright.semantics.constexpr import unwrap


def load_ragged(TMA: tensor_descriptor, slice_off: Any, slice_size: Any, coords: Any, ragged_dim: Any = 0) -> Any:  # noqa: N803 - Triton's name
    """The block at `coords` within a slice; elements lies behind the slice are zero.

    Args:
        TMA: a ragged descriptor.
        slice_off, slice_size: where the slice begins on the ragged axis, and how long it is.
        coords: the coordinates of the block, one per axis of the tensor.
        ragged_dim: which axis is ragged.
    """
    block = TMA.load(_offsets(slice_off, slice_size, coords, ragged_dim))
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
    TMA.store(_offsets(slice_off, slice_size, coords, ragged_dim), block)


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
    TMA.atomic_add(_offsets(slice_off, slice_size, coords, ragged_dim), block)


def to_ragged_indices(slice_off: Any, slice_size: Any, row: Any) -> tuple[int, Any, Any]:
    """The coordinates on the two axes in front, and on the ragged axis.

    Args:
        slice_off, slice_size: where the slice begins on the ragged axis, and how long it is.
        row: the row within the slice.
    """
    return MAX_ROWS, slice_off + slice_size, MAX_ROWS - slice_size + row


MAX_ROWS = 1 << 30
"""The number of rows that a ragged axis is said to have."""


def _offsets(slice_off: Any, slice_size: Any, coords: Any, ragged_dim: Any) -> list[Any]:
    axis, places = unwrap(ragged_dim), list(coords)
    back, end, places[axis] = to_ragged_indices(slice_off, slice_size, places[axis])
    return [back, end, *places]
