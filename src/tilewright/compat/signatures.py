"""What kernels are compiled for, asked the way Triton's own code asks.

native_specialize_impl(BaseBackend, 64, False, True, True)       # ("i32", "D")
mangle_type(torch.zeros(4))                                       # "*fp32"
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.backends.base import BaseBackend
from tilewright.compat.tensor_descriptor import Descriptor
from tilewright.compat.types import canonicalize_dtype
from tilewright.compiler.signature import CONSTEXPR
from tilewright.language.callable import KeyedCallable
from tilewright.runtime.parameters import MISSING, KernelParam
from tilewright.runtime.specialize import specialize


def native_specialize_impl(backend: Any, arg: Any, is_const: bool, specialize_value: bool, align: bool) -> Any:
    """The type of an argument in signatures, and what else its kernel is compiled for; for a tuple, tuples of them.

    Args:
        backend: not asked: arguments are specialised the same way for all of them.
        arg: the argument.
        is_const: the kernel does not store through it.
        specialize_value: whether the value 1 and divisibility make kernels of their own.
        align: whether divisibility does.

    Raises:
        ArgumentError: no kernel can take it.
    """
    if isinstance(arg, Descriptor):
        return _descriptor_type(arg), None
    if isinstance(arg, KeyedCallable):
        return CONSTEXPR, arg.cache_key
    if isinstance(arg, tuple):
        pairs = [native_specialize_impl(backend, part, False, True, True) for part in arg]
        return tuple(_like(arg, parts) for parts in zip(*pairs, strict=True)) or ((), ())
    return specialize(arg, _parameter(is_const=is_const, by_value=specialize_value, align=align)).as_triton()


def mangle_type(arg: Any, specialize: bool = False) -> Any:
    """The type of an argument in signatures.

    Args:
        arg: the argument.
        specialize: whether the number 1 is a constant.
    """
    kind, _ = native_specialize_impl(BaseBackend, arg, False, specialize, True)
    return kind


def get_full_name(fn: Any) -> str:
    """Module and name of a function."""
    return f"{fn.__module__}.{fn.__qualname__}"


def _parameter(*, is_const: bool, by_value: bool, align: bool) -> KernelParam:
    return KernelParam(
        num=0,
        name="argument",
        annotation="",
        annotation_type="",
        is_constexpr=False,
        is_const=is_const,
        do_not_specialize=not by_value,
        do_not_specialize_on_alignment=not align,
        default=MISSING,
    )


def _like(arg: tuple[Any, ...], parts: Sequence[Any]) -> tuple[Any, ...]:
    make: Any = getattr(arg, "_make", tuple)
    made: tuple[Any, ...] = make(parts)
    return made


def _descriptor_type(descriptor: Descriptor) -> str:
    layout = getattr(descriptor, "layout", None)
    suffix = "" if layout is None else f",{layout!r}"
    return f"tensordesc<{canonicalize_dtype(descriptor.base.dtype)}{list(descriptor.block_shape)}{suffix}>"
