"""The innermost loop: a block of C in registers, one group of k per trip.

For f32 on AVX-512 with 8 × 32 the loop is 2 loads of B, 8 broadcasts of A and 16 multiply-adds.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.cpu.dot.address import behind, repeat, times
from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.cpu.dot.shape import Shape
from tilewright.backends.cpu.dot.spec import Offset
from tilewright.backends.llvm.spelling import bits_of, vector
from tilewright.backends.llvm.writer import LlvmWriter


@dataclass(frozen=True)
class Rows:
    """A as the micro-kernel reads it: the word of row i and group g lies at pointer + i·row_bytes + g·step_bytes."""

    pointer: str
    row_bytes: Offset
    step_bytes: Offset


@dataclass(frozen=True)
class Panel:
    """Columns of B as the micro-kernel reads them: the words of group g lie consecutively at pointer + g·step_bytes.

    `correction` is the address of an i32 per column that is added to C before anything else.
    """

    pointer: str
    step_bytes: Offset
    correction: str | None = None


@dataclass(frozen=True)
class Block:
    """A block of C in memory. `zero_init`: it is written without having been read."""

    pointer: str
    row_bytes: int
    zero_init: bool


def emit_block(
    w: LlvmWriter, by: Arithmetic, shape: Shape, *, groups: int, rows: Rows, panel: Panel, block: Block
) -> None:
    """C (+)= A·B for one block of C."""
    type = vector(by.accumulator, shape.lanes)
    places = _places(w, by, shape, block)
    starts = _start_values(w, by, shape, places, panel=panel, block=block)
    row_offsets = [times(w, r, rows.row_bytes) for r in range(shape.rows)]

    def step(_: Offset, carried: list[str]) -> list[str]:
        a, b, *sums = carried
        columns = [_load_words(w, by, shape, b, v) for v in range(shape.vectors)]
        for r in range(shape.rows):
            word = _broadcast(w, by, shape, behind(w, a, row_offsets[r]))
            for v in range(shape.vectors):
                at = r * shape.vectors + v
                sums[at] = by.accumulate(w, by, shape.lanes, sums[at], word, columns[v])
        return [behind(w, a, rows.step_bytes), behind(w, b, panel.step_bytes), *sums]

    pointers = [("ptr", rows.pointer), ("ptr", panel.pointer)]
    _, _, *sums = repeat(w, groups, step, [*pointers, *((type, start) for start in starts)])
    for value, place in zip(sums, places, strict=True):
        w.store(type, value, place, align=_alignment(by, shape))


def _places(w: LlvmWriter, by: Arithmetic, shape: Shape, block: Block) -> list[str]:
    vector_bytes = shape.lanes * bits_of(by.accumulator) // 8
    return [
        behind(w, block.pointer, r * block.row_bytes + v * vector_bytes)
        for r in range(shape.rows)
        for v in range(shape.vectors)
    ]


def _start_values(
    w: LlvmWriter, by: Arithmetic, shape: Shape, places: list[str], *, panel: Panel, block: Block
) -> list[str]:
    type = vector(by.accumulator, shape.lanes)
    width = shape.lanes * bits_of(by.accumulator) // 8
    corrections: list[str] = []
    if panel.correction is not None:
        pointers = [behind(w, panel.correction, v * width) for v in range(shape.vectors)]
        corrections = [w.load(type, pointer, align=_alignment(by, shape)) for pointer in pointers]
    if block.zero_init:
        return corrections * shape.rows or [by.zero(shape.lanes)] * len(places)
    loaded = [w.load(type, place, align=_alignment(by, shape)) for place in places]
    if not corrections:
        return loaded
    return [w.emit(f"add {type} {value}, {corrections[i % shape.vectors]}") for i, value in enumerate(loaded)]


def _alignment(by: Arithmetic, shape: Shape) -> int:
    """Rows of C and panels start at multiples of the element size at least; unaligned access costs nothing extra."""
    return bits_of(by.accumulator) // 8


def _load_words(w: LlvmWriter, by: Arithmetic, shape: Shape, pointer: str, v: int) -> str:
    place = behind(w, pointer, v * shape.lanes * by.word_bytes)
    return w.load(by.operand(shape.lanes), place, align=by.element_bytes)


def _broadcast(w: LlvmWriter, by: Arithmetic, shape: Shape, pointer: str) -> str:
    """A's word for one row, in all lanes."""
    word = w.load(by.word, pointer, align=by.element_bytes)
    spread = w.splat(word, by.word, shape.lanes)
    return w.convert("bitcast", spread, vector(by.word, shape.lanes), by.operand(shape.lanes))
