"""Vector values with operators, so that numerical code reads as the formula it computes.

f = LaneType(writer, "float", 16)
x = f("%v3")
y = f.fma(x, x, 1.0) / 3.0              # Lanes; numbers become constants
z = f.select(x < 0.0, -y, y)            # comparisons give Lanes of kind i1
bits = y.bits >> 23                     # the same bits as integers; >> is the logical shift
z.name                                  # "%v9", an operand for the writer
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

from tilewright.backends.llvm.masks import any_lane
from tilewright.backends.llvm.spelling import bits_of, constant, is_float, vector
from tilewright.backends.llvm.writer import Branch, LlvmWriter
from tilewright.support.cached_property import cached_property

FLOAT_OPCODES = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}
BIT_CASTS = {
    ("ptr", "i64"): "ptrtoint",
    ("i64", "ptr"): "inttoptr",
    ("double", "i64"): "bitcast",
    ("i64", "double"): "bitcast",
    ("float", "i32"): "bitcast",
}
INTEGER_OPCODES = {"+": "add", "-": "sub", "*": "mul", "<": "slt", "<=": "sle", ">": "sgt", ">=": "sge"}


class Lanes:
    """A value of some kind. Operators emit one instruction each."""

    __slots__ = ("kind", "name")

    def __init__(self, kind: LaneType, name: str) -> None:
        self.kind = kind
        self.name = name

    def __add__(self, other: Operand) -> Lanes:
        return self.kind.binary(self.kind.opcodes["+"], self, other)

    def __sub__(self, other: Operand) -> Lanes:
        return self.kind.binary(self.kind.opcodes["-"], self, other)

    def __mul__(self, other: Operand) -> Lanes:
        return self.kind.binary(self.kind.opcodes["*"], self, other)

    def __truediv__(self, other: Operand) -> Lanes:
        return self.kind.binary("fdiv", self, other)

    def __radd__(self, other: Operand) -> Lanes:
        return self + other

    def __rmul__(self, other: Operand) -> Lanes:
        return self * other

    def __rsub__(self, other: Operand) -> Lanes:
        return self.kind.binary(self.kind.opcodes["-"], other, self)

    def __rtruediv__(self, other: Operand) -> Lanes:
        return self.kind.binary("fdiv", other, self)

    def __neg__(self) -> Lanes:
        kind = self.kind
        if not kind.is_float:
            return 0 - self
        return Lanes(kind, kind.writer.emit(f"fneg {kind.type} {self.name}"))

    def __abs__(self) -> Lanes:
        return self.kind.call("llvm.fabs", self)

    def __and__(self, other: Operand) -> Lanes:
        return self.kind.binary("and", self, other)

    def __or__(self, other: Operand) -> Lanes:
        return self.kind.binary("or", self, other)

    def __xor__(self, other: Operand) -> Lanes:
        return self.kind.binary("xor", self, other)

    def __invert__(self) -> Lanes:
        """The opposite of flags."""
        return self ^ True

    def __lshift__(self, amount: Operand) -> Lanes:
        return self.kind.binary("shl", self, amount)

    def __rshift__(self, amount: Operand) -> Lanes:
        """The logical shift: zeros come in."""
        return self.kind.binary("lshr", self, amount)

    def __floordiv__(self, other: Operand) -> Lanes:
        """The quotient of signed integers, towards zero."""
        return self.kind.binary("sdiv", self, other)

    def quotient(self, other: Operand) -> Lanes:
        """The quotient of unsigned integers."""
        return self.kind.binary("udiv", self, other)

    def remainder(self, other: Operand) -> Lanes:
        """The remainder of unsigned integers."""
        return self.kind.binary("urem", self, other)

    def shift_signed(self, amount: Operand) -> Lanes:
        """The arithmetic shift: copies of the sign come in."""
        return self.kind.binary("ashr", self, amount)

    def __lt__(self, other: Operand) -> Lanes:
        return self.kind.compare(self.kind.opcodes["<"], self, other)

    def __le__(self, other: Operand) -> Lanes:
        return self.kind.compare(self.kind.opcodes["<="], self, other)

    def __gt__(self, other: Operand) -> Lanes:
        return self.kind.compare(self.kind.opcodes[">"], self, other)

    def __ge__(self, other: Operand) -> Lanes:
        return self.kind.compare(self.kind.opcodes[">="], self, other)

    def equals(self, other: Operand) -> Lanes:
        """Whether lanes are equal (NaN equals nothing)."""
        return self.kind.compare("oeq" if self.kind.is_float else "eq", self, other)

    def differs(self, other: Operand) -> Lanes:
        """Whether lanes differ (NaN differs from everything)."""
        return self.kind.compare("une" if self.kind.is_float else "ne", self, other)

    def to(self, element: str) -> Lanes:
        """As another type: integers sign-extended or cut, pointers and floats by their bits."""
        own = self.kind.element
        opcode = BIT_CASTS.get((own, element)) or ("trunc" if bits_of(own) > bits_of(element) else "sext")
        return self.kind.with_element(element).cast(opcode, self)

    def widened(self, element: str) -> Lanes:
        """Integers with zeros in front."""
        return self.kind.with_element(element).cast("zext", self)

    def is_nan(self) -> Lanes:
        return self.kind.compare("uno", self, self)

    def any(self) -> str:
        """Whether a flag is set in any lane. An i1."""
        return any_lane(self.kind.writer, self.name, self.kind.lanes)

    def joined(self, branch: Branch, if_true: Lanes) -> Lanes:
        """The value after a branch: `if_true` if its condition held, otherwise this value."""
        return Lanes(self.kind, branch.join(self.kind.type, if_true.name, self.name))

    @property
    def bits(self) -> Lanes:
        """A float's bits as integers of the same width."""
        return self.kind.integers.cast("bitcast", self)


