"""Element by element ops that MLIR has no op for: `tt.mulhiui`, `tt.clampf`, `tt.fp_to_fp`, extern functions, …"""

from __future__ import annotations

from tilewright.dialects.arith import Binary, FloatCast, Unary
from tilewright.dialects.formats import ARROW, ELEMENTWISE, functional, keyword_text
from tilewright.dialects.rules import conversion_rule, float_type, integer_type, keyword_in, number, same_form
from tilewright.dialects.tile_semantics import TILE_SEMANTICS
from tilewright.ir.attributes import Attribute, Keyword, Number
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, OpDefinition, declare
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Flag, Integer, Operand, Operands, Word
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.quoting import quoted
from tilewright.ir.types import FloatType, PointerType, TensorType

PROPAGATE_NAN = ("none", "all")
ROUNDINGS = ("rtz", "rtne")
"""Modes of rounding, by their numbers in MLIR."""


# tt.clampf %x, %min, %max, propagateNan = none {…} : T


def _parse_clampf(parser: Parser, definition: OpDefinition) -> Op:
    references = []
    for _ in range(3):
        references.append(parser.operand())
        parser.expect(",")
    parser.expect("propagateNan")
    parser.expect("=")
    attributes: dict[str, Attribute] = {"propagateNan": Keyword(parser.one_of(PROPAGATE_NAN, "a mode"))}
    attributes.update(parser.attributes())
    type = parser.colon_type()
    return Op(definition, parser.resolve_all(references, [type] * 3), (type,), attributes)


def _print_clampf(printer: Printer, op: Op) -> None:
    nan = keyword_text(op, "propagateNan")
    attributes = printer.attributes(op.attributes, ("propagateNan",))
    type = printer.type(op.results[0].type)
    printer.write(f" {printer.values(op.operands)}, propagateNan = {nan}{attributes} : {type}")


def _verify_clampf(op: Op) -> None:
    float_type(op)
    keyword_in(op, "propagateNan", PROPAGATE_NAN)


# tt.fp_to_fp %x {…} [, rounding = rtne] : T -> U


def _parse_fp_to_fp(parser: Parser, definition: OpDefinition) -> Op:
    reference = parser.operand()
    attributes = parser.attributes()
    rounding = attributes.get("rounding")
    if isinstance(rounding, Number) and rounding.value in (0, 1):
        attributes["rounding"] = Keyword(ROUNDINGS[int(rounding.value)])
    if parser.optional(","):
        parser.expect("rounding")
        parser.expect("=")
        attributes["rounding"] = Keyword(parser.one_of(ROUNDINGS, "a rounding"))
    source = parser.colon_type()
    parser.expect("->")
    return Op(definition, [parser.resolve(reference, source)], (parser.type(),), attributes)


def _print_fp_to_fp(printer: Printer, op: Op) -> None:
    rounding = f", rounding = {keyword_text(op, 'rounding')}" if "rounding" in op.attributes else ""
    attributes = printer.attributes(op.attributes, ("rounding",))
    (operand,) = op.operands
    types = f"{printer.type(operand.type)} -> {printer.type(op.results[0].type)}"
    printer.write(f" {printer.value(operand)}{attributes}{rounding} : {types}")


_fp_to_fp_types = conversion_rule(FloatType, FloatType)


def _verify_fp_to_fp(op: Op) -> None:
    _fp_to_fp_types(op)
    if "rounding" in op.attributes:
        keyword_in(op, "rounding", ROUNDINGS)
    else:
        narrowing = op.operands[0].type.scalar.bits > op.results[0].type.scalar.bits
        require(not narrowing, op, "a narrowing conversion needs a rounding")


def _verify_bitcast(op: Op) -> None:
    same_form(op)
    old, new = op.operands[0].type.scalar, op.results[0].type.scalar
    pointers = isinstance(old, PointerType) and isinstance(new, PointerType)
    require(pointers or old.bits == new.bits, op, f"{old} and {new} differ in width")


# extern functions and inline assembly


def _effect_unless_pure(op: Op) -> Effect:
    return Effect.NONE if op.attributes.get("pure") is True else Effect.UNKNOWN


CLOCK = "mov.u64 $0, %globaltimer;"
"""The one text of tt.elementwise_inline_asm that every back end and the interpreter have: nanoseconds, as an i64."""


def _verify_inline_asm(op: Op) -> None:
    _verify_shapes(op)
    packed = number(op, "packed_element")
    require(packed > 0, op, "packed_element must be positive")
    if op.operands:
        count = op.operands[0].type.numel if isinstance(op.operands[0].type, TensorType) else 0
        require(count % packed == 0, op, f"{count} elements cannot be packed by {packed}")


