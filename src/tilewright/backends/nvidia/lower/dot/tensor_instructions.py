"""The operand that tells `tcgen05.mma` a product's kinds of elements, directions and extents, but not its place.

kind_of_product("f16", "f32")                          # "f16"
instruction_bits("f16", "f16", "f32", 128, 64)         # 32 bits, an operand of the instruction

30-29  of scaled products: which bytes of a word are the scales of the left operand
28-24  rows of the accumulator / 16
23     of scaled products: 1 where scales are exponents
22-17  columns of the accumulator / 8
16     the right operand is read across what is summed over
15     the left operand is
12-10  elements of the right operand
9-7    elements of the left operand
5-4    elements of the accumulator; of scaled products: which bytes are the scales of the right operand
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "s8": "i8"}
"""The kind of a product, by the elements of its left operand."""
ELEMENTS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "s8": 1}
ACCUMULATORS = {"f16": 0, "f32": 1, "s32": 2}
SCALED_ELEMENTS = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
PACKED_E2M1 = 1
"""The number of e2m1 where both operands are of it."""
FOUR_BITS = "e2m1"


def instruction_bits(a: str, b: str, accumulator: str, rows: int, columns: int, *, across: tuple[bool, bool]) -> int:
    """The operand for a product.

    Args:
        a, b, accumulator: what PTX calls the elements.
        rows, columns: of the accumulator of one instruction.
        across: per operand, whether its elements follow each other across what is summed over.
    """
    return ACCUMULATORS[accumulator] << 4 | ELEMENTS[a] << 7 | ELEMENTS[b] << 10 | _extents(rows, columns, across)


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
        across: an operand's elements follow each other across what is summed over.
    """
    if {a, b} != {FOUR_BITS}:
        return MIXED
    if not exponents:
        return NV_FOUR_BITS
    return MIXED if across else MX_FOUR_BITS
