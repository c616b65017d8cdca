"""The 64-bit descriptors by which wgmma and tcgen05 find a matrix in shared memory.

    descriptor = read_descriptor(bits, WGMMA_SWIZZLES)
    byte_addresses(descriptor, rows=64, depth=16, size=2, transposed=False)      # (row, bytes of the row)

Rows are those of the first operand, or the columns of the second; the depth is what both are summed over. A matrix
that is not transposed has the depth contiguous: eight rows of 16, 32, 64 or 128 bytes are a block, `stride` is from
block to block. A transposed one has rows contiguous: blocks of eight places of the depth, `stride` from one eight to
the next, `leading` from one width of the swizzle to the next. Without a swizzle the blocks are eight times 16 bytes,
and `leading` and `stride` trade their parts where the matrix is transposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Addresses = NDArray[np.int64]
CORE = 16
"""Bytes of a row that stay together in every layout."""

WGMMA_SWIZZLES = {0: 0, 1: 128, 2: 64, 3: 32}
"""Width of the swizzle in bytes, by bits 62 and 63."""
TENSOR_MEMORY_SWIZZLES = {0: 0, 2: 128, 4: 64, 6: 32}
"""Width of the swizzle in bytes, by bits 61 to 63, for tcgen05."""
SWIZZLE_BITS = {0: 0, 32: 1, 64: 3, 128: 7}
"""The mask of the address bits from 7 up that are xored into those from 4 up, by the width of the swizzle."""


@dataclass(frozen=True)
class MatrixDescriptor:
    """The place of a matrix; all in bytes.

    Attributes:
        start: the address of its first element, before the swizzle.
        leading, stride: the two distances between blocks.
        swizzle: 0, 32, 64 or 128.
    """

    start: int
    leading: int
    stride: int
    swizzle: int


def swizzled(addresses: Addresses, width: int) -> Addresses:
    """Addresses after the swizzle of this width, which repeats every 256, 512 or 1024 bytes."""
    return addresses ^ (((addresses >> 7) & SWIZZLE_BITS[width]) << 4)


def read_descriptor(bits: int, swizzles: dict[int, int]) -> MatrixDescriptor | None:
    """The descriptor of 64 bits; None if it asks for something that is not modelled.

    Args:
        bits: the register.
        swizzles: `WGMMA_SWIZZLES` or `TENSOR_MEMORY_SWIZZLES`.
    """
    shift = 62 if swizzles is WGMMA_SWIZZLES else 61
    width = swizzles.get(bits >> shift)
    # A base offset shifts the pattern of a swizzle; and a leading distance may be an address.
    if width is None or (width and bits >> 49 & 7) or bits >> 52 & 1:
        return None
    start, leading, stride = (((bits >> low) & 0x3FFF) << 4 for low in (0, 16, 32))
    return MatrixDescriptor(start, leading, stride, width)


@lru_cache(maxsize=256)
def byte_addresses(descriptor: MatrixDescriptor, *, rows: int, depth: int, size: int, transposed: bool) -> Addresses:
    """Addresses of all bytes of a matrix: (row, depth * size), swizzled.

    Args:
        descriptor: where it lies.
        rows, depth: its extent in elements.
        size: bytes of an element.
        transposed: whether rows are contiguous, not the depth.
    """
    row, place, byte = np.ogrid[:rows, :depth, :size]
    offsets = (_rows_contiguous if transposed else _depth_contiguous)(descriptor, row, place, size)
    return swizzled(descriptor.start + offsets + byte, descriptor.swizzle).reshape(rows, depth * size)


def _depth_contiguous(descriptor: MatrixDescriptor, row: Addresses, place: Addresses, size: int) -> Addresses:
    width, at = descriptor.swizzle or CORE, place * size
    if not descriptor.swizzle:
        at = at // CORE * descriptor.leading + at % CORE
    return row // 8 * descriptor.stride + row % 8 * width + at


def _rows_contiguous(descriptor: MatrixDescriptor, row: Addresses, place: Addresses, size: int) -> Addresses:
    width = descriptor.swizzle or CORE
    per_block = width // size
    between, eights = descriptor.leading, descriptor.stride
    if not descriptor.swizzle:
        between, eights = eights, between
    return row // per_block * between + row % per_block * size + place // 8 * eights + place % 8 * width
