"""`triton.tools`."""

from triton.tools import disasm, mxfp, tensor_descriptor

__all__ = ["disasm", "mxfp", "tensor_descriptor"]
