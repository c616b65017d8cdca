"""The forms of matrix instructions.

`mma.sync`: the element types, and the number of registers of a thread that each operand takes.

    instruction = instruction_for("f16", "f16", "f32", 80)
    instruction.name               # "m16n8k16.row.col.f32.f16.f16.f32"
    instruction.rows               # 2: groups of eight rows
    instruction.words              # 2: along k, so the left operand takes four registers and the right one two

One rule covers all of them. A word is 32 bits of one row of an operand, or one f64. Lane 4g + t holds these words: of
the left operand, row g of each group of eight rows and word t of each group of four words along k; of the right operand
the same with column g instead of row g; of the accumulator, row g and columns 2t and 2t + 1. Registers count rows
first, then words.

`tcgen05.mma`: the operand `instruction_bits` encodes element types, directions and extents.

    30-29  of scaled products: which bytes of a word are the scales of the left operand
    28-24  rows of the accumulator / 16
    23     of scaled products: 1 where scales are exponents
    22-17  columns of the accumulator / 8
    16     1 if the right operand is transposed: k is not its contiguous axis
    15     the same for the left operand
    12-10  element type of the right operand
    9-7    element type of the left operand
    5-4    element type of the accumulator; of scaled products: which bytes are the scales of the right operand
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.nvidia.lower.access_plan import WORD
from tilewright.ir.types import FloatType, Type

COLUMNS = 8
LANES_OF_A_ROW = 4
FIRST_WITH_FP8 = 89
FIRST_WITH_WIDE_F64 = 90
TURING = 75
FP8 = frozenset({"e4m3", "e5m2"})


@dataclass(frozen=True)
class MatrixInstruction:
    """One form of `mma.sync`.

    Attributes:
        kinds: what PTX calls the elements of the left operand, the right operand and the accumulator.
        bits: of an element of the operands.
        rows: of the left operand and of the accumulator, in groups of eight.
        words: along k, in groups of four, one for each lane of a row.
        qualifiers: what stands in the name behind the layouts, as `.satfinite`.
        scales: what stands at the end of the name: the type of the scales.
    """

    kinds: tuple[str, str, str]
    bits: int
    rows: int = 2
    words: int = 2
    qualifiers: str = ""
    scales: str = ""

    @property
    def k(self) -> int:
        """The number of products that it adds to each element of the accumulator."""
        return self.words * LANES_OF_A_ROW * max(WORD // self.bits, 1)

    @property
    def name(self) -> str:
        """The instruction's name behind `mma.sync.aligned.`."""
        a, b, accumulator = self.kinds
        shape = f"m{8 * self.rows}n{COLUMNS}k{self.k}"
        return f"{shape}.row.col{self.qualifiers}.{accumulator}.{a}.{b}.{accumulator}{self.scales}"

    @property
    def operand(self) -> Register:
        """The kind of register of an operand's word."""
        return DOUBLE if self.kinds[0] == "f64" else INTEGER

    @property
    def accumulator(self) -> Register:
        """The kind of register of the accumulator."""
        return ACCUMULATORS[self.kinds[2]]


@dataclass(frozen=True)
class Register:
    """A kind of register for operands of an instruction.

    Attributes:
        type: of LLVM.
        elements: how many elements of an accumulator it has.
    """

    type: str
    elements: int = 1


INTEGER = Register("i32")
DOUBLE = Register("double")
ACCUMULATORS = {"f32": Register("float"), "f16": Register("i32", 2), "s32": INTEGER, "f64": DOUBLE}

KINDS = {
    "f16": "f16",
    "bf16": "bf16",
    "f32": "tf32",
    "f64": "f64",
    "i8": "s8",
    "f8E4M3FN": "e4m3",
    "f8E5M2": "e5m2",
}
"""PTX's names for the elements of operands."""
SUM_KINDS = {"f16": "f16", "f32": "f32", "f64": "f64", "i32": "s32"}
WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "e4m3": 8, "e5m2": 8}
PRODUCTS = frozenset(
    {
        *(("f16", "f16", accumulator) for accumulator in ("f16", "f32")),
        ("bf16", "bf16", "f32"),
        ("tf32", "tf32", "f32"),
        ("f64", "f64", "f64"),
        ("s8", "s8", "s32"),
        *((a, b, accumulator) for a in FP8 for b in FP8 for accumulator in ("f16", "f32")),
    }
)
"""Kinds of the operands and of the accumulator for which there are instructions."""
ON_TURING = {"f16": (2, 1), "s8": (1, 1)}
"""The instructions of sm_75: groups of rows, and words along k, by the kind of the operands."""


