"""`triton.tools`."""

from tilewright.compat.linear_layout import LinearLayout
from triton.tools import disasm, mxfp, tensor_descriptor

__all__ = ["LinearLayout", "disasm", "mxfp", "tensor_descriptor"]
