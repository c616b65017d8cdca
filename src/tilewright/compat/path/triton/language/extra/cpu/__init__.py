"""`triton.language.extra.cpu`."""

from tilewright.language.extra.cpu import vnni_decode

from triton.language.extra import libdevice

__all__ = ["libdevice", "vnni_decode"]
