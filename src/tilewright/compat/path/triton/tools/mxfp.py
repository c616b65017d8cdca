"""`triton.tools.mxfp`."""

from tilewright.compat.mxfp import MXFP4Tensor, MXScaleTensor

__all__ = ["MXFP4Tensor", "MXScaleTensor"]
