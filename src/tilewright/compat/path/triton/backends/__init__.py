"""`triton.backends`."""

from tilewright.compat.driver import INSTALLED as backends
from tilewright.compat.driver import Backend

from triton.backends import amd, compiler, driver, nvidia
from triton.backends.compiler import BaseBackend
from triton.backends.driver import DriverBase

__all__ = ["Backend", "BaseBackend", "DriverBase", "amd", "backends", "compiler", "driver", "nvidia"]
