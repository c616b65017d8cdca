"""Linux: futexes, numbers of system calls, and the layout of a signal handler's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.structs import struct_of
from tilewright.runtime.drivers.cpu.native.systems.posix import NativePosix

if TYPE_CHECKING:
    from tilewright.runtime.drivers.cpu.native.code import Function

_FUTEX, _GETTID = {"x86-64": 202, "aarch64": 98}, {"x86-64": 186, "aarch64": 178}
_COUNTER_AT = {"x86-64": 168, "aarch64": 440}  # of the program counter, in ucontext_t
_WAIT, _WAKE = 128, 129
_BY_KERNEL = 128  # SI_KERNEL: the address was no address at all
_WANT_HUGE_PAGES = 14  # MADV_HUGEPAGE
_MASK = {f"mask{word}": "i64" for word in range(16)}


class NativeLinux(NativePosix):
    """Linux."""

    own_signals = (4, 5, 6, 7, 8, 11, 31)  # SIGILL, TRAP, ABRT, BUS, FPE, SEGV, SYS
    mask_words = (8, 16)
    set_mask = 2
    bus_error = 7
    action = struct_of({"handler": "ptr", **_MASK, "flags": "i64", "restorer": "ptr"})  # flags: 32 bits and a gap
    with_info = 4
    sender_at, address_at = 16, 16

    def thread_pointer(self, f: Function) -> Lanes:
        return f.emit("ptr", "call ptr @llvm.thread.pointer()")

    def is_main_thread(self, f: Function) -> Lanes:
        number = f.constant("i64", _GETTID[self.architecture])
        thread = f.call_variadic(f.outside("syscall"), "i64", number, f.constant("i32", 0))
        return thread.to("i32").equals(f.call(f.outside("getpid"), "i32"))

    def wait_while(self, f: Function, place: Lanes, value: Lanes) -> None:
        self._futex(f, place, _WAIT, value)

    def wake(self, f: Function, place: Lanes, count: Lanes) -> None:
        self._futex(f, place, _WAKE, count)

    def _futex(self, f: Function, place: Lanes, operation: int, value: Lanes) -> None:
        nothing = f.constant("ptr", 0)
        number, what = f.constant("i64", _FUTEX[self.architecture]), f.constant("i32", operation)
        f.call_variadic(f.outside("syscall"), "i64", number, place, what, value, nothing, nothing, f.constant("i32", 0))

    def want_huge_pages(self, f: Function, address: Lanes, size: Lanes) -> None:
        f.call(f.outside("madvise"), "i32", address, size, f.constant("i32", _WANT_HUGE_PAGES))

    def program_counter(self, f: Function, context: Lanes) -> Lanes:
        return f.load("i64", context, _COUNTER_AT[self.architecture])

    def was_sent(self, f: Function, reason: Lanes) -> Lanes:
        return reason <= 0

    def has_no_address(self, f: Function, reason: Lanes) -> Lanes:
        return reason.equals(_BY_KERNEL)
