"""`triton.backends.amd`: names only."""

from triton.backends.amd import compiler

__all__ = ["compiler"]
