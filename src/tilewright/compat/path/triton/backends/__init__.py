"""`triton.backends`."""

from triton.backends import compiler, driver
from triton.backends.compiler import BaseBackend
from triton.backends.driver import DriverBase

__all__ = ["BaseBackend", "DriverBase", "compiler", "driver"]
