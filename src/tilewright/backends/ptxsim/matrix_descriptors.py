"""The 64-bit descriptors by which wgmma and tcgen05 find a matrix in shared memory.

    descriptor = read_descriptor(bits, WGMMA_SWIZZLES)
    byte_addresses(descriptor, rows=64, depth=16, size=2, transposed=False)      # (row, bytes of the row)

Rows are those of the first operand, or the columns of the second; the depth is the dimension that is summed over. A
matrix that is not transposed has the depth contiguous: eight rows of 16, 32, 64 or 128 bytes are a block, and `stride`
is the distance between blocks. A transposed one has rows contiguous: a block has eight indices of the depth, `stride`
is the distance between groups of eight, and `leading` that between widths of the swizzle. Without a swizzle blocks are
eight times 16 bytes, and `leading` and `stride` are swapped where the matrix is transposed.

`tcgen05.mma` also takes a 32-bit instruction descriptor:

    form = instruction_descriptor("f16", bits)      # .rows 128, .columns 64, .first "bf16", .result "f32", …
    form.values(raw, form.first)                    # numbers from the bytes of shared memory
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilewright.backends.ptxsim.value_types import WIDTHS, Array, read_elements

STEP_BYTES = 32
"""Bytes of the depth of one product, for every type."""
RESULTS = {"i8": {2: "s32"}}
ELEMENTS: dict[str, dict[int, str]] = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "i8": {0: "u8", 1: "s8"},
    "f8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "mxf8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "mxf4": {1: "e2m1x2"},
    "mxf4nvf4": {1: "e2m1x2"},
}
"""Types of operands by their numbers, for each kind."""
BLOCKS = {"block16": 16, "block32": 32, "scale_vec::1X": 32, "scale_vec::2X": 32, "scale_vec::4X": 16}
"""The number of elements that share a scale."""
_BLOCK_OF_KIND = {"mxf8f6f4": 32, "mxf4": 32, "mxf4nvf4": 16}
_NARROW_BITS = {"e2m1": 4, "e2m3": 6, "e3m2": 6}
PADDED = 16
"""Narrow elements stand by sixteen in sixteen bytes: packed, then bytes that mean nothing."""


@dataclass(frozen=True)
class InstructionDescriptor:
    """The form of a product.

    Attributes:
        rows, columns, depth: extents.
        result: type of the sums.
        first, second: types of the operands.
        signs: of the operands.
        across: whether the rows of the operands are contiguous in shared memory.
        saturate: whether integer sums saturate.
        scale: type of the scales.
        scale_places: the first byte of the scales in their words, for both operands.
        block: the number of elements that share a scale.
    """

    rows: int
    columns: int
    depth: int
    result: str
    first: str
    second: str
    signs: tuple[int, int]
    across: tuple[bool, bool]
    saturate: bool
    scale: str
    scale_places: tuple[int, int]
    block: int

    @property
    def size(self) -> int:
        """Bytes that an element has where it can be addressed."""
        return max(1, WIDTHS[self.first] // 8)

    def share(self, count: int) -> InstructionDescriptor:
        """The part of one of `count` CTAs: of the rows of the first operand, and of the columns of the second."""
        return replace(self, rows=self.rows // count, columns=self.columns // count)

    def used_bytes(self, element: str) -> Array:
        """The mask of bytes in a row that instructions read: narrow elements leave the last of each sixteen unused."""
        return np.arange(STEP_BYTES) % PADDED < 2 * _NARROW_BITS.get(element, PADDED // 2)

    def values(self, raw: Array, element: str) -> Array:
        """Numbers from bytes of shared or tensor memory: (row, bytes) -> (row, depth)."""
        bits = _NARROW_BITS.get(element)
        if bits is None:
            return read_elements(raw, element)
        packed = raw.reshape(*raw.shape[:-1], -1, PADDED)[..., : 2 * bits]
        flags = np.unpackbits(packed, axis=-1, bitorder="little").reshape(*packed.shape[:-1], PADDED, bits)
        codes = np.packbits(flags, axis=-1, bitorder="little")[..., 0].reshape(raw.shape)
        return read_elements(codes << np.uint8(2) if element == "e2m1" else codes, element)


def instruction_descriptor(kind: str, bits: int, *, pairs: bool = False) -> InstructionDescriptor | None:
    """The form of these bits, for one CTA or a pair; None if it is not simulated."""
    scaled = kind.startswith("mx")
    types = ELEMENTS[kind]
    first, second = types.get(bits >> 7 & 7), types.get(bits >> 10 & (3 if kind.startswith("mxf4") else 7))
    result = "f32" if scaled else RESULTS.get(kind, {0: "f16", 1: "f32"}).get(bits >> 4 & 3)
    sparse, rows = bits >> 2 & 1, (bits >> 27 & 3) * 128 if scaled else (bits >> 24 & 31) * 16
    extents = {(False, False): (64, 128), (False, True): (128,), (True, False): (128, 256), (True, True): (256,)}
    if first is None or second is None or result is None or sparse or rows not in extents[pairs, scaled]:
        return None
    return InstructionDescriptor(
        rows=rows,
        columns=(bits >> 17 & 63) * 8,
        depth=STEP_BYTES * 8 // WIDTHS[first],
        result=result,
        first=first,
        second=second,
        signs=(1 - 2 * (bits >> 13 & 1), 1 - 2 * (bits >> 14 & 1)),
        across=(bool(bits >> 15 & 1), bool(bits >> 16 & 1)),
        saturate=not scaled and bool(bits >> 3 & 1),
        scale="ue8m0" if bits >> 23 & 1 else "ue4m3",
        scale_places=(bits >> 29 & 3, bits >> 4 & 3),
        block=_BLOCK_OF_KIND.get(kind, 0),
    )


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
