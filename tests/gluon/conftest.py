"""Tests of Gluon: the code of the kernels that they compile is compared."""

from __future__ import annotations

from compiled_code import compiled_as_before

__all__ = ["compiled_as_before"]
