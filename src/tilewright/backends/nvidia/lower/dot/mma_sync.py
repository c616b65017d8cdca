"""Products of tiles in registers.

tt.dot -> #mma          `lower_mma`: each `mma.sync` multiplies values in the registers of its 32 lanes
tt.dot -> #blocked      `lower_fma`: each thread has all of k for its rows and columns
tt.dot_scaled -> #mma   on sm_120, by forms of `mma.sync` that also take the scales; on other devices the operands are
                        multiplied by their scales first, see transforms/gpu/scaled_dot.py

%d = tt.dot %a, %b, %c : tensor<16x16xf16, #dot_op<0>> * tensor<16x8xf16, #dot_op<1>> -> tensor<16x8xf32, #mma>

    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0, …, $3}, {$4, …, $7}, {$8, $9}, {$10, …, $13};

%d = tt.dot_scaled %a scale %s, %b scale %t, %c lhs = e4m3 rhs = e4m3 : … -> tensor<…xf32, #mma>

    mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0
        {…}, {…}, {…}, {…}, $14, {0, 0}, $15, {0, 0};

Of each four lanes of a row, the first one gives the scale of row g, and the second one that of row g + 8. A register
has the scales of one instruction: one for 32 elements of fp8, two or four for 64 elements of fp4.
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
    places,
    word_of,
)
from tilewright.backends.nvidia.lower.dot.instructions import MatrixInstruction, instruction_for, scaled_instruction
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering, layout_of
from tilewright.dialects.traits import DotLike
from tilewright.dialects.tt_dot import Dot, DotScaled
from tilewright.ir.core import Value, tile_type
from tilewright.layouts.encodings import NvidiaMma

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
        text = f"mma.sync.aligned.{self.instruction.name} {', '.join(parts)};"
        return self.lowerer.assembly_results([accumulator.type] * results, text, given)

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


def lower_dot(lowerer: Lowerer, op: Dot) -> None:
    """Write a `tt.dot`."""
    if isinstance(layout_of(tile_type(op.result)), NvidiaMma):
        lower_mma(lowerer, op)
    else:
        lower_fma(lowerer, op)


def lower_fma(lowerer: Lowerer, op: Dot) -> None:
    """Write a `tt.dot` whose operands and accumulator have elements of one type."""
    a, b, c = op.a, op.b, op.accumulator
    element = lowerer.element(op.result.type)
    assert lowerer.element(a.type) == lowerer.element(b.type) == element, "operands are as wide as the accumulator"
    left, right = places(lowerer.layout(a)), places(lowerer.layout(b))
    a_registers, b_registers = lowerer.registers(a), lowerer.registers(b)
    layout = lowerer.layout(c)
    accumulators = {place: lowerer.registers(c)[register] for place, register in places(layout).items()}
    for place, value in accumulators.items():  # one after the other: registers run out otherwise
        *batch, m, n = place
        for k in range((a.type.shape or ())[-1]):
            first, second = a_registers[left[*batch, m, k]], b_registers[right[*batch, k, n]]
            value = _added(lowerer, element, first, second, value)
        accumulators[place] = value
    lowerer.bind(
        op.result, [accumulators[layout.apply(register=register)] for register in range(layout.in_size("register"))]
    )


def _added(lowerer: Lowerer, element: str, a: str, b: str, accumulator: str) -> str:
    """a·b + accumulator: with one rounding where the program allows it."""
    w = lowerer.w
    if element.startswith("i"):
        return w.emit(f"add {element} {w.emit(f'mul {element} {a}, {b}')}, {accumulator}")
    if lowerer.target.fuse:
        return w.intrinsic("llvm.fma", element, a, b, accumulator)
    return w.emit(f"fadd {element} {w.emit(f'fmul {element} {a}, {b}')}, {accumulator}")


LOWERINGS: dict[str, Lowering] = {"tt.dot": lower_dot, "tt.dot_scaled": lower_dot_scaled}
