"""`triton.experimental.gluon.nvidia.hopper`."""

from tilewright.compat.gluon import TensorDescriptor

__all__ = ["TensorDescriptor"]
