"""`triton.runtime._async_compile`."""

from tilewright.runtime.async_compile import AsyncCompileMode, FutureKernel, active_mode

__all__ = ["AsyncCompileMode", "FutureKernel", "active_mode"]
