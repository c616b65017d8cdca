"""The NumPy dtype that holds the values of an IR type.

i1 -> bool          iN -> intN (signless integers are stored signed)          index, pointers -> int64
f16 f32 f64 -> NumPy's                                  bf16 and the 8 bit floats -> those of ml_dtypes
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tilewright.ir.types import FLOATS, PointerType, Type, i1, i8, i16, i32, i64, index

DTYPES: dict[Type, np.dtype[Any]] = {
    i1: np.dtype(np.bool_),
    i8: np.dtype(np.int8),
    i16: np.dtype(np.int16),
    i32: np.dtype(np.int32),
    i64: np.dtype(np.int64),
    index: np.dtype(np.int64),
    FLOATS["f16"]: np.dtype(np.float16),
    FLOATS["bf16"]: np.dtype(ml_dtypes.bfloat16),
    FLOATS["f32"]: np.dtype(np.float32),
    FLOATS["tf32"]: np.dtype(np.float32),
    FLOATS["f64"]: np.dtype(np.float64),
    FLOATS["f8E5M2"]: np.dtype(ml_dtypes.float8_e5m2),
    FLOATS["f8E4M3FN"]: np.dtype(ml_dtypes.float8_e4m3fn),
    FLOATS["f8E4M3FNUZ"]: np.dtype(ml_dtypes.float8_e4m3fnuz),
    FLOATS["f8E5M2FNUZ"]: np.dtype(ml_dtypes.float8_e5m2fnuz),
    FLOATS["f8E4M3B11FNUZ"]: np.dtype(ml_dtypes.float8_e4m3b11fnuz),
}


def numpy_dtype(type: Type) -> np.dtype[Any]:
    """The dtype of one element of `type`; KeyError for types without values (functions, odd integer widths)."""
    scalar = type.scalar
    return DTYPES[i64 if isinstance(scalar, PointerType) else scalar]
