"""`triton._C`: nothing here is written in C."""

from triton._C import libtriton

__all__ = ["libtriton"]
