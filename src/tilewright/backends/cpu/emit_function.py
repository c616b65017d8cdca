"""Vector loops → LLVM IR: the kernel's entry point, its scalars and its control flow.

`llvm/loops.py` writes everything that vectorized functions have as well.

    i64 kernel(ptr launch, i64 begin, i64 end, ptr scratch)
        load the arguments from the launch record
        for program in begin … end: decode (x, y, z), run the body

It returns the number of the first program that did not run: `end`, unless the launch needs attention. The launch record
holds the grid as three i32 at 0, 4 and 8, at 16 the address of the launch's CONTROL (`emit_control.py`) or null, and
from 24 on one slot of 8 bytes per argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeGuard

from tilewright.backends.cpu.allocate_buffers import end_of
from tilewright.backends.cpu.emit_calls import (
    CONTEXT,
    Shared,
    call,
    passed_type,
    received,
    result_type,
    returned,
)
from tilewright.backends.cpu.emit_control import Control, WaitLoop
from tilewright.backends.cpu.emit_reports import Listener, Places, Site, places
from tilewright.backends.cpu.emit_scalars import SCALARS
from tilewright.backends.cpu.order_programs import order_of
from tilewright.backends.llvm.conversions import convert_float
from tilewright.backends.llvm.loops import LoopEmitter, end_of_iterations
from tilewright.backends.llvm.products import request_tiles
from tilewright.backends.llvm.spelling import element_of, moved_type
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.amx import TileLoad
from tilewright.dialects.builtin import Assume
from tilewright.dialects.cpu import Alloc, AssertAt, PrintBuffer, ProgramsAhead, Take
from tilewright.dialects.scf import For, While
from tilewright.dialects.tt_function import Call, Func
from tilewright.dialects.tt_program import ProgramId
from tilewright.dialects.vector import NONEMPTY
from tilewright.ir.core import Op
from tilewright.ir.types import IntType, Type
from tilewright.transforms.functions import functions_of, is_public

ARGUMENTS_AT = 24
_AXES = "xyz"
_PROLOGUE_OPS = Alloc, Call, ProgramId, Take, While
"""The ops that decide what stands at the start of a function: addresses of buffers, the axes of the grid."""


def emit_functions(w: LlvmWriter, module: Op, shared: Shared) -> tuple[str, int, list[Site], list[Places]]:
    """Write all functions of a module of vector loops. `shared`: what was found out before nests were lowered.

    Returns the entry point, the bytes of scratch memory up to the end of the last buffer, what the functions report,
    and where they do nothing but wait.
    """
    entry, scratch_bytes = "", 0
    uses_tiles = any(function.ops_of(TileLoad) for function in functions_of(module))
    for function in functions_of(module):
        emitter = FunctionEmitter(w, function, shared)
        if is_public(function):
            entry = function.symbol
            emitter.emit(entry, uses_tiles=uses_tiles)
        else:
            emitter.emit_called(shared.names[function.symbol])
        scratch_bytes = max(scratch_bytes, end_of(emitter.buffers))
    return entry, scratch_bytes, shared.sites, shared.waits


def _is_place(op: Op) -> TypeGuard[ProgramId]:
    """Whether `op` asks for the program's place in the grid."""
    return isinstance(op, ProgramId) and op.name == "tt.get_program_id"


