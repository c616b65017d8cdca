"""Writing LLVM IR as text: one writer is one module.

    w = LlvmWriter(host_target())
    with w.function("axpy", [("ptr", "%x"), ("i64", "%n")]):
        two = w.splat("0x4000000000000000", "float", 16)
        with w.loop("0", "%n", 16) as loop:
            p = w.offset("%x", "float", loop.index)
            v = w.load("<16 x float>", p, align=4)
            w.store("<16 x float>", w.emit(f"fmul <16 x float> {v}, {two}"), p, align=4)
    text = w.render()

Values are strings: names (`%v12`) or constants, without their type. Lines go to the *current section*. Sections nest
and are spliced together only by `render`, so code inside a loop can still add lines in front of it.
Helpers that need several instructions per lane or touch memory are in `memory.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tilewright.backends.llvm import scalable
from tilewright.backends.llvm.debug_info import DebugInfo
from tilewright.backends.llvm.machine import Target
from tilewright.backends.llvm.sections import Loop, Phi, Section
from tilewright.backends.llvm.spelling import literal, suffix, symbol, vector
from tilewright.ir.core import Op, Value

Typed = tuple[str, str]
"""(LLVM type, value)"""

_CLOSED_LOOPS = 8000000
"""The number of the metadata that keeps LLVM from moving code out of loops, far from all others."""


class Branch:
    """An `if` being written: fill `then()` and perhaps `otherwise()`, then `join` values of both.

    The jump is written last, since a false condition goes straight on where that side does nothing.
    """

    __slots__ = ("_else_end", "_jump", "_labels", "_start", "_then_end", "_then_section", "_writer")

    def __init__(self, writer: LlvmWriter, condition: str, then_section: Section) -> None:
        self._writer, self._then_section = writer, then_section
        self._labels = then, _, _ = [writer.fresh_label(way) for way in ("then", "else", "join")]
        self._start = f"br i1 {condition}, label %{then}, label %"
        self._jump = writer.open_section()
        self._then_end = ""
        self._else_end: str | Section = self._jump

    @contextmanager
    def then(self) -> Iterator[None]:
        """Code for a true condition."""
        with self._writer.at(self._then_section):
            self._writer.start_block(self._labels[0])
            yield
            self._then_end = self._writer.leave_to(self._labels[2])

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Code for a false condition, after `then()`."""
        self._writer.start_block(self._labels[1])
        section = self._writer.section
        yield
        if not section.drop_empty(self._labels[1]):
            self._else_end = self._writer.leave_to(self._labels[2])

    def close(self, flags: str) -> None:
        """Continue where both ways meet; called by `LlvmWriter.branch`."""
        with self._writer.at(self._jump):
            self._writer.do(f"{self._start}{self._labels[2 if self._else_end is self._jump else 1]}{flags}")
        self._writer.start_block(self._labels[2])

    def join(self, type: str, if_true: str, if_false: str) -> str:
        """The value that came from the way taken. Write all joins first thing after the branch."""
        return self._writer.phi(type, ((if_true, self._then_end), (if_false, self._else_end)))


class Placement:
    """Lines go elsewhere within a `with`; a class, since a generator costs four times as much, 300 times per kernel."""

    __slots__ = ("_outer", "_section", "_writer")

    def __init__(self, writer: LlvmWriter, section: Section) -> None:
        self._writer, self._section = writer, section

    def __enter__(self) -> LlvmWriter:
        self._outer = self._writer.section
        self._writer.go_to(self._section)
        return self._writer

    def __exit__(self, *_: object) -> None:
        self._writer.go_to(self._outer)


