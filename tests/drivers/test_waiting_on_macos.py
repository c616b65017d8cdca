"""The functions of macOS's library that native code calls, with what arguments: fakes of them note those."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.backends.llvm.lanes import Lanes
from tilewright.backends.llvm.machine import compile_object, host_target
from tilewright.runtime.drivers.cpu.blob import link
from tilewright.runtime.drivers.cpu.native.code import PROCESSORS, Function, Module, NativeMachine
from tilewright.runtime.drivers.cpu.native.systems.interface import STACK_BYTES
from tilewright.runtime.drivers.cpu.native.systems.macos import NativeMacOS
from tilewright.support.executable_memory import map_code

MACOS = NativeMacOS("aarch64")
MACHINE = NativeMachine(PROCESSORS["aarch64"], MACOS)
WORD, I32, I64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
KINDS = {
    "os_sync_wait_on_address": (WORD, I64, I64, I32),
    "os_sync_wake_by_address_all": (WORD, I64, I32),
    "__ulock_wait": (I32, WORD, I64, I32),
    "__ulock_wake": (I32, WORD, I64),
    "pthread_attr_init": (WORD,),
    "pthread_attr_setstacksize": (WORD, I64),
}
NEW = ("os_sync_wait_on_address", "os_sync_wake_by_address_all")
PLACE, LARGE = 0x1234_5678_9ABC, 0x8000_0001


class Library:
    """Fakes of functions; the missing ones are null, as the loader leaves them."""

    def __init__(self, *missing: str) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._fakes = {name: self._fake(name) for name in KINDS if name not in missing}

    def _fake(self, name: str) -> Any:
        def noted(*arguments: int) -> int:
            self.calls.append((name, *arguments))
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int32, *KINDS[name])(noted)

    def address(self, f: Function, name: str) -> Lanes:
        fake = self._fakes.get(name)
        address = 0 if fake is None else ctypes.cast(fake, WORD).value
        return f.emit("ptr", f"inttoptr i64 {address} to ptr")

    def run(self, write: Callable[[Function], object], value: int = 0) -> None:
        """Makes a function of a place and a number, and calls it."""
        module = Module(MACHINE, self.address)
        f = module.function("code", "void", {"place": "ptr", "value": "i32"}, exported=True)
        write(f)
        f.give()
        blob = link(compile_object(module.text(), host_target()))
        code = map_code(blob.image)
        ctypes.CFUNCTYPE(None, WORD, I32)(code.address + blob.symbols["code"])(PLACE, value)
        code.unmap()


def wait(f: Function) -> None:
    MACOS.wait_while(f, f["place"], f["value"])


def wake(f: Function) -> None:
    MACOS.wake(f, f["place"], f["value"])


def test_who_waits_gives_the_word_without_a_sign_and_its_size() -> None:
    library = Library()
    library.run(wait, LARGE)
    assert library.calls == [("os_sync_wait_on_address", PLACE, LARGE, 4, 0)]


def test_who_wakes_wakes_all() -> None:
    library = Library()
    library.run(wake, 3)
    assert library.calls == [("os_sync_wake_by_address_all", PLACE, 4, 0)]


@pytest.mark.parametrize(
    ("write", "expected"),
    [(wait, ("__ulock_wait", 1, PLACE, LARGE, 0)), (wake, ("__ulock_wake", 0x101, PLACE, 0))],
)
def test_older_systems_are_asked_by_their_own_names(write: Callable[[Function], None], expected: object) -> None:
    library = Library(*NEW)
    library.run(write, LARGE)
    assert library.calls == [expected]


def test_threads_have_stacks_as_large_as_elsewhere() -> None:
    library = Library()
    library.run(MACOS.thread_attributes)
    (_, attributes), *others = library.calls
    assert attributes % 8 == 0
    assert others == [("pthread_attr_setstacksize", attributes, STACK_BYTES)]
