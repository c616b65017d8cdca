"""The specialisation of kernels and the keys of caches, asked for the way Triton's own code asks.

native_specialize_impl(BaseBackend, 64, False, True, True)       # ("i32", "D")
mangle_type(torch.zeros(4))                                       # "*fp32"
find_paths_if((1, (2, 3)), lambda path, value: value > 1)         # [(1, 0), (1, 1)]: indices in nested tuples
get_iterable_path((1, (2, 3)), (1, 0))                            # 2
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any

from tilewright.backends.base import BaseBackend
from tilewright.compat.tensor_descriptor import Descriptor
from tilewright.compat.types import canonicalize_dtype
from tilewright.compiler.cache_key import COMPILER_IDENTITY, llvm_identity
from tilewright.compiler.signature import CONSTEXPR
from tilewright.language.callable import KeyedCallable
from tilewright.runtime.cache.managers import base32
from tilewright.runtime.parameters import MISSING, KernelParam, bind
from tilewright.runtime.specialize import specialize
from tilewright.support.hashing import hash_of

TRITON_MODULE = "triton.language"
GLUON_MODULE = "triton.experimental.gluon.language"


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


def triton_key() -> str:
    """Differs between versions of Tilewright and of LLVM."""
    return f"tilewright-{COMPILER_IDENTITY}-{llvm_identity()}"


def make_so_cache_key(
    version_hash: str, signature: Mapping[Any, Any], constants: Mapping[Any, Any], ids: Hashable, **kwargs: Any
) -> str:
    """The key of a shared library: it differs whenever an argument does."""
    facts = (version_hash, sorted(map(repr, signature.items())), sorted(map(repr, constants.items())), ids)
    return base32(hash_of(f"{facts} {sorted(kwargs.items())}".encode()).hexdigest())


Path = tuple[int, ...]


def find_paths_if(iterable: Any, pred: Callable[[Path, Any], Any]) -> list[Path]:
    """The paths of the values for which `pred(path, value)` holds; that of a value that is no sequence is empty."""
    return [path for path, value in _leaves((), iterable) if pred(path, value)]


def get_iterable_path(iterable: Any, path: Path) -> Any:
    """The value at a path."""
    return reduce(getitem, path, iterable)


def set_iterable_path(iterable: Any, path: Path, val: Any) -> None:
    """Put `val` at a path; what holds it must be a list."""
    get_iterable_path(iterable, path[:-1])[path[-1]] = val


def apply_with_path(value: Any, fn: Callable[[Path, Any], Any]) -> None:
    """Call `fn(path, value)` with every value."""
    for path, leaf in _leaves((), value):
        fn(path, leaf)


def is_iterable(value: Any) -> bool:
    """Whether paths lead into it."""
    return isinstance(value, list | tuple)


def is_namedtuple(val: Any) -> bool:
    """Whether it is a class of named tuples."""
    return isinstance(val, type) and issubclass(val, tuple) and hasattr(val, "_fields")


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if is_iterable(value):
        for index, part in enumerate(value):
            yield from _leaves((*path, index), part)
    else:
        yield path, value
