"""`triton.runtime.driver`; the package has the object `driver` under this name."""

from tilewright.compat.driver import INSTALLED as backends
from tilewright.compat.driver import DriverConfig, driver
from tilewright.compat.driver_base import DriverBase

__all__ = ["DriverBase", "DriverConfig", "backends", "driver"]
