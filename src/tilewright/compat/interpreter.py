"""The tensors that Triton's interpreter makes of arguments, for programs that ask it.

implicit_cvt(True)         # a tensor of int1, whose handle has data: array([True])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.backends.base import BaseBackend
from tilewright.compat.signatures import native_specialize_impl
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.language.signatures import constexpr_type, str_to_ty
from tilewright.language.tensors import tensor
from tilewright.support.named_tuple import NamedTuple


class TensorHandle(NamedTuple):
    """The elements of a tensor, and their type."""

    data: Any
    dtype: Any


def implicit_cvt(arg: Any) -> Any:
    """The tensor that an interpreted kernel gets for a whole number or an array; of a tuple, one for each part.

    Everything else is given back as it is.
    """
    if isinstance(arg, tuple):
        parts = map(implicit_cvt, arg)
        return arg._make(parts) if hasattr(arg, "_make") else tuple(parts)
    if isinstance(arg, int):
        value = arg
    elif hasattr(arg, "data_ptr"):
        value = arg.data_ptr()
    else:
        return arg
    kind, _ = native_specialize_impl(BaseBackend, arg, False, False, False)
    type = str_to_ty(kind)
    assert not isinstance(type, constexpr_type), "no number is a constant where values make no difference"
    handle: Any = TensorHandle(np.array([value], numpy_dtype(type.ir)), type)
    return tensor(handle, type)
