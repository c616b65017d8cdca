"""The message that a process prints before it dies of an invalid memory access of a kernel.

    fault        the handler of each system (`systems/*_faults.py`): the instruction and the address
    explain      the thread's position, kernel and grid → one line on stderr

Afterwards the fault is handled as it would have been without this handler. The handler runs in a thread that has just
failed, so it takes no lock, allocates no memory, and calls only async-signal-safe functions.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.runtime.drivers.cpu.native.code import I64, RARE, Function, Ptr, Variable, native
from tilewright.runtime.drivers.cpu.native.pool import runtime
from tilewright.runtime.drivers.cpu.native.structs import CODE, CODES, JOB, LANE, POOL, TABLE

UNKNOWN = -1
_SAYING, _SAID = 1, 2  # bits of the TABLE's `has_said`
_MAX_YIELDS = 100_000  # that a thread gives to others, until the line of one of them is there
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
    me = f.system.thread_pointer(f)
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
    with f.when(address.differs(UNKNOWN)):
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
    f.system.complain(f, text, end.value.to("i64") - text.to("i64"))


def _piece(f: Function, end: Variable, name: str) -> None:
    text = f.emit("ptr", f"getelementptr i8, ptr @says_{name}, i64 0")
    end.set(f.call("add_text", "ptr", end.value, text, f.constant("i64", len(_PIECES[name]))))


@native("void", inlining=RARE)
def _explain(f: Function, counter: I64, address: I64, is_own: I64) -> None:
    """Says which kernel the program counter is in, once. `is_own`: this process sent itself the signal, from outside.

    Then the kernel is the one that the thread has launched, or that the pool is running.
    """
    table = runtime(f)
    pool = f.get(TABLE, table, "pool")
    lane, job = f.call("lane_of_thread", "ptr"), f.address(POOL, pool, "job")
    is_worker = lane.equals(0)
    launch, entry = f.variable("ptr", f.get(JOB, job, "launch")), f.variable("i64", 0)
    with f.when(is_worker.equals(0)):
        launch.set(f.get(LANE, lane, "launch"))
        entry.set(f.get(LANE, lane, "entry").to("i64"))
    with f.when(is_worker & f.load("i64", f.address(POOL, pool, "gate")).differs(0)):
        entry.set(f.get(JOB, job, "entry").to("i64"))
    code = f.variable("ptr", f.call("code_at", "ptr", counter))
    with f.when(code.value.equals(0) & is_own.differs(0)):
        code.set(f.call("code_at", "ptr", entry.value))
    state = f.address(TABLE, table, "has_said")
    with f.when(code.value.differs(0)):
        with f.when(f.update("or", state, _SAYING).equals(0)) as first:
            f.call("say", "void", address, code.value, launch.value)
            f.update("or", state, _SAID)
        with first.otherwise():
            f.call("await_line", "void", state)


@native("void", inlining=RARE)
def _await_line(f: Function, state: Ptr) -> None:
    """Waits for a while until another thread has written its line: what follows may end the process."""
    with f.counted(f.constant("i64", _MAX_YIELDS)):
        f.give_when((f.load("i64", state, order="acquire") & _SAID).differs(0))
        f.system.give_way(f)
