"""`triton.backends.nvidia.driver`."""

from tilewright.backends.base import GPUTarget
from tilewright.compat.cuda_driver import CudaDriver
from tilewright.compat.cuda_driver import CudaUtilities as CudaUtils
from tilewright.compat.driver_base import GPUDriver

__all__ = ["CudaDriver", "CudaUtils", "GPUDriver", "GPUTarget"]
