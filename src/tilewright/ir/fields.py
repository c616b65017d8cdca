"""Named accessors for the operands, attributes and regions of ops.

    @declares("tt.load", …)
    class Load(Op):
        pointer = Operand(0)
        mask = OptionalOperand(1)

    load.pointer                    load.operands[0]
    load.mask                       load.operands[1], or None if it is absent
    isinstance(op, Load)            op.name == "tt.load"

Ops of a declared kind are instances of its class, so nothing is wrapped or copied; an attribute is read each time.
"""

from __future__ import annotations

from tilewright.ir.attributes import Dense, DenseArray, Keyword, Number, Symbol
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import ANY
from tilewright.ir.operands import operand, operand_group, set_operand_groups


class Field:
    """Something that all ops of a kind have under one name.

    Attributes:
        operands: the least and the greatest number of operands that it stands for.
        required: the attribute that is always there.
    """

    operands = (0, 0)
    required = ""


class Numbered(Field):
    """Something at a place."""

    def __init__(self, index: int = 0) -> None:
        self.index = index


class Named(Field):
    """Something with a name: of operands, as the op kind has it, or of an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name


class Operand(Numbered):
    """The operand at a place; it may be set.

    Args:
        index: the place; negative ones count from the end.
    """

    operands = (1, 1)

    def __get__(self, op: Op, owner: type[Op] | None = None) -> Value:
        return op.operands[self.index]

    def __set__(self, op: Op, value: Value) -> None:
        op.set_operand(self.index, value)


class OptionalOperand(Numbered):
    """The operand at a place, or None if there are fewer; it may be set."""

    operands = (0, 1)

    def __get__(self, op: Op, owner: type[Op] | None = None) -> Value | None:
        return op.operands[self.index] if self.index < len(op.operands) else None

    def __set__(self, op: Op, value: Value) -> None:
        op.set_operands([*op.operands[: self.index], value, *op.operands[self.index + 1 :]])


class Operands(Numbered):
    """All operands from a place on."""

    operands = (0, ANY)

    def __get__(self, op: Op, owner: type[Op] | None = None) -> list[Value]:
        return op.operands[self.index :]


class OptionalNamedOperand(Named):
    """The operand that the op kind calls `name`, or None if the op has none; it may be set."""

    operands = (0, 1)

    def __get__(self, op: Op, owner: type[Op] | None = None) -> Value | None:
        return operand(op, self.name)

    def __set__(self, op: Op, value: Value) -> None:
        set_operand_groups(op, {self.name: [value]})


class NamedOperand(OptionalNamedOperand):
    """The operand that the op kind calls `name`; it may be set.

    For operands behind some whose number differs from op to op.
    """

    operands = (1, 1)

    def __get__(self, op: Op, owner: type[Op] | None = None) -> Value:
        return operand_group(op, self.name)[0]


class NamedOperands(Named):
    """All operands that the op kind calls `name`; they may be set."""

    operands = (0, ANY)

    def __get__(self, op: Op, owner: type[Op] | None = None) -> list[Value]:
        return operand_group(op, self.name)

    def __set__(self, op: Op, values: list[Value]) -> None:
        set_operand_groups(op, {self.name: values})


class Result(Numbered):
    """The result at a place."""

    def __get__(self, op: Op, owner: type[Op] | None = None) -> Value:
        return op.results[self.index]


class RegionOf(Numbered):
    """The region at a place."""

    def __get__(self, op: Op, owner: type[Op] | None = None) -> Region:
        return op.regions[self.index]


class Body(Numbered):
    """The entry block of the region at a place."""

    def __get__(self, op: Op, owner: type[Op] | None = None) -> Block:
        return op.regions[self.index].blocks[0]


class Integer(Field):
    """A whole number in an attribute.

    Args:
        name: the attribute.
        default: what holds where the attribute is missing; None: it is always there.
    """

    def __init__(self, name: str, default: int | None = None) -> None:
        self.name, self.default, self.required = name, default, name if default is None else ""

    def __get__(self, op: Op, owner: type[Op] | None = None) -> int:
        number = op.attributes.get(self.name)
        if isinstance(number, Number):
            return int(number.value)
        assert self.default is not None, f"{op.name} has no number {self.name}"
        return self.default


class Word(Field):
    """A keyword or a text in an attribute.

    Args:
        name: the attribute.
        default: what holds where the attribute is missing; None: it is always there.
    """

    def __init__(self, name: str, default: str | None = None) -> None:
        self.name, self.default, self.required = name, default, name if default is None else ""

    def __get__(self, op: Op, owner: type[Op] | None = None) -> str:
        word = op.attributes.get(self.name)
        if isinstance(word, (Keyword, Symbol)):
            return word.name
        if isinstance(word, str):
            return word
        assert self.default is not None, f"{op.name} has no word {self.name}"
        return self.default


class Flag(Field):
    """A truth value in an attribute; missing means false, or what `default` says."""

    def __init__(self, name: str, *, default: bool = False) -> None:
        self.name, self.default = name, default

    def __get__(self, op: Op, owner: type[Op] | None = None) -> bool:
        return op.attributes.get(self.name, self.default) is True


class Marker(Named):
    """Whether there is an attribute, whatever its value."""

    def __get__(self, op: Op, owner: type[Op] | None = None) -> bool:
        return self.name in op.attributes


class Integers(Named):
    """The whole numbers of an array in an attribute; none where it is missing."""

    def __get__(self, op: Op, owner: type[Op] | None = None) -> tuple[int, ...]:
        array = op.attributes.get(self.name)
        return array.values if isinstance(array, DenseArray) else ()


class Literal(Field):
    """The number, or the elements, in an attribute."""

    def __init__(self, name: str) -> None:
        self.name = self.required = name

    def __get__(self, op: Op, owner: type[Op] | None = None) -> Number | Dense:
        value = op.attributes[self.name]
        assert isinstance(value, (Number, Dense)), f"{op.name} has no literal {self.name}"
        return value
