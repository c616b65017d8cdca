"""`triton.runtime.build`."""

from tilewright.compat.c_modules import compile_module_from_src, compile_so_from_src

__all__ = ["compile_module_from_src", "compile_so_from_src"]
