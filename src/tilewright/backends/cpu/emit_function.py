"""Lowering of ttcir to LLVM IR: the kernel's entry point, its scalars and its control flow.

Nests and dots have their own files.

    i64 kernel(ptr launch, i64 begin, i64 end, ptr scratch)
        load the arguments from the launch record
        for program in begin … end: decode (x, y, z), run the body

It gives the number of the first program that did not run: `end`, unless somebody has to look after the launch. The
launch record holds the grid as three i32 at 0, 4 and 8, at 16 the address of the launch's CONTROL (`emit_control.py`)
or null, and from 24 on one slot of 8 bytes per argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeGuard

from tilewright.backends.cpu.costs import SINKS
from tilewright.backends.cpu.dot.lower import lower_dot
from tilewright.backends.cpu.dot.spec import Prefetch
from tilewright.backends.cpu.dot_masks import axis_of_depth
from tilewright.backends.cpu.dot_spec import batches_of, may_step, spec_of, stride_bytes
from tilewright.backends.cpu.emit_calls import (
    CONTEXT,
    Shared,
    call,
    passed_type,
    received,
    result_type,
    returned,
    shared_by,
)
from tilewright.backends.cpu.emit_control import Control, Turns, only_waits
from tilewright.backends.cpu.emit_loops import VectorLoops, operand_of
from tilewright.backends.cpu.emit_reports import Listener, Places, Site, places
from tilewright.backends.cpu.emit_scalars import SCALARS, scalar_constant
from tilewright.backends.cpu.loop_builder import BYTES, LoopBuilder, offset_of
from tilewright.backends.cpu.nest.context import Hoisted
from tilewright.backends.cpu.nest.copy_elision import Matrix, element_bytes, elided_write, lower_elided, next_tile
from tilewright.backends.cpu.nest.lane_values import Scalar
from tilewright.backends.cpu.nest.loops import lower_nest
from tilewright.backends.cpu.next_turn import NextTurn
from tilewright.backends.llvm.conversions import convert_float
from tilewright.backends.llvm.elementwise import is_elementwise, lower_elementwise
from tilewright.backends.llvm.spelling import element_of
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.arith import Constant
from tilewright.dialects.builtin import Assume
from tilewright.dialects.cpu import Alloc, AssertAt, CpuDot, Nest, PrintBuffer, tile_of
from tilewright.dialects.scf import For, If, While
from tilewright.dialects.traits import Loop
from tilewright.dialects.tt_function import Call, Func
from tilewright.dialects.tt_program import ProgramId
from tilewright.ir.core import Block, Op, Value, defining
from tilewright.ir.types import IntType, TensorType, Type, i8, i64
from tilewright.support.diagnostics import InternalError
from tilewright.transforms.functions import functions_of, is_public

ARGUMENTS_AT = 24
LIKELY_STEP = 2
"""The distance of columns, in elements, that prefetching assumes where it is known at run time only."""
CODE_SIZE_BUDGET = 40
"""Max number of reductions, stores and the like in one place; beyond it, each is written as short as possible."""
_AXES = "xyz"


def emit_functions(w: LlvmWriter, module: Op, *, polled: Sequence[str]) -> tuple[str, list[Site], list[Places]]:
    """Write all functions of a module (ttcir with placed buffers). `polled`: see `Shared`.

    Returns the entry point, what the functions report, and where they do nothing but wait.
    """
    shared = shared_by(module, polled)
    entry = ""
    for function in functions_of(module):
        if is_public(function):
            entry = function.symbol
            FunctionEmitter(w, function, shared).emit(entry)
        else:
            FunctionEmitter(w, function, shared).emit_called(shared.names[function.symbol])
    return entry, shared.sites, shared.waits


def _loop_around(op: Op) -> Op | None:
    """The innermost loop, or the function, that `op` is in."""
    parent = op.parent
    while parent is not None and not isinstance(parent, (Loop, Func)):
        parent = parent.parent
    return parent


def _is_place(op: Op) -> TypeGuard[ProgramId]:
    """Whether `op` asks for the program's place in the grid."""
    return isinstance(op, ProgramId) and op.name == "tt.get_program_id"


