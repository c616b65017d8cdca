"""The handler of SIGSEGV and SIGBUS.

A fault handler that ends with `raise`, such as Python's faulthandler, causes a signal from within the C library: the
reported kernel is then the one that its thread has launched, or that the pool is running.

A handler that ends with `raise`, such as Python's faulthandler, comes here from the C library: then the kernel is the
one that its thread has launched, or that the pool is running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.runtime.drivers.cpu.native.code import I32, RARE, Function, Ptr, native
from tilewright.runtime.drivers.cpu.native.faults import UNKNOWN
from tilewright.runtime.drivers.cpu.native.pool import runtime, system
from tilewright.runtime.drivers.cpu.native.structs import TABLE

if TYPE_CHECKING:
    from tilewright.runtime.drivers.cpu.native.systems.posix import NativePosix

_CODE_AT = 8  # in siginfo_t: why
_IGNORED = 1  # SIG_IGN; SIG_DFL is 0


def _posix(f: Function) -> NativePosix:
    made: NativePosix = f.system  # type: ignore[assignment]  # this file is written for no other
    return made


@native("void", inlining=RARE)
def _hand_on(f: Function, number: I32, info: Ptr, context: Ptr) -> None:
    """Does with a signal what would have been done with it without this handler."""
    here = _posix(f)
    action_of = here.action
    offset = f.choose(number.equals(here.bus_error), action_of.size, 0)
    action = f.at(f.get(TABLE, runtime(f), "actions"), offset)
    handler = f.get(action_of, action, "handler")
    was_sent = here.was_sent(f, f.load("i32", info, _CODE_AT))
    with f.when(handler.to("i64") > _IGNORED):
        with f.when((f.get(action_of, action, "flags") & here.with_info).differs(0)):
            f.call(handler, "void", number, info, context)
            f.give()
        f.call(handler, "void", number)
        f.give()
    f.give_when(handler.to("i64").equals(_IGNORED) & was_sent)
    f.call(system(f, "sigaction"), "i32", number, action, f.constant("ptr", 0))
    with f.when(was_sent):  # one that the thread causes itself comes again
        f.call(system(f, "raise"), "i32", number)


@native("void", exported=True, inlining=RARE)
def _fault(f: Function, number: I32, info: Ptr, context: Ptr) -> None:
    """The signal handler."""
    here = _posix(f)
    reason = f.load("i32", info, _CODE_AT)
    was_sent = here.was_sent(f, reason)
    address = f.choose(was_sent | here.has_no_address(f, reason), UNKNOWN, f.load("i64", info, here.address_at))
    by_itself = f.load("i32", info, here.sender_at).equals(f.call(system(f, "getpid"), "i32"))
    f.call("explain", "void", here.program_counter(f, context), address, (was_sent & by_itself).widened("i64"))
    f.call("hand_on", "void", number, info, context)
