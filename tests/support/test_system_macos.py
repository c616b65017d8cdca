"""macOS, as far as Linux can play it: each call's arguments go to a fake of the library, which does what it can.

What Apple says of them: mmap(2), pthread_jit_write_protect_np(3), sys_icache_invalidate(3), sigaction(2).
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Any

import pytest

from tilewright.runtime.drivers.cpu.native.systems.macos import NativeMacOS
from tilewright.support.system import interface, macos, posix
from tilewright.support.system.macos import MacOS

PAGE = 16384
NO_ACCESS, ALL = 0, 7
LINUX_FLAGS = 0x22


class FakeLibrary:
    """macOS's C library: notes calls, and backs memory by Linux's.

    A thread may write to memory for code, or run it, by the switch that `pthread_jit_write_protect_np` turns.
    """

    def __init__(self, *, gives_memory: bool = True) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._real, self._gives, self._code = posix.c_library(), gives_memory, (0, 0)

    def mmap(self, address: Any, size: int, protection: int, flags: int, file: int, offset: int) -> int:
        self.calls.append(("mmap", address, size, protection, flags, file, offset))
        if not self._gives:
            ctypes.set_errno(12)
            return int(posix._FAILED or 0)
        is_code = bool(flags & 0x800)
        real = 5 if is_code else protection  # one that is not switched cannot be written
        found = int(self._real.mmap(None, size, real, LINUX_FLAGS, -1, 0))
        if is_code:
            self._code = found, size
        return found

    def munmap(self, address: int, size: int) -> int:
        self.calls.append(("munmap", address, size))
        return int(self._real.munmap(address, size))

    def pthread_jit_write_protect_np(self, on: ctypes.c_int) -> None:
        self.calls.append(("protect", on.value))
        address, size = self._code
        assert self._real.mprotect(address, size, 5 if on.value else 3) == 0

    def sys_icache_invalidate(self, address: ctypes.c_void_p, size: ctypes.c_size_t) -> None:
        self.calls.append(("flush", address.value, size.value))

    def pthread_key_create(self, key: Any, destroy: Any) -> int:
        key._obj.value = 0x1_0000_0101
        return 0

    def pthread_setspecific(self, key: ctypes.c_ulong, word: ctypes.c_void_p) -> int:
        self.calls.append(("word", type(key), key.value, word.value))
        return 0

    def sigaction(self, number: int, new: Any, old: Any) -> int:
        self.calls.append(("sigaction", number, new, None if old is None else old.value))
        return 0


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    return _install(monkeypatch, FakeLibrary())


def _install(monkeypatch: pytest.MonkeyPatch, fake: FakeLibrary) -> FakeLibrary:
    for module in (posix, macos):
        monkeypatch.setattr(module, "c_library", lambda: fake)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGESIZE": PAGE}.__getitem__)
    monkeypatch.setattr(interface.platform, "machine", lambda: "arm64")
    return fake


def test_code_is_written_between_two_turns_of_the_switch_and_the_cache_is_told(library: FakeLibrary) -> None:
    image = bytes(range(200)) * 100
    system = MacOS()
    address = system.map_code(image)
    whole = 2 * PAGE
    assert library.calls == [
        ("mmap", None, whole, ALL, 0x2 | 0x1000 | 0x800, -1, 0),
        ("protect", 0),
        ("protect", 1),
        ("flush", address, len(image)),
    ]
    assert ctypes.string_at(address, len(image)) == image
    system.unmap_code(address, len(image))
    assert library.calls[-1] == ("munmap", address, whole)


def test_the_switch_is_turned_back_where_writing_fails(library: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ctypes, "memmove", broken)
    with pytest.raises(KeyboardInterrupt):
        MacOS().map_code(b"code")
    assert library.calls[-1] == ("protect", 1)


def test_a_system_without_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, FakeLibrary(gives_memory=False))
    for ask in (lambda: MacOS().map_code(b"code"), lambda: MacOS().allocate(10)):
        with pytest.raises(OSError, match="no memory for the runtime: Cannot allocate memory"):
            ask()


@pytest.mark.quick
@pytest.mark.parametrize(("size", "pages"), [(1, 1), (PAGE, 1), (PAGE + 1, 2)])
def test_memory_is_whole_pages_of_16_kib(library: FakeLibrary, size: int, pages: int) -> None:
    address = MacOS().allocate(size)
    assert library.calls == [("mmap", None, pages * PAGE, 3, 0x2 | 0x1000, -1, 0)]
    assert ctypes.string_at(address, size) == bytes(size)


def test_keys_of_threads_are_as_long_as_there(library: FakeLibrary) -> None:
    system = MacOS()
    key = system.new_thread_key()
    assert key == 0x1_0000_0101
    system.set_thread_word(key, 1 << 40)
    assert library.calls == [("word", ctypes.c_ulong, key, 1 << 40)]


def test_handlers_of_faults_are_put_in_place(library: FakeLibrary) -> None:
    room = ctypes.create_string_buffer(64)
    sizes: list[int] = []

    def give(size: int) -> int:
        sizes.append(size)
        return ctypes.addressof(room)

    MacOS().handle_faults(0x1234_5678_9ABC, give)
    own = struct.pack("<QIi", 0x1234_5678_9ABC, 0, 0x40 | 0x1)
    start = ctypes.addressof(room)
    assert sizes == [32]
    assert library.calls == [
        ("sigaction", 11, None, start),
        ("sigaction", 11, own, None),
        ("sigaction", 10, None, start + 16),
        ("sigaction", 10, own, None),
    ]


def test_python_and_machine_code_agree_on_what_a_signal_does() -> None:
    native = NativeMacOS("aarch64")
    assert native.action.size == struct.calcsize(MacOS.action)
    assert native.action.fields["flags"].offset == struct.calcsize(MacOS.action) - 4
    assert native.bus_error == MacOS.fault_signals[1]
    assert native.with_info == MacOS.action_flags & native.with_info


@pytest.mark.parametrize(("machine", "expected"), [("arm64", ""), ("x86_64", "made for Apple's processors")])
def test_only_apples_processors_are_known(machine: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface.platform, "machine", lambda: machine)
    assert expected in MacOS().why_no_code()


