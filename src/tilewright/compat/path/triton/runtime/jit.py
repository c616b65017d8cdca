"""`triton.runtime.jit`."""

from tilewright.compat.tensors import TensorWrapper, reinterpret
from tilewright.compat.types import canonicalize_dtype, type_canonicalisation_dict
from tilewright.language.callable import JITCallable
from tilewright.runtime.jit import JITFunction, jit
from tilewright.runtime.parameters import KernelParam
from tilewright.runtime.sizes import constexpr_function

__all__ = ["JITCallable", "JITFunction", "KernelParam", "TensorWrapper", "constexpr_function", "jit", "reinterpret"]