Operand: TypeAlias = "Lanes | int | float"


class LaneType:
    """An element type, a number of lanes and the writer that receives the instructions."""

    def __init__(self, writer: LlvmWriter, element: str, lanes: int) -> None:
        self.writer = writer
        self.element = element
        self.lanes = lanes
        self.type = vector(element, lanes)
        self.is_float = is_float(element)
        self.opcodes = FLOAT_OPCODES if self.is_float else INTEGER_OPCODES
        self.width = bits_of(element)

    def __call__(self, value: str | Operand) -> Lanes:
        """An operand's text, or a number in every lane, as Lanes."""
        if isinstance(value, Lanes):
            return value
        if isinstance(value, str):
            return Lanes(self, value)
        return Lanes(self, _constant(value, self.element, self.lanes, str(value)))

    @cached_property
    def integers(self) -> LaneType:
        """Integers as wide as this kind's elements."""
        return self.with_element(f"i{self.width}")

    @cached_property
    def flags(self) -> LaneType:
        """The kind of comparisons."""
        return self.with_element("i1")

    def with_element(self, element: str) -> LaneType:
        """As many lanes of another element type."""
        return LaneType(self.writer, element, self.lanes)

    def binary(self, opcode: str, a: Operand, b: Operand) -> Lanes:
        return Lanes(self, self.writer.emit(f"{opcode} {self.type} {self(a).name}, {self(b).name}"))

    def compare(self, predicate: str, a: Operand, b: Operand) -> Lanes:
        opcode = "fcmp" if self.is_float else "icmp"
        return Lanes(self.flags, self.writer.emit(f"{opcode} {predicate} {self.type} {self(a).name}, {self(b).name}"))

    def select(self, condition: Lanes, if_true: Operand, if_false: Operand) -> Lanes:
        """Select per lane, by i1 lanes."""
        yes, no = self(if_true).name, self(if_false).name
        return Lanes(
            self,
            self.writer.emit(f"select {condition.kind.type} {condition.name}, {self.type} {yes}, {self.type} {no}"),
        )

    def cast(self, opcode: str, value: Lanes) -> Lanes:
        """`value` converted to this kind; nothing to do when it has this type."""
        return Lanes(self, self.writer.convert(opcode, value.name, value.kind.type, self.type))

    def call(self, intrinsic: str, *operands: Operand) -> Lanes:
        """An intrinsic whose operands and result are of this kind."""
        return Lanes(self, self.writer.intrinsic(intrinsic, self.type, *(self(x).name for x in operands)))

    def fma(self, a: Operand, b: Operand, c: Operand) -> Lanes:
        """a·b + c, fused where the target can."""
        return Lanes(self, self.writer.fma(self.type, self(a).name, self(b).name, self(c).name))

    def polynomial(self, x: Lanes, coefficients: Sequence[float]) -> Lanes:
        """The polynomial with the highest coefficient first, by Horner's rule."""
        result = self(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.fma(result, x, coefficient)
        return result

    def minimum(self, a: Operand, b: Operand) -> Lanes:
        """a < b ? a : b, one instruction on x86: b when either is NaN."""
        return self.select(self(a) < b, a, b)

    def maximum(self, a: Operand, b: Operand) -> Lanes:
        """a > b ? a : b: b when either is NaN."""
        return self.select(self(a) > b, a, b)

    def with_sign_of(self, magnitude: Lanes, sign: Lanes) -> Lanes:
        """The absolute value of one with the sign of the other."""
        sign_bit = 1 << (self.width - 1)
        return self.from_bits((magnitude.bits & (sign_bit - 1)) | (sign.bits & sign_bit))

    def from_bits(self, bits: Lanes) -> Lanes:
        """Integers reinterpreted as this kind of float."""
        return self.cast("bitcast", bits)


@cache
def _constant(value: float | int, element: str, lanes: int, spelled: str) -> str:
    """`spelled` keeps 0.0 and -0.0 apart in the cache."""
    return constant(value, element, lanes)