class FunctionEmitter:
    """Writes one function. `names` maps scalars and buffers to LLVM values."""

    def __init__(self, w: LlvmWriter, function: Func, shared: Shared) -> None:
        self.w, self.function, self.shared = w, function, shared
        self.is_entry = is_public(function)
        self.exit = w.fresh_label("exit")
        self.names: dict[Value, str] = {}
        self.program: dict[str, str] = {}
        self.programs: dict[str, str] = {}
        self.total = "1"
        self.tiles: dict[Value, tuple[Nest, Matrix]] = {}
        self.loops: list[For] = []
        self.control: Control | None = None
        self.listener: Listener | None = None
        self.hoisted: Hoisted = {}
        self.vector_loops = VectorLoops(w, self.value)
        self.ops = list(function.walk())
        self.sinks_per_loop = Counter(_loop_around(op) for op in self.ops if isinstance(op, SINKS))

    def emit(self, name: str) -> None:
        """Write the kernel: a loop over programs."""
        w = self.w
        parameters = [("ptr noalias", "%launch"), ("i64", "%begin"), ("i64", "%end"), ("ptr noalias", "%scratch")]
        with w.function(name, parameters, result="i64"):
            w.describe(self.function, name)
            self._arguments()
            self._buffers()
            self._grid()
            control = self.control = Control(w, "%launch", self.exit)
            self._listen()
            axes, interrupted = self._axes(), w.fresh_label("interrupted")
            seen = control.tick()
            with w.loop("%begin", "%end", carried=self._first_program(axes), guarded=True) as loop:
                self.program = dict(zip(axes, loop.carried, strict=True))
                control.differs(seen, control.tick(), to=interrupted)
                self._stop_if_told()
                self.block(self.function.body)
                loop.next = self._next_program(axes)
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
            self.names = {v: received(w, name, v.type) for v, (_, name) in zip(body.args, given, strict=True)}
            self._buffers()
            self._grid()
            if self.function.symbol in self.shared.leaving:
                self.control = Control(w, "%launch", self.exit)
            self._listen()
            self.block_without_end(body)
            if results:
                returned(w, [self.value(v) for v in results], [v.type for v in results])
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
            self.names[argument] = self._argument(slot, argument.type)

    def _argument(self, slot: str, type: Type) -> str:
        element = element_of(type)
        if isinstance(type, IntType):
            return self.w.convert("trunc", self.w.load("i64", slot, align=8), "i64", element)
        if element in ("half", "bfloat"):
            return convert_float(self.w, self.w.load("float", slot, align=4), "f32", type.text, 1)
        return self.w.load(element, slot, align=4 if element == "float" else 8)

    def _buffers(self) -> None:
        for op in self.ops:
            if isinstance(op, Alloc) and op.offset is not None:
                self.names[op.result] = self.w.offset("%scratch", "i8", op.offset)

    def _grid(self) -> None:
        """The extents of the grid, and how many programs it has."""
        for number, axis in enumerate(_AXES):
            slot = self.w.offset("%launch", "i8", 4 * number)
            self.programs[axis] = self.w.load("i32", slot, align=4)
            extent = self.w.emit(f"zext i32 {self.programs[axis]} to i64")
            self.total = extent if axis == "x" else self.w.emit(f"mul i64 {self.total}, {extent}")

    def _axes(self) -> str:
        """The axes up to the last one whose program id is used; reports and waits name all, calls hand all over."""
        if self.listener is not None or any(isinstance(op, Call) or only_waits(op) for op in self.ops):
            return _AXES
        used = [_AXES.index(op.axis) for op in self.ops if _is_place(op)]
        return _AXES[: max(used) + 1] if used else ""

    def _first_program(self, axes: str) -> list[tuple[str, str]]:
        """The place of program number `begin` in the grid; x runs fastest."""
        w, rest = self.w, "%begin"
        found = []
        for axis in axes:
            extent = w.intrinsic("llvm.umax", "i64", w.emit(f"zext i32 {self.programs[axis]} to i64"), "1")
            found.append(("i32", w.emit(f"trunc i64 {w.emit(f'urem i64 {rest}, {extent}')} to i32")))
            rest = w.emit(f"udiv i64 {rest}, {extent}")
        return found

    def _next_program(self, axes: str) -> list[str]:
        """Counts like an odometer, so that no program needs a division."""
        w, found = self.w, []
        carry = "true"
        for axis in axes:
            following = w.emit(f"add i32 {self.program[axis]}, {w.emit(f'zext i1 {carry} to i32')}")
            wraps = w.emit(f"icmp eq i32 {following}, {self.programs[axis]}")
            found.append(w.emit(f"select i1 {wraps}, i32 0, i32 {following}"))
            carry = wraps
        return found

    # ------------------------------------------------------------------ ops

    def value(self, value: Value) -> str:
        """The LLVM value of a scalar or buffer."""
        name = self.names.get(value)
        if name is None:
            constant = defining(value, Constant)
            assert constant is not None, f"{value.name or value} is not emitted yet"
            name = self.names[value] = scalar_constant(constant)
        return name

    def block(self, block: Block) -> None:
        for op in block:
            self.op(op)

    def op(self, op: Op) -> None:
        debug = self.w.debug
        if debug is None:
            self._op(op)
            return
        with debug.inside(op):
            self._op(op)
        for result in op.results:
            if result in self.names and not isinstance(result.type, TensorType):
                self.w.show(result, element_of(result.type), self.names[result])

    def _op(self, op: Op) -> None:
        own = self.OWN.get(op.name)
        if own is not None:
            own(self, op)
            return
        if isinstance(op, Constant):
            self.names[op.result] = scalar_constant(op)
            return
        operands = [self.value(v) for v in op.operands]
        scalar = SCALARS.get(op.name)
        if scalar is not None:
            name = scalar(self.w, op, operands)
            if op.results:
                assert name is not None, f"{op.name} gives a value"
                self.names[op.result] = name
        elif is_elementwise(op):
            self.names[op.result] = lower_elementwise(self.w, op, operands, 1)
        else:
            raise InternalError(f"{op.name} has no CPU lowering")

    def _nothing(self, op: Op) -> None:
        """Write nothing: buffers are addresses from the start, and a return is the end of the program."""

    def _assume(self, op: Assume) -> None:
        """Let LLVM rely on the program's assumption."""
        self.w.call_void("llvm.assume", [("i1", self.value(op.condition))])

    def _program_id(self, op: ProgramId) -> None:
        table = self.program if _is_place(op) else self.programs
        self.names[op.result] = table[op.axis]

    def _nest(self, op: Nest) -> None:
        elided, target = elided_write(op), self.w.target
        if elided is not None:
            steps, axis = may_step(elided, target), axis_of_depth(elided, target)
            with self.vector_loops.building(op) as b:
                tile = lower_elided(b, op, target, operand_of, may_step=steps, depth_axis=axis)
            self.tiles[elided] = op, tile
            return
        with self.vector_loops.building(op) as b:
            results = self._loops_of(b, op)
        for result, value in zip(op.results, results, strict=True):
            self.names[result] = self.vector_loops.names[value]

    def _loops_of(self, b: LoopBuilder, nest: Nest) -> list[Value]:
        """The loops of a nest; only what every program runs once can tell how much the grid stores."""
        once = self.is_entry and nest.parent is self.function
        optimize_size = self.sinks_per_loop[_loop_around(nest)] > CODE_SIZE_BUDGET
        return lower_nest(
            b,
            nest,
            self.w.target,
            operand_of,
            programs=self.vector_loops.value(self.total, i64) if once else None,
            optimize_size=optimize_size,
            hoisted=self.hoisted,
        )

    def _dot(self, op: CpuDot) -> None:
        spec, target = spec_of(op), self.w.target
        batches = batches_of(op)
        with self.vector_loops.building(op) as ops:
            a, b, c = (ops.pointing(v, i8) for v in op.operands)
            scratch = self.vector_loops.value("%scratch", BYTES)
            if batches > 1:
                with ops.loop(0, batches) as loop:
                    steps = [ops.mul(loop.index, stride_bytes(v)) for v in op.operands]
                    a, b, c = (ops.offset(p, s) for p, s in zip((a, b, c), steps, strict=True))
                    lower_dot(ops, target, spec, a, b, c, scratch)
                return
            soon = [self._prefetch(v) for v in (op.a, op.b)]
            depth: Scalar | None = None
            if op.a in self.tiles:
                place, stride, step, _, depth = self.tiles[op.a][1]
                a, spec = ops.pointing(place, i8), replace(spec, a_stride=stride, a_step=step)
            if op.b in self.tiles:
                place, stride, step, _, other = self.tiles[op.b][1]
                b, spec = ops.pointing(place, i8), replace(spec, b_stride=stride, b_step=step)
                if depth is not None and other is not None:
                    spec = replace(spec, depth=offset_of(ops.smin(ops.number(depth), other)))
            lower_dot(ops, target, spec, a, b, c, scratch, prefetch=[p for p in soon if p is not None])

    def _prefetch(self, buffer: Value) -> Prefetch | None:
        """The memory that an operand is read from in the next iteration of the loop around."""
        if buffer not in self.tiles or not self.loops:
            return None
        nest, tile = self.tiles[buffer]
        b = self.vector_loops.builder
        following = NextTurn(b, self.loops[-1], self.names, operand_of)
        pointer = next_tile(b, nest, self.w.target, following.value)
        if pointer is None:
            return None
        size = element_bytes(nest)
        rows, columns = tile_of(buffer.type).shape
        stride = tile.pitch * size if isinstance(tile.pitch, int) else b.mul(tile.pitch, size)
        spread = 1 if tile.step == 1 else LIKELY_STEP
        return Prefetch(b.pointing(pointer, i8), stride, rows, columns * size * spread)

    # ------------------------------------------------------------------ control flow

    def _for(self, op: For) -> None:
        counter, step, element = op.induction_variable, op.step, element_of(op.low.type)
        bounds = [self.w.convert("sext", self.value(v), element, "i64") for v in (op.low, op.high, step)]
        carried = [(element_of(v.type), self.value(v)) for v in op.inits]
        runs = bounds[0].isdigit() and bounds[1].isdigit() and int(bounds[0]) < int(bounds[1])
        flags = self.w.stays_in_loop() if "tt.disable_licm" in op.attributes else ""
        turns = Turns(self.control, None) if self.control and op.name in self.shared.polled else None
        carried += [("i64", turns.first)] if turns else []
        with self.w.loop(bounds[0], bounds[1], bounds[2], carried=carried, guarded=not runs, flags=flags) as loop:
            self.names[counter] = self.w.convert("trunc", loop.index, "i64", element)
            self.loops.append(op)
            self.names.update(zip(op.carried, loop.carried, strict=False))
            if turns:
                turns.next([], seen=loop.carried[-1])
            self.block_without_end(op.body)
            self.loops.pop()
            loop.next = [*(self.value(v) for v in op.yielded), *([turns.tick] if turns else [])]
        self.names.update(zip(op.results, loop.results, strict=False))

    def block_without_end(self, block: Block) -> None:
        hoisted, self.hoisted = self.hoisted, {}
        for op in block:
            if not op.definition.terminator:
                self.op(op)
        self.hoisted = hoisted

    def _if(self, op: If) -> None:
        yielded: list[list[str]] = [[], []]
        with self.w.branch(self.value(op.condition)) as branch:
            sides = (branch.then, branch.otherwise)
            for number, region in enumerate(op.regions):
                with sides[number]():
                    if region.blocks:
                        self.block_without_end(region.block)
                        yielded[number] = [self.value(v) for v in region.block.terminator.operands]
        for result, x, y in zip(op.results, *yielded, strict=True):
            self.names[result] = branch.join(element_of(result.type), x, y)

    def _while(self, op: While) -> None:
        w, before, after = self.w, op.before, op.after
        head, inside, behind = (w.fresh_label(name) for name in ("while", "do", "done"))
        inits = [self.value(v) for v in op.inits]
        turns = self._turns(op)
        entered = w.leave_to(head)
        w.start_block(head)
        phis = w.open_section()
        carried = [w.fresh("c") for _ in inits]
        self.names.update(zip(before.args, carried, strict=True))
        turns.next([self.program.get(axis, "0") for axis in _AXES])
        self.block_without_end(before)
        condition, *passed = (self.value(v) for v in before.terminator.operands)
        w.do(f"br i1 {condition}, label %{inside}, label %{behind}")
        w.start_block(inside)
        self.names.update(zip(after.args, passed, strict=True))
        self.block_without_end(after)
        following = [self.value(v) for v in op.yielded]
        latch = w.leave_to(head, flags=w.stays_in_loop() if "tt.disable_licm" in op.attributes else "")
        phis.parts += [
            f"  {name} = phi {element_of(v.type)} [ {init}, %{entered} ], [ {next_}, %{latch} ]"
            for name, v, init, next_ in zip(carried, op.inits, inits, following, strict=True)
        ]
        phis.parts += turns.phis(entered, latch)
        w.start_block(behind)
        self.names.update(zip(op.results, passed, strict=True))

    def _turns(self, op: While) -> Turns:
        """The turns of a `while` loop, in which programs look whether their launch is still wanted."""
        assert self.control is not None, "a function with a while loop may be left"
        if not only_waits(op):
            return Turns(self.control, None)
        self.shared.waits.append(places(op.location))
        return Turns(self.control, len(self.shared.waits) - 1)

    # ------------------------------------------------------------------ calls and reports

    def _call(self, op: Call) -> None:
        callee = op.callee
        operands = [self.value(v) for v in op.arguments]
        program = [self.program[axis] for axis in _AXES]
        self.names.update(zip(op.results, call(self.w, op, self.shared.names[callee], program, operands), strict=True))
        if callee in self.shared.leaving:
            assert self.control is not None, "the caller of a function that may be left may be left"
            self.control.leave_when_stopped()

    def _stop_if_told(self) -> None:
        if self.listener is not None:
            self.listener.control.leave_when_stopped()

    def _assert(self, op: AssertAt) -> None:
        assert self.listener is not None, "a function with reports has a listener"
        self.listener.check(op, self.value(op.condition), self.value(op.first), self.program)

    def _print(self, op: PrintBuffer) -> None:
        assert self.listener is not None, "a function with reports has a listener"
        self.listener.show(op, None if op.buffer is None else self.value(op.buffer), self.program)

    OWN: ClassVar[dict[str, Callable[[FunctionEmitter, Any], None]]] = {
        "cpu.alloc": _nothing,
        "cpu.assert": _assert,
        "cpu.dot": _dot,
        "cpu.nest": _nest,
        "cpu.print": _print,
        "gpu.barrier": _nothing,
        "ttg.barrier": _nothing,
        "llvm.intr.assume": _assume,
        "scf.for": _for,
        "scf.if": _if,
        "scf.while": _while,
        "tt.call": _call,
        "tt.get_num_programs": _program_id,
        "tt.get_program_id": _program_id,
        "tt.grid_dependency_launch_dependents": _nothing,
        "tt.grid_dependency_wait": _nothing,  # launches follow one another
        "tt.return": _nothing,
    }
