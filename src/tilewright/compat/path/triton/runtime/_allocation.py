"""`triton.runtime._allocation`."""

from tilewright.compat.allocation import (
    Allocator,
    Buffer,
    NullAllocator,
    has_profile_allocator,
    set_allocator,
    set_profile_allocator,
)
from tilewright.compat.allocation import current as _allocator
from tilewright.compat.allocation import profiling as _profile_allocator

__all__ = ["Allocator", "Buffer", "NullAllocator", "has_profile_allocator", "set_allocator", "set_profile_allocator"]
