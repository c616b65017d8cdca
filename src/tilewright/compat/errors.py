"""Errors of Triton that nothing here raises; programs catch them by name."""

from __future__ import annotations

from tilewright.support.diagnostics import TilewrightError


class PTXASError(TilewrightError):
    """NVIDIA's assembler failed."""
