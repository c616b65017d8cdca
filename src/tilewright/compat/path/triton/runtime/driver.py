"""`triton.runtime.driver`; the package has the object `driver` under this name."""

from tilewright.compat.driver import DriverConfig

driver = DriverConfig()

__all__ = ["DriverConfig", "driver"]
