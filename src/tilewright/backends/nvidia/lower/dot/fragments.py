"""The registers of a thread that one matrix instruction takes, found by their coordinates in the layout.

    operand = OperandFragments(lowerer, value, axes=(0, 1))      # rows along axis 0, k along axis 1
    operand.rows                 # (0, 8, 32, 40): rows that lane 0 has
    operand.word((), 8, 1)       # the second word of row 8, as an i32

A word is as many neighbours along k as fit in 32 bits. A layout may give a lane more than one word of a row, or words
in another order than PTX shows. Since both operands do so alike, and the order of the terms of a sum does not matter,
the product is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.backends.nvidia.lower.access_plan import WORD
from tilewright.backends.nvidia.lower.dot.instructions import LANES_OF_A_ROW
from tilewright.backends.nvidia.lower.lowerer import Lowerer
from tilewright.backends.nvidia.lower.register_packing import PackedWords
from tilewright.ir.core import Value
from tilewright.layouts.linear_layout import LinearLayout
from tilewright.support.cached_property import cached_property

Coordinates = tuple[int, ...]
BITS_OF_A_ROW = LANES_OF_A_ROW.bit_length() - 1
"""The number of low bits of the lane number that are its position in a row."""


def places(layout: LinearLayout) -> dict[Coordinates, int]:
    """The first register of lane 0 that has an element, by coordinates."""
    found: dict[Coordinates, int] = {}
    for register in range(layout.in_size("register")):
        found.setdefault(layout.apply(register=register), register)
    return found


def lane_steps(layout: LinearLayout, axis: int) -> tuple[int, ...]:
    """The step along `axis` that each bit of the lane makes."""
    return tuple(row[axis] for row in layout.bases["lane"])


def word_of(lowerer: Lowerer, element: str, values: Sequence[str]) -> str:
    """Elements that fill 32 bits, first lowest, as an i32."""
    (word,) = PackedWords.of(WORD // len(values), len(values)).pack(lowerer.w, element, values)
    return word


def elements_of(lowerer: Lowerer, element: str, word: str, count: int) -> list[str]:
    """The elements of `word_of`."""
    return PackedWords.of(WORD // count, count).unpack(lowerer.w, element, [word])


@dataclass(frozen=True)
class AccumulatorFragments:
    """The accumulator of a product: its registers by batch, row and column.

    Attributes:
        step: of the column from a register to its neighbour in the instruction.
    """

    layout: LinearLayout
    step: int

    @cached_property
    def places(self) -> dict[Coordinates, int]:
        """Registers by coordinates."""
        return places(self.layout)

    @cached_property
    def batches(self) -> list[Coordinates]:
        """The coordinates of lane 0 along the axes before rows and columns."""
        return sorted({place[:-2] for place in self.places})

    @cached_property
    def rows(self) -> list[int]:
        """The rows of lane 0."""
        return sorted({place[-2] for place in self.places})

    @cached_property
    def columns(self) -> list[int]:
        """The even columns of lane 0: the neighbour of each is `step` further."""
        return sorted({place[-1] & ~self.step for place in self.places})

    def row_groups(self, count: int) -> list[list[int]]:
        """The rows of lane 0, by instruction; a row that is left over is taken twice."""
        groups = [self.rows[start : start + count] for start in range(0, len(self.rows), count)]
        return [group + group[:1] * (count - len(group)) for group in groups]

    def registers(self, batch: Coordinates, rows: Sequence[int], column: int) -> list[int]:
        """The registers of one instruction: two columns of each row."""
        return [self.places[*batch, row, n] for row in rows for n in (column, column ^ self.step)]


class OperandFragments:
    """An operand of a product in registers.

    Attributes:
        outer, inner: the axes of what stays and of K.
    """

    def __init__(self, lowerer: Lowerer, value: Value, outer: int) -> None:
        self.lowerer = lowerer
        self.layout = lowerer.layout(value)
        rank = len(self.layout.outs)
        self.outer, self.inner = (rank - 2, rank - 1) if outer == 0 else (rank - 1, rank - 2)
        self._element = lowerer.element(value.type)
        self._registers = lowerer.registers(value)
        self._places = places(self.layout)
        self._words: dict[tuple[Coordinates, int, int], str] = {}
        self.per_word = max(WORD // value.type.bits, 1)

    @cached_property
    def depths(self) -> list[int]:
        """The starts of lane 0's words along k."""
        all_depths = sorted({place[self.inner] for place in self._places})
        return all_depths[:: self.per_word]

    @cached_property
    def copies(self) -> int:
        """The bits of the lane that do not change k although they choose a word: so short is the operand."""
        steps = lane_steps(self.layout, self.inner)[:BITS_OF_A_ROW]
        return sum(1 << bit for bit, step in enumerate(steps) if not step)

    def word(self, batch: Coordinates, row: int, index: int) -> str:
        """Word `index` along k of row (or column) `row`; 0 behind the last one, and where a lane has another's."""
        if index >= len(self.depths):
            return "0.0" if self._element == "double" else "0"
        key = batch, row, index
        if key not in self._words:
            self._words[key] = self._word(batch, row, self.depths[index])
        return self._words[key]

    def _word(self, batch: Coordinates, row: int, depth: int) -> str:
        values = [self._registers[self._at(batch, row, depth + k)] for k in range(self.per_word)]
        word = values[0] if self._element == "double" else word_of(self.lowerer, self._element, values)
        return self._masked(word) if self.copies else word

    def _at(self, batch: Coordinates, row: int, depth: int) -> int:
        pair = (row, depth) if self.outer < self.inner else (depth, row)
        return self._places[*batch, *pair]

    def _masked(self, word: str) -> str:
        w = self.lowerer.w
        type, zero = ("double", "0.0") if self._element == "double" else ("i32", "0")
        lane = self.lowerer.lane()
        first = w.emit(f"icmp eq i32 {w.emit(f'and i32 {lane}, {self.copies}')}, 0")
        return w.emit(f"select i1 {first}, {type} {word}, {type} {zero}")
