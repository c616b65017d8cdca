"""Gluon for NVIDIA's GPUs: `ampere`, `hopper` and `blackwell` are their generations, each with what is new."""

from tilewright.language.gluon.nvidia import ampere, blackwell, hopper

__all__ = ["ampere", "blackwell", "hopper"]
