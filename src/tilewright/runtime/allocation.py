"""Triton's `set_allocator`: the source of scratch memory for back ends that do not allocate their own.

Kernels on the CPU have their own scratch memory; the allocator is kept for programs that set one and for other back
ends.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class Buffer(Protocol):
    """Memory from an allocator."""

    def data_ptr(self) -> int: ...


class Allocator(Protocol):
    """Gives `size` bytes at a multiple of `alignment`, for work on `stream`."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer: ...


class NullAllocator:
    """The allocator while none is set."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer:
        raise RuntimeError(f"the kernel needs {size} bytes of memory at run time: call set_allocator() first")


_NOBODY = NullAllocator()
allocator: ContextVar[Allocator] = ContextVar("allocator", default=_NOBODY)


def set_allocator(chosen: Allocator) -> None:
    """Make kernels that need memory at run time get it from `chosen(size, alignment, stream)`, in this context."""
    allocator.set(chosen)
