"""Values that go from lane to lane of a warp: shuffles of elements of any type, and folds of 32-bit integers.

shuffled(lowerer, "bfly", "float", "%v3", 16)      # the value of the lane whose number differs in bit 4
shuffled(lowerer, "idx", "i64", "%v3", "%v7")      # the value of lane %v7, in two words
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.spelling import bits_of
from tilewright.backends.nvidia.lower.address import diagonals
from tilewright.backends.nvidia.lower.lowerer import Lowerer
from tilewright.backends.nvidia.lower.register_packing import WORD, as_integer, from_integer

ALL_LANES = "-1"
CLAMPS = {"bfly": "31", "down": "31", "idx": "31", "up": "0"}
"""Per kind of shuffle the last operand: no lane beyond the warp is asked."""
HALVES = "<2 x i32>"


def shuffled(lowerer: Lowerer, kind: str, element: str, value: str, lane: str | int) -> str:
    """Another lane's `value`.

    Args:
        lowerer: the lowerer that code goes to.
        kind: `bfly`, `up`, `down` or `idx`: how `lane` tells which lane.
        element: the LLVM type of the value.
        value: what each lane sends.
        lane: what is added (by XOR) to the lane's own number, taken away, added; or the number itself.
    """
    words = words_of(lowerer, element, value)
    return from_words(lowerer, element, [_shuffle(lowerer, kind, word, lane) for word in words])


def _shuffle(lowerer: Lowerer, kind: str, word: str, lane: str | int) -> str:
    operands = [("i32", text) for text in (ALL_LANES, word, str(lane), CLAMPS[kind])]
    return lowerer.w.call("i32", f"llvm.nvvm.shfl.sync.{kind}.i32", operands)


def _width(element: str) -> int:
    return 64 if element.startswith("ptr") else bits_of(element)


def words_of(lowerer: Lowerer, element: str, value: str) -> list[str]:
    """The bits of a value as i32, the lowest first."""
    w, width = lowerer.w, _width(element)
    bits = as_integer(w, element, value)
    if width <= WORD:
        return [w.convert("zext", bits, f"i{width}", "i32")]
    halves = w.emit(f"bitcast i64 {bits} to {HALVES}")
    return [w.extract(HALVES, halves, 0), w.extract(HALVES, halves, 1)]


def from_words(lowerer: Lowerer, element: str, words: Sequence[str]) -> str:
    """The value with these bits."""
    w, width = lowerer.w, _width(element)
    if width <= WORD:
        return from_integer(w, element, w.convert("trunc", words[0], "i32", f"i{width}"))
    halves = w.insert(HALVES, w.insert(HALVES, "poison", "i32", words[0], 0), "i32", words[1], 1)
    return from_integer(w, element, w.emit(f"bitcast {HALVES} {halves} to i64"))


def mapped(lowerer: Lowerer, number: str, steps: Sequence[int]) -> str:
    """The XOR of the steps whose bit is set in `number`, an i32."""
    found = "0"
    for shift, mask in diagonals(steps):
        part = lowerer.w.emit(f"and i32 {number}, {mask}")
        if shift:
            part = lowerer.w.emit(f"{'shl' if shift > 0 else 'lshr'} i32 {part}, {abs(shift)}")
        found = added(lowerer, found, part)
    return found


def added(lowerer: Lowerer, first: str, second: str) -> str:
    """The XOR of two i32."""
    if "0" in (first, second):
        return second if first == "0" else first
    return lowerer.w.emit(f"xor i32 {first}, {second}")
