"""`triton.language.extra.cuda`."""

from triton.language.extra import libdevice

__all__ = ["libdevice"]
