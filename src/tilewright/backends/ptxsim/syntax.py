"""PTX text as data: what the parser makes and instruction families read.

    @!%p1 ld.global.v2.b32 {%r1, %r2}, [%rd4+16];

is `Instruction(parts=("ld", "global", "v2", "b32"), operands=(Vector((Register("%r1"), Register("%r2"))),
Address(Register("%rd4"), 16)), guard="%p1", guard_negated=True, …)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tilewright.backends.ptxsim.errors import SimulationError, SourcePlace


@dataclass(frozen=True)
class Register:
    """A register that the function declares."""

    name: str


@dataclass(frozen=True)
class Special:
    """A register that the machine provides: `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A number as it is spelled: `42`, `-1`, `0x3C00`, `0f3F800000`."""

    text: str


@dataclass(frozen=True)
class Symbol:
    """The address of a variable or function, plus bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """`[base+offset]`, or for tensor copies `[base, {coordinates}]`."""

    base: Operand
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Vector:
    """`{a, b}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Group:
    """`(a, b)`: results or arguments of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """`p|q`: a result and its companion."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Not:
    """`!p`."""

    operand: Operand


@dataclass(frozen=True)
class Sink:
    """`_`: a result nobody wants."""


Operand: TypeAlias = Register | Special | Immediate | Symbol | Address | Vector | Group | Pair | Not | Sink


def number_of(operand: Operand) -> int:
    """A whole number that the text says."""
    if isinstance(operand, Immediate):
        return int(operand.text, 0)
    raise SimulationError("syntax", f"{operand} is no number")


def name_of(operand: Operand) -> str:
    """The name of a variable, a function, a label or a table."""
    if isinstance(operand, Symbol):
        return operand.name
    raise SimulationError("syntax", f"{operand} is no name")


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