class LlvmWriter:
    """A module under construction. One function is open at a time.

    Args:
        target: the machine.
        fuse: a product and a sum of the program may become one fused operation, as Triton does by default.
    """

    debug: DebugInfo | None = None
    """See `debug_writer.py`."""

    def __init__(self, target: Target, *, fuse: bool = False) -> None:
        self.fusion = "contract " if fuse else ""
        self.target = target
        self.attributes = target.function_attributes
        self._count = 0
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._functions: list[tuple[str, Section]] = []
        self._helpers: set[str] = set()
        self._weights_used = False
        self._closed_loops = 0
        self._streams = False
        self._scratch_slot: str | None = None
        self.entry = self.section = Section(None, "entry")
        self._append = self.section.lines.append

    # ---- lines ----

    def emit(self, instruction: str) -> str:
        """Append an instruction with a result; returns the result's name."""
        self._count = count = self._count + 1
        self._append(f"  %v{count} = {instruction}")
        return f"%v{count}"

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self._append(f"  {instruction}")

    def describe(self, function: Op, name: str) -> None:
        """The function that was just begun is `function` of the program; for debug information."""

    def show(self, value: Value, type: str, name: str) -> None:
        """From here on, the program's variable with `value` is `name`; for debug information."""
        line = self.debug.shows(value, type, name) if self.debug is not None else None
        if line is not None:
            self._append(line)

    def fresh(self, prefix: str = "v") -> str:
        """A name for a value (`%prefix7`) that nothing else has."""
        self._count += 1
        return f"%{prefix}{self._count}"

    def fresh_label(self, prefix: str) -> str:
        """A name for a block, without `%`."""
        self._count += 1
        return f"{prefix}{self._count}"

    # ---- functions and sections ----

    @contextmanager
    def function(
        self,
        name: str,
        parameters: Sequence[Typed],
        *,
        result: str = "void",
        internal: bool = False,
        attributes: str = "",
    ) -> Iterator[None]:
        """Write a function; lines go to its body. A void function gets its `ret` at the end. May be nested in another.

        Args:
            name: the symbol, without `@`.
            parameters: (type with attributes, `%name`) pairs: `("ptr noalias", "%x")`.
            result: the result type.
            internal: not visible outside the module.
            attributes: of this function only: `noinline`.
        """
        body = Section(None, "entry")
        linkage = "internal " if internal else ""
        arguments = ", ".join(f"{type} {value}" for type, value in parameters)
        own = f"{attributes} " if attributes else ""
        self._functions.append((f"define {linkage}{result} {symbol(name)}({arguments}) {own}#0 {{", body))
        outer = self.entry, self._scratch_slot
        self._scratch_slot = None
        with self.at(body):
            self.entry = self.open_section()
            yield
            if result == "void":
                self.finish("void")
        self.entry, self._scratch_slot = outer

    def finish(self, value: str) -> None:
        """Return from the function, with a typed value or "void"."""
        if self._streams and not self.target.neon:  # others see what was stored only after this; AArch64's are ordinary
            self.call_void("llvm.x86.sse.sfence", [])
        self.do(f"ret {value}")

    def make_kernel(self, attributes: str) -> None:
        """The function that was just begun is one that a GPU starts, with these attributes."""
        header, body = self._functions[-1]
        header = f"define ptx_kernel {header.removeprefix('define ')}".replace(" #0 ", f" {attributes} #0 ")
        self._functions[-1] = header, body

    def helper(
        self,
        name: str,
        parameters: Sequence[Typed],
        result: str,
        write: Callable[[], str | None],
        *,
        attributes: str = "",
    ) -> str:
        """A function inside the module for rare and long computations; written once per module.

        Args:
            write: writes the body and returns the value to return, of type `result`; None for void.
            attributes: of this function only.

        Returns the function's symbol, without `@`.
        """
        if name not in self._helpers:
            self._helpers.add(name)
            with self.function(name, parameters, result=result, internal=True, attributes=attributes):
                value = write()
                if value is not None:
                    self.do(f"ret {result} {value}")
        return name

    def open_section(self) -> Section:
        """A new section at the current place, to which lines can be added later with `at`."""
        child = Section(self.section)
        self.section.put(child)
        self.section.marks.append(child)
        return child

    def at(self, section: Section) -> Placement:
        """Let lines go to `section` for a while."""
        return Placement(self, section)

    def go_to(self, section: Section) -> None:
        """Let lines go to `section` from now on."""
        self.section, self._append = section, section.lines.append

    @property
    def label(self) -> str:
        """The block that the next line would belong to, without `%`."""
        return self.section.label()

    def start_block(self, label: str) -> None:
        """Begin the block `label`; the block before must have ended."""
        self.section.lines.append(f"{label}:")
        self.section.marks.append(label)

    def leave_to(self, label: str, *, flags: str = "") -> str:
        """End the current block with a jump to `label`; returns the ended block's label."""
        here = self.label
        self.do(f"br label %{label}{flags}")
        return here

    def stays_in_loop(self) -> str:
        """A flag for the jump back of a loop: LLVM moves nothing out of that one."""
        self._closed_loops += 1
        return f", !llvm.loop !{_CLOSED_LOOPS + self._closed_loops}"

    # ---- control flow ----

    @contextmanager
    def loop(
        self,
        low: str | int,
        high: str | int,
        step: str | int = 1,
        *,
        carried: Sequence[Typed] = (),
        guarded: bool = False,
        flags: str = "",
    ) -> Iterator[Loop]:
        """`for index in range(low, high, step)` over i64 with a positive step.

        Args:
            low, high, step: i64 values or numbers.
            carried: (type, initial value) of values that iterations pass on.
            guarded: the loop may have no iteration; otherwise `low < high` must hold.
            flags: of the jump back.

        Yields the Loop. Set `loop.next` inside; read `loop.results` after.
        """
        head, after = self.fresh_label("loop"), self.fresh_label("after")
        skipped_from = self._guard(low, high, after) if guarded else None
        entered_from = self.open_section()
        self.do(f"br label %{head}")
        self.start_block(head)
        phis = self.open_section()
        loop = Loop(self.fresh("i"), [self.fresh("c") for _ in carried], step)
        yield loop
        assert len(loop.next) == len(carried), "loop.next has one value per carried value"
        unsigned = "nuw " if str(low).isdigit() else ""  # from a negative number the counter passes 0
        following = self.emit(f"add {unsigned}nsw i64 {loop.index}, {loop.step}")
        again = self.emit(f"icmp slt i64 {following}, {high}")
        latch = self.label
        self.do(f"br i1 {again}, label %{head}, label %{after}{flags}")
        self.start_block(after)
        names, inits, lasts = [loop.index, *loop.carried], [("i64", str(low)), *carried], [following, *loop.next]
        for name, (type, init), last in zip(names, inits, lasts, strict=True):
            phis.put(Phi(name, type, ((init, entered_from), (last, latch))))
        loop.results = list(loop.next)
        if skipped_from is not None:
            loop.results = [
                self.phi(type, ((init, skipped_from), (last, latch)))
                for (type, init), last in zip(carried, loop.next, strict=True)
            ]

    def phi(self, type: str, ways: Sequence[tuple[str, str | Section]]) -> str:
        """The value that came the way that was taken; see `Phi`."""
        name = self.fresh()
        self.section.put(Phi(name, type, ways))
        return name

    def _guard(self, low: str | int, high: str | int, after: str) -> Section:
        """Jump to `after` unless low < high; returns the section jumped from."""
        inside = self.fresh_label("enter")
        runs = self.emit(f"icmp slt i64 {low}, {high}")
        here = self.open_section()
        self.do(f"br i1 {runs}, label %{inside}, label %{after}")
        self.start_block(inside)
        return here

    @contextmanager
    def branch(self, condition: str, *, unlikely: bool = False) -> Iterator[Branch]:
        """`if condition`, an i1. `unlikely` moves the `then` code away: LLVM does, or the writer where LLVM cannot.

        with w.branch(c) as b:
            with b.then(): x = …
            with b.otherwise(): y = …
        z = b.join("float", x, y)
        """
        is_moved = unlikely and not self.target.inverts_conditions
        branch = Branch(self, condition, self.section.open_aside() if is_moved else self.section)
        yield branch
        branch.close(self.is_unlikely() if unlikely else "")

    def is_unlikely(self) -> str:
        """A flag for a jump whose first way is hardly ever taken."""
        self._weights_used = True
        return ", !prof !0"

    # ---- calls ----

    def call(self, result: str, function: str, arguments: Sequence[Typed], *, flags: str = "") -> str:
        """Call `function` (without `@`) and declare it; returns the result's name."""
        self._declare(result, function, arguments)
        values = ", ".join([f"{type} {value}" for type, value in arguments])
        return self.emit(f"call {flags}{result} @{function}({values})")

    def call_void(self, function: str, arguments: Sequence[Typed]) -> None:
        """Call a function without a result, and declare it."""
        self._declare("void", function, arguments)
        self.do(f"call void @{function}({', '.join([f'{type} {value}' for type, value in arguments])})")

    def intrinsic(self, name: str, type: str, *values: str, flags: str = "") -> str:
        """Call an intrinsic whose operands and result all have `type`: `intrinsic("llvm.smax", "<4 x i32>", a, b)`."""
        return self.call(type, f"{name}.{suffix(type)}", [(type, value) for value in values], flags=flags)

    def _declare(self, result: str, function: str, arguments: Sequence[Typed]) -> None:
        if function not in self._declarations and function not in self._helpers:
            types = ", ".join(type.split(" align ")[0] for type, _ in arguments)
            self._declarations[function] = f"declare {result} @{function}({types})"

    def table(self, name: str, element: str, values: Sequence[int | float]) -> str:
        """A constant array in the module; returns its address. The name is defined once per module."""
        if name not in self._globals:
            body = ", ".join(f"{element} {literal(value, element)}" for value in values)
            self.define(name, f"internal unnamed_addr constant [{len(values)} x {element}] [{body}], align 64")
        return f"@{name}"

    def define(self, name: str, text: str) -> str:
        """A global of the module, `@name = text`; returns its address. The name is defined once per module."""
        self._globals.setdefault(name, f"@{name} = {text}")
        return f"@{name}"

    # ---- values ----

    def convert(self, opcode: str, value: str, source: str, target: str) -> str:
        """`opcode source value to target`; nothing when both types are the same."""
        return value if source == target else self.emit(f"{opcode} {source} {value} to {target}")

    def select(self, condition: str, type: str, if_true: str, if_false: str, *, lanes: int) -> str:
        """Choose per lane by an i1 vector of `lanes` lanes (an i1 for one lane); `type` is the values' type."""
        return self.emit(f"select {vector('i1', lanes)} {condition}, {type} {if_true}, {type} {if_false}")

    def splat(self, value: str, element: str, lanes: int) -> str:
        """A scalar in every lane. Constants become constants."""
        if lanes == 1:
            return value
        if not value.startswith("%"):
            return f"splat ({element} {value})"
        if scalable.is_scalable(self.target, element, lanes):
            return scalable.splat(self, value, element, lanes)
        type = vector(element, lanes)
        first = self.emit(f"insertelement {type} poison, {element} {value}, i64 0")
        return self.emit(f"shufflevector {type} {first}, {type} poison, <{lanes} x i32> zeroinitializer")

    def shuffle(self, type: str, first: str, second: str, indices: Sequence[int]) -> str:
        """Lanes of two vectors of `type`, by number; `second` may be "poison"."""
        if self.target.has_sve and (found := scalable.shuffle(self, type, first, second, indices)):
            return found
        mask = ", ".join([f"i32 {index}" for index in indices])
        return self.emit(f"shufflevector {type} {first}, {type} {second}, <{len(indices)} x i32> <{mask}>")

    def extract(self, type: str, value: str, lane: int | str) -> str:
        """One lane of a vector of `type`."""
        return self.emit(f"extractelement {type} {value}, i64 {lane}")

    def insert(self, type: str, value: str, element: str, scalar: str, lane: int | str) -> str:
        """The vector with one lane replaced."""
        return self.emit(f"insertelement {type} {value}, {element} {scalar}, i64 {lane}")

    def slice(self, value: str, element: str, lanes: int, start: int, count: int) -> str:
        """`count` lanes from `start` of a vector of `lanes` lanes; a scalar when `count` is 1."""
        if count == lanes:
            return value
        type = vector(element, lanes)
        if count == 1:
            return self.extract(type, value, start)
        return self.shuffle(type, value, "poison", range(start, start + count))

    def concat(self, parts: Sequence[str], element: str, lanes: int) -> str:
        """Vectors (or scalars) of `lanes` lanes each, one after the other; `len(parts)` is a power of two."""
        values = list(parts)
        while len(values) > 1:
            if lanes == 1:
                type = vector(element, 2)
                firsts = [self.insert(type, "poison", element, value, 0) for value in values[::2]]
                values = [self.insert(type, a, element, b, 1) for a, b in zip(firsts, values[1::2], strict=True)]
            else:
                pairs = zip(values[::2], values[1::2], strict=True)
                values = [self.shuffle(vector(element, lanes), a, b, range(2 * lanes)) for a, b in pairs]
            lanes *= 2
        return values[0]

    def fma(self, type: str, a: str, b: str, c: str) -> str:
        """a·b + c: fused where the target has the instruction, two roundings elsewhere. float and double only."""
        if self.target.has_fma:
            return self.intrinsic("llvm.fma", type, a, b, c)
        return self.emit(f"fadd {type} {self.emit(f'fmul {type} {a}, {b}')}, {c}")

    # ---- memory ----

    def alloca(self, bytes: int, *, align: int = 64) -> str:
        """Stack memory, allocated once on entry to the function."""
        with self.at(self.entry):
            return self.emit(f"alloca [{bytes} x i8], align {align}")

    def offset(self, pointer: str, element: str, index: str | int) -> str:
        """The address of element `index` (an i64) behind `pointer`."""
        if index in (0, "0"):
            return pointer
        return self.emit(f"getelementptr inbounds {element}, ptr {pointer}, i64 {index}")

    def load(self, type: str, pointer: str, *, align: int) -> str:
        """Read a value of `type`."""
        return self.emit(f"load {type}, ptr {pointer}, align {align}")

    def store(self, type: str, value: str, pointer: str, *, align: int) -> None:
        """Write a value of `type`."""
        self._append(f"  store {type} {value}, ptr {pointer}, align {align}")

    def stream(self, type: str, value: str, pointer: str, *, align: int) -> None:
        """Write a value of `type` past the caches, `align` bytes at a time. The function ends with a fence."""
        self._streams = True
        self.do(f"store {type} {value}, ptr {pointer}, align {align}, !nontemporal !1")

    def prefetch(self, pointer: str, *, locality: int = 3, write: bool = False) -> None:
        """Prefetch a cache line."""
        hints = [("i32", str(int(write))), ("i32", str(locality)), ("i32", "1")]
        self.call_void("llvm.prefetch.p0", [("ptr", pointer), *hints])

    def waste_slot(self) -> str:
        """512 bytes that masked-off lanes may read or write."""
        if self._scratch_slot is None:
            self._scratch_slot = self.alloca(512)
        return self._scratch_slot

    # ---- the text ----

    def render(self) -> str:
        """The module."""
        lines = [*sorted(self._declarations.values()), *self._globals.values()]
        for header, body in self._functions:
            lines += ["", header, "entry:"]
            body.flatten(lines)
            lines.append("}")
        lines += ["", f"attributes #0 = {{ {self.attributes} }}"]
        if self._streams:
            lines.append("!1 = !{i32 1}")
        if self._weights_used:
            lines.append('!0 = !{!"branch_weights", i32 1, i32 1000}')
        closed = range(_CLOSED_LOOPS + 1, _CLOSED_LOOPS + 1 + self._closed_loops)
        lines += [f"!{number} = distinct !{{!{number}, !{_CLOSED_LOOPS}}}" for number in closed]
        if closed:
            lines.append(f'!{_CLOSED_LOOPS} = !{{!"llvm.licm.disable"}}')
        return "\n".join(lines) + "\n"
