"""`triton.backends.nvidia.compiler`."""

from tilewright.backends.base import BaseBackend, GPUTarget, Language
from tilewright.backends.nvidia.backend import NvidiaBackend as CUDABackend
from tilewright.backends.nvidia.options import CudaOptions as CUDAOptions
from tilewright.support.device_errors import PTXASError

__all__ = ["BaseBackend", "CUDABackend", "CUDAOptions", "GPUTarget", "Language", "PTXASError"]
