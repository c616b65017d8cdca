"""`triton.compiler.compiler`."""

from tilewright.compat.bindings import ASTSource
from tilewright.compat.identity import triton_key
from tilewright.backends.base import GPUTarget, Language
from tilewright.backends.registry import make_backend
from tilewright.runtime.compile import IRSource, compile, filter_traceback, get_cache_key
from tilewright.runtime.kernel import CompiledKernel
from tilewright.runtime.launch_metadata import LazyDict

__all__ = [
    "ASTSource",
    "CompiledKernel",
    "GPUTarget",
    "IRSource",
    "Language",
    "LazyDict",
    "compile",
    "filter_traceback",
    "get_cache_key",
    "make_backend",
    "triton_key",
]
