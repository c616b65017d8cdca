"""`triton.experimental.gluon.language._layouts`."""

from tilewright.compat.gluon import NVMMASharedLayout

__all__ = ["NVMMASharedLayout"]
