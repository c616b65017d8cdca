"""`triton.backends.driver`."""

from tilewright.compat.driver import Benchmarker, DriverBase

__all__ = ["Benchmarker", "DriverBase"]
