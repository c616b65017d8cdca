"""`triton._C.libtriton`."""

from tilewright.compat.signatures import native_specialize_impl

from triton._C.libtriton import ir

__all__ = ["ir", "native_specialize_impl"]
