"""Text formats of ops, declared by a sample of the text.

    declare("ttg.local_load", **assembly(" %src?( token %token){} : !src -> !result", "src token?", "result"))

    %src      an operand; `%deps*` several with commas       !src      its type; `!deps*` the types of several
    {}        all attributes not printed elsewhere            ~src      its type from the first `<` on
    #count    an integer attribute without its type          @kind     an attribute that is a keyword
    #at*      an array of integers without its brackets      ^text     a string attribute
    =>        `(T, U) -> V`, the types of everything
    ?( … )    left out where what it starts with is absent   the rest  as it stands

Operands and results are named in order; a name with `?` may be absent, one with `*` stands for any number. Types that
are not in the text come from `types`: a type, or a function of the types known so far (`Reading`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tilewright.ir.attributes import Attribute, DenseArray, Keyword, Number
from tilewright.ir.core import Op, Value
from tilewright.ir.declare import ANY, OpDefinition
from tilewright.ir.operands import SEGMENTS, operand_groups, segment_attribute
from tilewright.ir.parser import Parser, Reference
from tilewright.ir.printer import Printer
from tilewright.ir.types import FunctionType, Type, i1, i32, with_element
from tilewright.support.cached_property import cached_property

Groups: TypeAlias = dict[str, list[Value]]
TypeOf: TypeAlias = "Type | Callable[[Reading], Type | Sequence[Type]]"

RESULT_SEGMENTS = "resultSegmentSizes"
_PIECE = re.compile(r"\?\(|\)|\{\}|=>|[%!~#@^]\w+\*?|[^?()%!~#@^{=$]+|.")
_LITERAL = re.compile(r"[\w.]+|->|\S")


class Reading:
    """The parts of an op that have been read so far."""

    def __init__(self) -> None:
        self.operands: dict[str, list[Reference]] = {}
        self.attributes: dict[str, Attribute] = {}
        self.types: dict[str, list[Type]] = {}
        self.signature: FunctionType | None = None

    def type(self, name: str) -> Type:
        """The type of the operand or result `name`."""
        return self.types[name][0]


class Piece:
    """A part of a format.

    Attributes:
        read: reads it.
        write: its text for an op, whose operands and results by name it gets.
        starts: whether it comes next in the text; None: it is always there.
        shown: whether an op has it; None: always.
    """

    def __init__(
        self,
        read: Callable[[Parser, Reading], None],
        write: Callable[[Printer, Op, Groups], str],
        starts: Callable[[Parser], bool] | None = None,
        shown: Callable[[Op, Groups], bool] | None = None,
        inline: Sequence[str] = (),
        extra: Callable[[Printer, Op], dict[str, Attribute]] | None = None,
    ) -> None:
        self.read = read
        self.write = write
        self.starts = starts
        self.shown = shown
        self.inline = inline
        """Attributes that it shows."""
        self.extra = extra
        """Attributes to print with the others instead."""


def mask_like(name: str) -> Callable[[Reading], Type]:
    """The type of truth values in the shape of operand `name`."""
    return lambda reading: with_element(reading.type(name), i1)


def type_of(name: str) -> Callable[[Reading], Type]:
    """The type of operand or result `name`."""
    return lambda reading: reading.type(name)


def choice(name: str, words: Sequence[str], what: str) -> Piece:
    """An attribute that is one of the keywords `words`; `what` they are, for messages."""

    def read(parser: Parser, reading: Reading) -> None:
        reading.attributes[name] = Keyword(parser.one_of(words, what))

    return Piece(read, lambda printer, op, groups: printer.attribute(op.attributes[name]), inline=(name,))


def assembly(
    text: str,
    operands: str = "",
    results: str = "",
    *,
    least: int = 0,
    types: Mapping[str, TypeOf] | None = None,
    defaults: Mapping[str, Attribute] | None = None,
    implied: Mapping[str, Attribute] | None = None,
    custom: Mapping[str, Piece] | None = None,
) -> dict[str, Any]:
    """The facts for `declare` of an op kind with this format.

    Args:
        text: the format, as above; `$name` is a piece of `custom`.
        operands, results: their names.
        least: the least number of operands, if it is not that of the names without `?` or `*`.
        types: for types that are not in the text.
        defaults: attributes that are not printed when they have this value.
        implied: what attributes are where the text does not say; they are printed, as an older Triton wants them.
        custom: pieces by name.
    """
    operand_names, result_names = tuple(operands.split()), tuple(results.split())
    form = _Form(text, custom or {}, operand_names, result_names, types or {}, defaults or {}, implied or {})
    fixed = [name for name in operand_names if name[-1] not in "?*"]
    most = ANY if any(name[-1] == "*" for name in operand_names) else len(operand_names)
    varying = any(name[-1] in "?*" for name in result_names)
    several = len(result_names) > 1
    return {
        "operands": (least or len(fixed), most),
        "results": None if varying else len(result_names),
        "operand_names": operand_names,
        "result_names": tuple(name.rstrip("?*") for name in result_names) if several else (),
        "parse": form.parse,
        "print": form.print,
    }


class _Form:
    """A format, whose text is taken apart when it is needed: most processes need few."""

    def __init__(
        self,
        text: str,
        custom: Mapping[str, Piece],
        operand_names: tuple[str, ...],
        result_names: tuple[str, ...],
        types: Mapping[str, TypeOf],
        defaults: Mapping[str, Attribute],
        implied: Mapping[str, Attribute],
    ) -> None:
        self.text = text
        self.custom = custom
        self.operand_names = operand_names
        self.plain_operands = [name.rstrip("?*") for name in operand_names]
        self.results = [name.rstrip("?*") for name in result_names]
        self.varying_operands = sum(name[-1] in "?*" for name in operand_names)
        self.varying_results = sum(name[-1] in "?*" for name in result_names)
        self.types = types
        self.defaults = defaults
        self.implied = implied

    @cached_property
    def pieces(self) -> list[Piece]:
        return _pieces(self.text, self.custom)

    @cached_property
    def extras(self) -> list[Callable[[Printer, Op], dict[str, Attribute]]]:
        """The functions that give attributes to print beside the op's own."""
        return [piece.extra for piece in self.pieces if piece.extra is not None]

    @cached_property
    def inline(self) -> set[str]:
        """Attributes that stand elsewhere in the text, or not at all."""
        return {SEGMENTS, RESULT_SEGMENTS, *(name for piece in self.pieces for name in piece.inline)}

    def parse(self, parser: Parser, definition: OpDefinition) -> Op:
        reading = Reading()
        reading.attributes.update(self.implied)
        for piece in self.pieces:
            if piece.starts is None or piece.starts(parser):
                piece.read(parser, reading)
        attributes = reading.attributes
        if self.varying_operands > 1:
            sizes = [len(reading.operands.get(name, ())) for name in self.plain_operands]
            attributes.update(segment_attribute(self.operand_names, sizes))
        if reading.signature is None:
            return Op(definition, self._operands(parser, reading), self._result_types(reading), attributes)
        references = [reference for name in self.plain_operands for reference in reading.operands.get(name, ())]
        operands = parser.resolve_all(references, reading.signature.inputs)
        return Op(definition, operands, reading.signature.outputs, attributes)

    def _operands(self, parser: Parser, reading: Reading) -> list[Value]:
        operands: list[Value] = []
        for name in self.plain_operands:
            group = reading.operands.get(name)
            if group:
                try:
                    types = self._types_of(name, reading, len(group))
                except TypeError as error:  # the text of other operands does not tell
                    raise parser.problem(str(error), group[0].position) from None
                operands += parser.resolve_all(group, types)
        return operands

    def _result_types(self, reading: Reading) -> list[Type]:
        types = [self._types_of(name, reading, 1) for name in self.results]
        if self.varying_results > 1:
            reading.attributes[RESULT_SEGMENTS] = DenseArray(i32, tuple(map(len, types)))
        return [type for group in types for type in group]

    def _types_of(self, name: str, reading: Reading, count: int) -> Sequence[Type]:
        known = reading.types.get(name)
        if known is not None:
            return known
        rule = self.types.get(name)
        if rule is None:
            return ()
        found = rule if isinstance(rule, Type) else rule(reading)
        return [found] * count if isinstance(found, Type) else found

    def print(self, printer: Printer, op: Op) -> None:
        groups = operand_groups(op)
        results = op.results
        if len(self.results) == 1:
            groups[self.results[0]] = results
        elif self.results:
            groups.update(self._result_groups(op))
        write = printer.write
        for piece in self.pieces:
            if piece is _ATTRIBUTES:
                write(self._attributes_text(printer, op))
            elif piece.shown is None or piece.shown(op, groups):
                write(piece.write(printer, op, groups))

    def _result_groups(self, op: Op) -> Groups:
        segments = op.attributes.get(RESULT_SEGMENTS)
        names: Iterable[str] = self.results
        if isinstance(segments, DenseArray):
            names = [name for name, size in zip(names, segments.values, strict=True) if size]
        missing: Groups = {name: [] for name in self.results}
        return {**missing, **{name: [value] for name, value in zip(names, op.results, strict=False)}}

    def _attributes_text(self, printer: Printer, op: Op) -> str:
        attributes = op.attributes
        if not attributes:
            return ""
        if self.defaults:
            defaults = self.defaults
            attributes = {name: a for name, a in attributes.items() if name not in defaults or defaults[name] != a}
        for extra in self.extras:
            attributes = {**attributes, **extra(printer, op)}
        return printer.attributes(attributes, self.inline)


