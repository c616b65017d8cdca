"""The definition of an op kind: its name, effects, rules, text format and reference semantics.

Dialects call `declare` once per kind. Algorithms keep tables of their own, keyed by the op's name, and never add to a
definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import cache
from typing import Any, TypeVar

Kind = TypeVar("Kind")

ANY = 1 << 30
"""No upper limit of operands."""


class Effect(Enum):
    """The effect of an op besides computing its results."""

    NONE = auto()
    READ = auto()
    WRITE = auto()
    READ_WRITE = auto()
    ALLOCATE = auto()
    """It allocates memory: removable when unused, never merged with another."""
    RECURSIVE = auto()
    """The effects of its regions."""
    UNKNOWN = auto()


class OpDefinition:
    """One op kind; frozen. No dataclass: making that class would be a part of the time to import the package.

    Attributes:
        name: the full name, `arith.addi`.
        kind: the class of ops of this kind, a subclass of `core.Op` with names for what they have (see `ir.fields`).
        effect: what the op does besides computing its results.
        terminator: it ends its block.
        isolated: its regions see no outer value.
        commutative: its two operands may be swapped.
        associative: (x op y) op z is x op (y op z).
        idempotent: x op x is x.
        elementwise: result element i depends on operand elements i only.
        buffers: what the op does with the buffers in shared memory among its operands.
        synchronizes: all warps have finished with shared memory before anything after the op begins.
        constant: it is a literal with attribute `value`.
        symbol: it defines the symbol in its attribute `sym_name`.
        terminated: its blocks end with a terminator.
        operands: the least and the greatest number of operands.
        results: the number of results; None: any.
        operand_names: names of the operands (see `ir.operands`); empty: they have none.
        result_names: names for each of several results, which then are named one by one in text.
        regions: the number of regions; None: any.
        required: attributes that are always there.
        spelling: how the custom text format spells the name where it differs (`module`).
        other_spellings: names that other versions of Triton use, read but never printed.
        effect_of: computes the effect of one op, where it depends on the op's attributes.
        verify: raises VerificationError when an op of this kind is malformed.
        parse, print: the custom text format; None means MLIR's generic form.
        semantics: `semantics(op, *arrays) -> array | tuple of arrays`, on NumPy arrays (0-d for scalars).
    """

    name: str
    kind: type[Any] | None = None
    effect: Effect = Effect.NONE
    terminator: bool = False
    isolated: bool = False
    commutative: bool = False
    associative: bool = False
    idempotent: bool = False
    elementwise: bool = False
    buffers: Effect = Effect.NONE
    synchronizes: bool = False
    constant: bool = False
    symbol: bool = False
    terminated: bool = True
    operands: tuple[int, int] = (0, ANY)
    results: int | None = None
    operand_names: tuple[str, ...] = ()
    result_names: tuple[str, ...] = ()
    regions: int | None = 0
    required: tuple[str, ...] = ()
    spelling: str = ""
    other_spellings: tuple[str, ...] = ()
    effect_of: Callable[[Any], Effect] | None = None
    verify: Callable[[Any], None] | None = None
    parse: Callable[..., Any] | None = None
    print: Callable[..., None] | None = None
    semantics: Callable[..., Any] | None = None

    def __init__(self, **facts: Any) -> None:
        unknown = facts.keys() - OpDefinition.__annotations__.keys()
        if unknown:
            raise TypeError(f"an op kind has no {', '.join(sorted(unknown))}")
        vars(self).update(facts)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")


OPS: dict[str, OpDefinition] = {}
SPELLINGS: dict[str, OpDefinition] = {}
"""The op kinds by the word that starts their custom text format."""
GENERIC_FORM: dict[str, Callable[[dict[str, Any]], None]] = {}
"""Per op kind, a function that turns attributes as MLIR's generic form has them into ours, or raises ValueError."""


def declare(name: str, **facts: Any) -> OpDefinition:
    """Add the op kind `name` (fields of `OpDefinition` as keywords) to the table and return it.

    The class in `kind` says which attributes are always there (`required` adds some that are not fields), and how many
    operands there are, if nothing else does.
    """
    assert name not in OPS, f"{name} is declared twice"
    if "kind" in facts:
        range_, required = _told_by(facts["kind"])
        facts = {"operands": range_, **facts, "required": (*required, *facts.get("required", ()))}
    OPS[name] = definition = OpDefinition(name=name, **facts)
    for word in (definition.spelling or name, *definition.other_spellings):
        SPELLINGS[word] = definition
    return definition


def declares(name: str, **facts: Any) -> Callable[[type[Kind]], type[Kind]]:
    """Declare the op kind `name`, whose ops are of the decorated class."""

    def enter(kind: type[Kind]) -> type[Kind]:
        declare(name, kind=kind, **facts)
        return kind

    return enter


@cache
def _told_by(kind: Any) -> tuple[tuple[int, int], tuple[str, ...]]:
    """The least and the greatest number of operands, and the attributes, that the fields of a class name."""
    members = (member for base in kind.__mro__[:-2] for member in vars(base).values())
    fields = [member for member in members if hasattr(member, "operands")]
    least, most = (sum(field.operands[i] for field in fields) for i in (0, 1))
    return (least, min(ANY, most)), tuple(field.required for field in fields if field.required)


def add_semantics(semantics: Mapping[str, Callable[..., Any]]) -> None:
    """Let op kinds, by name, have these reference semantics."""
    for name, compute in semantics.items():
        vars(OPS[name])["semantics"] = compute


@cache
def literal_definition() -> OpDefinition:
    """The op kind of literals, `arith.constant`; its dialect must have been imported."""
    return next(definition for definition in OPS.values() if definition.constant)


OUTER: set[type[Any]] = set()
"""The classes of ops that have had regions."""


@cache
def classes_of(kinds: tuple[type, ...], declared: int) -> frozenset[type]:
    """The classes, and those below them, once so many kinds of ops are declared: testing one by one takes longer."""
    below: list[type] = []
    for kind in kinds:
        below += kind.__subclasses__()
    return frozenset(kinds) | (classes_of(tuple(below), declared) if below else frozenset())
