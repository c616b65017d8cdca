"""The operating system interface of the runtime's machine code: each method writes the code of one call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from tilewright.backends.llvm.lanes import Lanes

if TYPE_CHECKING:
    from tilewright.runtime.drivers.cpu.native.code import Function

STACK_BYTES = 8 << 20
"""The stack of a thread of the pool, where the system does not give as much by itself."""


class NativeSystem(ABC):
    """An operating system, as machine code sees it.

    Attributes:
        faults: the file with the handler of faults, the native function `fault`.
    """

    faults: ModuleType

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture

    # Threads

    @abstractmethod
    def thread_pointer(self, f: Function) -> Lanes:
        """An address that differs between threads that live, never null."""

    @abstractmethod
    def is_main_thread(self, f: Function) -> Lanes:
        """Whether this is Python's main thread: an i1."""

    @abstractmethod
    def start_thread(self, f: Function, function: str, argument: Lanes) -> Lanes:
        """Starts a thread that runs a function of this module and never ends; an i1: whether that failed."""

    @contextmanager
    def without_signals(self, f: Function) -> Iterator[None]:
        """Makes threads started in the `with` leave signals to others, but for those of a fault of their own."""
        yield

    @abstractmethod
    def give_way(self, f: Function) -> None:
        """Lets another thread run, if one wants to."""

    @abstractmethod
    def sleep(self, f: Function, microseconds: int) -> None:
        """Sleeps."""

    @abstractmethod
    def wait_while(self, f: Function, place: Lanes, value: Lanes) -> None:
        """Sleeps while the i32 at `place` is `value`, or for a shorter time, until a wake-up of its sleepers."""

    @abstractmethod
    def wake(self, f: Function, place: Lanes, count: Lanes) -> None:
        """Wakes at least so many (an i32) of the threads that sleep at `place`; it may wake all of them."""

    @abstractmethod
    def thread_word(self, f: Function, key: Lanes) -> Lanes:
        """The word of this thread under a key of `System.new_thread_key`: a ptr."""

    @abstractmethod
    def set_thread_word(self, f: Function, key: Lanes, word: Lanes) -> None:
        """Sets the word of this thread under a key."""

    # Memory

    @abstractmethod
    def take_memory(self, f: Function, alignment: Lanes, size: Lanes) -> Lanes:
        """New memory at a multiple of the alignment; null if there is none."""

    @abstractmethod
    def free_memory(self, f: Function, address: Lanes) -> None:
        """Gives memory of `take_memory` back; null does nothing."""

    @abstractmethod
    def want_huge_pages(self, f: Function, address: Lanes, size: Lanes) -> None:
        """Says that memory is large, and may have large pages."""

    # Faults

    @abstractmethod
    def complain(self, f: Function, text: Lanes, size: Lanes) -> None:
        """Writes bytes to the standard error; may be called from a handler of faults."""


def address_of(f: Function, name: str) -> Lanes:
    """The address of a function of this module."""
    return f.emit("ptr", f"getelementptr i8, ptr @{name}, i64 0")
