"""Reading MLIR text.

    module = parse_module(text, "kernel.ttir")

A dialect's `parse(parser, definition)` reads the text after the op's name and returns the op; ops in quotes are in
MLIR's generic form. Syntax errors raise ParseError with line, column and what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from tilewright.ir.attribute_parser import AttributeParser
from tilewright.ir.attributes import UNKNOWN, Attribute, CallLocation, FusedLocation, Location, NameLocation
from tilewright.ir.core import Block, Op, Region, Value
from tilewright.ir.declare import GENERIC_FORM, OPS, SPELLINGS, Effect, OpDefinition
from tilewright.ir.errors import counted
from tilewright.ir.operands import SEGMENTS
from tilewright.ir.scanner import SPACE
from tilewright.ir.types import Type

_VALUE = re.compile(r"%([\w$.\-]+)(?:#(\d+))?" + SPACE, re.ASCII)
_RESULT = re.compile(r"%([\w$.\-]+)(?::(\d+))?" + SPACE, re.ASCII)
_COMMA = re.compile("," + SPACE)
_BLOCK = re.compile(r"\^([\w$.\-]+)" + SPACE, re.ASCII)
_COUNTED = re.compile(r"_\d+\Z")
_ARGUMENT_NAME = re.compile(r"arg\d+")


class Reference(NamedTuple):
    """A value as text names it: `%name` or `%name#number`."""

    name: str
    number: int
    position: int


class Argument(NamedTuple):
    """A block argument that an op's header names."""

    reference: Reference
    type: Type
    location: Location | None = None


def parse_module(text: str, file: str = "<string>") -> Op:
    """The module in `text`; ops outside of a module get one.

    Args:
        text: MLIR text.
        file: its name, for messages.

    Raises:
        ParseError: when the text cannot be read.
    """
    return Parser(text, file).module()


