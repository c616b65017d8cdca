"""Accumulation of one vector of products, per operand type and target.

A *group* is the number of consecutive k that one instruction multiplies and adds into one accumulator lane:

    f32   1   acc[j] += a · b[j]                                        vfmadd231ps
    bf16  2   acc[j] += a[0]·b[j][0] + a[1]·b[j][1]                     vdpbf16ps
    i8    4   acc[j] += a[0]·b[j][0] + … + a[3]·b[j][3]                 vpdpbusd

So with groups, B is a vector of 32-bit words, one per column, and A is one word, the same in all lanes. `vpdpbusd`
reads A as unsigned: A is biased by 128, and 128 times the column sums of B is taken off the accumulators (`biased`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.backends.cpu.dot.spec import multiplies_bf16
from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.spelling import bits_of, constant, is_float, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.types import Type, bf16, f32, f64, i8, i16, i32, i64

Accumulate = Callable[[LlvmWriter, "Arithmetic", int, str, str, str], str]
"""(writer, arithmetic, lanes, accumulator, A, B) -> new accumulator"""


@dataclass(frozen=True)
class Arithmetic:
    """One way of multiplying and accumulating.

    Attributes:
        element: LLVM type of an operand's element in memory.
        accumulator: LLVM type of an element of C.
        group: the number of k that one step takes.
        biased: A has to be biased by 128.
        accumulate: writes one step.
        intrinsics: LLVM's name of the instruction, by number of lanes.
    """

    element: str
    accumulator: str
    accumulate: Accumulate
    group: int = 1
    biased: bool = False
    intrinsics: tuple[tuple[int, str], ...] = ()

    @property
    def word(self) -> str:
        """The type of A's share of one step: an element, or an i32 holding a group."""
        return self.element if self.group == 1 else "i32"

    @property
    def word_bytes(self) -> int:
        return bits_of(self.word) // 8

    @property
    def element_bytes(self) -> int:
        return bits_of(self.element) // 8

    def operand(self, lanes: int) -> str:
        """The vector type of A's and B's share of one step."""
        return vector(self.element, lanes * self.group)

    def zero(self, lanes: int) -> str:
        """Accumulators that hold nothing yet."""
        return constant(0, self.accumulator, lanes)


def select_arithmetic(operand: Type, accumulator: Type, target: Target) -> Arithmetic:
    """The arithmetic for operands that lie in memory as `operand`.

    Raises:
        ValueError: the target has none.
    """
    if (operand, accumulator) in PLAIN:
        return PLAIN[operand, accumulator]
    if operand is bf16 and accumulator is f32 and multiplies_bf16(target):
        return NEON_BF16 if target.neon else X86_BF16
    if operand is i8 and accumulator is i32 and "dotprod" in target.features:
        return NEON_I8
    if operand is i8 and accumulator is i32 and target.has_vnni:
        return X86_I8
    if operand is i16 and accumulator is i32 and not target.neon:
        return X86_I16
    raise ValueError(f"no dot of {operand.text} into {accumulator.text} on {target.cpu}: see operand_element_type")


def _multiply_add(w: LlvmWriter, by: Arithmetic, lanes: int, acc: str, a: str, b: str) -> str:
    type = vector(by.accumulator, lanes)
    if is_float(by.accumulator):
        return w.fma(type, a, b, acc)
    return w.emit(f"add {type} {acc}, {w.emit(f'mul {type} {a}, {b}')}")


def _dot_instruction(w: LlvmWriter, by: Arithmetic, lanes: int, acc: str, a: str, b: str) -> str:
    type, operand = vector(by.accumulator, lanes), by.operand(lanes)
    return w.call(type, dict(by.intrinsics)[lanes], [(type, acc), (operand, a), (operand, b)])


def _multiply_pairs(w: LlvmWriter, by: Arithmetic, lanes: int, acc: str, a: str, b: str) -> str:
    type, operand = vector(by.accumulator, lanes), by.operand(lanes)
    products = w.call(type, dict(by.intrinsics)[lanes], [(operand, a), (operand, b)])
    return w.emit(f"add {type} {acc}, {products}")


PLAIN = {
    (f32, f32): Arithmetic("float", "float", _multiply_add),
    (f64, f64): Arithmetic("double", "double", _multiply_add),
    (i32, i32): Arithmetic("i32", "i32", _multiply_add),
    (i64, i64): Arithmetic("i64", "i64", _multiply_add),
}
X86_BF16 = Arithmetic(
    "bfloat",
    "float",
    _dot_instruction,
    group=2,
    intrinsics=tuple((lanes, f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}") for lanes in (4, 8, 16)),
)
X86_I8 = Arithmetic(
    "i8",
    "i32",
    _dot_instruction,
    group=4,
    biased=True,
    intrinsics=tuple((lanes, f"llvm.x86.avx512.vpdpbusd.{32 * lanes}") for lanes in (4, 8, 16)),
)
X86_I16 = Arithmetic(
    "i16",
    "i32",
    _multiply_pairs,
    group=2,
    intrinsics=((4, "llvm.x86.sse2.pmadd.wd"), (8, "llvm.x86.avx2.pmadd.wd"), (16, "llvm.x86.avx512.pmaddw.d.512")),
)
NEON_BF16 = Arithmetic(
    "bfloat", "float", _dot_instruction, group=2, intrinsics=((4, "llvm.aarch64.neon.bfdot.v4f32.v8bf16"),)
)
NEON_I8 = Arithmetic("i8", "i32", _dot_instruction, group=4, intrinsics=((4, "llvm.aarch64.neon.sdot.v4i32.v16i8"),))
