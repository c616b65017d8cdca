"""macOS on Apple's processors: waiting on addresses, and the layout of a signal handler's arguments.

Nothing here calls a variadic function, whose arguments Apple passes on the stack. `os_sync_wait_on_address` exists
since macOS 14.4; if it is missing, `__ulock_wait`, which the C++ library uses, does the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.structs import struct_of
from tilewright.runtime.drivers.cpu.native.systems.interface import STACK_BYTES
from tilewright.runtime.drivers.cpu.native.systems.posix import NativePosix

if TYPE_CHECKING:
    from tilewright.runtime.drivers.cpu.native.code import Function

_WORD_BYTES = 4  # of what threads wait on
_COMPARE_AND_WAIT, _WAKE_ALL = 1, 0x100  # UL_COMPARE_AND_WAIT, ULF_WAKE_ALL
_MACHINE_CONTEXT_AT, _COUNTER_AT = 48, 272  # uc_mcontext in ucontext_t; __ss.__pc in what that points to
_SENT = 0x10001  # SI_USER, the least of those that tell of a sender
_THREAD_ATTRIBUTES = "[8 x i64]"  # pthread_attr_t


class NativeMacOS(NativePosix):
    """macOS."""

    own_signals = (4, 5, 6, 7, 8, 10, 11, 12)  # SIGILL, TRAP, ABRT, EMT, FPE, BUS, SEGV, SYS
    mask_words = (4, 1)
    set_mask = 3
    bus_error = 10
    action = struct_of(apart=4, handler="ptr", mask="i32", flags="i32")
    with_info = 0x40
    sender_at, address_at = 12, 24

    def thread_pointer(self, f: Function) -> Lanes:
        return f.call(f.outside("pthread_self"), "ptr")

    def is_main_thread(self, f: Function) -> Lanes:
        return f.call(f.outside("pthread_main_np"), "i32").differs(0)

    def thread_attributes(self, f: Function) -> Lanes:
        """Those of a thread with a stack as large as elsewhere: half a megabyte is usual."""
        attributes = f.stack(_THREAD_ATTRIBUTES)
        f.call(f.outside("pthread_attr_init"), "i32", attributes)
        f.call(f.outside("pthread_attr_setstacksize"), "i32", attributes, f.constant("i64", STACK_BYTES))
        return attributes

    def wait_while(self, f: Function, place: Lanes, value: Lanes) -> None:
        wide, new = value.widened("i64"), f.outside("os_sync_wait_on_address")
        with f.when(new.differs(0)) as found:
            f.call(new, "i32", place, wide, f.constant("i64", _WORD_BYTES), f.constant("i32", 0))
        with found.otherwise():
            kind, for_ever = f.constant("i32", _COMPARE_AND_WAIT), f.constant("i32", 0)
            f.call(f.outside("__ulock_wait"), "i32", kind, place, wide, for_ever)

    def wake(self, f: Function, place: Lanes, count: Lanes) -> None:
        new = f.outside("os_sync_wake_by_address_all")
        with f.when(new.differs(0)) as found:
            f.call(new, "i32", place, f.constant("i64", _WORD_BYTES), f.constant("i32", 0))
        with found.otherwise():
            kind = f.constant("i32", _COMPARE_AND_WAIT | _WAKE_ALL)
            f.call(f.outside("__ulock_wake"), "i32", kind, place, f.constant("i64", 0))

    def want_huge_pages(self, f: Function, address: Lanes, size: Lanes) -> None:
        """macOS offers none to anonymous memory."""

    def program_counter(self, f: Function, context: Lanes) -> Lanes:
        return f.load("i64", f.load("ptr", context, _MACHINE_CONTEXT_AT), _COUNTER_AT)

    def was_sent(self, f: Function, reason: Lanes) -> Lanes:
        return reason >= _SENT

    def has_no_address(self, f: Function, reason: Lanes) -> Lanes:
        return reason.equals(0)
