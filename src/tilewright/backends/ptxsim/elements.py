"""The numbers in registers and bytes: each element type of tensor instructions, as float64 or int64.

    read_elements(words.view(np.uint8), "f16")     # (…, bytes) -> (…, elements), every value exact
    write_elements(sums, "f32")                    # rounded once to nearest even: (…, elements) -> (…, bytes)

Types of four bits and one bit lie with the lowest bits first. `e2m1`, `e2m3` and `e3m2` of the instructions of kind
f8f6f4 have a byte each: six bits from bit 0, and four bits from bit 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.support.exact_rounding import NUMPY, widen

Bytes = NDArray[np.uint8]
Values = NDArray[Any]

WIDTHS = {
    "b1": 1,
    "s4": 4, "u4": 4, "e2m1x2": 4,
    "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "e2m1": 8, "e2m3": 8, "e3m2": 8, "ue8m0": 8, "ue4m3": 8,
    "f16": 16, "bf16": 16,
    "f32": 32, "tf32": 32, "s32": 32,
    "f64": 64,
}  # fmt: skip
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
