"""Machine code around a function on scalars: for one call with Python's numbers, for arrays, for folding an array.

    i32 @scalar(ptr arguments, ptr result)              one word per argument; not 0: ask Python
    i32 @span(ptr operands, i64 begin, i64 end)         whole vectors of elements; operands are (address, stride) pairs,
                                                        the result last; gives flags of what went wrong
    i32 @fold(ptr operands, i64 begin, i64 end)         result = f(… f(f(result, x0), x1) …); operands: result, x

How a span meets an operand is one letter each: `v` element by element, side by side; `s` at a distance; `u` the same
for all; `w` side by side, written past the caches to addresses that are multiples of 64. A loop over elements has no
remainder: the runtime hands in whole vectors, the last ones through a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.memory import gather, moved_as, scatter
from tilewright.backends.llvm.sections import Loop
from tilewright.backends.llvm.spelling import element_of, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.core import Block, Op
from tilewright.vectorizing.build import FOLD, SCALAR, SPAN
from tilewright.vectorizing.errors import flag_of
from tilewright.vectorizing.kinds import Kind
from tilewright.vectorizing.lanes import LaneWriter, is_bound_by_memory
from tilewright.vectorizing.uniform import uniform_values

UNIFORM, SPACED, SIDE_BY_SIDE, STREAMED = "u", "s", "v", "w"

PYTHON_WORDS = {"bool": "i64", "int64": "i64", "float64": "double"}
_OPERAND, _LINE = 16, 64
_SHORT, _MEDIUM = 14, 40
"""Functions of so few ops take four, two vectors at a time, so that the machine has something to do while it waits."""


class Traversal(NamedTuple):
    """The way that a span walks its operands.

    Attributes:
        pattern: a letter per operand, the result last.
        select: the last two inputs are a mask and what the result had before; see `where=`.
    """

    pattern: str
    select: bool = False


def function_of(module: Op) -> Block:
    """The body of the one function of a module."""
    function = module.regions[0].block.first
    assert function is not None, "made by make_program"
    return function.regions[0].block


# --- scalars ------------------------------------------------------------------------------------------------------


def scalar_text(module: Op, target: Target, result: Kind, kinds: Sequence[Kind]) -> str:
    """The text of `@scalar`."""
    w = LlvmWriter(target)
    block = function_of(module)

    def failed(wrong: str, message: str) -> None:
        with w.branch(wrong, unlikely=True) as branch, branch.then():
            w.do(f"ret i32 {flag_of(message)}")
            w.start_block(w.fresh_label("never"))

    with w.function(SCALAR, [("ptr", "%arguments"), ("ptr", "%result")], result="i32"):
        lanes = LaneWriter(w, 1, set(), failed)
        for number, (argument, kind) in enumerate(zip(block.args, kinds, strict=True)):
            type = PYTHON_WORDS[kind.name]
            word = w.load(type, w.offset("%arguments", "i64", number), align=8)
            lanes.bind(argument, w.emit(f"trunc i64 {word} to i1") if kind.is_bool else word)
        (value,) = lanes.run(block)
        _store_word(w, lanes.text(value), element_of(value.type), result)
        w.do("ret i32 0")
    return w.render()


def _store_word(w: LlvmWriter, text: str, element: str, kind: Kind) -> None:
    """The result as a word: an int64, the bits of a double, 0 or 1."""
    if kind.is_float:
        text = w.convert("fpext", text, element, "double")
        w.store("double", text, "%result", align=8)
        return
    w.store("i64", w.convert("sext" if kind.signed else "zext", text, element, "i64"), "%result", align=8)


# --- arrays -------------------------------------------------------------------------------------------------------


def lanes_for(module: Op, target: Target, kinds: Sequence[Kind]) -> int:
    """The number of elements that a span takes at once."""
    block = function_of(module)
    count = sum(1 for op in block for _ in op.walk())
    widest = max((kind.bits for kind in kinds if kind.bits >= 8), default=8)
    at_once = target.lanes(max(widest, 16))
    has_loop = any(op.name == "scf.while" for op in block)
    return at_once * (1 if has_loop or count > _MEDIUM else 2)


def span_text(module: Op, target: Target, kinds: Sequence[Kind], layout: Traversal, lanes: int) -> str:
    """The text of `@span`; `kinds`: of the arguments, then of the result."""
    w = LlvmWriter(target)
    block = function_of(module)
    with w.function(SPAN, [("ptr", "%operands"), ("i64", "%begin"), ("i64", "%end")], result="i32"):
        flags = _Flags(w)
        described = enumerate(_described(kinds, layout))
        operands = [_Operand(w, number, kind, letter) for number, (kind, letter) in described]
        with w.loop("%begin", "%end", lanes, guarded=True) as loop:
            _write_turn(w, block, operands, layout, lanes, loop, flags)
        if layout.pattern[-1] == STREAMED:  # other threads see what was stored only after this
            w.call_void("llvm.x86.sse.sfence", [])
        w.do(f"ret i32 {flags.value()}")
    if target.splits_vectors and is_bound_by_memory(block):
        w.attributes += f' "prefer-vector-width"="{target.vector_bits // 2}" "min-legal-vector-width"="0"'
    return w.render()


def _described(kinds: Sequence[Kind], layout: Traversal) -> list[tuple[Kind, str]]:
    *inputs, result = kinds
    extra = [Kind("bool"), result] if layout.select else []
    return list(zip((*inputs, *extra, result), layout.pattern, strict=True))


def _write_turn(
    w: LlvmWriter, block: Block, operands: list[_Operand], layout: Traversal, lanes: int, loop: Loop, flags: _Flags
) -> None:
    inputs, (*selected, result) = operands[: len(block.args)], operands[len(block.args) :]
    same = [argument for argument, operand in zip(block.args, inputs, strict=True) if operand.letter == UNIFORM]
    writer = LaneWriter(w, lanes, uniform_values(block, same), flags.raised, loop.preheader)
    for argument, operand in zip(block.args, inputs, strict=True):
        if operand.letter == UNIFORM:
            with w.at(loop.preheader):
                writer.bind(argument, operand.load_one(), ahead=True)
        else:
            writer.bind(argument, operand.load(loop.index, lanes))
    mask, old = selected if layout.select else (None, None)
    writer.active = None if mask is None else mask.load(loop.index, lanes)
    (value,) = writer.run(block)
    text = writer.text(value)
    if old is not None and writer.active is not None:
        before = old.load(loop.index, lanes)
        text = w.select(writer.active, vector(result.element, lanes), text, before, lanes=lanes)
    result.store(loop.index, lanes, text)


class _Flags:
    """The flags of what went wrong in any element, as bits; there is a slot only if something can."""

    def __init__(self, w: LlvmWriter) -> None:
        self._w = w
        self._slot: str | None = None

    def raised(self, wrong: str, message: str) -> None:
        w = self._w
        if self._slot is None:
            self._slot = w.alloca(4, align=4)
            with w.at(w.entry):
                w.store("i32", "0", self._slot, align=4)
        with w.branch(wrong, unlikely=True) as branch, branch.then():
            before = w.load("i32", self._slot, align=4)
            w.store("i32", w.emit(f"or i32 {before}, {flag_of(message)}"), self._slot, align=4)

    def value(self) -> str:
        return "0" if self._slot is None else self._w.load("i32", self._slot, align=4)


class _Operand:
    """An array that a span reads or writes; bools are bytes in memory."""

    def __init__(self, w: LlvmWriter, number: int, kind: Kind, letter: str) -> None:
        self._w = w
        self.kind, self.letter = kind, letter
        self.element = _ELEMENTS.get(kind.name) or f"i{kind.bits}"
        self._stored = "i8" if kind.is_bool else self.element
        place = w.offset("%operands", "i8", number * _OPERAND)
        self._base = w.load("ptr", place, align=8)
        if letter == SPACED:
            self._stride = w.load("i64", w.offset(place, "i8", 8), align=8)

    def load_one(self) -> str:
        """The value that all elements share."""
        return self._read(self._w.load(self._stored, self._base, align=1), 1)

    def load(self, index: str, lanes: int) -> str:
        """The elements from `index` on."""
        w = self._w
        if self.letter == UNIFORM:
            return w.splat(self.load_one(), self.element, lanes)
        if self.letter == SPACED:
            return self._read(gather(w, self._pointers(index, lanes), self._stored, align=1), lanes)
        place = w.offset(self._base, self._stored, index)
        return self._read(w.load(vector(self._stored, lanes), place, align=1), lanes)

    def store(self, index: str, lanes: int, text: str) -> None:
        """Write the elements from `index` on."""
        w = self._w
        if self.kind.is_bool:
            text = w.convert("zext", text, vector("i1", lanes), vector("i8", lanes))
        if self.letter == SPACED:
            scatter(w, self._pointers(index, lanes), self._stored, text, align=1)
            return
        type, place = vector(self._stored, lanes), w.offset(self._base, self._stored, index)
        if self.letter == STREAMED:
            w.stream(type, text, place, align=_LINE)
        else:
            w.store(type, text, place, align=1)

    def _read(self, text: str, lanes: int) -> str:
        if not self.kind.is_bool:
            return text
        type = vector("i8", lanes)
        return self._w.emit(f"icmp ne {type} {text}, {'0' if lanes == 1 else 'zeroinitializer'}")

    def _pointers(self, index: str, lanes: int) -> list[str]:
        w = self._w
        pointers = [w.emit(f"getelementptr i8, ptr {self._base}, i64 {w.emit(f'mul i64 {index}, {self._stride}')}")]
        for _ in range(lanes - 1):
            pointers.append(w.emit(f"getelementptr i8, ptr {pointers[-1]}, i64 {self._stride}"))
        return pointers


_ELEMENTS = {"bool": "i1", "float16": "half", "float32": "float", "float64": "double"}


# --- reductions ---------------------------------------------------------------------------------------------------


def fold_text(module: Op, target: Target, kinds: Sequence[Kind]) -> str:
    """The text of `@fold`; `kinds`: of what is handed on, and of the elements."""
    w = LlvmWriter(target)
    block = function_of(module)
    with w.function(FOLD, [("ptr", "%operands"), ("i64", "%begin"), ("i64", "%end")], result="i32"):
        flags = _Flags(w)
        total, items = (_Operand(w, number, kind, SPACED) for number, kind in enumerate(kinds))
        moved = moved_as(total.element)
        first = w.convert("bitcast", total.load_one(), total.element, moved)
        with w.loop("%begin", "%end", carried=[(moved, first)], guarded=True) as loop:
            writer = LaneWriter(w, 1, set(), flags.raised)
            so_far, item = block.args
            writer.bind(so_far, w.convert("bitcast", loop.carried[0], moved, total.element))
            writer.bind(item, items.load(loop.index, 1))
            (value,) = writer.run(block)
            loop.next = [_bits(w, writer.text(value), total.element)]
        total.store("0", 1, w.convert("bitcast", loop.results[0], moved, total.element))
        w.do(f"ret i32 {flags.value()}")
    return w.render()


def _bits(w: LlvmWriter, text: str, element: str) -> str:
    return w.convert("bitcast", text, element, moved_as(element))
