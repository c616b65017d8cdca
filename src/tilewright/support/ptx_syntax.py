"""PTX text as data: the result of `ptx_parser.py` for kernels and inline assembly.

    @!%p1 ld.global.v2.b32 {%r1, %r2}, [%rd4+16];

is `Instruction(parts=("ld", "global", "v2", "b32"), operands=(Vector((Register("%r1"), Register("%r2"))),
Address(Register("%rd4"), 16)), guard="%p1", guard_negated=True, …)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tilewright.support.diagnostics import TilewrightError
from tilewright.support.source import shown_file

TYPE_BITS = {
    "pred": 1,
    **{f"{letter}{bits}": bits for letter in "bus" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("e4m3", "e5m2", "e2m1x2"), 8),
    **dict.fromkeys(("f16", "bf16", "e4m3x2", "e5m2x2", "ue8m0x2", "e2m3x2", "e3m2x2", "e2m1x4"), 16),
    **dict.fromkeys(("f32", "tf32", "f16x2", "bf16x2", "u16x2", "s16x2", "e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4"), 32),
    **dict.fromkeys(("f64", "f32x2"), 64),
    "b128": 128,
}
"""Bits of a value of each type of scalar instructions; those with `x2` and `x4` are several in one register."""


class PtxError(TilewrightError):
    """A text that cannot be read.

    Attributes:
        kind: `syntax`, or `unsupported` for PTX that is not implemented here.
        text: what is wrong, in one sentence.
        line: of the text, from 1; 0 where it is not known.
    """

    def __init__(self, kind: str, text: str, line: int = 0) -> None:
        self.kind, self.text, self.line = kind, text, line
        super().__init__(f"{kind}: {text}" + (f" (line {line})" if line else ""))


@dataclass(frozen=True)
class SourcePlace:
    """The place of an instruction in the kernel's source, from `.loc`.

    Attributes:
        file, line, column: the place; column 0 where it is not known.
        caller: the place of the call that was inlined there.
    """

    file: str
    line: int
    column: int
    caller: SourcePlace | None = None

    def __str__(self) -> str:
        here = f"{shown_file(self.file)}:{self.line}" + (f":{self.column}" if self.column else "")
        return f"{here}, called from {self.caller}" if self.caller else here


@dataclass(frozen=True)
class Register:
    """A register that the function declares; one of an inner scope has `@` and the scope's number behind its name."""

    name: str

    def __str__(self) -> str:
        return self.name.partition("@")[0]


@dataclass(frozen=True)
class Special:
    """A register that the machine provides: `%tid.x`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Immediate:
    """A number as it is spelled: `42`, `-1`, `0x3C00`, `0b101`, `0f3F800000`."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def whole(self) -> int | None:
        """The value of an integer."""
        return None if self.float_bits is not None or "." in self.text else whole_number(self.text)

    @property
    def float_bits(self) -> tuple[int, int] | None:
        """The bits of a float that is spelled by them, and their number."""
        size = {"0f": 32, "0d": 64}.get(self.text[:2].lower())
        return (int(self.text[2:], 16), size) if size else None


@dataclass(frozen=True)
class Symbol:
    """The address of a variable or function, plus bytes."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.name}{self.offset:+}" if self.offset else self.name


@dataclass(frozen=True)
class Address:
    """`[base+offset]`, or for tensor copies `[base, {coordinates}]`."""

    base: Operand
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()

    def __str__(self) -> str:
        base = f"{self.base}{self.offset:+}" if self.offset else str(self.base)
        return f"[{', '.join([base, *map(str, self.coordinates)])}]"


@dataclass(frozen=True)
class Vector:
    """`{a, b}`."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{{{', '.join(map(str, self.items))}}}"


@dataclass(frozen=True)
class Group:
    """`(a, b)`: results or arguments of a call."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


@dataclass(frozen=True)
class Pair:
    """`p|q`: a result and its companion."""

    first: Operand
    second: Operand

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True)
class Not:
    """`!p`."""

    operand: Operand

    def __str__(self) -> str:
        return f"!{self.operand}"


@dataclass(frozen=True)
class Sink:
    """`_`: an unused result."""

    def __str__(self) -> str:
        return "_"


Operand: TypeAlias = Register | Special | Immediate | Symbol | Address | Vector | Group | Pair | Not | Sink


def whole_number(text: str) -> int:
    """The value of `42`, `-1`, `0x3C`, `0b101`; with a zero in front, digits are octal."""
    digits = text.removeprefix("-")
    return int(text, 8 if digits.isdigit() and digits[0] == "0" else 0)


def number_of(operand: Operand) -> int:
    """A whole number that the text says."""
    found = operand.whole if isinstance(operand, Immediate) else None
    if found is None:
        raise PtxError("syntax", f"`{operand}` is no number")
    return found


def name_of(operand: Operand) -> str:
    """The name of a variable, a function, a label or a table."""
    if isinstance(operand, Symbol):
        return operand.name
    raise PtxError("syntax", f"`{operand}` is no name")


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        parts: the opcode at its dots: `("cp", "async", "cg", "shared::cta", "global")`.
        operands: in order of the text.
        guard: the name of the predicate register, or None.
        guard_negated: run where the predicate is false.
        line: of the PTX text, from 1.
        text: as it is written.
        source: the place in the kernel's source.
    """

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: str | None
    guard_negated: bool
    line: int
    text: str
    source: SourcePlace | None

    @property
    def destination(self) -> Operand:
        """The first operand, which most instructions write."""
        return self.operands[0]

    @property
    def sources(self) -> tuple[Operand, ...]:
        """The operands behind the first one."""
        return self.operands[1:]

    @property
    def opcode(self) -> str:
        return self.parts[0]

    @property
    def name(self) -> str:
        """The opcode with all its parts."""
        return ".".join(self.parts)

    @property
    def type(self) -> str:
        """The last part, for most instructions the type they work on."""
        return self.parts[-1]

    def has(self, part: str) -> bool:
        return part in self.parts


@dataclass
class Variable:
    """A variable of a module, a function or a parameter list.

    Attributes:
        space: `global`, `const`, `shared`, `local` or `param`.
        size: bytes; 0 for an `extern` array without an extent.
        initial: numbers or symbols of the initialiser, each of `element` bytes.
    """

    name: str
    space: str
    align: int
    size: int
    element: int = 1
    initial: tuple[Operand, ...] = ()


@dataclass
class Function:
    """A `.entry` or `.func`.

    Attributes:
        entry: whether it is a kernel.
        parameters, results: in order.
        directives: of the kernel, such as `{"reqntid": (128,)}`.
        registers: bits by name.
        variables: declared inside.
        labels: the index of the instruction that follows.
        tables: branch targets (`.branchtargets`) by label.
        defined: has it a body?
    """

    name: str
    entry: bool
    parameters: list[Variable]
    results: list[Variable]
    directives: dict[str, tuple[int, ...]]
    defined: bool = False
    registers: dict[str, int] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)


@dataclass
class PtxModule:
    """A whole text.

    Attributes:
        version, target: of the header, `8.0` and `sm_90a`.
        variables: of the module.
        functions: by name, declarations included.
    """

    version: str
    target: str
    variables: list[Variable]
    functions: dict[str, Function]
