"""`triton._C.libtriton`."""

from triton._C.libtriton import ir

__all__ = ["ir"]
