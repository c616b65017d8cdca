"""The innermost loop: a block of C in registers, one group of k per trip.

For f32 on AVX-512 with 8 × 32 the loop is 2 loads of B, 8 broadcasts of A and 16 multiply-adds.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.backends.cpu.dot.address import behind, repeat, times
from tilewright.backends.cpu.dot.arithmetic import Arithmetic
from tilewright.backends.cpu.dot.packing import WORD_BIAS
from tilewright.backends.cpu.dot.shape import Shape
from tilewright.backends.cpu.dot.spec import Offset
from tilewright.backends.llvm.spelling import bits_of, constant, is_float, vector
from tilewright.backends.llvm.writer import LlvmWriter


@dataclass(frozen=True)
class Rows:
    """A as the micro-kernel reads it: the word of row i and group g lies at pointer + i·row_bytes + g·step_bytes.

    `signed`: the bytes have yet to be biased. One instruction loads, spreads and biases a word.
    """

    pointer: str
    row_bytes: Offset
    step_bytes: Offset
    signed: bool = False


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
    w: LlvmWriter, by: Arithmetic, shape: Shape, *, groups: Offset, rows: Rows, panel: Panel, block: Block
) -> None:
    """C (+)= A·B for one block of C."""
    type = vector(by.accumulator, shape.lanes)
    places = _places(w, by, shape, block)
    starts = _start_values(w, by, shape, places, panel=panel, block=block)
    if _adds_last(by, block):
        for place in places:
            w.prefetch(place, write=True)
    row_offsets = [times(w, r, rows.row_bytes) for r in range(shape.rows)]

    def step(_: Offset, carried: list[str]) -> list[str]:
        a, b, *sums = carried
        columns = [_load_words(w, by, shape, b, v) for v in range(shape.vectors)]
        for r in range(shape.rows):
            word = _broadcast(w, by, shape, behind(w, a, row_offsets[r]), signed=rows.signed)
            for v in range(shape.vectors):
                at = r * shape.vectors + v
                sums[at] = by.accumulate(w, by, shape.lanes, sums[at], word, columns[v])
        return [behind(w, a, rows.step_bytes), behind(w, b, panel.step_bytes), *sums]

    pointers = [("ptr", rows.pointer), ("ptr", panel.pointer)]
    _, _, *sums = repeat(w, groups, step, [*pointers, *((type, start) for start in starts)])
    for value, place in zip(_final_values(w, by, shape, places, sums, block), places, strict=True):
        w.store(type, value, place, align=_alignment(by))


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
    """The accumulators before the first step. With groups C is added last: see `_final_values`."""
    if panel.correction is not None:
        width = shape.lanes * by.word_bytes
        pointers = [behind(w, panel.correction, v * width) for v in range(shape.vectors)]
        return _load_all(w, by, shape, pointers) * shape.rows
    if block.zero_init or by.group > 1:
        return [by.zero(shape.lanes)] * len(places)
    return _load_all(w, by, shape, places)


def _final_values(
    w: LlvmWriter, by: Arithmetic, shape: Shape, places: list[str], sums: list[str], block: Block
) -> list[str]:
    """The final values of C."""
    if not _adds_last(by, block):
        return sums
    type, add = vector(by.accumulator, shape.lanes), "fadd" if is_float(by.accumulator) else "add"
    before = _load_all(w, by, shape, places)
    return [w.emit(f"{add} {type} {held}, {value}") for held, value in zip(before, sums, strict=True)]


def _adds_last(by: Arithmetic, block: Block) -> bool:
    """Whether C is read after the last step.

    Steps over groups are few, so waiting for C at their start costs 5 to 10 %; fetched early it is there at their end.
    """
    return by.group > 1 and not block.zero_init


def _load_all(w: LlvmWriter, by: Arithmetic, shape: Shape, places: list[str]) -> list[str]:
    type = vector(by.accumulator, shape.lanes)
    return [w.load(type, place, align=_alignment(by)) for place in places]


def _alignment(by: Arithmetic) -> int:
    """Rows of C and panels start at multiples of the element size at least; unaligned access costs nothing extra."""
    return bits_of(by.accumulator) // 8


def _load_words(w: LlvmWriter, by: Arithmetic, shape: Shape, pointer: str, v: int) -> str:
    place = behind(w, pointer, v * shape.lanes * by.word_bytes)
    return w.load(by.operand(shape.lanes), place, align=by.element_bytes)


def _broadcast(w: LlvmWriter, by: Arithmetic, shape: Shape, pointer: str, *, signed: bool) -> str:
    """A's word for one row, in all lanes."""
    word = w.load(by.word, pointer, align=by.element_bytes)
    spread = w.splat(word, by.word, shape.lanes)
    if signed:
        type = vector(by.word, shape.lanes)
        spread = w.emit(f"xor {type} {spread}, {constant(WORD_BIAS, by.word, shape.lanes)}")
    return w.convert("bitcast", spread, vector(by.word, shape.lanes), by.operand(shape.lanes))