class FunctionEmitter(LoopEmitter):
    """Writes one function: vector loops, and what only programs have."""

    def __init__(self, w: LlvmWriter, function: Func, shared: Shared) -> None:
        super().__init__(w)
        self.function, self.shared = function, shared
        self.exit = w.fresh_label("exit")
        self.program: dict[str, str] = {}
        self.programs: dict[str, str] = {}
        self.control: Control | None = None
        self.listener: Listener | None = None
        self.number, self.taken = "", ""
        self.prologue_ops = function.ops_of(_PROLOGUE_OPS)
        self.buffers = [op for op in self.prologue_ops if isinstance(op, Alloc)]

    def emit(self, name: str, *, uses_tiles: bool) -> None:
        """Write the kernel: a loop over programs. `uses_tiles`: it, or a function it calls, uses tile registers."""
        w = self.w
        parameters = [("ptr noalias", "%launch"), ("i64", "%begin"), ("i64", "%end"), ("ptr noalias", "%scratch")]
        with w.function(name, parameters, result="i64"):
            w.describe(self.function, name)
            if uses_tiles:
                request_tiles(w)
            self._arguments()
            self._buffers()
            self._grid()
            control = self.control = Control(w, "%launch", self.exit)
            self._listen()
            axes, interrupted = self._axes(), w.fresh_label("interrupted")
            seen = control.tick()
            with w.loop("%begin", "%end", carried=self._first_program(axes), guarded=True) as loop:
                self.program = dict(zip(axes, loop.carried, strict=True))
                self.number = loop.index
                control.differs(seen, control.tick(), to=interrupted)
                self._stop_if_told()
                loop.step = self._run_programs()
                loop.next = self._next_program(axes, loop.step)
            w.leave_to(self.exit)
            w.start_block(self.exit)
            w.finish("i64 %end")
            w.start_block(interrupted)
            w.finish(f"i64 {loop.index}")

    def emit_called(self, name: str) -> None:
        """Write a function that others call."""
        w, body = self.w, self.function.body
        given = [(passed_type(v.type), f"%a{number}") for number, v in enumerate(body.args)]
        results = body.terminator.operands
        result = result_type([v.type for v in results])
        with w.function(name, [*CONTEXT, *given], result=result, internal=True):
            w.describe(self.function, name)
            self.program = {axis: f"%{axis}" for axis in _AXES}
            for v, (_, name) in zip(body.args, given, strict=True):
                self.bind(v, received(w, name, v.type))
            self._buffers()
            self._grid()
            if self.function.symbol in self.shared.leaving:
                self.control = Control(w, "%launch", self.exit)
            self._listen()
            self.run(body)
            if results:
                returned(w, [self.names[v] for v in results], [v.type for v in results])
            elif self.control is not None:
                w.leave_to(self.exit)
            if self.control is not None:
                w.start_block(self.exit)
                if results:
                    w.do(f"ret {result} zeroinitializer")

    def _listen(self) -> None:
        if self.function.symbol in self.shared.reporting:
            assert self.control is not None, "a function with reports may leave"
            self.listener = Listener(self.w, self.shared.sites, self.control)

    # ------------------------------------------------------------------ entry

    def _arguments(self) -> None:
        for number, argument in enumerate(self.function.body.args):
            slot = self.w.offset("%launch", "i8", ARGUMENTS_AT + 8 * number)
            self.bind(argument, self._argument(slot, argument.type))

    def _argument(self, slot: str, type: Type) -> str:
        element = element_of(type)
        if isinstance(type, IntType):
            return self.w.convert("trunc", self.w.load("i64", slot, align=8), "i64", element)
        if element in ("half", "bfloat"):
            return convert_float(self.w, self.w.load("float", slot, align=4), "f32", type.text, 1)
        return self.w.load(element, slot, align=4 if element == "float" else 8)

    def _buffers(self) -> None:
        places: dict[int, str] = {}
        for op in self.buffers:
            if op.offset is not None:
                place = places.get(op.offset) or self.w.offset("%scratch", "i8", op.offset)
                self.names[op.result] = places[op.offset] = place

    def _grid(self) -> None:
        """The extents of the grid."""
        for number, axis in enumerate(_AXES):
            slot = self.w.offset("%launch", "i8", 4 * number)
            self.programs[axis] = self.w.load("i32", slot, align=4)

    def _axes(self) -> str:
        """The axes, the fastest first, up to the last one whose program id is used.

        Reports and waits name all of them, calls hand all over.
        """
        order = order_of(self.function)
        needs_all = any(isinstance(op, Call) or op in self.shared.waiting for op in self.prologue_ops)
        if self.listener is not None or needs_all:
            return order
        used = [order.index(op.axis) for op in self.prologue_ops if _is_place(op)]
        return order[: max(used) + 1] if used else ""

    def _first_program(self, axes: str) -> list[tuple[str, str]]:
        """The place of program number `begin` in the grid."""
        w, rest = self.w, "%begin"
        found = []
        for axis in axes:
            extent = w.intrinsic("llvm.umax", "i64", w.emit(f"zext i32 {self.programs[axis]} to i64"), "1")
            found.append(("i32", w.emit(f"trunc i64 {w.emit(f'urem i64 {rest}, {extent}')} to i32")))
            if axis != axes[-1]:
                rest = w.emit(f"udiv i64 {rest}, {extent}")
        return found

    def _run_programs(self) -> str:
        """Write what a program does; returns how many programs that were, an i64."""
        w = self.w
        takes = any(isinstance(op, Take) for op in self.prologue_ops)
        if takes:
            self.taken = w.alloca(8, align=8)
            w.store("i64", "1", self.taken, align=8)
        self.run(self.function.body)
        return w.load("i64", self.taken, align=8) if takes else "1"

    def _next_program(self, axes: str, step: str) -> list[str]:
        """Counts like an odometer, so that no program needs a division."""
        w, found = self.w, []
        more = step if step.isdigit() else w.convert("trunc", step, "i64", "i32")
        for axis in axes:
            following = w.emit(f"add i32 {self.program[axis]}, {more}")
            wraps = w.emit(f"icmp eq i32 {following}, {self.programs[axis]}")
            found.append(w.emit(f"select i1 {wraps}, i32 0, i32 {following}"))
            more = w.emit(f"zext i1 {wraps} to i32") if axis != axes[-1] else ""
        return found

    # ------------------------------------------------------------------ ops

    def _scalar(self, op: Op) -> None:
        """An op on scalars that another line stands for than for vectors."""
        if any(operand.type.shape is not None for operand in op.operands):
            LoopEmitter.TABLE.get(op.name, LoopEmitter._ordinary)(self, op)
            return
        name = SCALARS[op.name](self.w, op, self._operands(op))
        if op.results:
            assert name is not None, f"{op.name} gives a value"
            self.names[op.results[0]] = name

    def _nothing(self, op: Op) -> None:
        """Write nothing: buffers are addresses from the start, and a return is the end of the program."""

    def _assume(self, op: Assume) -> None:
        """Let LLVM rely on the program's assumption."""
        self.w.call_void("llvm.assume", [("i1", self.names[op.condition])])

    def _program_id(self, op: ProgramId) -> None:
        table = self.program if _is_place(op) else self.programs
        self.names[op.result] = table[op.axis]

    def _programs_ahead(self, op: ProgramsAhead) -> None:
        """Those up to the end of the axis and of what the thread has claimed."""
        w, here = self.w, self.program[op.axis]
        row = w.emit(f"zext i32 {w.emit(f'sub i32 {self.programs[op.axis]}, {here}')} to i64")
        claimed = w.emit(f"sub i64 %end, {self.number}")
        self.names[op.result] = w.intrinsic("llvm.smin", "i64", row, claimed)

    def _take(self, op: Take) -> None:
        self.w.store("i64", self.names[op.count], self.taken, align=8)

    def _runs_alone(self, op: Op) -> None:
        """Whether the thread has claimed all programs of the launch."""
        w = self.w
        extents = [w.emit(f"zext i32 {self.programs[axis]} to i64") for axis in _AXES]
        area = w.emit(f"mul i64 {extents[0]}, {extents[1]}")
        total = w.emit(f"mul i64 {area}, {extents[2]}")
        has_all = w.emit(f"icmp eq i64 %end, {total}")
        self.names[op.result] = w.emit(f"and i1 {w.emit('icmp eq i64 %begin, 0')}, {has_all}")

    def _is_first(self, op: Op) -> None:
        """Whether the program is the first one of those that the thread has claimed."""
        self.names[op.result] = self.w.emit(f"icmp eq i64 {self.number}, %begin")

    # ------------------------------------------------------------------ control flow

    def _for(self, op: For) -> None:
        counter, step, element = op.induction_variable, op.step, element_of(op.low.type)
        bounds = [self.w.convert("sext", self.names[v], element, "i64") for v in (op.low, op.high, step)]
        bounds[1] = end_of_iterations(self.w, *bounds)
        carried = [(moved_type(v.type), self._leaving(v)) for v in op.inits]
        runs = bounds[0].isdigit() and bounds[1].isdigit() and int(bounds[0]) < int(bounds[1])
        flags = self.w.stays_in_loop() if "tt.disable_licm" in op.attributes else ""
        polls = WaitLoop(self.control, None) if self.control and op in self.shared.polling else None
        carried += [("i64", polls.first)] if polls else []
        guarded = not runs and NONEMPTY not in op.attributes
        with self.w.loop(bounds[0], bounds[1], bounds[2], carried=carried, guarded=guarded, flags=flags) as loop:
            self.names[counter] = self.w.convert("trunc", loop.index, "i64", element)
            self._enter(op.carried, loop.carried[: len(op.carried)])
            if polls:
                polls.next([], seen=loop.carried[-1])
            loop.next = [*map(self._leaving, self.run(op.body)), *([polls.tick] if polls else [])]
        self._enter(op.results, loop.results[: len(op.results)])

    def _while(self, op: While) -> None:
        w, before, after = self.w, op.before, op.after
        head, inside, done = (w.fresh_label(name) for name in ("while", "do", "done"))
        inits = [self._leaving(v) for v in op.inits]
        polls = self._wait_loop(op)
        entered = w.leave_to(head)
        w.start_block(head)
        phis = w.open_section()
        carried = [w.fresh("c") for _ in inits]
        self._enter(before.args, carried)
        polls.next([self.program.get(axis, "0") for axis in _AXES])
        condition, *values = self.run(before)
        passed = [self._leaving(v) for v in values]
        w.do(f"br i1 {self.names[condition]}, label %{inside}, label %{done}")
        w.start_block(inside)
        self._enter(after.args, passed)
        following = [self._leaving(v) for v in self.run(after)]
        latch = w.leave_to(head, flags=w.stays_in_loop() if "tt.disable_licm" in op.attributes else "")
        phis.lines += [
            f"  {name} = phi {moved_type(v.type)} [ {init}, %{entered} ], [ {next_}, %{latch} ]"
            for name, v, init, next_ in zip(carried, op.inits, inits, following, strict=True)
        ]
        phis.lines += polls.phis(entered, latch)
        w.start_block(done)
        self._enter(op.results, passed)

    def _wait_loop(self, op: While) -> WaitLoop:
        """The iterations of a `while` loop, in which programs look whether their launch is still wanted."""
        assert self.control is not None, "a function with a while loop may be left"
        if op not in self.shared.waiting:
            return WaitLoop(self.control, None)
        self.shared.waits.append(places(op.location))
        return WaitLoop(self.control, len(self.shared.waits) - 1)

    # ------------------------------------------------------------------ calls and reports

    def _call(self, op: Call) -> None:
        callee = op.callee
        operands = [self.names[v] for v in op.arguments]
        program = [self.program[axis] for axis in _AXES]
        results = call(self.w, op, self.shared.names[callee], program, operands)
        for result, name in zip(op.results, results, strict=True):
            self.bind(result, name)
        if callee in self.shared.leaving:
            assert self.control is not None, "the caller of a function that may be left may be left"
            self.control.leave_when_stopped()

    def _stop_if_told(self) -> None:
        if self.listener is not None:
            self.listener.control.leave_when_stopped()

    def _assert_at(self, op: AssertAt) -> None:
        assert self.listener is not None, "a function with reports has a listener"
        self.listener.check(op, self.names[op.condition], self.names[op.first], self.program)

    def _print(self, op: PrintBuffer) -> None:
        assert self.listener is not None, "a function with reports has a listener"
        self.listener.show(op, None if op.buffer is None else self.names[op.buffer], self.program)

    OWN: ClassVar[dict[str, Callable[[Any, Any], None]]] = {
        **dict.fromkeys(SCALARS, _scalar),
        "cpu.alloc": _nothing,
        "cpu.assert": _assert_at,
        "cpu.is_first": _is_first,
        "cpu.print": _print,
        "cpu.programs_ahead": _programs_ahead,
        "cpu.runs_alone": _runs_alone,
        "cpu.take": _take,
        "gpu.barrier": _nothing,
        "ttg.barrier": _nothing,
        "llvm.intr.assume": _assume,
        "scf.for": _for,
        "scf.while": _while,
        "tt.call": _call,
        "tt.get_num_programs": _program_id,
        "tt.get_program_id": _program_id,
        "tt.grid_dependency_launch_dependents": _nothing,
        "tt.grid_dependency_wait": _nothing,  # launches follow one another
        "tt.return": _nothing,
    }
    TABLE: ClassVar[Mapping[str, Callable[[Any, Any], None]]] = {**LoopEmitter.TABLE, **OWN}
