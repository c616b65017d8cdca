"""The data of generated kernels: kinds of tiles (dtype and shape), numbers of each dtype, arrays of them.

Kind("int8", (4, 16)).cast("a + b") == "(a + b).to(tl.int8)"
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float16", "bfloat16", "float32", "float64")
EIGHTHS = ("float8e5", "float8e4nv")
"""Floats that are only loaded, stored and cast."""
DTYPES = ("int1", *INTEGERS, *FLOATS)
NUMPY: dict[str, Any] = {
    **{name: np.dtype(name) for name in (*INTEGERS, "float16", "float32", "float64")},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8e5": np.dtype(ml_dtypes.float8_e5m2),
    "int1": np.dtype(np.bool_),
}
BITS = {name: 1 if name == "int1" else dtype.itemsize * 8 for name, dtype in NUMPY.items()}
LARGEST_TILE = 1024


@dataclass(frozen=True)
class Kind:
    """The type of a tile; the shape () is a scalar."""

    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether elements are floats one may compute with."""
        return self.dtype in FLOATS

    @property
    def is_unsigned(self) -> bool:
        """Whether comparisons and divisions are unsigned."""
        return self.dtype in UNSIGNED

    def of(self, dtype: str) -> Kind:
        """The same shape with another dtype."""
        return replace(self, dtype=dtype)

    def cast(self, text: str) -> str:
        """The expression `text` made this dtype."""
        return f"({text}).to(tl.{self.dtype})"


def numbers(dtype: str, size: int, seed: int) -> Array:
    """Numbers of all sizes and signs, extremes and (in floats) NaN, infinities and -0.0 among them."""
    rng = np.random.default_rng(seed)
    kind = NUMPY[dtype]
    if kind == np.bool_:
        return rng.integers(0, 2, size).astype(np.bool_)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        wide = rng.integers(limits.min, limits.max, size, dtype=kind, endpoint=True)
        small = rng.integers(-9 if kind.kind == "i" else 0, 9, size).astype(kind)
        found = np.where(rng.integers(0, 2, size) == 0, wide, small)
        extremes: list[Any] = [limits.min, limits.max, 0, 1]
    else:
        wide = rng.standard_normal(size) * np.exp(rng.uniform(-4, 4, size))
        found = np.where(rng.integers(0, 2, size) == 0, wide, rng.integers(-9, 9, size)).astype(kind)
        extremes = [0.0, -0.0, np.nan, 1.0] if dtype in EIGHTHS else [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    places = rng.permutation(size)[: max(size // 32, len(extremes))]
    with np.errstate(all="ignore"):
        found[places] = np.resize(np.array(extremes).astype(kind), len(places))
    return found


def literal(dtype: str, rng: Random) -> str:
    """A number that the dtype has, as Python writes it."""
    if dtype == "int1":
        return rng.choice(("True", "False"))
    if dtype in FLOATS:
        return rng.choice(("0.0", "1.0", "-1.0", "0.5", "-2.5", "3.0", "100.0", "0.1"))
    small = ("0", "1", "2", "3", "5", "7", "100") if dtype in UNSIGNED else ("0", "1", "-1", "2", "3", "-7", "100")
    if rng.random() < 0.85:
        return rng.choice(small)
    limits = np.iinfo(NUMPY[dtype])
    return str(rng.choice((limits.min, limits.max, limits.max // 3)))
