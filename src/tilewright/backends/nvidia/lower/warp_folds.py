"""Folds of a whole warp in one instruction: `redux.sync`.

It adds, compares and combines the bits of 32-bit integers; the compute capability 10.0 also compares f32. Sums of
64 bits are put together from three of 32 bits, so that no carry is lost (`reduction_plan` knows which folds there are):

    high 32 bits, bits 16 to 31, bits 0 to 15 of each lane's number → three sums → the sum
"""

from __future__ import annotations

from tilewright.analysis.reduction_plan import only_op
from tilewright.backends.nvidia.lower.combine import Combination
from tilewright.backends.nvidia.lower.cross_lane import ALL_LANES, from_words, words_of
from tilewright.backends.nvidia.lower.lowerer import Lowerer

INTEGERS = {
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
FLOATS = {
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
        return w.call("float", f"llvm.nvvm.redux.sync.{FLOATS[name]}", operands)
    kind, extension = INTEGERS[name]
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