class Parser(AttributeParser):
    """Reads ops; dialects read through it.

    Args:
        text: MLIR text.
        file: its name, for messages.
        unregistered: accept undeclared ops in generic form; they may have any effect.
    """

    def __init__(self, text: str, file: str = "<string>", *, unregistered: bool = False) -> None:
        super().__init__(text, file)
        self._unregistered = unregistered
        self._values: dict[str, list[Value]] = {}
        self._scope: list[str] = []
        self._forward: dict[tuple[str, int], tuple[Value, int]] = {}
        self._blocks: dict[str, tuple[Block, int]] = {}

    def module(self) -> Op:
        """The whole text."""
        try:
            return self._module()
        except RecursionError:
            raise self.problem("this is nested too deeply", self.position) from None

    def _module(self) -> Op:
        ops: list[Op] = []
        self.skip_aliases()
        while not self.at_end():
            ops.append(self.operation())
            self.skip_aliases()
        self._finish_forward({})
        if len(ops) == 1 and ops[0].name == "builtin.module":
            return ops[0]
        module = Op(OPS["builtin.module"], regions=[Region([Block()])])
        for op in ops:
            module.regions[0].block.append(op)
        return module

    # Values

    def operand(self) -> Reference:
        """`%x`, not yet looked up."""
        start = self.position
        match = self.demand(_VALUE, "a value such as %x")
        return Reference(match[1], int(match[2] or 0), start)

    def operands(self) -> list[Reference]:
        """`%x, %y`, or nothing."""
        found: list[Reference] = []
        text, position = self.text, self.position
        match = _VALUE.match(text, position)
        while match is not None:
            found.append(Reference(match[1], int(match[2] or 0), position))
            position = match.end()
            comma = _COMMA.match(text, position)
            if comma is None:
                break
            position = comma.end()
            match = _VALUE.match(text, position)
            if match is None:
                raise self.error("a value such as %x", position)
        self.position = position
        return found

    def resolve(self, reference: Reference, type: Type) -> Value:
        """The value of that name; one that is defined later is remembered.

        Raises:
            ParseError: when it has another type.
        """
        values = self._values.get(reference.name)
        if values is None:
            value = self._later(reference, type)
        elif reference.number < len(values):
            value = values[reference.number]
        else:
            raise self.problem(f"%{reference.name} stands for {counted(len(values), 'value')} only", reference.position)
        if value.type is not type:
            name = f"%{reference.name}"
            raise self.problem(f"expected {name} to be {type.text}, but it is {value.type.text}", reference.position)
        return value

    def resolve_all(self, references: Sequence[Reference], types: Sequence[Type]) -> list[Value]:
        """The values of those names, one type for each."""
        if len(references) != len(types):
            at = references[0].position if references else self.position
            raise self.problem(f"{counted(len(references), 'operand')}, but {counted(len(types), 'type')}", at)
        return [self.resolve(reference, type) for reference, type in zip(references, types, strict=True)]

    def _later(self, reference: Reference, type: Type) -> Value:
        """A placeholder for a value that is defined further down."""
        key = reference.name, reference.number
        known = self._forward.get(key)
        if known is None:
            known = self._forward[key] = Value(type, Block(), 0), reference.position
        return known[0]

    def _define(self, name: str, values: list[Value], position: int) -> None:
        """Let `name` stand for `values` in the current scope."""
        if name in self._values:
            raise self.problem(f"%{name} is defined twice", position)
        self._values[name] = values
        self._scope.append(name)
        if self._forward:
            for number, value in enumerate(values):
                known = self._forward.pop((name, number), None)
                if known is not None:
                    self._check_forward(name, known, value)

    def _check_forward(self, name: str, known: tuple[Value, int], value: Value) -> None:
        placeholder, position = known
        if placeholder.type is not value.type:
            message = f"expected %{name} to be {placeholder.type.text}, but it is {value.type.text}"
            raise self.problem(message, position)
        placeholder.replace_by(value)

    def _finish_forward(self, outer: dict[tuple[str, int], tuple[Value, int]]) -> None:
        """End a scope that sees no outer values: everything that was used must be defined."""
        for (name, _), (_, position) in self._forward.items():
            raise self.problem(f"%{name} is not defined", position)
        self._forward = outer

    # Ops

    def place(self, position: int) -> Location:
        """The location of an op whose text starts at `position` and does not give one; unused here."""
        return UNKNOWN

    def operation(self) -> Op:
        """One op, with the names of its results and its location."""
        start = self.position
        names: list[tuple[str, int, int]] = []
        if self.looks_at("%"):
            names = self.list(self._result_name)
            self.expect("=")
        op = self._generic() if self.looks_at('"') else self._custom()
        location = self.location() if self.looks_at("loc(") else None
        if location is not None:
            op.location = location
        if names:
            self._name_results(op, names, location, start)
        return op

    def _result_name(self) -> tuple[str, int, int]:
        start = self.position
        match = self.demand(_RESULT, "a result such as %x")
        return match[1], int(match[2] or 1), start

    def _name_results(self, op: Op, names: list[tuple[str, int, int]], location: Location | None, start: int) -> None:
        count = sum(size for _, size, _ in names)
        if count != len(op.results):
            raise self.problem(f"{op.name} has {counted(len(op.results), 'result')}, not {count}", start)
        first = 0
        for name, size, position in names:
            values = op.results[first : first + size]
            first += size
            hint = kept_name(name, location, constant=op.definition.constant and bool(self._locations))
            if hint is not None:
                for value in values:
                    value.name = hint
            self._define(name, values, position)

    def _custom(self) -> Op:
        start = self.position
        name = self.dotted("an operation")
        definition = SPELLINGS.get(name)
        if definition is None:
            raise self._unknown(name, start)
        if definition.parse is None:
            raise self.problem(f'{name} must be written in quotes, as "{name}"(…)', start)
        op: Op = definition.parse(self, definition)
        return op

    def _unknown(self, name: str, start: int) -> Exception:
        close = get_close_matches(name, SPELLINGS, 1, 0.75)
        hint = f", did you mean {close[0]}?" if close else ""
        return self.problem(f"there is no operation {name}{hint}", start)

    def _generic(self) -> Op:
        """`"name"(%a)[^b] <{…}> ({…}) {…} : (T) -> U`."""
        start = self.position
        name = self.string()
        definition = OPS.get(name)
        if definition is None and not self._unregistered:
            raise self._unknown(name, start)
        references = self.list(self.operand, "(", ")")
        successors = self.list(self.successor, "[", "]") if self.looks_at("[") else []
        attributes: dict[str, Attribute] = {}
        if self.optional("<"):
            attributes = self.attributes()
            self.expect(">")
        regions = self.list(self.region, "(", ")") if self.looks_at("(") else []
        attributes.update(self.attributes())
        signature = self.signature()
        operands = self.resolve_all(references, signature.inputs)
        if definition is None:
            definition = OpDefinition(name=name, effect=Effect.UNKNOWN, terminated=False, regions=len(regions))
        else:
            self._adjust(definition, attributes, start)
        return Op(definition, operands, signature.outputs, attributes, regions, successors)

    def _adjust(self, definition: OpDefinition, attributes: dict[str, Attribute], start: int) -> None:
        """Make attributes of the generic form those that the custom format gives."""
        adjust = GENERIC_FORM.get(definition.name)
        if adjust is not None:
            try:
                adjust(attributes)
            except ValueError as error:
                raise self.problem(str(error), start) from None
        if not definition.operand_names:
            attributes.pop(SEGMENTS, None)

    # Regions and blocks

    def region(self, arguments: Sequence[Argument] | None = None, *, isolated: bool = False) -> Region:
        """`{ … }`.

        Args:
            arguments: of the entry block, when the op's header names them.
            isolated: the region sees no outer values.
        """
        self.expect("{")
        outer = self._values, self._scope, self._blocks, self._forward
        self._blocks, self._scope = {}, []
        if isolated:
            self._values, self._forward = {}, {}
        region = Region()
        if arguments is not None or not (self.looks_at("^") or self.looks_at("}")):
            self._body(self._entry(region, arguments or ()))
        while not self.optional("}"):
            self._labelled_block(region)
        for block, position in self._blocks.values():
            if block.region is None:
                raise self.problem(f"there is no block ^{block.name}", position)
        if isolated:
            self._finish_forward(outer[3])
        else:
            for name in self._scope:
                del self._values[name]
        self._values, self._scope, self._blocks = outer[:3]
        return region

    def successor(self) -> Block:
        """`^bb1`, possibly of a block further down."""
        start = self.position
        name = self.demand(_BLOCK, "a block such as ^bb1")[1]
        return self._blocks.setdefault(name, (Block(name=name), start))[0]

    def _entry(self, region: Region, arguments: Sequence[Argument]) -> Block:
        block = region.add(Block())
        for argument in arguments:
            self._add_argument(block, argument)
        return block

    def _labelled_block(self, region: Region) -> None:
        start = self.position
        if self.at_end():
            raise self.error("'}'")
        block = self.successor()
        if block.region is not None:
            raise self.problem(f"^{block.name} is defined twice", start)
        region.add(block)
        if self.looks_at("("):
            for argument in self.list(self._block_argument, "(", ")"):
                self._add_argument(block, argument)
        self.expect(":")
        self._body(block)

    def _block_argument(self) -> Argument:
        reference = self.operand()
        return Argument(reference, self.colon_type(), self.location())

    def _add_argument(self, block: Block, argument: Argument) -> None:
        name = argument.reference.name
        hint = None if _ARGUMENT_NAME.fullmatch(name) else kept_name(name, argument.location)
        if hint and argument.location is None and self._locations:
            hint = _COUNTED.sub("", hint)
        value = block.add_argument(argument.type, hint)
        value.location = argument.location
        self._define(name, [value], argument.reference.position)

    def _body(self, block: Block) -> None:
        text = self.text
        while (first := text[self.position : self.position + 1]) and first not in "}^":
            block.append(self.operation())


def kept_name(name: str, location: Location | None, *, constant: bool = False) -> str | None:
    """The name a value keeps from text; None for names that only number it.

    Args:
        name: in the text.
        location: a name in it is better, when the text's is that name made unique.
        constant: the value is a constant, and a name that matters would be in the location.
    """
    variable = _variable(location)
    if variable and name.startswith(variable) and _COUNTED.fullmatch(name[len(variable) :] or "_0"):
        return variable
    return None if constant or name[0].isdigit() else name


def _variable(location: Location | None) -> str | None:
    """The variable a location names."""
    match location:
        case NameLocation(name=name):
            return name
        case CallLocation(callee, caller):
            return _variable(callee) or _variable(caller)
        case FusedLocation(locations):
            names = [_variable(part) for part in locations]
            return next((part for part in names if part), None)
        case _:
            return None