def kind_of(element: Type) -> str:
    """PTX's name for an operand's elements; "" for those that no instruction takes."""
    return KINDS.get(element.text, "")


def accumulator_kind(element: Type) -> str:
    """PTX's name for the elements of an accumulator; "" for those that no instruction gives."""
    return SUM_KINDS.get(element.text, "")


def instruction_for(a: Type, b: Type, accumulator: Type, capability: int, k: int = 0) -> MatrixInstruction | None:
    """The instruction for operands and an accumulator of these elements; None if the device has none.

    Args:
        k: how much is summed over, where longer instructions are only for longer sums.
    """
    kinds = kind_of(a), kind_of(b), accumulator_kind(accumulator)
    if kinds not in PRODUCTS or (kinds[0] in FP8 and capability < FIRST_WITH_FP8):
        return None
    rows, words = _size(kinds[0], capability, k)
    if not rows:
        return None
    return MatrixInstruction(kinds, WIDTHS[kinds[0]], rows, words, ".satfinite" if kinds[0] == "s8" else "")


def _size(kind: str, capability: int, k: int) -> tuple[int, int]:
    """Groups of rows, and words along k; (0, 0) for no instruction."""
    if capability <= TURING:
        return ON_TURING.get(kind, (0, 0))
    if kind != "f64":
        return 2, 2
    if capability < FIRST_WITH_WIDE_F64:
        return 1, 1
    return 2, min(max(k // LANES_OF_A_ROW, 1), 4)


def scaled_instruction(a: str, b: str, scale: Type) -> MatrixInstruction:
    """The instruction of sm_120 for operands with scales.

    Args:
        a: what Triton calls the left operand's elements: e4m3, e5m2 or e2m1.
        b: the right operand's.
        scale: the elements of the scales: bytes with an exponent, or e4m3 for those of e2m1.
    """
    if a == "e2m1":
        exact = isinstance(scale, FloatType)
        kind, suffix = ("4X", ".ue4m3") if exact else ("2X", ".ue8m0")
        qualifiers = f".kind::mxf4nvf4.block_scale.scale_vec::{kind}"
        return MatrixInstruction((a, b, "f32"), 4, qualifiers=qualifiers, scales=suffix)
    qualifiers = ".kind::mxf8f6f4.block_scale.scale_vec::1X"
    return MatrixInstruction((a, b, "f32"), 8, qualifiers=qualifiers, scales=".ue8m0")


# --- tcgen05.mma ------------------------------------------------------------------------------------------------

TENSOR_KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "s8": "i8"}
"""The kind of a product, by the elements of its left operand."""
ELEMENTS = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "s8": 1}
SUM_NUMBERS = {"f16": 0, "f32": 1, "s32": 2}
SCALED_ELEMENTS = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
PACKED_E2M1 = 1
"""The number of e2m1 where both operands are of it."""
FOUR_BITS = "e2m1"


def instruction_bits(a: str, b: str, accumulator: str, rows: int, columns: int, *, across: tuple[bool, bool]) -> int:
    """The operand for a product.

    Args:
        a, b, accumulator: what PTX calls the elements.
        rows, columns: of the accumulator of one instruction.
        across: per operand, whether its elements follow each other across K.
    """
    return SUM_NUMBERS[accumulator] << 4 | ELEMENTS[a] << 7 | ELEMENTS[b] << 10 | _extents(rows, columns, across)


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
        """The operand for instruction `step` along k.

        Args:
            a, b: the kinds of the operands' elements.
            rows, columns: extents of the sums of one instruction.
            step: the number of the instruction.
            across: per operand, whether its elements follow each other across K.
        """
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
        across: an operand's elements follow each other across K.
    """
    if {a, b} != {FOUR_BITS}:
        return MIXED
    if not exponents:
        return NV_FOUR_BITS
    return MIXED if across else MX_FOUR_BITS
