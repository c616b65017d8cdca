"""`triton.runtime.jit`."""

from tilewright.compat.dependencies import DependenciesFinder
from tilewright.compat.driver import get_device_key
from tilewright.compat.paths import find_paths_if, get_iterable_path, is_namedtuple
from tilewright.compat.signatures import (
    compute_cache_key,
    create_function_from_signature,
    get_full_name,
    mangle_type,
    native_specialize_impl,
)
from tilewright.compat.tensor_descriptor import TensorDescriptor
from tilewright.compat.types import canonicalize_dtype, type_canonicalisation_dict
from tilewright.language.callable import JITCallable
from tilewright.runtime.captured import functions_by_name as _triton_jit_function_registry
from tilewright.backends.base import BaseBackend
from tilewright.runtime.compile import get_cache_key
from tilewright.runtime.compile_hooks import JitFunctionInfo
from tilewright.runtime.constexpr_function import ConstexprFunction, constexpr_function
from tilewright.runtime.interface import KernelInterface
from tilewright.runtime.jit import JITFunction, jit
from tilewright.runtime.parameters import KernelParam
from tilewright.runtime.array_shims import MockTensor, TensorWrapper, reinterpret
from tilewright.support import knobs

from triton.runtime.driver import driver

TRITON_MODULE = "triton.language"
GLUON_MODULE = "triton.experimental.gluon.language"

__all__ = [
    "GLUON_MODULE",
    "TRITON_MODULE",
    "BaseBackend",
    "ConstexprFunction",
    "DependenciesFinder",
    "JITCallable",
    "JITFunction",
    "JitFunctionInfo",
    "KernelInterface",
    "KernelParam",
    "MockTensor",
    "TensorDescriptor",
    "TensorWrapper",
    "canonicalize_dtype",
    "compute_cache_key",
    "constexpr_function",
    "create_function_from_signature",
    "driver",
    "find_paths_if",
    "get_cache_key",
    "get_device_key",
    "get_full_name",
    "get_iterable_path",
    "is_namedtuple",
    "jit",
    "knobs",
    "mangle_type",
    "native_specialize_impl",
    "reinterpret",
    "type_canonicalisation_dict",
]
