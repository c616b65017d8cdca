"""Element by element ops that MLIR has no op for: `tt.mulhiui`, `tt.clampf`, `tt.fp_to_fp`, extern functions, …"""

from __future__ import annotations

from tilewright.dialects.arith import Binary, FloatCast, Unary
from tilewright.dialects.assembly import Groups, Piece, Reading, assembly, choice, type_of
from tilewright.dialects.formats import ARROW, ELEMENTWISE, keyword_text
from tilewright.dialects.rules import conversion_rule, float_type, integer_type, keyword_in, number, same_form
from tilewright.ir.attributes import Keyword, Number
from tilewright.ir.core import Op
from tilewright.ir.declare import Effect, declare, declares
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Flag, Integer, Operand, Operands, Word
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.types import FloatType, PointerType, TensorType

PROPAGATE_NAN = ("none", "all")
ROUNDINGS = ("rtz", "rtne")
"""Modes of rounding, by their numbers in MLIR."""


def _verify_clampf(op: Op) -> None:
    float_type(op)
    keyword_in(op, "propagateNan", PROPAGATE_NAN)


# tt.fp_to_fp %x {…} [, rounding = rtne] : T -> U


def _read_rounding(parser: Parser, reading: Reading) -> None:
    attributes = reading.attributes
    rounding = attributes.get("rounding")
    if isinstance(rounding, Number) and rounding.value in (0, 1):
        attributes["rounding"] = Keyword(ROUNDINGS[int(rounding.value)])
    if parser.optional(","):
        parser.expect("rounding")
        parser.expect("=")
        attributes["rounding"] = Keyword(parser.one_of(ROUNDINGS, "a rounding"))


def _write_rounding(printer: Printer, op: Op, groups: Groups) -> str:
    return f", rounding = {keyword_text(op, 'rounding')}" if "rounding" in op.attributes else ""


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


def effect_unless_pure(op: Op) -> Effect:
    """The effect of code that says itself whether it has one."""
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


@declares("tt.bitcast", results=1, elementwise=True, verify=_verify_bitcast, **ARROW)
class Bitcast(Unary):
    """The bits of `operand` as another type."""

    __slots__ = ()


@declares(
    "tt.fp_to_fp",
    elementwise=True,
    verify=_verify_fp_to_fp,
    **assembly(
        " %src{}$rounding : !src -> !result",
        "src",
        "result",
        custom={"rounding": Piece(_read_rounding, _write_rounding, inline=("rounding",))},
    ),
)
class FpToFp(FloatCast):
    """A conversion between any two floating point types."""

    __slots__ = ()


@declares(
    "tt.clampf",
    elementwise=True,
    verify=_verify_clampf,
    **assembly(
        " %x, %min, %max, propagateNan = $nan{} : !x",
        "x min max",
        "result",
        types=dict.fromkeys(("min", "max", "result"), type_of("x")),
        custom={"nan": choice("propagateNan", PROPAGATE_NAN, "a mode")},
    ),
)
class Clampf(Op):
    """`operand`, but no less than `low` and no more than `high`."""

    __slots__ = ()
    operand, low, high = Operand(0), Operand(1), Operand(2)
    propagate_nan = Word("propagateNan")


@declares(
    "tt.extern_elementwise",
    required=("pure",),
    elementwise=True,
    effect_of=effect_unless_pure,
    verify=_verify_shapes,
    **assembly("?( %args*){} : =>", "args*", "result"),
)
class ExternElementwise(Op):
    """A function of a library, element by element."""

    __slots__ = ()
    arguments = Operands()
    symbol = Word("symbol")
    library, path = Word("libname"), Word("libpath")
    pure = Flag("pure")


@declares(
    "tt.elementwise_inline_asm",
    required=("pure",),
    elementwise=True,
    effect_of=effect_unless_pure,
    verify=_verify_inline_asm,
    **assembly(" ^asm_string{}?( %args* : !args*) -> !result*", "args*", "result*"),
)
class InlineAsm(Op):
    """Assembly of the program, for elements or packs of them."""

    __slots__ = ()
    arguments = Operands()
    text, constraints = Word("asm_string"), Word("constraints")
    pack = Integer("packed_element")
    pure = Flag("pure")


declare("tt.mulhiui", kind=Binary, results=1, elementwise=True, commutative=True, verify=integer_type, **ELEMENTWISE)
declare("tt.precise_divf", kind=Binary, results=1, elementwise=True, verify=float_type, **ELEMENTWISE)
declare("tt.precise_sqrt", kind=Unary, results=1, elementwise=True, verify=float_type, **ELEMENTWISE)
