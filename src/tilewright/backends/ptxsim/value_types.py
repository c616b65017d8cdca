"""PTX's types in NumPy: `types["s32"]` has 32 bits, kind "s" and dtype int32.

Formats without a NumPy dtype (bf16, fp8, packed pairs) are read as unsigned bits of their width.

Elements of tensor instructions are numbers in registers and bytes, as float64 or int64:

    read_elements(words.view(np.uint8), "f16")     # (…, bytes) -> (…, elements), every value exact
    write_elements(sums, "f32")                    # rounded once to nearest even: (…, elements) -> (…, bytes)

Elements of four bits and of one bit are packed with the lowest bits first. `e2m1`, `e2m3` and `e3m2` of the
instructions of kind f8f6f4 have a byte each: six bits from bit 0, and four bits from bit 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilewright.support.exact_rounding import NUMPY, widen
from tilewright.support.ptx_syntax import TYPE_BITS

Array: TypeAlias = Any
"""A NumPy array; operands have one element per lane, or one for all."""
Mask: TypeAlias = Any
"""One bool per lane; None stands for every lane of the machine."""

UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(bool),
    **{n: np.dtype(f"u{n // 8}") for n in (8, 16, 32, 64)},
    128: np.dtype([("low", np.uint64), ("high", np.uint64)]),
}
"""The NumPy types in which registers are stored, by their bits."""


@dataclass(frozen=True)
class Type:
    """A fundamental type of an instruction or a register.

    Attributes:
        name: as PTX spells it.
        bits: of one value.
        kind: `u`, `s`, `b` (untyped), `f` (a NumPy float), `p` (predicate), or `x`: a format without a dtype.
        dtype: what a register looks like when it is read with this type.
    """

    name: str
    bits: int
    kind: str
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        return self.bits // 8


def _type(name: str, bits: int) -> Type:
    kind = "p" if name == "pred" else name[0] if name in _NUMBERS else "x"
    return Type(name, bits, kind, UNSIGNED[bits] if kind in "pbx" else np.dtype(f"{_NUMPY[kind]}{bits // 8}"))


_NUMPY = {"u": "u", "s": "i", "f": "f"}
_NUMBERS = {f"{kind}{bits}" for kind in "busf" for bits in (8, 16, 32, 64)} | {"b128"}
TYPES: dict[str, Type] = {name: _type(name, bits) for name, bits in TYPE_BITS.items()}


Bytes = NDArray[np.uint8]
Values = NDArray[Any]

WIDTHS = {
    "b1": 1,
    "s4": 4, "u4": 4, "e2m1x2": 4,
    "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "e2m1": 8, "e2m3": 8, "e3m2": 8, "ue8m0": 8, "ue4m3": 8,
    "f16": 16, "bf16": 16,
    "f32": 32, "tf32": 32, "s32": 32,
    "f64": 64,
}
"""Bits of an element where it lies. `e2m1x2`: two in a byte, as instructions of kind mxf4 have them."""

INTEGERS = frozenset({"b1", "s4", "u4", "s8", "u8", "s32"})
_FORMATS = {"ue4m3": "e4m3", "e2m1x2": "e2m1"}
"""The format of types that are no format by themselves: without a sign, and two in a byte."""
_WIDE = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32, "s8": np.int8, "u8": np.uint8}


def read_elements(raw: Bytes, element: str) -> Values:
    """The values of elements that lie one after the other along the last axis.

    Args:
        raw: their bytes.
        element: a key of `WIDTHS`.

    Returns:
        float64 for floats, int64 for integers.
    """
    if element == "tf32":
        raw = _viewed(raw, np.uint32) & np.uint32(0xFFFFE000)
    elif element == "e2m1x2":
        raw = _nibbles(raw)
    elif element == "e2m1":
        raw = raw >> np.uint8(2)
    elif element == "ue4m3":
        raw = raw & np.uint8(127)
    name = _FORMATS.get(element, element)
    if name in NUMPY:
        values: Values = widen(raw, name).astype(np.float64)
        return values
    if element in ("s4", "u4"):
        low = _nibbles(raw).astype(np.int64)
        return low if element == "u4" else (low ^ 8) - 8
    if element == "b1":
        return np.unpackbits(raw, axis=-1, bitorder="little").astype(np.int64)
    return _viewed(raw, _WIDE[element]).astype(np.int64)


def write_elements(values: Values, element: str) -> Bytes:
    """The bytes of values, rounded once to nearest even; integers wrap."""
    rounded = values.astype(_WIDE[element])
    return np.ascontiguousarray(rounded).view(np.uint8)


def _viewed(raw: Bytes, kind: Any) -> Values:
    return np.ascontiguousarray(raw).view(kind)


def _nibbles(raw: Bytes) -> Bytes:
    both = np.stack([raw & np.uint8(15), raw >> np.uint8(4)], axis=-1)
    return both.reshape(*raw.shape[:-1], 2 * raw.shape[-1])
