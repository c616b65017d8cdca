"""The NumPy dtype that holds the values of an IR type.

i1 -> bool          iN -> intN (signless integers are stored signed)          index, pointers -> int64
f16 f32 f64 -> NumPy's                                  bf16 and the 8 bit floats -> those of ml_dtypes
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir.literals import numpy_types
from tilewright.ir.types import FLOATS, PointerType, Type, i1, i8, i16, i32, i64, index

DTYPES: dict[Type, np.dtype[Any]] = {
    i1: np.dtype(np.bool_),
    i8: np.dtype(np.int8),
    i16: np.dtype(np.int16),
    i32: np.dtype(np.int32),
    i64: np.dtype(np.int64),
    index: np.dtype(np.int64),
    **{FLOATS[name]: dtype for name, dtype in numpy_types().items()},
}


def numpy_dtype(type: Type) -> np.dtype[Any]:
    """The dtype of one element of `type`; KeyError for types without values (functions, odd integer widths)."""
    scalar = type.scalar
    return DTYPES[i64 if isinstance(scalar, PointerType) else scalar]
