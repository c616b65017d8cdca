"""`triton.compiler`."""

from tilewright.compat.bindings import ASTSource
from tilewright.compat.driver import max_shared_mem
from tilewright.backends.registry import make_backend
from tilewright.runtime.compile import IRSource, compile, get_cache_key
from tilewright.runtime.kernel import CompiledKernel
from tilewright.runtime.launch_metadata import LazyDict
from tilewright.support.diagnostics import CompilationError

from triton.compiler import code_generator, compiler, errors

__all__ = [
    "ASTSource",
    "CompilationError",
    "CompiledKernel",
    "IRSource",
    "LazyDict",
    "compile",
    "get_cache_key",
    "make_backend",
    "max_shared_mem",
]
