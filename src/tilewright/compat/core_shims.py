"""Shims for internals of Triton's library that copies of its code use.

They serve sorts and scans that began as copies of Triton's, code with the decorators of its language, and code that
makes tensors as its interpreter does.

idtype = tl.core.get_int_dtype(bitwidth=x.dtype.primitive_bitwidth, signed=True)
n_dims: tl.constexpr = tl.standard._log2(x.shape[0])
implicit_cvt(True)         # a tensor of int1, whose handle has data: array([True])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tilewright.backends.base import BaseBackend
from tilewright.compat.signatures import native_specialize_impl
from tilewright.dialects.numpy_types import numpy_dtype
from tilewright.language.core import BUILTIN
from tilewright.language.signatures import str_to_ty
from tilewright.language.tensors import tensor
from tilewright.runtime.constexpr_function import constexpr_function
from tilewright.semantics.constexpr import constexpr, constexpr_type
from tilewright.semantics.types import dtype, int1
from tilewright.support.named_tuple import NamedTuple


class IncompatibleTypeErrorImpl(ValueError):  # noqa: N818 - Triton's name
    """Operands of types that do not go together."""


CONSTEXPR_0 = constexpr(0)
"""A default argument that counts as a constant."""


@constexpr_function
def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """The integer type of `bitwidth` bits."""
    if bitwidth == 1:
        return int1
    if bitwidth not in (8, 16, 32, 64):
        raise ValueError(f"there are no integers of {bitwidth} bits: take 1, 8, 16, 32 or 64")
    return dtype(f"int{bitwidth}" if signed else f"uint{bitwidth}")


@constexpr_function
def _log2(i: int) -> int:
    """The position of the highest bit of `i`, which is positive."""
    return max(i.bit_length() - 1, 0)


Function = TypeVar("Function", bound=Callable[..., Any])


def builtin(fn: Function) -> Function:
    """Marks a Python function that kernels may call on tiles; it runs while the kernel is compiled."""
    setattr(fn, BUILTIN, True)
    return fn


def is_builtin(fn: Any) -> bool:
    """Whether `fn` is marked so."""
    return bool(getattr(fn, BUILTIN, False))


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
