"""Text formats that several ops share, as keyword arguments for `declare`.

    declare("tt.splat", **ARROW)          tt.splat %x {…} : i32 -> tensor<4xi32>

A format parses and prints the text after the op's name; the comment above each shows its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.core import Op
from tilewright.ir.declare import OpDefinition
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.types import i1, with_element


class Format(TypedDict):
    """The two halves of a text format."""

    parse: Callable[[Parser, OpDefinition], Op]
    print: Callable[[Printer, Op], None]


FLAGS = {"fastmath": "fastmath", "overflow": "overflowFlags"}
"""Keyword in the text, and the attribute it is kept in (a tuple of keywords)."""
_FLAG_ATTRIBUTES = frozenset(FLAGS.values())


def parse_flags(parser: Parser, attributes: dict[str, Attribute]) -> None:
    """`fastmath<fast>`, `overflow<nsw, nuw>`, each optional."""
    if parser.looks_at(":"):
        return
    for word, name in FLAGS.items():
        if parser.keyword(word):
            attributes[name] = tuple(Keyword(flag) for flag in parser.list(parser.identifier, "<", ">"))


def flags_text(op: Op) -> str:
    """The flags of `op` with a space in front."""
    text = ""
    for word, name in FLAGS.items():
        flags = op.attributes.get(name)
        if isinstance(flags, tuple):
            separator = "," if word == "fastmath" else ", "
            text += f" {word}<{separator.join(flag.name for flag in flags if isinstance(flag, Keyword))}>"
    return text


# %a, %b flags {…} : T                                     all operands and the result have type T


def _parse_elementwise(parser: Parser, definition: OpDefinition) -> Op:
    references = parser.operands()
    attributes: dict[str, Attribute] = {}
    parse_flags(parser, attributes)
    attributes.update(parser.attributes())
    type = parser.colon_type()
    return Op(definition, [parser.resolve(reference, type) for reference in references], (type,), attributes)


def _print_elementwise(printer: Printer, op: Op) -> None:
    extra = f"{flags_text(op)}{printer.attributes(op.attributes, _FLAG_ATTRIBUTES)}" if op.attributes else ""
    printer.write(f" {printer.values(op.operands)}{extra} : {printer.type(op.results[0].type)}")


ELEMENTWISE = Format(parse=_parse_elementwise, print=_print_elementwise)


# %a flags {…} : T to U


def conversion(word: str) -> Format:
    """One operand of one type, one result of another, with `word` between the types."""

    def parse(parser: Parser, definition: OpDefinition) -> Op:
        reference = parser.operand()
        attributes: dict[str, Attribute] = {}
        parse_flags(parser, attributes)
        attributes.update(parser.attributes())
        source = parser.colon_type()
        parser.expect(word)
        return Op(definition, [parser.resolve(reference, source)], (parser.type(),), attributes)

    def print(printer: Printer, op: Op) -> None:
        (operand,) = op.operands
        extra = f"{flags_text(op)}{printer.attributes(op.attributes, _FLAG_ATTRIBUTES)}" if op.attributes else ""
        types = f"{printer.type(operand.type)} {word} {printer.type(op.results[0].type)}"
        printer.write(f" {printer.value(operand)}{extra} : {types}")

    return Format(parse=parse, print=print)


TO = conversion("to")
ARROW = conversion("->")


# predicate, %a, %b flags {…} : T


def _predicate(parser: Parser, predicates: Sequence[str]) -> str:
    """A predicate, possibly in quotes."""
    if parser.looks_at('"'):
        start, word = parser.position, parser.string()
        if word in predicates:
            return word
        raise parser.error(f"a predicate ({', '.join(predicates)})", start)
    return parser.one_of(predicates, "a predicate")


def comparison(predicates: Sequence[str]) -> Format:
    """Two operands of type T compared by one of `predicates`; the result has element type i1."""

    def parse(parser: Parser, definition: OpDefinition) -> Op:
        attributes: dict[str, Attribute] = {"predicate": Keyword(_predicate(parser, predicates))}
        parser.expect(",")
        references = parser.operands()
        parse_flags(parser, attributes)
        attributes.update(parser.attributes())
        type = parser.colon_type()
        operands = [parser.resolve(reference, type) for reference in references]
        return Op(definition, operands, (with_element(type, i1),), attributes)

    def print(printer: Printer, op: Op) -> None:
        extra = f"{flags_text(op)}{printer.attributes(op.attributes, {'predicate', *_FLAG_ATTRIBUTES})}"
        predicate = keyword_text(op, "predicate")
        printer.write(f" {predicate}, {printer.values(op.operands)}{extra} : {printer.type(op.operands[0].type)}")

    return Format(parse=parse, print=print)


# [%a, %b : T, U]


def _parse_values(parser: Parser, definition: OpDefinition) -> Op:
    attributes = parser.attributes()
    references = parser.operands()
    operands = parser.resolve_all(references, parser.colon_types()) if references else []
    return Op(definition, operands, (), attributes or parser.attributes())


def _print_values(printer: Printer, op: Op) -> None:
    printer.write(printer.attributes(op.attributes))
    if op.operands:
        printer.write(f" {printer.values(op.operands)} : {printer.types(op.operands)}")


VALUES = Format(parse=_parse_values, print=_print_values)


# Parts of formats


def keyword_text(op: Op, name: str) -> str:
    """The keyword in attribute `name`."""
    keyword = op.attributes[name]
    assert isinstance(keyword, Keyword), f"{op.name}: {name} is no keyword"
    return keyword.name
