"""`triton.language.extra`."""

from tilewright.language.extra import __getattr__

from triton.language.extra import cpu, cuda, hip, libdevice

__all__ = ["cpu", "cuda", "hip", "libdevice"]
