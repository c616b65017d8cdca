"""The operand that tells `tcgen05.mma` a product's kinds of elements, directions and extents, but not its place.

kind_of_product("f16", "f32")                          # "f16"
instruction_bits("f16", "f16", "f32", 128, 64)         # 32 bits, an operand of the instruction

30-29  of scaled products: which bytes of a word are the scales of the left factor
28-24  rows of the sum / 16
23     of scaled products: 1 where scales are exponents
22-17  columns of the sum / 8
16     the right factor is read across what is summed over
15     the left factor is
12-10  elements of the right factor
9-7    elements of the left factor
5-4    elements of the sum; of scaled products: which bytes are the scales of the right factor
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "s8": "i8"}
"""The kind of a product, by the elements of its left factor."""
ELEMENTS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "s8": 1}
SUMS = {"f16": 0, "f32": 1, "s32": 2}
SCALED_ELEMENTS = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
PACKED_E2M1 = 1
"""The number of e2m1 where both factors are of it."""
FOUR_BITS = "e2m1"


def instruction_bits(a: str, b: str, sum: str, rows: int, columns: int, *, across: tuple[bool, bool]) -> int:
    """The operand for a product.

    Args:
        a, b, sum: what PTX calls the elements.
        rows, columns: of the sum of one instruction.
        across: per factor, whether its elements follow each other across what is summed over.
    """
    return SUMS[sum] << 4 | ELEMENTS[a] << 7 | ELEMENTS[b] << 10 | _extents(rows, columns, across)


def _extents(rows: int, columns: int, across: tuple[bool, bool]) -> int:
    return across[0] << 15 | across[1] << 16 | columns // 8 << 17 | rows // 16 << 24


@dataclass(frozen=True)
class ScaledKind:
    """A kind of scaled product.

    Attributes:
        name: as in PTX, with what it says of scales.
        k: how much one instruction sums over.
        scales: how many scales of a row one instruction takes.
        exponents: scales are exponents, not e4m3.
    """

    name: str
    k: int
    scales: int
    exponents: bool = True

    @property
    def instructions_per_word(self) -> int:
        """The number of instructions that find their scales in one word of tensor memory."""
        return 4 // self.scales

    def bits(self, a: str, b: str, rows: int, columns: int, step: int, *, across: tuple[bool, bool]) -> int:
        """The operand for instruction `step` along k."""
        four_bits = self.k > MIXED.k
        first, second = (PACKED_E2M1 if four_bits else SCALED_ELEMENTS[kind] for kind in (a, b))
        which = step % self.instructions_per_word * self.scales
        scales = which << 4 | which << 29 | self.exponents << 23
        return scales | first << 7 | second << 10 | _extents(rows, columns, across)


MIXED = ScaledKind("mxf8f6f4.block_scale.scale_vec::1X", 32, 1)
MX_FOUR_BITS = ScaledKind("mxf4.block_scale.scale_vec::2X", 64, 2)
NV_FOUR_BITS = ScaledKind("mxf4nvf4.block_scale.scale_vec::4X", 64, 4, exponents=False)


def scaled_kind(a: str, b: str, *, exponents: bool, across: bool) -> ScaledKind:
    """The kind of a scaled product.

    Args:
        a, b: what Triton calls the elements.
        exponents: scales are exponents.
        across: a factor's elements follow each other across what is summed over.
    """
    if {a, b} != {FOUR_BITS}:
        return MIXED
    if not exponents:
        return NV_FOUR_BITS
    return MIXED if across else MX_FOUR_BITS
