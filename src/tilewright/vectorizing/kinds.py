"""Kinds of numbers, and NumPy's promotion of two of them.

    promote(Kind("int8"), Kind("uint8"))                    int16
    promote(Kind("float32"), WEAK_FLOAT)                    float32: a Python number adapts to the array
    promote(WEAK_BOOL, WEAK_INT)                            WEAK_INT: only Python numbers, Python's rules

A *weak* kind is that of a Python number (`bool`, `int`, `float`), as in NumPy's promotion since version 2.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tilewright.support.named_tuple import NamedTuple

FLOATS = {"float16": 16, "float32": 32, "float64": 64}
SIGNED = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
BITS = {"bool": 1, **SIGNED, **UNSIGNED, **FLOATS}


class Kind(NamedTuple):
    """The dtype of a number, by NumPy's name; `weak`: it is a Python number."""

    name: str
    weak: bool = False

    @property
    def is_float(self) -> bool:
        return self.name in FLOATS

    @property
    def is_bool(self) -> bool:
        return self.name == "bool"

    @property
    def is_integer(self) -> bool:
        """An integer, bool not included."""
        return not (self.is_float or self.is_bool)

    @property
    def signed(self) -> bool:
        return self.name in SIGNED

    @property
    def bits(self) -> int:
        return BITS[self.name]

    @property
    def strong(self) -> Kind:
        """The same dtype as that of an array."""
        return Kind(self.name)

    def holds(self, number: int) -> bool:
        """Whether an integer kind can have this value."""
        low = -(1 << (self.bits - 1)) if self.signed else 0
        return low <= number < low + (1 << self.bits)

    def __str__(self) -> str:
        return f"Python {_PYTHON[self.name]}" if self.weak else self.name


_PYTHON = {"bool": "bool", "int64": "int", "float64": "float"}

BOOL, INT64, FLOAT32, FLOAT64 = Kind("bool"), Kind("int64"), Kind("float32"), Kind("float64")
WEAK_BOOL, WEAK_INT, WEAK_FLOAT = Kind("bool", True), Kind("int64", True), Kind("float64", True)
_WEAK_ORDER = (WEAK_BOOL, WEAK_INT, WEAK_FLOAT)
WEAK_KINDS = {bool: WEAK_BOOL, int: WEAK_INT, float: WEAK_FLOAT}
"""The kinds of Python's numbers, by class."""


@cache
def promote(left: Kind, right: Kind) -> Kind:
    """The kind in which an operation on both is computed."""
    if left.weak and right.weak:
        return _WEAK_ORDER[max(_WEAK_ORDER.index(left), _WEAK_ORDER.index(right))]
    if left.weak or right.weak:
        weak, strong = (left, right) if left.weak else (right, left)
        if weak == WEAK_BOOL or strong.is_float or (weak == WEAK_INT and strong.is_integer):
            return strong
        return weak.strong
    return Kind(np.promote_types(left.name, right.name).name)


@cache
def float_of_both(left: Kind, right: Kind) -> Kind:
    """The kind that a function of two floats, such as `np.arctan2`, computes in."""
    if left.weak or right.weak:
        return float_of(promote(left, right))
    return promote(float_of(left), float_of(right))


@cache
def float_of(kind: Kind) -> Kind:
    """The kind that a function such as `np.exp` computes in: the smallest float for the integer."""
    if kind.is_float:
        return kind
    if kind.weak:
        return WEAK_FLOAT
    return Kind("float16" if kind.bits <= 8 else "float32" if kind.bits == 16 else "float64")
