"""Prints and assertions in LLVM IR: calls of the launch's listener.

The first words of the launch's CONTROL (`emit_control.py`) belong to this launch alone:

    ptr report        i64 report(i32 site, i32 x, i32 y, i32 z, i64 value); not 0: no program needs to go on
    i64 stop          not 0: no program needs to go on

`site` is the number of the print or assertion in a table that the kernel's metadata hold; `value` is the address of the
buffer to be printed, or the number of the element that does not hold. An assertion that fails reports, sets `stop` and
leaves the function; so does a print that was interrupted. Programs look at `stop` when they begin and after calls and
prints; `while` loops learn of it with the next tick, because what such a loop waits for may never come. Where nobody
listens, prints do nothing and an assertion that fails ends the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.backends.cpu.emit_control import Control
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.cpu import AssertAt, PrintBuffer, Report, tile_of
from tilewright.ir.attributes import UNKNOWN, Location, span_of
from tilewright.ir.core import Op
from tilewright.ir.types import FloatType, Type
from tilewright.transforms.functions import callees_of

_SIGNATURE = ("i32", "i32", "i32", "i32", "i64")

Site = dict[str, Any]
"""A print or an assertion in the metadata; JSON values."""


Places = list[list[Any]]
"""File, line, column, end line and end column of an op and of the calls that led there; JSON values."""


def may_report(function: Op, module: Op) -> bool:
    """Whether `function`, or a function that it calls, prints or asserts."""
    if function.ops_of(Report):
        return True
    return any(may_report(callee, module) for callee in callees_of(function, module))


def site_of(op: PrintBuffer | AssertAt) -> Site:
    """The facts about one print or assertion."""
    if isinstance(op, AssertAt):
        return {"shape": list(op.shape), "message": op.message, "places": places(op.location)}
    if op.buffer is None:
        return {"text": op.text}
    element = tile_of(op.buffer.type).element
    return {"shape": list(op.shape), "text": op.text, "format": op.format, "dtype": _dtype(element, signed=op.signed)}


def _dtype(element: Type, *, signed: bool) -> str:
    """NumPy's name for what lies in the buffer."""
    if isinstance(element, FloatType):
        return f"float{element.bits}"
    return f"{'' if signed else 'u'}int{element.bits}"


def places(location: Location) -> Places:
    """The place of an op in the source."""
    return [] if location == UNKNOWN else [list(span[:5]) for span in span_of(location).chain()]


class Listener:
    """Writes what a function needs to report, to the launch that it obeys."""

    def __init__(self, w: LlvmWriter, sites: list[Site], control: Control) -> None:
        self.w, self.sites, self.control = w, sites, control

    def check(self, op: AssertAt, holds: str, first: str, program: Mapping[str, str]) -> None:
        """Write an assertion."""
        w = self.w
        failed, on = w.fresh_label("failed"), w.fresh_label("held")
        w.do(f"br i1 {holds}, label %{on}, label %{failed}")
        w.start_block(failed)
        self._report(op, w.emit(f"zext i32 {first} to i64"), program, otherwise="llvm.trap")
        self._stop()
        w.leave_to(self.control.exit)
        w.start_block(on)

    def show(self, op: PrintBuffer, buffer: str | None, program: Mapping[str, str]) -> None:
        """Write a print."""
        address = "0" if buffer is None else self.w.emit(f"ptrtoint ptr {buffer} to i64")
        self._report(op, address, program)
        self.control.leave_when_stopped()

    def _stop(self) -> None:
        self.w.do(f"store atomic volatile i64 1, ptr {self.control.stop} monotonic, align 8")

    def _report(
        self, op: PrintBuffer | AssertAt, value: str, program: Mapping[str, str], *, otherwise: str | None = None
    ) -> None:
        w = self.w
        report = w.load("ptr", self.control.address, align=8)
        with w.branch(w.emit(f"icmp ne ptr {report}, null")) as heard:
            with heard.then():
                values = (str(len(self.sites)), *(program[axis] for axis in "xyz"), value)
                arguments = ", ".join(f"{t} {v}" for t, v in zip(_SIGNATURE, values, strict=True))
                answer = w.emit(f"call i64 {report}({arguments})")
                with w.branch(w.emit(f"icmp ne i64 {answer}, 0")) as unheard, unheard.then():
                    self._stop()
            with heard.otherwise():
                if otherwise is not None:
                    w.call_void(otherwise, [])
        self.sites.append(site_of(op))
