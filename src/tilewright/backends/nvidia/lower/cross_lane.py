"""Exchange between the lanes of a warp: shuffles of elements of any type, and reductions of whole warps.

shuffled(lowerer, "bfly", "float", "%v3", 16)      # the value of the lane whose number differs in bit 4
shuffled(lowerer, "idx", "i64", "%v3", "%v7")      # the value of lane %v7, in two words

The function by which a reduction or a scan combines values is its region, which is inlined at each use:

combine = Combination(lowerer, op)
combine(["%a0", "%a1"], ["%b0", "%b1"])            # two operands: each element is a row of two values

`redux.sync` reduces a whole warp: it adds, compares and combines the bits of 32-bit integers; compute capability 10.0
also compares f32. A 64-bit sum is put together from three 32-bit sums, so that no carry is lost:

    high 32 bits, bits 16 to 31, bits 0 to 15 of each lane's number → three sums → the sum
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tilewright.analysis.order_of_elements import ordered_results
from tilewright.analysis.reduction_plan import WARP, only_op
from tilewright.backends.llvm.spelling import bits_of
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.backends.nvidia.lower.access_plan import WORD, diagonals
from tilewright.backends.nvidia.lower.lowerer import Lowerer
from tilewright.backends.nvidia.lower.register_packing import as_integer, from_integer
from tilewright.dialects.tt_reduce import Fold

ALL_LANES = "-1"
CLAMPS = {"bfly": "31", "down": "31", "idx": "31", "up": "0"}
"""Per kind of shuffle the last operand: no lane beyond the warp is read."""
HALVES = "<2 x i32>"


def shuffled(lowerer: Lowerer, kind: str, element: str, value: str, lane: str | int) -> str:
    """Another lane's `value`.

    Args:
        kind: `bfly`, `up`, `down` or `idx`: how `lane` denotes the source lane.
        element: the LLVM type of the value.
        value: what each lane sends.
        lane: what is added (by XOR) to the lane's own number, taken away, added; or the number itself.
    """
    words = words_of(lowerer, element, value)
    return from_words(lowerer, element, [shuffled_word(lowerer, kind, word, lane) for word in words])


def shuffled_word(lowerer: Lowerer, kind: str, word: str, lane: str | int) -> str:
    """The same of an i32."""
    operands = [("i32", text) for text in (ALL_LANES, word, str(lane), CLAMPS[kind])]
    return lowerer.w.call("i32", f"llvm.nvvm.shfl.sync.{kind}.i32", operands)


def _width(element: str) -> int:
    return 64 if element.startswith("ptr") else bits_of(element)


def words_of(lowerer: Lowerer, element: str, value: str) -> list[str]:
    """The bits of a value as i32, the lowest first."""
    return split_integer(lowerer.w, as_integer(lowerer.w, element, value), _width(element))


def from_words(lowerer: Lowerer, element: str, words: Sequence[str]) -> str:
    """The value with these bits."""
    return from_integer(lowerer.w, element, joined_integer(lowerer.w, words, _width(element)))


def split_integer(w: LlvmWriter, value: str, width: int) -> list[str]:
    """An integer of up to 64 bits as i32, the lowest first."""
    if width <= WORD:
        return [w.convert("zext", value, f"i{width}", "i32")]
    halves = w.emit(f"bitcast i64 {value} to {HALVES}")
    return [w.extract(HALVES, halves, 0), w.extract(HALVES, halves, 1)]


def joined_integer(w: LlvmWriter, words: Sequence[str], width: int) -> str:
    """The opposite of `split_integer`."""
    if width <= WORD:
        return w.convert("trunc", words[0], "i32", f"i{width}")
    halves = w.insert(HALVES, w.insert(HALVES, "poison", "i32", words[0], 0), "i32", words[1], 1)
    return w.emit(f"bitcast {HALVES} {halves} to i64")


def mapped(lowerer: Lowerer, number: str, steps: Sequence[int]) -> str:
    """The XOR of the steps whose bit is set in `number`, an i32."""
    found = "0"
    for shift, mask in diagonals(steps):
        part = lowerer.w.emit(f"and i32 {number}, {mask}")
        if shift:
            part = lowerer.w.emit(f"{'shl' if shift > 0 else 'lshr'} i32 {part}, {abs(shift)}")
        found = added(lowerer, found, part)
    return found


def added(lowerer: Lowerer, first: str, second: str, opcode: str = "xor") -> str:
    """The sum of two i32: by XOR, or with the opcode `add` as numbers."""
    if "0" in (first, second):
        return second if first == "0" else first
    return lowerer.w.emit(f"{opcode} i32 {first}, {second}")


Row: TypeAlias = list[str]
"""One element of each operand."""


class Combination:
    """The function that makes two elements one.

    Attributes:
        elements: the LLVM types of a row.
    """

    def __init__(self, lowerer: Lowerer, op: Fold) -> None:
        self.lowerer, self.op = lowerer, op
        self.elements = [lowerer.element(value.type) for value in op.operands]
        self._ordered = ordered_results(op)

    def __call__(self, first: Row, second: Row) -> Row:
        """`first` combined with `second`, in this order."""
        return self.lowerer.region_values(self.op.regions[0], [*first, *second])

    def between_lanes(self, own: Row, others: Row) -> Row:
        """The combined row, the same in every lane, whichever of the two it had itself (see also `agreed`).

        So nothing is fused: a product of this lane would lose its rounding, that of the other lane has it behind it.
        """
        w = self.lowerer.w
        fusion, w.fusion = w.fusion, ""
        found = self(own, others)
        w.fusion = fusion
        return found

    def agreed(self, row: Row, masks: Sequence[int]) -> Row:
        """The row of the first lane of those that differ in the bits `masks`, where the order of elements matters."""
        if not masks or not self._ordered:
            return row
        lowerer, others = self.lowerer, WARP - 1 - sum(masks)
        first = lowerer.once(("first lane", others), lambda: lowerer.w.emit(f"and i32 {lowerer.lane()}, {others}"))
        return [
            shuffled(lowerer, "idx", element, value, first) if number in self._ordered else value
            for number, (element, value) in enumerate(zip(self.elements, row, strict=True))
        ]

    def shuffled(self, row: Row, kind: str, lane: str | int) -> Row:
        """Another lane's row; see the function `shuffled`."""
        pairs = zip(self.elements, row, strict=True)
        return [shuffled(self.lowerer, kind, element, value, lane) for element, value in pairs]

    def rows(self) -> list[Row]:
        """The operands' elements, per register."""
        return [list(row) for row in zip(*map(self.lowerer.registers, self.op.operands), strict=True)]

    def bind(self, rows: Sequence[Row]) -> None:
        """Give the op's results their registers."""
        for result, registers in zip(self.op.results, zip(*rows, strict=True), strict=True):
            self.lowerer.bind(result, registers)

    def choose(self, condition: str, if_true: Row, if_false: Row) -> Row:
        """One of two rows by an i1."""
        w = self.lowerer.w
        return [
            w.emit(f"select i1 {condition}, {element} {a}, {element} {b}") if a != b else a
            for element, a, b in zip(self.elements, if_true, if_false, strict=True)
        ]


