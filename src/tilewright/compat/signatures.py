"""The specialisation of kernels, asked for the way Triton's own code asks.

native_specialize_impl(BaseBackend, 64, False, True, True)       # ("i32", "D")
mangle_type(torch.zeros(4))                                       # "*fp32"
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from tilewright.backends.base import BaseBackend
from tilewright.compat.tensor_descriptor import Descriptor
from tilewright.compat.types import canonicalize_dtype
from tilewright.compiler.signature import CONSTEXPR
from tilewright.language.callable import KeyedCallable
from tilewright.runtime.parameters import MISSING, KernelParam, bind
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


def create_function_from_signature(sig: inspect.Signature, kparams: Sequence[KernelParam], backend: Any) -> Any:
    """A function that binds a call's arguments: (them by name, (type, key) of each, the other keywords).

    Args:
        sig: not asked, the parameters say it all.
        kparams: the parameters of a kernel.
        backend: not asked, as in `native_specialize_impl`.
    """

    def bound(*args: Any, **options: Any) -> tuple[dict[str, Any], list[tuple[Any, Any]], dict[str, Any]]:
        values, rest = bind("kernel", kparams, args, options)
        types = [specialize(value, param).as_triton() for value, param in zip(values, kparams, strict=True)]
        return {param.name: value for param, value in zip(kparams, values, strict=True)}, types, rest

    return bound


def compute_cache_key(kernel_key_cache: dict[Any, str], specialization: Sequence[Any], options: Any) -> str:
    """The key under which a kernel is kept in memory: types, keys and options as text; functions by their digests."""
    asked = tuple(specialization), str(options)
    if asked not in kernel_key_cache:
        kernel_key_cache[asked] = f"{_with_digests(list(specialization))}{options}"
    return kernel_key_cache[asked]


def _with_digests(value: Any) -> Any:
    if isinstance(value, KeyedCallable):
        return value.cache_key
    if isinstance(value, tuple):
        return _like(value, list(map(_with_digests, value)))
    return list(map(_with_digests, value)) if isinstance(value, list) else value


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
