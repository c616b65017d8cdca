"""`triton.compiler.compiler`."""

from tilewright.compat.bindings import ASTSource
from tilewright.compat.driver import max_shared_mem
from tilewright.compat.identity import triton_key
from tilewright.backends.base import BaseBackend, GPUTarget, Language
from tilewright.backends.registry import make_backend
from tilewright.runtime.compile import IRSource, compile, filter_traceback, get_cache_key
from tilewright.runtime.kernel import CompiledKernel
from tilewright.runtime.cache.managers import get_cache_manager, get_dump_manager, get_override_manager
from tilewright.runtime.errors import OutOfResources
from tilewright.runtime.launch_metadata import LazyDict
from tilewright.support import knobs

from triton.runtime.driver import driver

__all__ = [
    "ASTSource",
    "BaseBackend",
    "CompiledKernel",
    "GPUTarget",
    "IRSource",
    "Language",
    "LazyDict",
    "OutOfResources",
    "compile",
    "driver",
    "filter_traceback",
    "get_cache_key",
    "get_cache_manager",
    "get_dump_manager",
    "get_override_manager",
    "knobs",
    "make_backend",
    "max_shared_mem",
    "triton_key",
]
