"""The program's place in the grid, ranges, prints and assertions: `tt.get_program_id`, `tt.make_range`, …"""

from __future__ import annotations

from tilewright.dialects.formats import TYPED, keyword_text
from tilewright.dialects.rules import keyword_in, number, tensor
from tilewright.dialects.tile_semantics import TILE_SEMANTICS
from tilewright.dialects.traits import Indexing
from tilewright.ir.attributes import Attribute, Keyword
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, OpDefinition, declare
from tilewright.ir.errors import require
from tilewright.ir.fields import Flag, Integer, Integers, Operand, Operands, Word
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.quoting import quoted
from tilewright.ir.types import i1, i32

AXES = ("x", "y", "z")


# tt.get_program_id x {…} : i32


def _parse_axis(parser: Parser, definition: OpDefinition) -> Op:
    axis = Keyword(parser.one_of(AXES, "an axis"))
    attributes = {**parser.attributes(), "axis": axis}
    return Op(definition, (), (parser.colon_type(),), attributes)


def _print_axis(printer: Printer, op: Op) -> None:
    attributes = printer.attributes(op.attributes, ("axis",))
    printer.write(f" {keyword_text(op, 'axis')}{attributes} : {printer.type(op.results[0].type)}")


def _verify_axis(op: Op) -> None:
    keyword_in(op, "axis", AXES)
    require(op.results[0].type is i32, op, "the result must be i32")


def _verify_make_range(op: Op) -> None:
    result = tensor(op, op.results[0])
    extent = number(op, "end") - number(op, "start")
    require(extent > 0, op, "start must be less than end")
    fits = result.shape == (extent,) and result.element is i32
    require(fits, op, f"end - start is {extent}, which does not give {result}")


# tt.print "text" {…} [: %a, %b : T, U]


def _parse_print(parser: Parser, definition: OpDefinition) -> Op:
    attributes: dict[str, Attribute] = {"prefix": parser.string(), **parser.attributes()}
    if not parser.optional(":"):
        return Op(definition, (), (), attributes)
    references = parser.operands()
    return Op(definition, parser.resolve_all(references, parser.colon_types()), (), attributes)


def _print_print(printer: Printer, op: Op) -> None:
    attributes = printer.attributes(op.attributes, ("prefix",))
    values = f" : {printer.values(op.operands)} : {printer.types(op.operands)}" if op.operands else ""
    printer.write(f" {quoted(str(op.attributes['prefix']))}{attributes}{values}")


# tt.assert %c, "text" {…} : T


def _parse_assert(parser: Parser, definition: OpDefinition) -> Op:
    reference = parser.operand()
    parser.expect(",")
    attributes: dict[str, Attribute] = {"message": parser.string(), **parser.attributes()}
    return Op(definition, [parser.resolve(reference, parser.colon_type())], (), attributes)


def _print_assert(printer: Printer, op: Op) -> None:
    (condition,) = op.operands
    message = quoted(str(op.attributes["message"]))
    attributes = printer.attributes(op.attributes, ("message",))
    printer.write(f" {printer.value(condition)}, {message}{attributes} : {printer.type(condition.type)}")


def _verify_assert(op: Op) -> None:
    require(op.operands[0].type.scalar is i1, op, "the condition must be i1 or a tensor of i1")


class ProgramId(Op):
    """The number of the program, or of programs, along an axis of the grid."""

    __slots__ = ()
    axis = Word("axis")


class MakeRange(Indexing):
    """The numbers from `start` to before `end`."""

    __slots__ = ()
    start, end = Integer("start"), Integer("end")


class Print(Op):
    """Prints `values` behind a text.

    Attributes:
        hex: as hexadecimal numbers.
        signs: 1 for each value whose integers have a sign; nothing if all have one.
    """

    __slots__ = ()
    values = Operands()
    prefix = Word("prefix")
    hex = Flag("hex")
    signs = Integers("isSigned")


class Assert(Op):
    """Fails where `condition` does not hold."""

    __slots__ = ()
    condition = Operand(0)
    message = Word("message")


for _name in ("tt.get_program_id", "tt.get_num_programs"):
    declare(
        _name,
        kind=ProgramId,
        results=1,
        required=("axis",),
        parse=_parse_axis,
        print=_print_axis,
        verify=_verify_axis,
    )
declare(
    "tt.make_range",
    kind=MakeRange,
    results=1,
    required=("start", "end"),
    verify=_verify_make_range,
    semantics=TILE_SEMANTICS["tt.make_range"],
    **TYPED,
)
declare(
    "tt.print", kind=Print, results=0, required=("prefix",), effect=Effect.WRITE, parse=_parse_print, print=_print_print
)
declare(
    "tt.assert",
    kind=Assert,
    results=0,
    required=("message",),
    effect=Effect.WRITE,
    parse=_parse_assert,
    print=_print_assert,
    verify=_verify_assert,
)