def _pieces(text: str, custom: Mapping[str, Piece]) -> list[Piece]:
    """The pieces of a format."""
    stack: list[list[Piece]] = [[]]
    for match in re.finditer(r"\$\w+|" + _PIECE.pattern, text):
        token = match[0]
        if token == "?(":
            stack.append([])
        elif token == ")":
            group = stack.pop()
            stack[-1].append(_optional(group))
        elif token[0] == "$":
            stack[-1].append(custom[token[1:]])
        else:
            stack[-1].append(_piece(token))
    (pieces,) = stack
    return pieces


def _piece(token: str) -> Piece:
    if token == "{}":
        return _ATTRIBUTES
    if token == "=>":
        return _SIGNATURE
    kind, name, several = token[0], token[1:].rstrip("*"), token[-1] == "*"
    if kind in _KINDS and len(token) > 1:
        return _KINDS[kind](name, several)
    return _literal(token)


def _literal(text: str) -> Piece:
    words = _LITERAL.findall(text)

    def read(parser: Parser, reading: Reading) -> None:
        for word in words:
            parser.expect(word)

    starts = (lambda parser: bool(parser.looks_at(words[0]))) if words else None
    return Piece(read, lambda printer, op, groups: text, starts)


def _always(piece: Piece) -> Piece:
    """`piece`, which is there whatever comes."""
    return Piece(piece.read, piece.write, None, None, piece.inline)


