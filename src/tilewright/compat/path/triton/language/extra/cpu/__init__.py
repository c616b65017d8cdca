"""`triton.language.extra.cpu`."""

from triton.language.extra import libdevice

__all__ = ["libdevice"]
