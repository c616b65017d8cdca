"""LLVM functions as Python statements: variables, memory and control flow on the values of `backends.llvm.lanes`.

    @native("i64")
    def clamp(f: Function, value: I64) -> None:
        f.give_when(value < 0, 0)
        f.give(value)

Integers are signed. Mutable values are `Variable`s (stack slots), which LLVM turns into registers: this text is
compiled once per machine, with optimisation, unlike that of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.machine import host_target
from tilewright.backends.llvm.sections import Section
from tilewright.backends.llvm.spelling import bits_of
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.runtime.drivers.cpu.native.structs import Struct

if TYPE_CHECKING:
    from tilewright.runtime.drivers.cpu.native.systems.interface import NativeSystem


@dataclass(frozen=True)
class Variable:
    """A value that changes."""

    function: Function
    type: str
    slot: Lanes

    @property
    def value(self) -> Lanes:
        return self.function.load(self.type, self.slot)

    def set(self, value: Lanes | int) -> None:
        self.function.store(self.function.constant(self.type, value), self.slot)


@dataclass(frozen=True)
class Loop:
    """Runs until left."""

    function: Function
    end: str

    def leave(self) -> None:
        self.function.jump(self.end)

    def leave_when(self, condition: Lanes) -> None:
        with self.function.when(condition):
            self.leave()


class Branch:
    """The two sides of a condition; `otherwise` may follow the first."""

    def __init__(self, writer: LlvmWriter) -> None:
        self._writer = writer
        self.other: Section | None = None

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        assert self.other is not None, "`otherwise` follows its `when`"
        with self._writer.at(self.other):
            yield


class Processor(NamedTuple):
    """The differences between processors: the pause instruction."""

    pause: str
    pause_declaration: str


_PAUSE, _HINT = "declare void @llvm.x86.sse2.pause()", "declare void @llvm.aarch64.hint(i32)"
PROCESSORS = {
    "x86-64": Processor("call void @llvm.x86.sse2.pause()", _PAUSE),
    "aarch64": Processor("call void @llvm.aarch64.hint(i32 1)", _HINT),
}


class NativeMachine(NamedTuple):
    """The machine that code is for: see `systems.MACHINES`."""

    processor: Processor
    system: NativeSystem


ALWAYS, RARE = "alwaysinline", "noinline cold"

Ptr: TypeAlias = Lanes
I64: TypeAlias = Lanes
I32: TypeAlias = Lanes
"""Types of parameters, as annotations of functions with `native` have them."""
Outside: TypeAlias = "Callable[[Function, str], Lanes]"


class Native(NamedTuple):
    """A function of the native side: what writes its body, whose name and parameters it has, and how it is declared."""

    write: Callable[..., None]
    result: str
    exported: bool
    inlining: str


def native(result: str, *, exported: bool = False, inlining: str = "") -> Callable[[Callable[..., None]], Native]:
    """Makes a native function of the Python function that writes it; arguments as for `Module.function`."""
    return lambda write: Native(write, result, exported, inlining)


class Module:
    """LLVM IR text in the making: one function after the other."""

    def __init__(self, machine: NativeMachine | None = None, outside: Outside | None = None) -> None:
        """Args: outside: writes what gives the address of a function of the Python or C library, by its name."""
        self.declarations: list[str] = []
        self._machine, self._outside = machine, outside
        self._writer = LlvmWriter(host_target())
        self._writer.attributes = "nounwind"
        self._open = ExitStack()

    def function(
        self, name: str, result: str, parameters: Mapping[str, str], *, exported: bool = False, inlining: str = ""
    ) -> Function:
        """A new function, which ends the one before; an exported one can be found in the blob.

        Args:
            name, result: its symbol and its type.
            exported: it can be found in the blob.
            inlining: left to LLVM, or ALWAYS, or RARE: where it is called, the call is hardly ever reached.
        """
        self._open.close()
        w = self._writer
        arguments = {
            key: Lanes(LaneType(w, type, 1), f"%p.{key}") for key, type in parameters.items()
        }  # no label's name
        names = [(value.kind.type, value.name) for value in arguments.values()]
        self._open.enter_context(w.function(name, names, result=result, internal=not exported, attributes=inlining))
        if result != "void":
            self._open.callback(partial(w.do, "unreachable"))
        return Function(w, result, arguments, self._machine, self._outside)

    def add(self, file: ModuleType) -> None:
        """Adds all functions of a file that are marked as `native`."""
        for found in vars(file).values():
            if isinstance(found, Native):
                _, *kinds, _ = found.write.__annotations__.items()
                parameters = {name: kind.lower() for name, kind in kinds}
                name = found.write.__name__.removeprefix("_")
                f = self.function(name, found.result, parameters, exported=found.exported, inlining=found.inlining)
                found.write(f, *map(f.__getitem__, parameters))

    def text(self) -> str:
        self._open.close()
        return "\n".join([*self.declarations, self._writer.render()])


class Function:
    """One LLVM function; statements append to its current block."""

    def __init__(
        self,
        writer: LlvmWriter,
        result: str,
        arguments: Mapping[str, Lanes],
        machine: NativeMachine | None,
        outside: Outside | None,
    ) -> None:
        self._writer, self._result, self._arguments = writer, result, arguments
        self._machine, self._outside = machine, outside

    def __getitem__(self, name: str) -> Lanes:
        """A parameter, by its name."""
        return self._arguments[name]

    @property
    def processor(self) -> Processor:
        """The processor that the code is for."""
        assert self._machine is not None, "the module is for a machine"
        return self._machine.processor

    @property
    def system(self) -> NativeSystem:
        """The operating system that the code is for."""
        assert self._machine is not None, "the module is for a machine"
        return self._machine.system

    def outside(self, name: str) -> Lanes:
        """The address of a function of the Python or C library."""
        assert self._outside is not None, "the module knows where addresses are"
        return self._outside(self, name)

    # Values

    def _type(self, type: str) -> LaneType:
        return LaneType(self._writer, type, 1)

    def constant(self, type: str, value: Lanes | int) -> Lanes:
        return self._type(type)(value)

    def emit(self, type: str, text: str) -> Lanes:
        return Lanes(self._type(type), self._writer.emit(text))

    def statement(self, text: str) -> None:
        self._writer.do(text)

    def variable(self, type: str, value: Lanes | int) -> Variable:
        made = Variable(self, type, self.stack(type))
        made.set(value)
        return made

    def stack(self, type: str) -> Lanes:
        """An address on the stack for one value."""
        with self._writer.at(self._writer.entry):
            return self.emit("ptr", f"alloca {type}, align 8")

    def stack_words(self, count: Lanes) -> Lanes:
        """An address on the stack for `count` words."""
        return self.emit("ptr", f"alloca i64, i64 {count.name}, align 16")

    def choose(self, condition: Lanes, yes: Lanes | int, no: Lanes | int, *, kind: str = "i64") -> Lanes:
        return self._type(kind).select(condition, yes, no)

    # Memory

    def at(self, base: Lanes, offset: Lanes | int) -> Lanes:
        """The address `offset` bytes behind `base`."""
        distance = self.constant("i64", offset)
        return self.emit("ptr", f"getelementptr i8, ptr {base.name}, i64 {distance.name}")

    def load(self, type: str, base: Lanes, offset: Lanes | int = 0, *, order: str = "") -> Lanes:
        place = self._place(base, offset)
        atomic = "atomic " if order else ""
        return self.emit(type, f"load {atomic}{type}, ptr {place.name} {order}, align {bits_of(type) // 8}")

    def store(self, value: Lanes, base: Lanes, offset: Lanes | int = 0, *, order: str = "") -> None:
        place, type = self._place(base, offset), value.kind.type
        atomic = "atomic " if order else ""
        self.statement(f"store {atomic}{type} {value.name}, ptr {place.name} {order}, align {bits_of(type) // 8}")

    def update(self, operation: str, place: Lanes, value: Lanes | int, *, kind: str = "i64") -> Lanes:
        """Atomically applies add, sub, and, or, xchg; gives the old value."""
        right = self.constant(kind, value)
        return self.emit(kind, f"atomicrmw {operation} ptr {place.name}, {kind} {right.name} seq_cst")

    def replaced(self, place: Lanes, expected: Lanes, value: Lanes) -> Lanes:
        """Atomically stores `value` where `expected` is; gives whether it was there."""
        type = value.kind.type
        both = f"{type} {expected.name}, {type} {value.name}"
        pair = self._writer.emit(f"cmpxchg ptr {place.name}, {both} seq_cst seq_cst")
        return self.emit("i1", f"extractvalue {{ {type}, i1 }} {pair}, 1")

    def get(self, struct: Struct, base: Lanes, field: str) -> Lanes:
        place = struct.fields[field]
        return self.load(place.type, base, place.offset)

    def put(self, struct: Struct, base: Lanes, field: str, value: Lanes | int) -> None:
        place = struct.fields[field]
        self.store(self.constant(place.type, value), base, place.offset)

    def address(self, struct: Struct, base: Lanes, field: str) -> Lanes:
        return self.at(base, struct.fields[field].offset)

    def _place(self, base: Lanes, offset: Lanes | int) -> Lanes:
        return base if isinstance(offset, int) and offset == 0 else self.at(base, offset)

    # Calls

    def call(self, target: str | Lanes, result: str, *arguments: Lanes) -> Lanes:
        """Calls a function of this module (by name) or an address."""
        callee = f"@{target}" if isinstance(target, str) else target.name
        text = f"call {result} {callee}({_typed(*arguments)})"
        if result == "void":
            self.statement(text)
            return Lanes(self._type(result), "")
        return self.emit(result, text)

    def call_variadic(self, target: Lanes, result: str, first: Lanes, *others: Lanes) -> Lanes:
        """Calls a C function with one fixed parameter and any number of others."""
        return self.emit(result, f"call {result} ({first.kind.type}, ...) {target.name}({_typed(first, *others)})")

    # Control

    def jump(self, label: str) -> None:
        """Ends the block; what follows is unreachable until the next label."""
        self._writer.leave_to(label)
        self._writer.start_block(self._writer.fresh_label("b"))

    def give(self, value: Lanes | int | None = None) -> None:
        """Returns from the function; where one without a result ends, it returns by itself."""
        self.statement("ret void" if value is None else f"ret {_typed(self.constant(self._result, value))}")
        self._writer.start_block(self._writer.fresh_label("b"))

    def give_when(self, condition: Lanes, value: Lanes | int | None = None) -> None:
        """Returns from the function if the condition holds; the value is there in any case."""
        with self.when(condition):
            self.give(value)

    @contextmanager
    def when(self, condition: Lanes) -> Iterator[Branch]:
        w = self._writer
        body, other, end = (w.fresh_label("b") for _ in range(3))
        w.do(f"br i1 {condition.name}, label %{body}, label %{other}")
        w.start_block(body)
        branch = Branch(w)
        yield branch
        w.leave_to(end)
        w.start_block(other)
        branch.other = w.open_section()
        w.leave_to(end)
        w.start_block(end)

    @contextmanager
    def repeat(self) -> Iterator[Loop]:
        """An endless loop, left by `Loop.leave`."""
        head, end = self._writer.fresh_label("b"), self._writer.fresh_label("b")
        self._writer.leave_to(head)
        self._writer.start_block(head)
        yield Loop(self, end)
        self._writer.leave_to(head)
        self._writer.start_block(end)

    @contextmanager
    def counted(self, count: Lanes) -> Iterator[Lanes]:
        """A loop over 0 … count-1; the index does not change inside."""
        index = self.variable(count.kind.type, 0)
        with self.repeat() as loop:
            current = index.value
            loop.leave_when(current >= count)
            yield current
            index.set(current + 1)


def _typed(*values: Lanes) -> str:
    return ", ".join(f"{value.kind.type} {value.name}" for value in values)
