"""The stack machine on registers instead of values: each instruction takes registers and emits steps.

    load x; load y; binary +; store z        r0 = load x; r1 = load y; r2 = add(r0, r1); store z = r2

Besides registers the stack holds entries that never become values: the NULL beside a callee, lists and dicts of
arguments under construction, and functions defined inline.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, NoReturn

from tilewright.frontends import hir, operations
from tilewright.frontends.from_bytecode.opcodes import BytecodeInstruction, Positions
from tilewright.frontends.from_bytecode.program_text import ProgramText
from tilewright.frontends.hir_writer import HirWriter
from tilewright.ir.attributes import FileLocation
from tilewright.language.python_code import UnsupportedSyntax, definition_of
from tilewright.support.diagnostics import located
from tilewright.support.source import Span

Register = hir.Register


class Empty:
    """The place beside a callee that is no method."""


class Iterated:
    """The iterator of a `for`, which is on no stack here until a jump out of the loop wants to drop it."""


@dataclass
class Items:
    """A list or the arguments of a call, while it is put together; `starred` as in `hir.Call`."""

    registers: list[Register]
    starred: set[int]


@dataclass
class Named:
    """The keywords of a call, while they are put together; a name None is `**`."""

    entries: list[tuple[str | None, Register]]


@dataclass(frozen=True)
class Made:
    """A function made on the spot: by a lambda, a generator expression, and in 3.11 a comprehension."""

    code: CodeType


@dataclass(frozen=True)
class Taken:
    """The value that a variable held before an inlined comprehension; storing it brings it back."""

    name: str


@dataclass(frozen=True)
class Converted:
    """A value in an f-string with its conversion."""

    value: Register
    conversion: int


@dataclass(frozen=True)
class Failure:
    """The AssertionError of an `assert`, with its message."""

    message: Register | None = None


@dataclass(frozen=True)
class Exit:
    """The `__exit__` of a context manager, waiting for the end of the block."""

    method: Register


LIST_COMPREHENSION = "<listcomp>"
MADE_FUNCTIONS = {"<lambda>": "a lambda", "<genexpr>": "a generator expression", "<setcomp>": "a set comprehension"}
MADE_FUNCTIONS |= {"<dictcomp>": "a dict comprehension"}


class StackMachine(HirWriter):
    """Reads straight-line code.

    Attributes:
        stack: registers and the other things above.
        statement: how many steps of the current block belong to earlier statements.
        appended: what the body of a comprehension appended last.
        given: variables that stand for registers.
        unpacked: registers that hold items of unpacked tuples.
        text: what the file says of what bytecode does not keep.
    """

    def __init__(self, code: CodeType, lines: Sequence[str]) -> None:
        super().__init__()
        self._file = code.co_filename
        self.text = ProgramText(code, lines)
        self._where = definition_of(code)
        self.stack: list[Any] = []
        self.statement = 0
        self.appended: Register | None = None
        self.given: dict[str, Register] = {}
        self.unpacked: set[Register] = set()

    def execute(self, instruction: BytecodeInstruction) -> None:
        """Execute one instruction that does not branch."""
        if instruction.op != "iterate":  # loops are where what they iterate over is
            self._where = self.location(instruction.positions)
        _HANDLERS[instruction.op](self, instruction.arg)
        if not self.stack:
            self.statement = len(self._steps)

    def valued_block(self, fill: Callable[[], Any]) -> tuple[hir.Block, Any]:
        """Fill a block like `HirWriter.valued_block`; statements in it count from its start."""
        outer, self.statement = self.statement, 0
        made = super().valued_block(fill)
        self.statement = outer
        return made

    def bind_targets(self, code: Sequence[BytecodeInstruction], at: int) -> int:
        """Bind what is on the stack to the targets of a `for`; returns the number of the instruction after them."""
        while True:
            instruction = code[at]
            if instruction.op == "store":
                self._where = self.location(instruction.positions)
                self.put(hir.Bind(instruction.arg, self.pop(), self._where))
            elif instruction.op in ("store", "unpack", "unpack_star"):
                self.execute(instruction)
            else:
                refused = next(following for following in code[at:] if following.op == "refuse")
                self._where = self.location(refused.positions)
                self.refuse(str(refused.arg))
            at += 1
            if not self.stack:
                return at

    def location(self, positions: Positions) -> FileLocation:
        """The place that an instruction comes from; where that is unknown, the place of the one before."""
        line, end_line, column, end_column = positions
        if line is None:
            return self._where
        if column is None or end_column is None:
            return FileLocation(self._file, line, 1, line, 1)
        return FileLocation(self._file, line, column + 1, end_line or line, end_column + 1)

    @property
    def where(self) -> FileLocation:
        """The place that the current instruction comes from."""
        return self._where

    def refuse(self, what: str) -> NoReturn:
        """Raise the error that `what`, at the current instruction, is not part of the language."""
        raise located(UnsupportedSyntax(what), Span(*self._where))

    def pop(self) -> Register:
        """The register on top of the stack."""
        if not self.stack:
            self.refuse("a condition of this form")
        found = self.stack.pop()
        if isinstance(found, Items):
            return self.packed(found)
        if isinstance(found, Named):
            self.refuse("a dict")
        assert isinstance(found, int), f"{found} is no value"
        return found

    def pops(self, count: int) -> tuple[Register, ...]:
        """The registers on top of the stack, the topmost last."""
        return tuple(reversed([self.pop() for _ in range(count)]))

    def push_operation(self, function: Callable[..., Any], *operands: Register) -> None:
        """Put an operation; its result goes onto the stack."""
        self.stack.append(self.put_operation(function, operands, self._where))

    def push_call(self, callee: Register, arguments: Items, keywords: tuple[tuple[str | None, Register], ...]) -> None:
        """Put a call; its result goes onto the stack."""
        result = self.register()
        starred = frozenset(arguments.starred)
        self.put(hir.Call(result, callee, tuple(arguments.registers), starred, keywords, self._where))
        self.stack.append(result)

    def put_store(self, store: hir.Store) -> None:
        """Put a store in the order of the program text, which CPython turns round in `a, b = b, a`."""
        place = len(self._steps)
        while place and self._comes_after(self._steps[place - 1], store):
            place -= 1
        self._steps.insert(place, store)

    def _comes_after(self, step: hir.Step, store: hir.Store) -> bool:
        """Whether the text assigns to the name of `step` after that of `store`; 3.13 gives two stores one position."""
        if not isinstance(step, hir.Store) or step.name == store.name:
            return False
        if step.location[1:3] != store.location[1:3]:
            return step.location[1:3] > store.location[1:3]
        return step.value != store.value and store.value not in self.unpacked

    def packed(self, items: Items) -> Register:
        """A tuple of the items."""
        if not items.starred:
            return self.put_operation(operations.pack, tuple(items.registers), self._where)
        self.push_call(self.constant(operations.pack), items, ())
        return self.pop()

    def comprehension(self, code: CodeType, iterable: Register) -> Register:
        """A list comprehension that is a function of its own (3.11)."""
        raise NotImplementedError


def _constant(machine: StackMachine, value: Any) -> None:
    if isinstance(value, CodeType):
        machine.stack.append(Made(value))
    else:
        machine.stack.append(machine.constant(value))


def _load(machine: StackMachine, name: str) -> None:
    given = machine.given.get(name)
    machine.stack.append(machine.put_load(name, machine.where) if given is None else given)


def _store(machine: StackMachine, name: str) -> None:
    if machine.stack and isinstance(machine.stack[-1], Taken):
        machine.stack.pop()
    else:
        value, text = machine.pop(), machine.text
        is_new = text.says_constant(machine.where)
        is_constant = is_new or text.declares_constant(machine.where, name)
        machine.put_store(hir.Store(name, value, is_constant, machine.where, is_new))
        if machine.stack and machine.stack[-1] == value and text.is_named_expression(machine.where):
            machine.stack[-1] = machine.put_load(name, machine.where)


def _pop(machine: StackMachine, _: Any) -> None:
    if not machine.stack or isinstance(machine.stack[-1], Iterated):
        del machine.stack[-1:]
        return
    dropped = machine.pop()
    if not machine.stack:
        machine.mark_unused(dropped)


def _swap(machine: StackMachine, depth: int) -> None:
    stack = machine.stack
    if len(stack) < depth:
        stack.insert(0, Iterated())
    stack[-1], stack[-depth] = stack[-depth], stack[-1]


def _attribute(machine: StackMachine, name: str) -> None:
    machine.push_operation(operations.attribute, machine.pop(), machine.constant(name))


def _method(machine: StackMachine, name: str) -> None:
    _attribute(machine, name)
    machine.stack.append(Empty)


def _enter(machine: StackMachine, _: Any) -> None:
    """`with`: the value of `__enter__`, on top of the `__exit__` that is called behind the block."""
    manager = machine.pop()
    machine.push_operation(operations.attribute, manager, machine.constant("__enter__"))
    entering = machine.pop()
    machine.push_operation(operations.attribute, manager, machine.constant("__exit__"))
    machine.stack.append(Exit(machine.pop()))
    machine.push_call(entering, Items([], set()), ())


def _special(machine: StackMachine, name: str) -> None:
    """3.14 for `enter`, one method at a time."""
    machine.push_operation(operations.attribute, machine.pop(), machine.constant(name))
    method = machine.pop()
    machine.stack += [Exit(method) if name == "__exit__" else method, Empty]


def _slice(machine: StackMachine, count: int) -> None:
    parts = machine.pops(count)
    if count > 2:
        machine.push_operation(slice, *parts)
        return
    nothing = machine.constant(None)
    if parts == (nothing, nothing):
        machine.stack.append(machine.constant(slice(None)))
    else:
        machine.push_operation(slice, *parts, nothing)


def _tuple(machine: StackMachine, count: int) -> None:
    if machine.stack and machine.stack[-1] is Empty:  # the captured variables
        del machine.stack[-count:]
        machine.stack.append(Empty)
        return
    machine.push_operation(operations.pack, *machine.pops(count))


def _extend(machine: StackMachine, depth: int) -> None:
    value = machine.stack.pop()
    items = machine.stack[-depth]
    if isinstance(value, Items):
        value = machine.packed(value)
    items.starred.add(len(items.registers))
    items.registers.append(value)


def _append(machine: StackMachine, depth: int) -> None:
    value = machine.pop()
    items = machine.stack[-depth] if depth <= len(machine.stack) else None
    if isinstance(items, Items):
        items.registers.append(value)
    machine.appended = value


def _map(machine: StackMachine, count: int) -> None:
    pairs = [machine.pops(2) for _ in range(count)][::-1]
    machine.stack.append(Named([(_name(machine, name), value) for name, value in pairs]))


def _constant_map(machine: StackMachine, count: int) -> None:
    names = machine.initial[machine.pop()]
    machine.stack.append(Named(list(zip(names, machine.pops(count), strict=True))))


def _name(machine: StackMachine, register: Register) -> str:
    name = machine.initial[register]
    if not isinstance(name, str):
        machine.refuse("a dict")
    return name


def _merge(machine: StackMachine, depth: int) -> None:
    added = machine.stack.pop()
    named = machine.stack[-depth]
    named.entries += added.entries if isinstance(added, Named) else [(None, added)]


def _format(machine: StackMachine, has_specification: bool) -> None:
    specification = machine.pop() if has_specification else machine.constant("")
    value = machine.stack.pop()
    value, conversion = (value.value, value.conversion) if isinstance(value, Converted) else (value, -1)
    machine.push_operation(operations.formatted, value, machine.constant(conversion), specification)


def _call(machine: StackMachine, arg: tuple[int, tuple[str, ...]]) -> None:
    count, names = arg
    values = machine.pops(count)
    callee, beside = _callee(machine)
    if isinstance(callee, Made):
        machine.stack.append(machine.comprehension(callee.code, beside))
    elif isinstance(callee, Exit):
        machine.push_call(callee.method, Items([*values] if beside is None else [beside, *values], set()), ())
    elif isinstance(callee, Failure):
        machine.stack.append(Failure(beside if beside is not None else values[0] if values else None))
    else:
        positional = count - len(names)
        keywords = tuple(zip(names, values[positional:], strict=True))
        machine.push_call(callee, Items(list(values[:positional]), set()), keywords)


def _callee(machine: StackMachine) -> tuple[Any, Any]:
    """The callee, and what stands beside it: its owner for methods, which the vocabulary does not use, else nothing."""
    upper = machine.stack.pop()
    lower = machine.stack.pop() if machine.stack else Empty
    if upper is Empty:
        return lower, None
    return (upper, None) if lower is Empty else (lower, upper)


def _call_named(machine: StackMachine, count: int) -> None:
    names = machine.initial[machine.pop()]
    _call(machine, (count, names))


def _call_spread(machine: StackMachine, has_keywords: bool) -> None:
    named: Any = machine.stack.pop() if has_keywords else Empty
    if named is Empty:  # as in 3.14 the place of keywords that there are not
        named = Named([])
    found = machine.stack.pop()
    items = found if isinstance(found, Items) else Items([found], {0})
    callee, _ = _callee(machine)
    keywords = tuple(named.entries) if isinstance(named, Named) else ((None, named),)
    machine.push_call(callee, items, keywords)


def _unpack(machine: StackMachine, count: int) -> None:
    value = machine.stack.pop()
    if isinstance(value, Items) and not value.starred and len(value.registers) == count:
        machine.stack += reversed(value.registers)
        return
    machine.stack.append(value)
    _unpacked(machine, count, -1)


def _unpack_star(machine: StackMachine, counts: tuple[int, int]) -> None:
    before, after = counts
    _unpacked(machine, before + 1 + after, before)


def _unpacked(machine: StackMachine, count: int, star: int) -> None:
    value = machine.pop()
    results = tuple(machine.register() for _ in range(count))
    machine.put(hir.Unpack(results, star, value, machine.where))
    machine.unpacked.update(results)
    machine.stack += reversed(results)


def _function(machine: StackMachine, flags: int) -> None:
    """The code on the stack becomes a function; defaults and closure (3.11, 3.12) lie below it."""
    made = machine.stack.pop()
    if made.code.co_name != LIST_COMPREHENSION:
        machine.refuse(MADE_FUNCTIONS.get(made.code.co_name, "a nested function"))
    for _ in range(int(flags or 0).bit_count()):
        machine.stack.pop()
    machine.stack.append(made)


def _function_attribute(machine: StackMachine, _: Any) -> None:
    """3.13: the closure or the defaults lie below the function."""
    made = machine.stack.pop()
    machine.stack.pop()
    machine.stack.append(made)


_HANDLERS: Mapping[str, Callable[[StackMachine, Any], None]] = {
    "append": _append,
    "assertion": lambda machine, _: machine.stack.append(Failure()),
    "attribute": _attribute,
    "binary": lambda machine, function: machine.push_operation(function, *machine.pops(2)),
    "call": _call,
    "call_named": _call_named,
    "call_spread": _call_spread,
    "closure": lambda machine, _: machine.stack.append(Empty),  # of comprehensions, which see all variables
    "constant": _constant,
    "constant_map": _constant_map,
    "convert": lambda machine, conversion: machine.stack.append(Converted(machine.pop(), conversion)),
    "copy": lambda machine, depth: machine.stack.append(machine.stack[-depth]),
    "delete": lambda machine, name: machine.put(hir.Delete(name, machine.where)),
    "enter": _enter,
    "extend": _extend,
    "format": _format,
    "function": _function,
    "function_attribute": _function_attribute,
    "iterate": lambda machine, _: None,  # loops take what they iterate over as it is
    "list": lambda machine, count: machine.stack.append(Items(list(machine.pops(count)), set())),
    "load": _load,
    "map": _map,
    "merge": _merge,
    "method": _method,
    "null": lambda machine, _: machine.stack.append(Empty),
    "pop": _pop,
    "refuse": StackMachine.refuse,
    "slice": _slice,
    "special": _special,
    "store": _store,
    "string": lambda machine, count: machine.push_operation(operations.joined, *machine.pops(count)),
    "subscript": lambda machine, _: machine.push_operation(operator.getitem, *machine.pops(2)),
    "swap": _swap,
    "take": lambda machine, name: machine.stack.append(Taken(name)),
    "to_tuple": lambda machine, _: None,  # lists are tuples already
    "tuple": _tuple,
    "unary": lambda machine, function: machine.push_operation(function, machine.pop()),
    "unpack": _unpack,
    "unpack_star": _unpack_star,
}
