"""Element types, the specialisation of kernels and cache keys, with the interfaces of Triton's internals.

canonicalize_dtype(torch.float32)                                 # "fp32"
native_specialize_impl(BaseBackend, 64, False, True, True)       # ("i32", "D")
mangle_type(torch.zeros(4))                                       # "*fp32"
find_paths_if((1, (2, 3)), lambda path, value: value > 1)         # [(1, 0), (1, 1)]: indices in nested tuples
get_iterable_path((1, (2, 3)), (1, 0))                            # 2

finder = DependenciesFinder(name, fn.__globals__, inspect.getclosurevars(fn).nonlocals, fn.src)
finder.visit(fn.parse())
finder.ret                     # 64 digits; other when the text, a callee or a constant changes
finder.used_global_vals        # {(name, id(namespace)): (value, namespace)}
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from types import CodeType, FunctionType
from typing import Any

from tilewright.backends.base import BaseBackend
from tilewright.compat.tensor_descriptor import Descriptor
from tilewright.compiler.cache_key import compiler_sources, llvm_identity
from tilewright.compiler.signature import CONSTEXPR
from tilewright.language.callable import KeyedCallable
from tilewright.runtime.cache.managers import base32
from tilewright.runtime.dependencies import UsedGlobals, dependencies
from tilewright.runtime.parameters import ANNOTATION_TYPES, KernelParam, bind
from tilewright.runtime.specialize import specialize
from tilewright.support.hashing import hash_of
from tilewright.support.source import syntax_tree

_LONG_NAMES = {
    **ANNOTATION_TYPES,
    "bool": "u1",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2": "fp8e5",
    "float8_e5m2fnuz": "fp8e5b16",
    "i1": "u1",
    "int1": "u1",
    "uint1": "u1",
    "void": "void",
}
type_canonicalisation_dict = _LONG_NAMES | {name: name for name in _LONG_NAMES.values()}
"""Names of element types in torch, NumPy, C and the language -> those in signatures."""

_BITS = {"bf16": 16, "fp16": 16, "fp32": 32, "fp64": 64, "i1": 1, "u1": 1, "void": 0}


def canonicalize_dtype(dtype: Any) -> str:
    """The name in signatures of an element type, given as text or as a dtype of torch, NumPy or the language.

    Raises:
        KeyError: there is no such element type.
    """
    return type_canonicalisation_dict[str(dtype).rpartition(".")[2]]


def canonicalize_ptr_dtype(dtype: Any, is_const: bool) -> str:
    """The name in signatures of a pointer to elements of this type."""
    return f"{'*k' if is_const else '*'}{canonicalize_dtype(dtype)}"


def get_primitive_bitwidth(dtype: str) -> int:
    """Bits of an element of a type."""
    name = canonicalize_dtype(dtype)
    if name.startswith("fp8"):
        return 8
    return _BITS[name] if name in _BITS else int(name[1:])


BITWIDTH_DICT = {name: get_primitive_bitwidth(name) for name in type_canonicalisation_dict}
"""Bits of every element type, by all its names."""


TRITON_MODULE = "triton.language"
GLUON_MODULE = "triton.experimental.gluon.language"


def native_specialize_impl(backend: Any, arg: Any, is_const: bool, specialize_value: bool, align: bool) -> Any:
    """The type of an argument in signatures, and what else its kernel is compiled for; for a tuple, tuples of them.

    Args:
        backend: unused: arguments are specialised the same way for all of them.
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
    param = KernelParam(0, "argument", is_const=is_const, do_not_specialize=not specialize_value)
    return specialize(arg, param._replace(do_not_specialize_on_alignment=not align)).as_triton()


def mangle_type(arg: Any, specialize: bool = False) -> Any:
    """The type of an argument in signatures.

    Args:
        specialize: whether the number 1 is a constant.
    """
    kind, _ = native_specialize_impl(BaseBackend, arg, False, specialize, True)
    return kind


def create_function_from_signature(sig: inspect.Signature, kparams: Sequence[KernelParam], backend: Any) -> Any:
    """A function that binds a call's arguments: (them by name, (type, key) of each, the other keywords).

    Args:
        sig: unused, the parameters have all of it.
        backend: unused, as in `native_specialize_impl`.
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


def _like(arg: tuple[Any, ...], parts: Sequence[Any]) -> tuple[Any, ...]:
    make: Any = getattr(arg, "_make", tuple)
    made: tuple[Any, ...] = make(parts)
    return made


def _descriptor_type(descriptor: Descriptor) -> str:
    layout = getattr(descriptor, "layout", None)
    suffix = "" if layout is None else f",{layout!r}"
    name = "tensordesc" if len(descriptor.shape) == len(descriptor.block_shape) else "tensordesc_im2col"
    return f"{name}<{canonicalize_dtype(descriptor.base.dtype)}{list(descriptor.block_shape)}{suffix}>"


def triton_key() -> str:
    """Differs between versions of Tilewright and of LLVM."""
    return f"tilewright-{compiler_sources()}-{llvm_identity()}"


def make_so_cache_key(
    version_hash: str, signature: Mapping[Any, Any], constants: Mapping[Any, Any], ids: Hashable, **kwargs: Any
) -> str:
    """The key of a shared library: it differs whenever an argument does.

    Args:
        version_hash: a hash of the compiler's version.
        signature: the type of each parameter.
        constants: the value of each constant one.
        ids: further facts.
        kwargs: more of them, by name.
    """
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


class DependenciesFinder:
    """Digests a function and all that it refers to.

    Attributes:
        used_global_vals: the outer values that it reads, and those that its callees read.
    """

    def __init__(self, name: str, globals: dict[str, Any], nonlocals: Mapping[str, Any], src: str) -> None:
        self.name, self.globals, self.nonlocals = name, globals, nonlocals
        self.used_global_vals: UsedGlobals = {}
        self._hasher = hash_of()
        self._hasher.update(src.encode())

    def visit(self, node: ast.Module | ast.FunctionDef) -> None:
        """Follow what a function refers to.

        Raises:
            RuntimeError: two functions saw one global with different values, or one belongs to another package.
        """
        definition = node.body[0] if isinstance(node, ast.Module) else node
        assert isinstance(definition, ast.FunctionDef), "finds the dependencies of functions"
        found = dependencies(self._function(definition))
        self._hasher.update(found.digest.encode())
        self.used_global_vals.update(found.globals)

    @property
    def ret(self) -> str:
        """The digest."""
        return self._hasher.hexdigest()

    def _function(self, definition: ast.FunctionDef) -> FunctionType:
        """The function that the text means, among these globals and in these variables."""
        text = f"def enclosing({', '.join(self.nonlocals)}): return {definition.name}"
        (outer,) = (part for part in syntax_tree(text).body if isinstance(part, ast.FunctionDef))
        outer.body.insert(0, ast.FunctionDef(**dict(ast.iter_fields(definition)) | {"decorator_list": []}))
        tree = ast.fix_missing_locations(ast.Module([outer], []))
        module = compile(tree, f"<{self.name}>", "exec", dont_inherit=True)
        (code,) = (constant for constant in module.co_consts if isinstance(constant, CodeType))
        made: FunctionType = FunctionType(code, self.globals)(*self.nonlocals.values())
        return made
