"""`triton.experimental.gluon.language`."""

from tilewright.compat.gluon import NVMMASharedLayout

__all__ = ["NVMMASharedLayout"]
