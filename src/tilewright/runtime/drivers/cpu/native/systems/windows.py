"""Windows on x86-64."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.backends.llvm.lanes import Lanes
from tilewright.runtime.drivers.cpu.native.pool import runtime
from tilewright.runtime.drivers.cpu.native.structs import TABLE
from tilewright.runtime.drivers.cpu.native.systems import windows_faults
from tilewright.runtime.drivers.cpu.native.systems.interface import STACK_BYTES, NativeSystem, address_of

if TYPE_CHECKING:
    from tilewright.runtime.drivers.cpu.native.code import Function

_WORD_BYTES = 4  # of what threads wait on
_FOR_EVER = -1  # INFINITE
_ONLY_RESERVED = 0x10000  # STACK_SIZE_PARAM_IS_A_RESERVATION
_THREAD_BLOCK = "load ptr, ptr addrspace(256) inttoptr (i64 48 to ptr addrspace(256)), align 8"
"""The address of the thread's own block, at 48 of the segment `gs`."""
_ERROR_OUTPUT = -12  # STD_ERROR_HANDLE


class NativeWindows(NativeSystem):
    """Windows."""

    faults = windows_faults

    def thread_pointer(self, f: Function) -> Lanes:
        return f.emit("ptr", _THREAD_BLOCK)

    def is_main_thread(self, f: Function) -> Lanes:
        return f.call(f.outside("GetCurrentThreadId"), "i32").equals(f.get(TABLE, runtime(f), "main_thread"))

    def start_thread(self, f: Function, function: str, argument: Lanes) -> Lanes:
        nothing, size = f.constant("ptr", 0), f.constant("i64", STACK_BYTES)
        flags = f.constant("i32", _ONLY_RESERVED)
        made = f.call(
            f.outside("CreateThread"), "ptr", nothing, size, address_of(f, function), argument, flags, nothing
        )
        with f.when(made.differs(0)):
            f.call(f.outside("CloseHandle"), "i32", made)  # the thread lives on
        return made.equals(0)

    def give_way(self, f: Function) -> None:
        f.call(f.outside("SwitchToThread"), "i32")

    def sleep(self, f: Function, microseconds: int) -> None:
        f.call(f.outside("Sleep"), "void", f.constant("i32", max(1, microseconds // 1000)))

    def wait_while(self, f: Function, place: Lanes, value: Lanes) -> None:
        compared = f.stack("i32")
        f.store(value, compared)
        size, for_ever = f.constant("i64", _WORD_BYTES), f.constant("i32", _FOR_EVER)
        f.call(f.outside("WaitOnAddress"), "i32", place, compared, size, for_ever)

    def wake(self, f: Function, place: Lanes, count: Lanes) -> None:
        f.call(f.outside("WakeByAddressAll"), "void", place)

    def thread_word(self, f: Function, key: Lanes) -> Lanes:
        return f.call(f.outside("TlsGetValue"), "ptr", key)

    def take_memory(self, f: Function, alignment: Lanes, size: Lanes) -> Lanes:
        return f.call(f.outside("_aligned_malloc"), "ptr", size, alignment)

    def free_memory(self, f: Function, address: Lanes) -> None:
        f.call(f.outside("_aligned_free"), "void", address)

    def want_huge_pages(self, f: Function, address: Lanes, size: Lanes) -> None:
        """Windows gives them only to those with a privilege."""

    def complain(self, f: Function, text: Lanes, size: Lanes) -> None:
        output = f.call(f.outside("GetStdHandle"), "ptr", f.constant("i32", _ERROR_OUTPUT))
        f.call(f.outside("WriteFile"), "i32", output, text, size.to("i32"), f.stack("i64"), f.constant("ptr", 0))
