"""`triton.tools.experimental_descriptor`, which Triton had until 3.3."""

from tilewright.compat.deprecated_descriptors import create_1d_tma_descriptor, create_2d_tma_descriptor

__all__ = ["create_1d_tma_descriptor", "create_2d_tma_descriptor"]
