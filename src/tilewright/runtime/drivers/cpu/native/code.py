"""A few classes to write LLVM functions as Python statements.

    f = module.function("clamp", "i64", {"value": "i64"})
    with f.when(f["value"] < 0):
        f.give(0)
    f.give(f["value"])

Values know their type; operators are those of signed integers. Changing values live in `Variable`s (stack slots), which
LLVM turns into registers: this text is compiled once per machine, with optimisation, unlike that of kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tilewright.runtime.drivers.cpu.native.structs import Struct


@dataclass(frozen=True, eq=False)
class Value:
    """An SSA value or constant of type `type`; `text` is how LLVM spells it."""

    function: Function
    type: str
    text: str

    def _binary(self, opcode: str, other: Value | int) -> Value:
        right = self.function.constant(self.type, other)
        return self.function.emit(self.type, f"{opcode} {self.type} {self.text}, {right.text}")

    def _compared(self, predicate: str, other: Value | int) -> Value:
        right = self.function.constant(self.type, other)
        return self.function.emit("i1", f"icmp {predicate} {self.type} {self.text}, {right.text}")

    def __add__(self, other: Value | int) -> Value:
        return self._binary("add", other)

    def __sub__(self, other: Value | int) -> Value:
        return self._binary("sub", other)

    def __mul__(self, other: Value | int) -> Value:
        return self._binary("mul", other)

    def __floordiv__(self, other: Value | int) -> Value:
        return self._binary("sdiv", other)

    def quotient(self, other: Value) -> Value:
        """The quotient of unsigned numbers."""
        return self._binary("udiv", other)

    def remainder(self, other: Value) -> Value:
        """The remainder of unsigned numbers."""
        return self._binary("urem", other)

    def __and__(self, other: Value | int) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._binary("xor", other)

    def __lshift__(self, other: Value | int) -> Value:
        return self._binary("shl", other)

    def __rshift__(self, other: Value | int) -> Value:
        return self._binary("ashr", other)

    def __lt__(self, other: Value | int) -> Value:
        return self._compared("slt", other)

    def __le__(self, other: Value | int) -> Value:
        return self._compared("sle", other)

    def __gt__(self, other: Value | int) -> Value:
        return self._compared("sgt", other)

    def __ge__(self, other: Value | int) -> Value:
        return self._compared("sge", other)

    def equals(self, other: Value | int) -> Value:
        return self._compared("eq", other)

    def differs(self, other: Value | int) -> Value:
        return self._compared("ne", other)

    def to(self, kind: str) -> Value:
        """This value as another type: integers sign-extended or cut, pointers and floats by their bits."""
        if kind == self.type:
            return self
        opcode = _CONVERSIONS.get((self.type, kind)) or _resize(self.type, kind)
        return self.function.emit(kind, f"{opcode} {self.type} {self.text} to {kind}")

    def widened(self, kind: str) -> Value:
        """An integer, zero-extended."""
        return self.function.emit(kind, f"zext {self.type} {self.text} to {kind}")


_CONVERSIONS = {
    ("ptr", "i64"): "ptrtoint",
    ("i64", "ptr"): "inttoptr",
    ("double", "i64"): "bitcast",
    ("i64", "double"): "bitcast",
    ("float", "i32"): "bitcast",
    ("double", "float"): "fptrunc",
}


def _resize(source: str, target: str) -> str:
    return "trunc" if int(source[1:]) > int(target[1:]) else "sext"


@dataclass(frozen=True)
class Variable:
    """A value that changes."""

    function: Function
    type: str
    slot: Value

    @property
    def value(self) -> Value:
        return self.function.load(self.type, self.slot)

    def set(self, value: Value | int) -> None:
        self.function.store(self.function.constant(self.type, value), self.slot)


@dataclass(frozen=True)
class Loop:
    """Runs until left."""

    function: Function
    end: str

    def leave(self) -> None:
        self.function.jump(self.end)

    def leave_when(self, condition: Value) -> None:
        with self.function.when(condition):
            self.leave()


@dataclass(frozen=True)
class Branch:
    """The two sides of a condition; `otherwise` may follow the first."""

    function: Function
    other: str
    end: str

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        lines = self.function.lines
        ending = [f"{self.other}:", f" br label %{self.end}", f"{self.end}:"]
        assert lines[-3:] == ending, "`otherwise` follows its `when` at once"
        del lines[-2:]
        yield
        lines += ending[1:]


ALWAYS, RARE = "alwaysinline", "noinline cold"


class Module:
    """LLVM IR text in the making."""

    def __init__(self) -> None:
        self.declarations: list[str] = []
        self.functions: list[Function] = []

    def function(
        self, name: str, result: str, parameters: Mapping[str, str], *, exported: bool = False, inlining: str = ""
    ) -> Function:
        """A new function; `parameters` are names and types. An exported one can be found in the blob.

        `inlining` is left to LLVM, or ALWAYS, or RARE: where it is called, the call is hardly ever reached.
        """
        made = Function(name, result, parameters, exported=exported, inlining=inlining)
        self.functions.append(made)
        return made

    def text(self) -> str:
        return "\n".join([*self.declarations, *(function.text() for function in self.functions), ""])


class Function:
    """One LLVM function; statements append to its current block."""

    def __init__(self, name: str, result: str, parameters: Mapping[str, str], *, exported: bool, inlining: str) -> None:
        self.name, self.result = name, result
        self.lines: list[str] = []
        self._slots: list[str] = []
        self._count = 0
        self._linkage = "" if exported else "internal "
        self._attributes = f"{inlining} nounwind".strip()
        self._parameters = parameters
        self._arguments = {key: Value(self, kind, f"%{key}") for key, kind in parameters.items()}

    def __getitem__(self, name: str) -> Value:
        """A parameter, by its name."""
        return self._arguments[name]

    def text(self) -> str:
        parameters = ", ".join(f"{kind} %{name}" for name, kind in self._parameters.items())
        body = "\n".join(["start:", *self._slots, *self.lines, " unreachable"])
        return f"define {self._linkage}{self.result} @{self.name}({parameters}) {self._attributes} {{\n{body}\n}}"

    # Values

    def constant(self, kind: str, value: Value | int) -> Value:
        if isinstance(value, Value):
            return value
        return Value(self, kind, "null" if kind == "ptr" and value == 0 else str(value))

    def emit(self, kind: str, text: str) -> Value:
        self._count += 1
        self.lines.append(f" %v{self._count} = {text}")
        return Value(self, kind, f"%v{self._count}")

    def statement(self, text: str) -> None:
        self.lines.append(f" {text}")

    def variable(self, kind: str, value: Value | int) -> Variable:
        made = Variable(self, kind, self.stack(kind))
        made.set(value)
        return made

    def stack(self, kind: str) -> Value:
        """An address on the stack for one value of type `kind`."""
        self._count += 1
        self._slots.append(f" %v{self._count} = alloca {kind}, align 8")
        return Value(self, "ptr", f"%v{self._count}")

    def stack_words(self, count: Value) -> Value:
        """An address on the stack for `count` words."""
        return self.emit("ptr", f"alloca i64, i64 {count.text}, align 16")

    def choose(self, condition: Value, yes: Value | int, no: Value | int, *, kind: str = "i64") -> Value:
        left, right = self.constant(kind, yes), self.constant(kind, no)
        return self.emit(kind, f"select i1 {condition.text}, {kind} {left.text}, {kind} {right.text}")

    # Memory

    def at(self, base: Value, offset: Value | int) -> Value:
        """The address `offset` bytes behind `base`."""
        distance = self.constant("i64", offset)
        return self.emit("ptr", f"getelementptr i8, ptr {base.text}, i64 {distance.text}")

    def load(self, kind: str, base: Value, offset: Value | int = 0, *, order: str = "") -> Value:
        place = self._place(base, offset)
        atomic = "atomic " if order else ""
        return self.emit(kind, f"load {atomic}{kind}, ptr {place.text} {order}{_alignment(kind)}")

    def store(self, value: Value, base: Value, offset: Value | int = 0, *, order: str = "") -> None:
        place = self._place(base, offset)
        atomic = "atomic " if order else ""
        self.statement(f"store {atomic}{value.type} {value.text}, ptr {place.text} {order}{_alignment(value.type)}")

    def update(self, operation: str, place: Value, value: Value | int, *, kind: str = "i64") -> Value:
        """Atomically applies add, sub, and, or, xchg; gives the old value."""
        right = self.constant(kind, value)
        return self.emit(kind, f"atomicrmw {operation} ptr {place.text}, {kind} {right.text} seq_cst")

    def replaced(self, place: Value, expected: Value, value: Value) -> Value:
        """Atomically stores `value` where `expected` is; gives whether it was there."""
        both = f"{expected.type} {expected.text}, {value.type} {value.text}"
        pair = self.emit("pair", f"cmpxchg ptr {place.text}, {both} seq_cst seq_cst")
        return self.emit("i1", f"extractvalue {{ {value.type}, i1 }} {pair.text}, 1")

    def get(self, struct: Struct, base: Value, field: str) -> Value:
        place = struct.fields[field]
        return self.load(place.type, base, place.offset)

    def put(self, struct: Struct, base: Value, field: str, value: Value | int) -> None:
        place = struct.fields[field]
        self.store(self.constant(place.type, value), base, place.offset)

    def address(self, struct: Struct, base: Value, field: str) -> Value:
        return self.at(base, struct.fields[field].offset)

    def _place(self, base: Value, offset: Value | int) -> Value:
        return base if isinstance(offset, int) and offset == 0 else self.at(base, offset)

    # Calls

    def call(self, target: str | Value, result: str, *arguments: Value) -> Value:
        """Calls a function of this module (by name) or an address."""
        text = f"call {result} {self._target(target)}({', '.join(f'{a.type} {a.text}' for a in arguments)})"
        if result == "void":
            self.statement(text)
            return Value(self, "void", "")
        return self.emit(result, text)

    def call_variadic(self, target: Value, result: str, first: Value, *others: Value) -> Value:
        """Calls a C function with one fixed parameter and any number of others."""
        arguments = ", ".join(f"{a.type} {a.text}" for a in (first, *others))
        return self.emit(result, f"call {result} ({first.type}, ...) {target.text}({arguments})")

    def _target(self, target: str | Value) -> str:
        return f"@{target}" if isinstance(target, str) else target.text

    # Control

    def fresh(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def jump(self, name: str) -> None:
        """Ends the block; what follows is unreachable until the next label."""
        self.lines.append(f" br label %{name}")
        self.label(self.fresh())

    def give(self, value: Value | int | None = None) -> None:
        """Returns from the function."""
        self.statement("ret void" if value is None else f"ret {self.result} {self.constant(self.result, value).text}")
        self.label(self.fresh())

    @contextmanager
    def when(self, condition: Value) -> Iterator[Branch]:
        body, other, end = self.fresh(), self.fresh(), self.fresh()
        self.statement(f"br i1 {condition.text}, label %{body}, label %{other}")
        self.label(body)
        yield Branch(self, other, end)
        self.statement(f"br label %{end}")
        self.label(other)
        self.statement(f"br label %{end}")
        self.label(end)

    @contextmanager
    def repeat(self) -> Iterator[Loop]:
        """An endless loop, left by `Loop.leave`."""
        head, end = self.fresh(), self.fresh()
        self.statement(f"br label %{head}")
        self.label(head)
        yield Loop(self, end)
        self.statement(f"br label %{head}")
        self.label(end)

    @contextmanager
    def counted(self, count: Value) -> Iterator[Value]:
        """A loop over 0 … count-1; the index does not change inside."""
        index = self.variable(count.type, 0)
        with self.repeat() as loop:
            current = index.value
            loop.leave_when(current >= count)
            yield current
            index.set(current + 1)


def _alignment(kind: str) -> str:
    return f", align {_SIZES[kind]}"


_SIZES = {"i8": 1, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}
