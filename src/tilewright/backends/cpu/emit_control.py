"""Code by which a running kernel learns that its launch is to end: the launch's CONTROL, whose address is at 16.

    ptr report      at 0     what listens to prints and assertions (`emit_reports.py`)
    i64 stop        at 8     not 0: no program needs to go on
    i64 tick        at 16    another number than before: somebody should look whether the launch is still wanted
    ptr look        at 24    i64 (ptr control): not 0: it is not
    ptr wait        at 32    i64 (ptr control, i64 site, i32 x, i32 y, i32 z, i64 since), for loops that wait

The kernel compares ticks before each program. If the tick has changed, it returns the number of that program; the
caller checks, and calls again. A `while` loop, whose end is unknown, compares ticks in each iteration and checks
itself; so does a `for` loop if the launch asks for it, because in a short loop that costs up to a quarter of the time.
If the launch is to end, the program leaves its function, and the callers test `stop`. A comparison is a load and a jump
that is never taken. Without CONTROL, as in programs written in C, the tick never changes.

A loop that only waits (an atomic or a volatile load, and no other work) reports its program and since when, so that
programs that wait for each other end with an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.cpu import CpuDot, GuardedStore, Report
from tilewright.dialects.scf import While
from tilewright.dialects.traits import Atomic, Loop
from tilewright.dialects.tt_function import Call
from tilewright.dialects.tt_memory import Load, Store
from tilewright.ir.core import Op
from tilewright.transforms.functions import callees_of

UNBOUNDED_LOOPS, LOOPS = ("scf.while",), ("scf.for", "scf.while")
CONTROL_AT = 16
_STOP_AT, _TICK_AT, _LOOK_AT, _WAIT_AT = 8, 16, 24, 32
_SIZE = 40
_WORK = (Call, CpuDot, GuardedStore, Load, Report, Store)


def may_leave(function: Op, module: Op, polled: Sequence[str]) -> bool:
    """Whether a program can end within `function` because its launch does. Prints and assertions do not count."""
    if any(op.name in polled for op in function.ops_of(Loop)):
        return True
    return any(may_leave(callee, module, polled) for callee in callees_of(function, module))


def waits(function: Op, module: Op) -> bool:
    """Whether a loop of `function`, or of one that it calls, may go on until another program has done something."""
    loops = function.ops_of(While)
    if any(_looks_at_others(op, module) for loop in loops for op in loop.walk()):
        return True
    return any(waits(callee, module) for callee in callees_of(function, module))


def only_waits(loop: Op) -> bool:
    """Whether the only use of `loop` is to see what another program has done."""
    if not isinstance(loop, While):
        return False
    ops = list(loop.walk())
    if not any(_is_shared_access(op) for op in ops):
        return False
    return not any(isinstance(op, _WORK) and not _is_shared_access(op) for op in ops)


def _looks_at_others(op: Op, module: Op) -> bool:
    if not isinstance(op, Call):
        return _is_shared_access(op)
    return any(_looks_at_others(inner, module) for callee in callees_of(op, module) for inner in callee.walk())


def _is_shared_access(op: Op) -> bool:
    """Whether `op` sees what other programs write meanwhile."""
    return isinstance(op, Atomic) or (isinstance(op, Load) and op.is_volatile)


class Control:
    """Writes how a function obeys its launch. `exit`: the block to leave to."""

    def __init__(self, w: LlvmWriter, launch: str, exit: str) -> None:
        self.w, self.exit = w, exit
        given = w.load("ptr", w.offset(launch, "i8", CONTROL_AT), align=8)
        nobody = w.define("tw_nobody", f"internal constant [{_SIZE} x i8] zeroinitializer, align 8")
        is_alone = w.emit(f"icmp eq ptr {given}, null")
        self.address = w.emit(f"select i1 {is_alone}, ptr {nobody}, ptr {given}")

    @property
    def stop(self) -> str:
        """The address of the word that says that no program needs to go on."""
        return self.w.offset(self.address, "i8", _STOP_AT)

    def tick(self) -> str:
        """The number of the tick."""
        place = self.w.offset(self.address, "i8", _TICK_AT)
        return self.w.emit(f"load atomic volatile i64, ptr {place} monotonic, align 8")

    def differs(self, seen: str, tick: str, *, to: str) -> None:
        """Go to the block `to` if this is another tick than was seen."""
        is_other, after = self.w.emit(f"icmp ne i64 {tick}, {seen}"), self.w.fresh_label("on")
        self.w.do(f"br i1 {is_other}, label %{to}, label %{after}{self.w.is_unlikely()}")
        self.w.start_block(after)

    def leave_when_stopped(self) -> None:
        """Leave the function if the launch is to end."""
        stop = self.w.emit(f"load atomic volatile i64, ptr {self.stop} monotonic, align 8")
        self.leave_if(self.w.emit(f"icmp ne i64 {stop}, 0"))

    def leave_if(self, condition: str) -> None:
        after = self.w.fresh_label("on")
        self.w.do(f"br i1 {condition}, label %{self.exit}, label %{after}")
        self.w.start_block(after)

    def look(self) -> None:
        """Leave the function if the launch is not wanted any more."""
        function = self._function(_LOOK_AT)
        answer = self.w.emit(f"call i64 {function}(ptr {self.address})")
        self.leave_if(self.w.emit(f"icmp ne i64 {answer}, 0"))

    def wait(self, site: int, program: Sequence[str], since: str) -> str:
        """`look` for a loop that waits; the loop carries the time since when it does (0: unknown yet)."""
        values = ", ".join(f"i32 {axis}" for axis in program)
        function = self._function(_WAIT_AT)
        answer = self.w.emit(f"call i64 {function}(ptr {self.address}, i64 {site}, {values}, i64 {since})")
        self.leave_if(self.w.emit(f"icmp slt i64 {answer}, 0"))
        return answer

    def _function(self, place: int) -> str:
        return self.w.load("ptr", self.w.offset(self.address, "i8", place), align=8)


class WaitLoop:
    """The iterations of a loop that compare ticks. `site`: its number among loops that only wait, or None."""

    def __init__(self, control: Control, site: int | None) -> None:
        """To be made before the loop."""
        self.control, self.w, self.site = control, control.w, site
        self.first, self._seen, self._since = control.tick(), self.w.fresh("seen"), self.w.fresh("since")
        self.tick = self._waiting = ""

    def next(self, program: Sequence[str], *, seen: str = "") -> None:
        """Written where an iteration begins. `seen`: the tick of the previous iteration, unless `phis` carries it."""
        w, seen = self.w, seen or self._seen
        look, after = w.fresh_label("look"), w.fresh_label("turn")
        self.tick = self.control.tick()
        is_other, here = w.emit(f"icmp ne i64 {self.tick}, {seen}"), w.label
        w.do(f"br i1 {is_other}, label %{look}, label %{after}{w.is_unlikely()}")
        w.start_block(look)
        since = "0"
        if self.site is None:
            self.control.look()
        else:
            since = self.control.wait(self.site, program, self._since)
        asked = w.leave_to(after)
        w.start_block(after)
        if self.site is not None:
            self._waiting = w.emit(f"phi i64 [ {self._since}, %{here} ], [ {since}, %{asked} ]")

    def phis(self, entered: str, latch: str) -> list[str]:
        """The phis of what iterations pass on; `entered` and `latch`: the blocks before the loop and at its end."""
        lines = [f"  {self._seen} = phi i64 [ {self.first}, %{entered} ], [ {self.tick}, %{latch} ]"]
        if self.site is not None:
            lines.append(f"  {self._since} = phi i64 [ 0, %{entered} ], [ {self._waiting}, %{latch} ]")
        return lines
