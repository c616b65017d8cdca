"""`triton.tools.tensor_descriptor`."""

from tilewright.compat.tensor_descriptor import TensorDescriptor

__all__ = ["TensorDescriptor"]
