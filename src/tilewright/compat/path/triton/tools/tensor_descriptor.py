"""`triton.tools.tensor_descriptor`."""

from tilewright.compat.tensor_descriptor import TensorDescriptor
from tilewright.compat.types import canonicalize_dtype, validate_block_shape

__all__ = ["TensorDescriptor", "canonicalize_dtype", "validate_block_shape"]
