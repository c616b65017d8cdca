"""`triton.runtime.build`."""

from tilewright.compat.c_modules import (
    compile_module_from_file,
    compile_module_from_src,
    compile_so_from_file,
    compile_so_from_src,
    platform_key,
)
from tilewright.runtime.cache.managers import get_cache_manager
from tilewright.support import knobs

__all__ = [
    "compile_module_from_file",
    "compile_module_from_src",
    "compile_so_from_file",
    "compile_so_from_src",
    "get_cache_manager",
    "knobs",
    "platform_key",
]
