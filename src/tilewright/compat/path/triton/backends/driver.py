"""`triton.backends.driver`."""

from tilewright.compat.descriptor_arguments import expand_signature, wrap_handle_tensordesc_impl
from tilewright.compat.driver_base import Benchmarker, DriverBase, GPUDriver

__all__ = ["Benchmarker", "DriverBase", "GPUDriver", "expand_signature", "wrap_handle_tensordesc_impl"]
