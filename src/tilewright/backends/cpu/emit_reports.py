"""Prints and assertions in LLVM IR: calls of the launch's listener.

The word at 16 of the launch record is the address of the listener, two words that belong to this launch alone:

    ptr report        void report(i32 site, i32 x, i32 y, i32 z, i64 value)
    i64 stop          not 0: no program needs to go on

`site` is the number of the print or assertion in a table that the kernel's metadata hold; `value` is the address of the
buffer to be printed, or the number of the element that does not hold. An assertion that fails reports, sets `stop` and
leaves the function. Programs look at `stop` when they begin, after each print, because Python may have been interrupted
there, and in every turn of a `while` loop, because what such a loop waits for may never come; so do callers of
functions. Where nobody listens, prints do nothing and an assertion that fails ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.backends.cpu.expand_reports import REPORTS
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.cpu import tile_of
from tilewright.ir.attributes import UNKNOWN, DenseArray, Location
from tilewright.ir.core import Op
from tilewright.ir.spans import span_of
from tilewright.ir.types import FloatType, Type
from tilewright.transforms.functions import callees_of

LISTENER_AT = 16
_SIGNATURE = ("i32", "i32", "i32", "i32", "i64")

Site = dict[str, Any]
"""What the metadata say about a print or an assertion; JSON values."""


def may_report(function: Op, module: Op) -> bool:
    """Does `function` print or assert, or a function that it calls?"""
    if any(op.name in REPORTS for op in function.walk()):
        return True
    return any(may_report(callee, module) for callee in callees_of(function, module))


def site_of(op: Op) -> Site:
    """The facts about one print or assertion."""
    shape = op.attributes.get("shape")
    facts: Site = {"shape": list(shape.values)} if isinstance(shape, DenseArray) else {}
    if op.name == "cpu.assert":
        return {**facts, "message": str(op.attributes["message"]), "places": _places(op.location)}
    facts["text"] = str(op.attributes["text"])
    if op.operands:
        facts |= {"format": str(op.attributes["format"]), "dtype": _dtype(tile_of(op.operands[0].type).element, op)}
    return facts


def _dtype(element: Type, op: Op) -> str:
    """NumPy's name for what lies in the buffer."""
    if isinstance(element, FloatType):
        return f"float{element.bits}"
    return f"{'' if op.attributes['signed'] is True else 'u'}int{element.bits}"


def _places(location: Location) -> list[list[Any]]:
    """File, line, column, end line and end column of the assertion and of the calls that led there."""
    return [] if location == UNKNOWN else [list(span[:5]) for span in span_of(location).chain()]


class Listener:
    """Writes what a function needs to report."""

    def __init__(self, w: LlvmWriter, sites: list[Site], launch: str, exit: str) -> None:
        self.w, self.sites, self.exit = w, sites, exit
        given = w.load("ptr", w.offset(launch, "i8", LISTENER_AT), align=8)
        silent = w.alloca(16, align=8)
        w.store("<2 x i64>", "zeroinitializer", silent, align=8)
        unheard = w.emit(f"icmp eq ptr {given}, null")
        self.listener = w.emit(f"select i1 {unheard}, ptr {silent}, ptr {given}")
        self.stop = w.offset(self.listener, "i8", 8)

    def leave_when_stopped(self) -> None:
        """Leave the function if a program has failed."""
        w = self.w
        stop = w.emit(f"load atomic volatile i64, ptr {self.stop} monotonic, align 8")
        stopped = w.emit(f"icmp ne i64 {stop}, 0")
        self._leave(stopped)

    def _leave(self, condition: str) -> None:
        after = self.w.fresh_label("on")
        self.w.do(f"br i1 {condition}, label %{self.exit}, label %{after}")
        self.w.start_block(after)

    def check(self, op: Op, holds: str, first: str, program: Mapping[str, str]) -> None:
        """An assertion."""
        w = self.w
        failed, on = w.fresh_label("failed"), w.fresh_label("held")
        w.do(f"br i1 {holds}, label %{on}, label %{failed}")
        w.start_block(failed)
        self._report(op, w.emit(f"zext i32 {first} to i64"), program, otherwise="llvm.trap")
        w.do(f"store atomic volatile i64 1, ptr {self.stop} monotonic, align 8")
        w.leave_to(self.exit)
        w.start_block(on)

    def show(self, op: Op, buffer: str | None, program: Mapping[str, str]) -> None:
        """A print."""
        address = "0" if buffer is None else self.w.emit(f"ptrtoint ptr {buffer} to i64")
        self._report(op, address, program)
        self.leave_when_stopped()

    def _report(self, op: Op, value: str, program: Mapping[str, str], *, otherwise: str | None = None) -> None:
        w = self.w
        report = w.load("ptr", self.listener, align=8)
        with w.branch(w.emit(f"icmp ne ptr {report}, null")) as heard:
            with heard.then():
                values = (str(len(self.sites)), *(program[axis] for axis in "xyz"), value)
                arguments = ", ".join(f"{t} {v}" for t, v in zip(_SIGNATURE, values, strict=True))
                w.do(f"call void {report}({arguments})")
            with heard.otherwise():
                if otherwise is not None:
                    w.call_void(otherwise, [])
        self.sites.append(site_of(op))
