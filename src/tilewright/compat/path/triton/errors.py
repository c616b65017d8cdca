"""`triton.errors`."""

from tilewright.support.diagnostics import TilewrightError as TritonError

__all__ = ["TritonError"]
