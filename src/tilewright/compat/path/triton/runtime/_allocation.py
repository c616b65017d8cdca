"""`triton.runtime._allocation`."""

from tilewright.runtime.allocation import Allocator, Buffer, NullAllocator, set_allocator
from tilewright.runtime.allocation import allocator as _allocator

__all__ = ["Allocator", "Buffer", "NullAllocator", "set_allocator"]
