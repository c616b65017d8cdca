"""`triton.set_allocator`: memory that kernels ask for at their launch.

Kernels on a CPU never ask: what they need is planned ahead and belongs to the thread pool. The allocator is kept, so
that programs that set one run, and read it back.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class Buffer(Protocol):
    """Memory."""

    def data_ptr(self) -> int:
        """Its address."""
        ...


class Allocator(Protocol):
    """A function that gives memory."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer: ...


class NullAllocator:
    """The allocator of programs that have set none."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer:
        """Gives nothing.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("a kernel needs memory at its launch, and no allocator is set: call triton.set_allocator")


current: ContextVar[Allocator] = ContextVar("allocator", default=NullAllocator())  # noqa: B039 - it has no state
profiling: ContextVar[Allocator | None] = ContextVar("profiling allocator", default=None)


def set_allocator(allocator: Allocator) -> None:
    """Use `allocator` for the memory that kernels ask for at their launch."""
    current.set(allocator)


def set_profile_allocator(allocator: Allocator | None) -> None:
    """Use `allocator` for the memory of a profiler inside kernels; None: there is none."""
    profiling.set(allocator)


def has_profile_allocator() -> bool:
    """Whether there is an allocator for profilers."""
    return profiling.get() is not None
