"""`triton.backends.compiler`."""

from tilewright.backends.base import BaseBackend, GPUTarget, Language

__all__ = ["BaseBackend", "GPUTarget", "Language"]