REDUX_INTEGERS = {
    "arith.addi": ("add", "zext"),
    "arith.andi": ("and", "zext"),
    "arith.maxsi": ("max", "sext"),
    "arith.maxui": ("umax", "zext"),
    "arith.minsi": ("min", "sext"),
    "arith.minui": ("umin", "zext"),
    "arith.ori": ("or", "zext"),
    "arith.xori": ("xor", "zext"),
}
"""Per op the instruction, and how narrower integers become 32 bits wide."""
REDUX_FLOATS = {
    "arith.maximumf": "fmax.NaN",
    "arith.maxnumf": "fmax",
    "arith.minimumf": "fmin.NaN",
    "arith.minnumf": "fmin",
}


def fold_warp(combine: Combination, value: str) -> str:
    """The values of all lanes folded, in every lane."""
    lowerer, only, (element,) = combine.lowerer, only_op(combine.op), combine.elements
    assert only is not None, "a warp is folded by functions of one op"
    w, name = lowerer.w, only.name
    if element == "float":
        operands = [("float", value), ("i32", ALL_LANES)]
        return w.call("float", f"llvm.nvvm.redux.sync.{REDUX_FLOATS[name]}", operands)
    kind, extension = REDUX_INTEGERS[name]
    if element == "i64":
        return _fold_wide(lowerer, kind, value)
    wide = _redux(lowerer, kind, w.convert(extension, value, element, "i32"))
    return w.convert("trunc", wide, "i32", element)


def _fold_wide(lowerer: Lowerer, kind: str, value: str) -> str:
    w = lowerer.w
    low, high = words_of(lowerer, "i64", value)
    if kind != "add":
        return from_words(lowerer, "i64", [_redux(lowerer, kind, low), _redux(lowerer, kind, high)])
    lowest = _redux(lowerer, kind, w.emit(f"and i32 {low}, 65535"))
    middle = _redux(lowerer, kind, w.emit(f"lshr i32 {low}, 16"))
    parts = from_words(lowerer, "i64", [lowest, _redux(lowerer, kind, high)])
    shifted = w.emit(f"shl i64 {w.emit(f'zext i32 {middle} to i64')}, 16")
    return w.emit(f"add i64 {parts}, {shifted}")


def _redux(lowerer: Lowerer, kind: str, value: str) -> str:
    return lowerer.w.call("i32", f"llvm.nvvm.redux.sync.{kind}", [("i32", value), ("i32", ALL_LANES)])
