"""`triton.backends.nvidia.compiler`."""

from tilewright.compat.foreign_backends import CUDABackend

__all__ = ["CUDABackend"]
