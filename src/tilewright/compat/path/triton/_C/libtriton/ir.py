"""`triton._C.libtriton.ir`."""

from tilewright.compat.bindings import context, load_dialects

__all__ = ["context", "load_dialects"]