def _optional(group: list[Piece]) -> Piece:
    """A group: its first piece with a `starts` decides its presence, its first with a `shown` whether to print it."""
    starts = next(piece.starts for piece in group if piece.starts is not None)
    shown = next(piece.shown for piece in group if piece.shown is not None)
    members = [_always(piece) for piece in group]

    def read(parser: Parser, reading: Reading) -> None:
        for piece in members:
            piece.read(parser, reading)

    def write(printer: Printer, op: Op, groups: Groups) -> str:
        return "".join([piece.write(printer, op, groups) for piece in members])

    return Piece(read, write, starts, shown, [name for piece in group for name in piece.inline])


def _operand(name: str, several: bool) -> Piece:
    def read(parser: Parser, reading: Reading) -> None:
        reading.operands[name] = parser.operands() if several else [parser.operand()]

    def write(printer: Printer, op: Op, groups: Groups) -> str:
        return printer.values(groups[name])

    return Piece(read, write, lambda parser: parser.looks_at("%"), lambda op, groups: bool(groups[name]))


def _type(name: str, several: bool) -> Piece:
    def read(parser: Parser, reading: Reading) -> None:
        reading.types[name] = parser.types() if several else [parser.type()]

    def write(printer: Printer, op: Op, groups: Groups) -> str:
        return printer.types(groups[name])

    return Piece(read, write, None, lambda op, groups: bool(groups[name]))


def _type_body(name: str, several: bool) -> Piece:
    """The type without the word it starts with, which is that of memory descriptors; a full type is read as well."""

    def read(parser: Parser, reading: Reading) -> None:
        short = parser.looks_at("<")
        reading.types[name] = [parser.type_body("!ttg.memdesc") if short else parser.type()]

    def write(printer: Printer, op: Op, groups: Groups) -> str:
        return printer.type_body(groups[name][0].type)

    return Piece(read, write)


def _number(name: str, several: bool) -> Piece:
    def read(parser: Parser, reading: Reading) -> None:
        if several:
            values = tuple(parser.list(parser.integer)) if not parser.looks_at("]") else ()
            reading.attributes[name] = DenseArray(i32, values)
        else:
            reading.attributes[name] = Number(parser.integer(), i32)

    def write(printer: Printer, op: Op, groups: Groups) -> str:
        attribute = op.attributes[name]
        if isinstance(attribute, DenseArray):
            return ", ".join(map(str, attribute.values))
        assert isinstance(attribute, Number), f"{op.name}: {name} is no number"
        return str(attribute.value)

    return Piece(read, write, inline=(name,))


def _keyword(name: str, several: bool) -> Piece:
    def read(parser: Parser, reading: Reading) -> None:
        reading.attributes[name] = Keyword(parser.identifier())

    def write(printer: Printer, op: Op, groups: Groups) -> str:
        return printer.attribute(op.attributes[name])

    return Piece(read, write, inline=(name,))


def _string(name: str, several: bool) -> Piece:
    def read(parser: Parser, reading: Reading) -> None:
        reading.attributes[name] = parser.string()

    def write(printer: Printer, op: Op, groups: Groups) -> str:
        return printer.attribute(op.attributes[name])

    return Piece(read, write, inline=(name,))


def _read_attributes(parser: Parser, reading: Reading) -> None:
    reading.attributes.update(parser.attributes())


def _read_signature(parser: Parser, reading: Reading) -> None:
    reading.signature = parser.function_type()


_ATTRIBUTES = Piece(_read_attributes, lambda printer, op, groups: printer.attributes(op.attributes))
_SIGNATURE = Piece(_read_signature, lambda printer, op, groups: printer.signature(op))
_KINDS: dict[str, Callable[[str, bool], Piece]] = {
    "%": _operand,
    "!": _type,
    "~": _type_body,
    "#": _number,
    "@": _keyword,
    "^": _string,
}
