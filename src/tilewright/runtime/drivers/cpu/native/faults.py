"""The message of a process before it dies because a kernel read or wrote where it must not.

    fault        the handler of SIGSEGV and SIGBUS: where was the thread, in which kernel, launched over which grid?
                 → one line on stderr; then whatever would have happened without it

It runs in a thread that has just failed, so it takes no lock and no memory, and calls only what may be called from a
handler. What was installed before it is called, or put back so that the access fails once more; what is installed
later calls it or does not. A handler that repairs the access (as those do that load pages by themselves) goes on
working: then the line was wrong, but it is printed only once.

A handler that ends with `raise`, such as Python's faulthandler, comes here from the C library: then the kernel is the
one that its thread has launched, or that the pool is running.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.runtime.drivers.cpu.native.code import I32, I64, RARE, Function, Ptr, Variable, native
from tilewright.runtime.drivers.cpu.native.interrupts import thread_pointer
from tilewright.runtime.drivers.cpu.native.pool import runtime, system
from tilewright.runtime.drivers.cpu.native.structs import ACTION, CODE, CODES, JOB, LANE, POOL, TABLE

_SIGBUS, _STDERR = 7, 2
_CODE_AT, _SENDER_AT, _ADDRESS_AT = 8, 16, 16  # in siginfo_t: why, and by which process or of which address
_WITH_INFO = 4  # SA_SIGINFO
_DEFAULT, _IGNORED = 0, 1  # SIG_DFL, SIG_IGN
_BY_SYSTEM = 128  # SI_KERNEL: the address was no address at all
_UNKNOWN = -1
_ROOM = 1024
_MAX_TEXT = 256
_PIECES = {
    "begins": "tilewright: access violation",
    "at": " at address 0x",
    "inside": " in ",
    "over": ", launched over the grid (",
    "comma": ", ",
    "ends": '): sanitize="bounds" (or TILEWRIGHT_SANITIZE=bounds) tells which access it is\n',
}


def texts() -> Iterator[str]:
    """The declarations of the pieces of the line."""
    for name, text in _PIECES.items():
        spelled = "".join(f"\\{byte:02x}" for byte in text.encode())
        yield f'@says_{name} = internal constant [{len(text)} x i8] c"{spelled}"'


@native("ptr", inlining=RARE)
def _code_at(f: Function, address: I64) -> None:
    """The CODE that an address lies in, or null."""
    codes = f.get(TABLE, runtime(f), "codes")
    count = f.get(CODES, codes, "count")
    first = f.get(CODES, codes, "entries")
    with f.counted(count) as index:
        code = f.at(first, index * CODE.size)
        is_inside = (address >= f.get(CODE, code, "begin")) & (address < f.get(CODE, code, "end"))
        f.give_when(is_inside, code)
    f.give(0)


@native("ptr", inlining=RARE)
def _lane_of_thread(f: Function) -> None:
    """The lane of the launch that this thread has under way, or null."""
    me = thread_pointer(f)
    lane = f.variable("ptr", f.get(TABLE, runtime(f), "all_lanes"))
    with f.repeat() as loop:
        loop.leave_when(lane.value.equals(0))
        with f.when(f.get(LANE, lane.value, "owner").equals(me)):
            f.give(lane.value)
        lane.set(f.get(LANE, lane.value, "link"))
    f.give(0)


@native("ptr", inlining=RARE)
def _add_text(f: Function, place: Ptr, text: Ptr, size: I64) -> None:
    """Writes bytes; gives where the next ones go."""
    with f.counted(size) as index:
        f.store(f.load("i8", f.at(text, index)), f.at(place, index))
    f.give(f.at(place, size))


@native("ptr", inlining=RARE)
def _add_number(f: Function, place: Ptr, number: I64, base: I64) -> None:
    """Writes a number, in base 10 or 16; gives where the next bytes go."""
    digits, count, rest = f.stack("[24 x i8]"), f.variable("i64", 24), f.variable("i64", number)
    with f.repeat() as loop:
        digit = rest.value.remainder(base)
        letter = digit + f.choose(digit < 10, ord("0"), ord("a") - 10)
        count.set(count.value - 1)
        f.store(letter.to("i8"), f.at(digits, count.value))
        rest.set(rest.value.quotient(base))
        loop.leave_when(rest.value.equals(0))
    f.give(f.call("add_text", "ptr", place, f.at(digits, count.value), f.constant("i64", 24) - count.value))


@native("void", inlining=RARE)
def _say(f: Function, address: I64, code: Ptr, launch: Ptr) -> None:
    """Prints the line."""
    text = f.stack(f"[{_ROOM} x i8]")
    end = f.variable("ptr", text)
    _piece(f, end, "begins")
    with f.when(address.differs(_UNKNOWN)):
        _piece(f, end, "at")
        end.set(f.call("add_number", "ptr", end.value, address, f.constant("i64", 16)))
    _piece(f, end, "inside")
    size = f.get(CODE, code, "size")
    shown = f.choose(size < _MAX_TEXT, size, _MAX_TEXT)
    end.set(f.call("add_text", "ptr", end.value, f.get(CODE, code, "text"), shown))
    _piece(f, end, "over")
    for axis in range(3):
        if axis:
            _piece(f, end, "comma")
        extent = f.load("i32", launch, 4 * axis).to("i64")
        end.set(f.call("add_number", "ptr", end.value, extent, f.constant("i64", 10)))
    _piece(f, end, "ends")
    f.call(system(f, "write"), "i64", f.constant("i32", _STDERR), text, end.value.to("i64") - text.to("i64"))
    f.give()


def _piece(f: Function, end: Variable, name: str) -> None:
    text = f.emit("ptr", f"getelementptr i8, ptr @says_{name}, i64 0")
    end.set(f.call("add_text", "ptr", end.value, text, f.constant("i64", len(_PIECES[name]))))


@native("void", inlining=RARE)
def _hand_on(f: Function, number: I32, info: Ptr, context: Ptr) -> None:
    """Does with a signal what would have been done with it without this handler."""
    offset = f.choose(number.equals(_SIGBUS), ACTION.size, 0)
    action = f.at(f.get(TABLE, runtime(f), "actions"), offset)
    handler = f.get(ACTION, action, "handler")
    was_sent = f.load("i32", info, _CODE_AT) <= 0
    with f.when(handler.to("i64") > _IGNORED):
        with f.when((f.get(ACTION, action, "flags") & _WITH_INFO).differs(0)):
            f.call(handler, "void", number, info, context)
            f.give()
        f.call(handler, "void", number)
        f.give()
    f.give_when(handler.to("i64").equals(_IGNORED) & was_sent)
    f.call(system(f, "sigaction"), "i32", number, action, f.constant("ptr", 0))
    with f.when(was_sent):  # one that the thread causes itself comes again
        f.call(system(f, "raise"), "i32", number)
    f.give()


@native("void", exported=True, inlining=RARE)
def _fault(f: Function, number: I32, info: Ptr, context: Ptr) -> None:
    """The signal handler."""
    table = runtime(f)
    lane = f.call("lane_of_thread", "ptr")
    job = f.address(POOL, f.get(TABLE, table, "pool"), "job")
    is_worker = lane.equals(0)
    launch, entry = f.variable("ptr", f.get(JOB, job, "launch")), f.variable("i64", 0)
    with f.when(is_worker.equals(0)):
        launch.set(f.get(LANE, lane, "launch"))
        entry.set(f.get(LANE, lane, "entry").to("i64"))
    with f.when(is_worker & f.load("i64", f.address(POOL, f.get(TABLE, table, "pool"), "gate")).differs(0)):
        entry.set(f.get(JOB, job, "entry").to("i64"))
    counter = f.load("i64", context, f.processor.counter_at)
    code = f.variable("ptr", f.call("code_at", "ptr", counter))
    reason = f.load("i32", info, _CODE_AT)
    was_sent = reason <= 0
    address = f.choose(was_sent | reason.equals(_BY_SYSTEM), _UNKNOWN, f.load("i64", info, _ADDRESS_AT))
    by_itself = f.load("i32", info, _SENDER_AT).equals(f.call(system(f, "getpid"), "i32"))
    with f.when(code.value.equals(0) & was_sent & by_itself):
        code.set(f.call("code_at", "ptr", entry.value))
    with f.when(code.value.differs(0)), f.when(f.update("xchg", f.address(TABLE, table, "has_said"), 1).equals(0)):
        f.call("say", "void", address, code.value, launch.value)
    f.call("hand_on", "void", number, info, context)
    f.give()
