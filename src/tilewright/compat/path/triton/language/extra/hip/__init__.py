"""`triton.language.extra.hip`."""

from triton.language.extra import libdevice

__all__ = ["libdevice"]
