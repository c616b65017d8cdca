"""`tt.dot_scaled` on the `mma.sync` of sm_120, which multiplies operands by their scales on the way.

    %d = tt.dot_scaled %a scale %s, %b scale %t, %c lhs = e4m3 rhs = e4m3 : … -> tensor<…xf32, #mma>

        mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0
            {…}, {…}, {…}, {…}, $14, {0, 0}, $15, {0, 0};

Of each four lanes of a row the first gives the scale of row g, and the second that of row g + 8. A register has the
scales of one instruction: one for 32 elements of fp8, two or four for 64 of fp4.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.nvidia.lower.dot.fragments import lane_steps, places
from tilewright.backends.nvidia.lower.dot.instructions import MatrixInstruction, scaled_instruction
from tilewright.backends.nvidia.lower.dot.mma_sync import multiply
from tilewright.backends.nvidia.lower.lowerer import Lowerer
from tilewright.dialects.tt_dot import DotScaled
from tilewright.ir.core import Value, tile_type

FIRST_BYTE, FIRST_LANES = 0, 0
"""The byte of a register with scales, and the lanes of a row, that the instruction selects."""


def lower_dot_scaled(lowerer: Lowerer, op: DotScaled) -> None:
    """Write a `tt.dot_scaled` with two scales, whose accumulator has the layout of `mma.sync`."""
    a_scale, b_scale = op.scales
    instruction = scaled_instruction(op.a_type, op.b_type, a_scale.type.scalar)
    k = tile_type(op.a).shape[-1] * (2 if instruction.bits == 4 else 1)
    left, right = (_Scales(lowerer, scale, instruction, k) for scale in (a_scale, b_scale))

    def chosen(rows: Sequence[int], column: int, word: int) -> list[tuple[str, str]]:
        assert rows[1] == rows[0] ^ left.pair, "the second lane of a row has the scale of the second row"
        selected = f"{FIRST_BYTE}, {FIRST_LANES}"
        return [(left.of(rows[0], word), selected), (right.of(column, word), selected)]

    multiply(lowerer, op, instruction, chosen)


class _Scales:
    """The scales of an operand.

    Attributes:
        pair: the step along the rows from a lane to its neighbour.
    """

    def __init__(self, lowerer: Lowerer, value: Value, instruction: MatrixInstruction, k: int) -> None:
        layout = lowerer.layout(value)
        self.lowerer, self.pair = lowerer, lane_steps(layout, 0)[0]
        self._registers, self._places = lowerer.registers(value), places(layout)
        groups = (value.type.shape or ())[-1]
        self._count = groups * instruction.k // k
        self._words = instruction.words
        self._found: dict[tuple[int, int], str] = {}

    def of(self, row: int, word: int) -> str:
        """The scales of a row for the instruction that begins with this word, in one register."""
        key = row, word // self._words * self._count
        if key not in self._found:
            self._found[key] = self._packed(*key)
        return self._found[key]

    def _packed(self, row: int, group: int) -> str:
        w = self.lowerer.w
        found = ""
        for index in range(self._count):
            byte = w.emit(f"zext i8 {self._registers[self._places[row, group + index]]} to i32")
            if found:
                byte = w.emit(f"shl i32 {byte}, {8 * index}")
            found = w.emit(f"or i32 {found}, {byte}") if found else byte
        return found
