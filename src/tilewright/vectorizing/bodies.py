"""The machine code around a scalar function: for one call with Python's numbers, for arrays, for folding an array.

    i32 @scalar(ptr arguments, ptr result)              one word per argument; nonzero: Python must decide
    i32 @span(ptr operands, i64 begin, i64 end)         whole vectors of elements; operands are (address, stride) pairs,
                                                        the result last; returns error flags
    i32 @fold(ptr operands, i64 begin, i64 end)         result = f(… f(f(result, x0), x1) …); operands: result, x

A loop over elements has no remainder: the runtime passes whole vectors, the last ones through a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.loops import LoopEmitter
from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.spelling import element_of
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.ir.core import Op
from tilewright.ir.types import PointerType
from tilewright.vectorizing.build import SCALAR
from tilewright.vectorizing.errors import flag_of
from tilewright.vectorizing.kinds import Kind
from tilewright.vectorizing.program import function_of

PYTHON_WORDS = {"bool": "i64", "int64": "i64", "float64": "double"}
_SLOT = 8
_MEDIUM = 40
"""Max number of ops of a function that takes two vectors at a time: the machine has something to do while it waits."""


def scalar_text(module: Op, target: Target, result: Kind, kinds: Sequence[Kind]) -> str:
    """The text of `@scalar`."""
    w = LlvmWriter(target)
    block = function_of(module)

    def failed(wrong: str, message: str) -> None:
        with w.branch(wrong, unlikely=True) as branch, branch.then():
            w.do(f"ret i32 {flag_of(message)}")
            w.start_block(w.fresh_label("never"))

    with w.function(SCALAR, [("ptr", "%arguments"), ("ptr", "%result")], result="i32"):
        emitter = LoopEmitter(w, failed)
        for number, (argument, kind) in enumerate(zip(block.args, kinds, strict=True)):
            type = PYTHON_WORDS[kind.name]
            word = w.load(type, w.offset("%arguments", "i64", number), align=8)
            emitter.bind(argument, w.emit(f"trunc i64 {word} to i1") if kind.is_bool else word)
        (value,) = emitter.run(block)
        _store_word(w, emitter.names[value], element_of(value.type), result)
        w.do("ret i32 0")
    return w.render()


def _store_word(w: LlvmWriter, text: str, element: str, kind: Kind) -> None:
    """The result as a word: an int64, the bits of a double, 0 or 1."""
    if kind.is_float:
        text = w.convert("fpext", text, element, "double")
        w.store("double", text, "%result", align=8)
        return
    w.store("i64", w.convert("sext" if kind.signed else "zext", text, element, "i64"), "%result", align=8)


def lanes_for(module: Op, target: Target, kinds: Sequence[Kind]) -> int:
    """The number of elements that a span takes at once."""
    block = function_of(module)
    count = sum(1 for op in block for _ in op.walk())
    widest = max((kind.bits for kind in kinds if kind.bits >= 8), default=8)
    at_once = target.lanes(max(widest, 16))
    has_loop = any(op.name == "scf.while" for op in block)
    return at_once * (1 if has_loop or count > _MEDIUM else 2)


def loop_text(loops: Op, name: str, target: Target, *, halves: bool = False) -> str:
    """The text of `@span` or `@fold`: each pointer and each stride among the parameters is a word of `%operands`.

    With `halves`, vectors are cut in two where that is how the machine executes them anyway.
    """
    w = LlvmWriter(target)
    if halves and target.costs.splits_vectors:
        w.attributes += f' "prefer-vector-width"="{target.vector_bits // 2}" "min-legal-vector-width"="0"'
    block = function_of(loops)
    with w.function(name, [("ptr", "%operands"), ("i64", "%begin"), ("i64", "%end")], result="i32"):
        flags = _Flags(w)
        emitter = LoopEmitter(w, flags.raised)
        *words, begin, end = block.args
        for argument in words:
            if argument.uses:
                type = "ptr" if isinstance(argument.type, PointerType) else "i64"
                emitter.bind(argument, w.load(type, w.offset("%operands", "i8", _SLOT * argument.index), align=8))
        emitter.bind(begin, "%begin")
        emitter.bind(end, "%end")
        emitter.run(block)
        w.finish(f"i32 {flags.value()}")
    return w.render()


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
