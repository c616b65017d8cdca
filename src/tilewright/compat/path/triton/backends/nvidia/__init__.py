"""`triton.backends.nvidia`."""

from triton.backends.nvidia import compiler, driver

__all__ = ["compiler", "driver"]
