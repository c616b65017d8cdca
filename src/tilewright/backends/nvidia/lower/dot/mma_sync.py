"""`tt.dot` on `mma.sync`: each instruction multiplies what its 32 lanes have in registers.

%d = tt.dot %a, %b, %c : tensor<16x16xf16, #dot_op<0>> * tensor<16x8xf16, #dot_op<1>> -> tensor<16x8xf32, #mma>

    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0, …, $3}, {$4, …, $7}, {$8, $9}, {$10, …, $13};
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.backends.llvm.writer import Typed
from tilewright.backends.nvidia.lower.dot.fragments import (
    BITS_OF_A_ROW,
    AccumulatorFragments,
    Coordinates,
    OperandFragments,
    elements_of,
    lane_steps,
    word_of,
)
from tilewright.backends.nvidia.lower.dot.instructions import MatrixInstruction, instruction_for
from tilewright.backends.nvidia.lower.lowerer import Lowerer, struct
from tilewright.dialects.traits import DotLike
from tilewright.dialects.tt_dot import Dot
from tilewright.ir.core import tile_type

Scales = Callable[[Sequence[int], int, int], "list[tuple[str, str]]"]
"""Scales of an instruction, by its rows, its column and its first word: registers, and what PTX selects of them."""


def lower_mma(lowerer: Lowerer, op: Dot) -> None:
    """Write a `tt.dot` whose accumulator has the layout of `mma.sync`."""
    a, b = op.a, op.b
    depth = tile_type(a).shape[-1]
    accumulator = op.result.type.scalar
    instruction = instruction_for(a.type.scalar, b.type.scalar, accumulator, lowerer.target.capability, depth)
    assert instruction is not None, f"{a.type} * {b.type} has an instruction where its accumulator has its layout"
    multiply(lowerer, op, instruction)


def multiply(lowerer: Lowerer, op: DotLike, instruction: MatrixInstruction, scales: Scales | None = None) -> None:
    """Write a product with this instruction: step by step along k, and for each all of the accumulator."""
    left, right = OperandFragments(lowerer, op.a, 0), OperandFragments(lowerer, op.b, 1)
    accumulator = AccumulatorFragments(lowerer.layout(op.result), lane_steps(right.layout, right.outer)[BITS_OF_A_ROW])
    _demand_fit(left, right, accumulator)
    product = _Mma(lowerer, op, instruction, accumulator)
    groups = accumulator.row_groups(instruction.rows)
    _pack(left, right, accumulator, groups)
    for batch in accumulator.batches:
        for first in range(0, len(left.depths), instruction.words):
            words = range(first, first + instruction.words)
            for rows in groups:
                a = [left.word(batch, row, word) for word in words for row in rows]
                for column in accumulator.columns:
                    b = [right.word(batch, column, word) for word in words]
                    chosen = scales(rows, column, first) if scales else []
                    product.add(batch, rows, column, a, b, chosen)
    lowerer.bind(op.result, product.registers())


def _pack(
    left: OperandFragments, right: OperandFragments, accumulator: AccumulatorFragments, groups: Sequence[Sequence[int]]
) -> None:
    """Make all words of both operands first: a word needs one register, its elements several."""
    for batch in accumulator.batches:
        for word in range(len(left.depths)):
            for row in (row for rows in groups for row in rows):
                left.word(batch, row, word)
            for column in accumulator.columns:
                right.word(batch, column, word)


def _demand_fit(left: OperandFragments, right: OperandFragments, accumulator: AccumulatorFragments) -> None:
    """Operands and accumulator have the lanes of the instruction, whatever rows, columns and words are called."""
    m, n = len(accumulator.layout.outs) - 2, len(accumulator.layout.outs) - 1
    rows, columns = lane_steps(left.layout, left.outer), lane_steps(right.layout, right.outer)
    assert rows[BITS_OF_A_ROW:] == lane_steps(accumulator.layout, m)[BITS_OF_A_ROW:], (
        "rows of the left operand and of the accumulator"
    )
    assert columns[BITS_OF_A_ROW + 1 :] == lane_steps(accumulator.layout, n)[:BITS_OF_A_ROW], (
        "columns of operand and accumulator"
    )
    depths = [lane_steps(operand.layout, operand.inner)[:BITS_OF_A_ROW] for operand in (left, right)]
    assert depths[0] == depths[1], "lanes of both operands have the same words"
    assert left.depths == right.depths, "registers of both operands have the same words"


class _Mma:
    """The accumulator while it grows: its elements in the registers that the instruction takes."""

    def __init__(
        self, lowerer: Lowerer, op: DotLike, instruction: MatrixInstruction, accumulator: AccumulatorFragments
    ) -> None:
        self.lowerer, self.instruction, self.accumulator = lowerer, instruction, accumulator
        self._element = lowerer.element(op.result.type)
        self._elements = list(lowerer.registers(op.accumulator))
        self._packed: dict[tuple[int, ...], str] = {}

    def add(
        self,
        batch: Coordinates,
        rows: Sequence[int],
        column: int,
        a: Sequence[str],
        b: Sequence[str],
        scales: Sequence[tuple[str, str]],
    ) -> None:
        """One instruction."""
        kind, registers = self.instruction.accumulator, self.accumulator.registers(batch, rows, column)
        keys = [tuple(registers[at : at + kind.elements]) for at in range(0, len(registers), kind.elements)]
        c = [self._take(key) for key in keys]
        for key, value in zip(keys, self._write(a, b, c, scales), strict=True):
            self._packed[key] = value

    def _take(self, key: tuple[int, ...]) -> str:
        if key not in self._packed:
            values = [self._elements[register] for register in key]
            self._packed[key] = word_of(self.lowerer, self._element, values) if len(key) > 1 else values[0]
        return self._packed[key]

    def _write(
        self, a: Sequence[str], b: Sequence[str], c: Sequence[str], scales: Sequence[tuple[str, str]]
    ) -> list[str]:
        operand, accumulator = self.instruction.operand, self.instruction.accumulator
        given: list[Typed] = [(operand.type, value) for value in (*a, *b)] + [(accumulator.type, value) for value in c]
        given += [("i32", value) for value, _ in scales]
        results, after = len(c), len(c)
        parts = [_names(0, results)]
        for count in (len(a), len(b), len(c)):
            parts.append(_names(after, count))
            after += count
        parts += [f"${after + index}, {{{choice}}}" for index, (_, choice) in enumerate(scales)]
        # Sums need not stay in their registers: tied ones would be copied where their values are still needed.
        inputs = [operand.constraint] * (len(a) + len(b)) + [accumulator.constraint] * results
        constraints = [f"={accumulator.constraint}"] * results + inputs + ["r"] * len(scales)
        type = struct([accumulator.type] * results)
        text = f"mma.sync.aligned.{self.instruction.name} {', '.join(parts)};"
        return self.lowerer.extract(type, self.lowerer.assembly(type, text, ",".join(constraints), given), results)

    def registers(self) -> list[str]:
        """The elements of the accumulator, by register."""
        found = list(self._elements)
        for key, value in self._packed.items():
            elements = elements_of(self.lowerer, self._element, value, len(key)) if len(key) > 1 else [value]
            for register, element in zip(key, elements, strict=True):
                found[register] = element
        own = places_of_copies(self.accumulator)
        return [found[own[register]] for register in range(len(found))]


def _names(start: int, count: int) -> str:
    return f"{{{', '.join(f'${start + index}' for index in range(count))}}}"


def places_of_copies(accumulator: AccumulatorFragments) -> list[int]:
    """Per register of the accumulator the one that the product was written to."""
    layout = accumulator.layout
    return [accumulator.places[layout.apply(register=register)] for register in range(layout.in_size("register"))]
