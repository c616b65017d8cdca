"""The 32 bits that say what product `tcgen05.mma` makes.

form = instruction_descriptor("f16", bits)      # .rows 128, .columns 64, .first "bf16", .result "f32", …
form.values(raw, form.first)          # numbers from the bytes of shared memory
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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


def instruction_descriptor(kind: str, bits: int) -> InstructionDescriptor | None:
    """The form of these bits; None if it is not simulated."""
    scaled = kind.startswith("mx")
    types = ELEMENTS[kind]
    first, second = types.get(bits >> 7 & 7), types.get(bits >> 10 & (3 if kind.startswith("mxf4") else 7))
    result = "f32" if scaled else RESULTS.get(kind, {0: "f16", 1: "f32"}).get(bits >> 4 & 3)
    sparse, rows = bits >> 2 & 1, (bits >> 27 & 3) * 128 if scaled else (bits >> 24 & 31) * 16
    if first is None or second is None or result is None or sparse or rows not in (64, 128):
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
