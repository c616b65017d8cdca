"""The extents of the block of C that one micro-kernel keeps in registers.

    f32, AVX-512, 128×128     8 rows × 2 vectors of 16      16 accumulators, 2 for B, one for A at a time
    f32, AVX2,    128×128     6 rows × 2 vectors of 8       12 accumulators of 16 registers
    int8, AVX-512, 128×128    4 rows × 4 vectors of 16      8 loads instead of 10, half as many words of A to bias
    f32, NEON,    64×64       4 rows × 4 vectors of 4       8 loads for 16 multiply-adds instead of 10
    int8, NEON,   64×64       8 rows × 2 vectors of 4       by matrices of 2 × 2: 4 registers of A, 4 of B
    f32, AVX-512, 1×256       1 row × 8 vectors             enough independent chains for the latency

At least as many accumulators as `CpuCosts.chains` are needed for full speed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.llvm.cpu_costs import CpuCosts
from tilewright.backends.llvm.machine import Target


@dataclass(frozen=True)
class Shape:
    """`rows` rows of `vectors` vectors of `lanes` lanes each."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def micro_shape(m: int, n: int, arithmetic: Arithmetic, target: Target) -> Shape:
    """The block of an m × n tile of C that is computed at once. Its columns divide n; its rows need not divide m."""
    lanes = min(n, target.lanes(arithmetic.accumulator.bits))
    available = n // lanes
    costs = target.costs
    vectors = min(available, _side_by_side(arithmetic, costs))
    while m * vectors < costs.chains and vectors < min(available, costs.chains):
        vectors *= 2
    return Shape(_rows(m, vectors, costs), vectors, lanes)


def _side_by_side(arithmetic: Arithmetic, costs: CpuCosts) -> int:
    if arithmetic.square:
        return costs.square_columns
    return costs.grouped_columns if arithmetic.group > 1 else costs.product_columns


def _rows(m: int, vectors: int, costs: CpuCosts) -> int:
    if costs.registers == 32:
        return min(m, 16 // vectors)
    if vectors == 1:
        return min(m, 8)
    # 6 × 2 is best with 16 registers, but a rest of 2 rows runs at half speed and costs a second body.
    takes_six = m % 6 == 4 or m >= 128
    return min(m, 6 if takes_six and vectors == 2 else max(1, costs.chains // vectors))
