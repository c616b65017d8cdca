"""Tests of the CPU back end: the code of the kernels that some of them compile is compared."""

from __future__ import annotations

from lowered_code import lowered_as_before

__all__ = ["lowered_as_before"]
