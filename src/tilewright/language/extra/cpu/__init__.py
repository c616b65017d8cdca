"""Triton-cpu's path for its library; the functions are the same on every target."""

from tilewright.language.extra import libdevice

__all__ = [
    "libdevice",
]
