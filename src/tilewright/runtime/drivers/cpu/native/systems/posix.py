"""The system calls that machine code on Linux and macOS makes in the same way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.structs import Struct
from tilewright.runtime.drivers.cpu.native.systems import posix_faults
from tilewright.runtime.drivers.cpu.native.systems.interface import NativeSystem, address_of

if TYPE_CHECKING:
    from tilewright.runtime.drivers.cpu.native.code import Function

_STDERR = 2


class NativePosix(NativeSystem):
    """A system with threads and signals of POSIX.

    Attributes:
        own_signals: those of faults, which stay with the thread that causes them.
        mask_words: bytes and count of the words of a set of signals.
        set_mask: SIG_SETMASK.
        bus_error: SIGBUS.
        action: struct sigaction, as the C library takes it.
        with_info: SA_SIGINFO.
        sender_at, address_at: where siginfo_t has the process that sent a signal, and the address of a fault.
    """

    faults = posix_faults
    own_signals: ClassVar[tuple[int, ...]]
    mask_words: ClassVar[tuple[int, int]]
    set_mask: ClassVar[int]
    bus_error: ClassVar[int]
    action: ClassVar[Struct]
    with_info: ClassVar[int]
    sender_at: ClassVar[int]
    address_at: ClassVar[int]

    @contextmanager
    def without_signals(self, f: Function) -> Iterator[None]:
        """As in `NativeSystem`: a fault whose signal is blocked kills the process without any message."""
        size, count = self.mask_words
        kind, all_others = f"i{8 * size}", ~sum(1 << number - 1 for number in self.own_signals)
        blocked, previous = f.stack(f"[{count} x {kind}]"), f.stack(f"[{count} x {kind}]")
        for word in range(count):
            f.store(f.constant(kind, -1 if word else all_others), blocked, size * word)
        how = f.constant("i32", self.set_mask)
        f.call(f.outside("pthread_sigmask"), "i32", how, blocked, previous)
        yield
        f.call(f.outside("pthread_sigmask"), "i32", how, previous, f.constant("ptr", 0))

    def start_thread(self, f: Function, function: str, argument: Lanes) -> Lanes:
        worker, attributes = address_of(f, function), self.thread_attributes(f)
        failed = f.call(f.outside("pthread_create"), "i32", f.stack("i64"), attributes, worker, argument)
        return failed.differs(0)

    def thread_attributes(self, f: Function) -> Lanes:
        """The attributes of new threads; null for the usual ones."""
        return f.constant("ptr", 0)

    def give_way(self, f: Function) -> None:
        f.call(f.outside("sched_yield"), "i32")

    def sleep(self, f: Function, microseconds: int) -> None:
        f.call(f.outside("usleep"), "i32", f.constant("i32", microseconds))

    def thread_word(self, f: Function, key: Lanes) -> Lanes:
        return f.call(f.outside("pthread_getspecific"), "ptr", key)

    def set_thread_word(self, f: Function, key: Lanes, word: Lanes) -> None:
        f.call(f.outside("pthread_setspecific"), "i32", key, word)

    def take_memory(self, f: Function, alignment: Lanes, size: Lanes) -> Lanes:
        place = f.stack("ptr")
        failed = f.call(f.outside("posix_memalign"), "i32", place, alignment, size)
        return f.choose(failed.differs(0), f.constant("ptr", 0), f.load("ptr", place), kind="ptr")

    def free_memory(self, f: Function, address: Lanes) -> None:
        f.call(f.outside("free"), "void", address)

    # Faults

    @abstractmethod
    def program_counter(self, f: Function, context: Lanes) -> Lanes:
        """The program counter in what a handler gets: an i64."""

    @abstractmethod
    def was_sent(self, f: Function, reason: Lanes) -> Lanes:
        """Whether a process sent the signal, by si_code (an i32): an i1."""

    @abstractmethod
    def has_no_address(self, f: Function, reason: Lanes) -> Lanes:
        """Whether siginfo_t has no address, by si_code: an i1."""

    def complain(self, f: Function, text: Lanes, size: Lanes) -> None:
        f.call(f.outside("write"), "i64", f.constant("i32", _STDERR), text, size)
