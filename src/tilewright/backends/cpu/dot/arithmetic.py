"""Accumulation of one vector of products, per operand type and target.

A *group* is the number of consecutive k that one instruction multiplies and adds into one accumulator lane:

    f32   1   acc[j] += a · b[j]                                        vfmadd231ps
    bf16  2   acc[j] += a[0]·b[j][0] + a[1]·b[j][1]                     vdpbf16ps
    i8    4   acc[j] += a[0]·b[j][0] + … + a[3]·b[j][3]                 vpdpbusd
    bf16  4   two rows of A by two columns of B, four k of each         bfmmla
    i8    8   two rows of A by two columns of B, eight k of each        smmla
    bf16  2   16 rows of A by 16 columns of B, 16 groups of each        tdpbf16ps
    i8    4   16 rows of A by 16 columns of B, 16 groups of each        tdpbssd

So with groups, B is a vector of 32-bit words, one per column, and A is one word, broadcast to all lanes. `vpdpbusd`
reads A as unsigned: A is biased by 128, and 128 times the column sums of B is subtracted from the accumulators
(`biased`). Where rows meet columns (`square`), words have 64 bits; four lanes of an accumulator are a matrix of 2 × 2.
Tile registers (`tiles`) take A as it lies, and B as the instructions on vectors do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.backends.cpu.dot.spec import DotSpec, multiplies_bf16
from tilewright.backends.cpu.loop_builder import LoopBuilder
from tilewright.backends.llvm.machine import Target
from tilewright.dialects.amx import ROW_BYTES, ROWS
from tilewright.dialects.vector import wide_type
from tilewright.ir.core import Value
from tilewright.ir.types import IntType, Type, bf16, f32, f64, i8, i16, i32, i64


@dataclass(frozen=True)
class Arithmetic:
    """One way of multiplying and accumulating.

    Attributes:
        element: the type of an operand's element in memory.
        accumulator: the type of an element of C.
        group: the number of k that one step takes.
        biased: A has to be biased by 128.
        fused: a product of floats and a sum are rounded once.
        square: one instruction multiplies two words of A, of two rows, by two words of B, of two columns.
        tiles: one instruction multiplies a tile of A by a tile of B, see `dialects/amx.py`.
    """

    element: Type
    accumulator: Type
    group: int = 1
    biased: bool = False
    fused: bool = True
    square: bool = False
    tiles: bool = False

    @property
    def word(self) -> Type:
        """The type of A's share of one step: an element, or an integer holding a group."""
        return self.element if self.group == 1 else IntType(self.group * self.element.bits)

    @property
    def word_bytes(self) -> int:
        return self.word.bits // 8

    @property
    def element_bytes(self) -> int:
        return self.element.bits // 8

    def operand(self, lanes: int) -> Type:
        """The vector type of A's and B's share of one step."""
        return wide_type(self.element, lanes * self.group)

    def total(self, lanes: int) -> Type:
        """The vector type of accumulators."""
        return wide_type(self.accumulator, lanes)

    def accumulate(self, ops: LoopBuilder, total: Value, left: Value, right: Value) -> Value:
        """One step: the new accumulators."""
        if self.square:
            return ops.matrix_accumulate(left, right, total)
        if self.group > 1:
            return ops.dot_accumulate(left, right, total, unsigned=self.biased)
        if self.accumulator in (f32, f64):
            return ops.fma(left, right, total, fused=self.fused)
        return ops.add(total, ops.mul(left, right))


def select_arithmetic(operand: Type, accumulator: Type, target: Target) -> Arithmetic:
    """The arithmetic for operands that lie in memory as `operand`.

    Raises:
        ValueError: the target has none.
    """
    plain = PLAIN.get((operand, accumulator))
    if plain is not None:
        return plain if target.has_fma else replace(plain, fused=False)
    if operand is bf16 and accumulator is f32 and multiplies_bf16(target):
        return BF16
    if operand is i8 and accumulator is i32 and "dotprod" in target.features:
        return SIGNED_I8
    if operand is i8 and accumulator is i32 and target.has_vnni:
        return UNSIGNED_I8
    if operand is i16 and accumulator is i32 and not target.neon:
        return I16
    raise ValueError(f"no dot of {operand.text} into {accumulator.text} on {target.cpu}: see operand_element_type")


def as_matrices(by: Arithmetic, m: int, n: int, k: int, target: Target) -> Arithmetic:
    """The arithmetic by matrices of 2 × 2, if the target has it and the tile one step of it; otherwise `by`.

    Args:
        by: the arithmetic by vectors.
        m, n, k: extents of the product.
        target: the machine.
    """
    feature, square = MATRICES.get(by, ("", by))
    fits = m >= 2 and n >= 4 and k >= square.group
    return square if fits and target.neon and feature in target.features else by


def by_tiles(by: Arithmetic, spec: DotSpec, target: Target) -> Arithmetic:
    """The arithmetic by tiles, if the target has it and the product consists of whole ones; otherwise `by`.

    Args:
        by: the arithmetic by vectors.
        spec: the product.
        target: the machine.
    """
    feature, tiled = TILES.get(by, ("", by))
    is_whole = spec.m >= ROWS and spec.n >= ROWS and spec.k * tiled.element_bytes >= ROW_BYTES
    return tiled if feature in target.features and is_whole and not spec.a_transposed else by


PLAIN: dict[tuple[Type, Type], Arithmetic] = {(type, type): Arithmetic(type, type) for type in (f32, f64, i32, i64)}
BF16 = Arithmetic(bf16, f32, group=2)
SIGNED_I8, UNSIGNED_I8 = Arithmetic(i8, i32, group=4), Arithmetic(i8, i32, group=4, biased=True)
I16 = Arithmetic(i16, i32, group=2)
MATRICES = {
    BF16: ("bf16", Arithmetic(bf16, f32, group=4, square=True)),
    SIGNED_I8: ("i8mm", Arithmetic(i8, i32, group=8, square=True)),
}
"""By the arithmetic in whose place it comes: the feature of AArch64, and the arithmetic."""
TILES = {
    BF16: ("amx-bf16", replace(BF16, tiles=True)),
    UNSIGNED_I8: ("amx-int8", replace(SIGNED_I8, tiles=True)),
}
"""By the arithmetic in whose place it comes: the feature of Intel's processors, and the arithmetic."""
