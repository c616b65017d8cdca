"""Gluon for NVIDIA's GPUs: `ampere`, `hopper` and `blackwell`, each with the features that it adds."""

from tilewright.language.gluon.nvidia import ampere, blackwell, hopper

__all__ = ["ampere", "blackwell", "hopper"]