def _verify_shapes(op: Op) -> None:
    """Check that tensors among operands and results have one shape; scalars may stand between them."""
    shapes = {value.type.shape for value in (*op.operands, *op.results) if value.type.shape is not None}
    if len(shapes) > 1:
        raise VerificationError(op, f"operands and results differ in shape: {sorted(shapes)}")


# tt.elementwise_inline_asm "text" {…} [%a, %b : T, U] -> V


def _parse_inline_asm(parser: Parser, definition: OpDefinition) -> Op:
    attributes: dict[str, Attribute] = {"asm_string": parser.string(), **parser.attributes()}
    references = parser.operands()
    operands = parser.resolve_all(references, parser.colon_types()) if references else []
    parser.expect("->")
    return Op(definition, operands, parser.types(), attributes)


def _print_inline_asm(printer: Printer, op: Op) -> None:
    text = quoted(str(op.attributes["asm_string"]))
    attributes = printer.attributes(op.attributes, ("asm_string",))
    operands = f" {printer.values(op.operands)} : {printer.types(op.operands)}" if op.operands else ""
    printer.write(f" {text}{attributes}{operands} -> {printer.types(op.results)}")


class Bitcast(Unary):
    """The bits of `operand` as another type."""

    __slots__ = ()


class FpToFp(FloatCast):
    """A conversion between any two floating point types."""

    __slots__ = ()


class Clampf(Op):
    """`operand`, but no less than `low` and no more than `high`."""

    __slots__ = ()
    operand, low, high = Operand(0), Operand(1), Operand(2)
    propagate_nan = Word("propagateNan")


class ExternElementwise(Op):
    """A function of a library, element by element."""

    __slots__ = ()
    arguments = Operands()
    symbol = Word("symbol")
    library, path = Word("libname"), Word("libpath")
    pure = Flag("pure")


class InlineAsm(Op):
    """Assembly of the program, for elements or packs of them."""

    __slots__ = ()
    arguments = Operands()
    text, constraints = Word("asm_string"), Word("constraints")
    pack = Integer("packed_element")
    pure = Flag("pure")


declare(
    "tt.mulhiui",
    kind=Binary,
    results=1,
    elementwise=True,
    commutative=True,
    verify=integer_type,
    semantics=TILE_SEMANTICS["tt.mulhiui"],
    **ELEMENTWISE,
)
declare(
    "tt.precise_divf",
    kind=Binary,
    results=1,
    elementwise=True,
    verify=float_type,
    semantics=TILE_SEMANTICS["tt.precise_divf"],
    **ELEMENTWISE,
)
declare(
    "tt.precise_sqrt",
    kind=Unary,
    results=1,
    elementwise=True,
    verify=float_type,
    semantics=TILE_SEMANTICS["tt.precise_sqrt"],
    **ELEMENTWISE,
)
declare(
    "tt.bitcast",
    kind=Bitcast,
    results=1,
    elementwise=True,
    verify=_verify_bitcast,
    semantics=TILE_SEMANTICS["tt.bitcast"],
    **ARROW,
)
declare(
    "tt.clampf",
    kind=Clampf,
    results=1,
    required=("propagateNan",),
    elementwise=True,
    parse=_parse_clampf,
    print=_print_clampf,
    verify=_verify_clampf,
    semantics=TILE_SEMANTICS["tt.clampf"],
)
declare(
    "tt.fp_to_fp",
    kind=FpToFp,
    results=1,
    elementwise=True,
    parse=_parse_fp_to_fp,
    print=_print_fp_to_fp,
    verify=_verify_fp_to_fp,
    semantics=TILE_SEMANTICS["tt.fp_to_fp"],
)
declare(
    "tt.extern_elementwise",
    kind=ExternElementwise,
    results=1,
    required=("libname", "libpath", "symbol", "pure"),
    elementwise=True,
    effect_of=_effect_unless_pure,
    verify=_verify_shapes,
    semantics=TILE_SEMANTICS["tt.extern_elementwise"],
    **functional(),
)
declare(
    "tt.elementwise_inline_asm",
    kind=InlineAsm,
    required=("asm_string", "constraints", "packed_element", "pure"),
    elementwise=True,
    effect_of=_effect_unless_pure,
    parse=_parse_inline_asm,
    print=_print_inline_asm,
    verify=_verify_inline_asm,
)
