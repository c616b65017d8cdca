"""`triton.backends.amd.compiler`."""

from tilewright.compat.foreign_backends import HIPBackend

__all__ = ["HIPBackend"]
