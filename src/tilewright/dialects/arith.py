"""Arithmetic on integers and floating point numbers: `arith.addi`, `arith.cmpf`, `arith.truncf`, …"""

from __future__ import annotations

from tilewright.dialects.formats import ELEMENTWISE, TO, comparison
from tilewright.dialects.rules import conversion_rule, float_type, integer_type, keyword_in
from tilewright.dialects.traits import Indexing
from tilewright.ir.attributes import Dense, Number
from tilewright.ir.core import Op
from tilewright.ir.declare import OpDefinition, declare, declares
from tilewright.ir.errors import VerificationError, require
from tilewright.ir.fields import Literal, Operand, Word
from tilewright.ir.parser import Parser
from tilewright.ir.printer import Printer
from tilewright.ir.types import FloatType, IndexType, IntType, TensorType, i1, with_element

CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
CMPF = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)

INTEGER_BINARY = (
    *("addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "ceildivsi", "ceildivui", "floordivsi"),
    *("andi", "ori", "xori", "shli", "shrsi", "shrui", "minsi", "maxsi", "minui", "maxui"),
)
FLOAT_BINARY = ("addf", "subf", "mulf", "divf", "remf", "minnumf", "maxnumf", "minimumf", "maximumf")
COMMUTATIVE = frozenset(
    (
        *("addi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "minui", "maxui"),
        *("addf", "mulf", "minnumf", "maxnumf", "minimumf", "maximumf"),
    )
)

ASSOCIATIVE = frozenset(("addi", "muli", "andi", "ori", "xori"))
"""Ops whose result does not depend on which two of several operands come first."""

IDEMPOTENT = frozenset(
    ("andi", "ori", "minsi", "maxsi", "minui", "maxui", "minnumf", "maxnumf", "minimumf", "maximumf")
)
"""Ops with f(x, x) = x for all x."""

SAME_EVERYWHERE = frozenset(
    ("arith.cmpf", "arith.extf", "arith.negf", "arith.truncf", "math.absf", "tt.bitcast", "tt.fp_to_fp")
)
"""Ops on floats that round once or never, whatever is around them: every machine computes the same."""

EXTENSIONS = frozenset(("arith.extsi", "arith.extui", "arith.extf"))
"""Conversions to a wider type."""
_INTEGER = (IntType, IndexType)
CONVERSIONS = {
    "extsi": conversion_rule(IntType, IntType, "<"),
    "extui": conversion_rule(IntType, IntType, "<"),
    "trunci": conversion_rule(IntType, IntType, ">"),
    "extf": conversion_rule(FloatType, FloatType, "<"),
    "truncf": conversion_rule(FloatType, FloatType, ">"),
    "sitofp": conversion_rule(IntType, FloatType),
    "uitofp": conversion_rule(IntType, FloatType),
    "fptosi": conversion_rule(FloatType, IntType),
    "fptoui": conversion_rule(FloatType, IntType),
    "bitcast": conversion_rule((IntType, FloatType), (IntType, FloatType), "="),
    "index_cast": conversion_rule(_INTEGER, _INTEGER),
    "index_castui": conversion_rule(_INTEGER, _INTEGER),
}


# arith.constant {…} 1 : i32


def _parse_constant(parser: Parser, definition: OpDefinition) -> Op:
    attributes = parser.attributes()
    start = parser.position
    value = parser.attribute()
    if isinstance(value, bool):
        value = Number(int(value), i1)
    if not isinstance(value, (Number, Dense)):
        raise parser.error("a number", start)
    attributes["value"] = value
    return Op(definition, (), (value.type,), attributes)


def _print_constant(printer: Printer, op: Op) -> None:
    printer.write(f"{printer.attributes(op.attributes, ('value',))} {printer.attribute(op.attributes['value'])}")


def _verify_constant(op: Op) -> None:
    value = op.attributes["value"]
    if not isinstance(value, (Number, Dense)) or value.type is not op.results[0].type:
        raise VerificationError(op, "the value's type is not the result's type")
    if isinstance(value, Dense):
        type = value.type
        fits = isinstance(type, TensorType) and len(value.values) == type.numel
        require(fits, op, "the number of values is not the number of elements")


# arith.select %c, %a, %b {…} : [tensor<4xi1>,] T


def _parse_select(parser: Parser, definition: OpDefinition) -> Op:
    references = parser.operands()
    attributes = parser.attributes()
    condition, type = i1, parser.colon_type()
    if parser.optional(","):
        return Op(definition, parser.resolve_all(references, (type, t := parser.type(), t)), (t,), attributes)
    return Op(definition, parser.resolve_all(references, (condition, type, type)), (type,), attributes)


def _print_select(printer: Printer, op: Op) -> None:
    condition = op.operands[0].type
    first = "" if condition is i1 else f"{printer.type(condition)}, "
    attributes = printer.attributes(op.attributes)
    printer.write(f" {printer.values(op.operands)}{attributes} : {first}{printer.type(op.results[0].type)}")


def _verify_select(op: Op) -> None:
    condition, a, b = op.operands
    type = op.results[0].type
    require(a.type is type and b.type is type, op, "both values and the result must have one type")
    fits = condition.type is i1 or condition.type is with_element(type, i1)
    require(fits, op, "the condition must be i1 or a tensor of i1 of the result's shape")


def _verify_comparison(op: Op) -> None:
    a, b = op.operands
    if a.type is not b.type:
        raise VerificationError(op, f"cannot compare {a.type} with {b.type}")
    if op.results[0].type is not with_element(a.type, i1):
        raise VerificationError(op, f"the result must be i1 in the shape of {a.type}")


def _verify_cmpi(op: Op) -> None:
    _verify_comparison(op)
    keyword_in(op, "predicate", CMPI)


def _verify_cmpf(op: Op) -> None:
    _verify_comparison(op)
    keyword_in(op, "predicate", CMPF)
    require(isinstance(op.operands[0].type.scalar, FloatType), op, "needs floating point numbers")


@declares(
    "arith.constant",
    constant=True,
    operands=(0, 0),
    results=1,
    parse=_parse_constant,
    print=_print_constant,
    verify=_verify_constant,
)
class Constant(Indexing):
    """A literal."""

    __slots__ = ()
    value = Literal("value")

    @property
    def number(self) -> Number:
        """The literal of a scalar."""
        value = self.value
        assert isinstance(value, Number), "a scalar constant is one number"
        return value


class Unary(Op):
    """An op of one operand, element by element."""

    __slots__ = ()
    operand = Operand(0)


class IntegerCast(Unary):
    """A conversion between integers of different widths, or between integers and indices."""

    __slots__ = ()


class FloatCast(Unary):
    """A conversion between floating point types; `rounding` is "" where the text says none."""

    __slots__ = ()
    rounding = Word("rounding", "")


class Binary(Op):
    """An op of two operands of one type, element by element."""

    __slots__ = ()
    lhs, rhs = Operand(0), Operand(1)


class ModularArithmetic(Binary):
    """A sum, a difference or a product of integers: its low bits depend on those of its operands only."""

    __slots__ = ()


class Bitwise(Binary):
    """An op on each bit by itself."""

    __slots__ = ()


class Division(Binary):
    """A quotient or a remainder."""

    __slots__ = ()


class IntegerRemainder(Division):
    """The remainder of a division of integers."""

    __slots__ = ()


class Extreme(Binary):
    """The lesser or the greater of two numbers."""

    __slots__ = ()


class IntegerExtreme(Extreme):
    """The lesser or the greater of two integers."""

    __slots__ = ()


class FloatExtreme(Extreme):
    """The lesser or the greater of two floating point numbers; a NaN where one operand is a NaN."""

    __slots__ = ()


class NumberExtreme(FloatExtreme):
    """The lesser or the greater of two floating point numbers; the other one where one operand is a NaN."""

    __slots__ = ()


class Compare(Binary):
    """A comparison by `predicate`."""

    __slots__ = ()
    predicate = Word("predicate")


class CompareIntegers(Compare):
    """A comparison of integers."""

    __slots__ = ()


class CompareFloats(Compare):
    """A comparison of floating point numbers."""

    __slots__ = ()


@declares("arith.select", results=1, elementwise=True, parse=_parse_select, print=_print_select, verify=_verify_select)
class Select(Op):
    """The element of `chosen` where `condition` holds, else that of `other`."""

    __slots__ = ()
    condition, chosen, other = Operand(0), Operand(1), Operand(2)


_CLASSES: dict[str, type[Op]] = {
    **dict.fromkeys(("addi", "subi", "muli"), ModularArithmetic),
    **dict.fromkeys(("andi", "ori", "xori"), Bitwise),
    **dict.fromkeys(("divsi", "divui", "ceildivsi", "ceildivui", "floordivsi", "divf", "remf"), Division),
    **dict.fromkeys(("remsi", "remui"), IntegerRemainder),
    **dict.fromkeys(("minsi", "maxsi", "minui", "maxui"), IntegerExtreme),
    **dict.fromkeys(("minimumf", "maximumf"), FloatExtreme),
    **dict.fromkeys(("minnumf", "maxnumf"), NumberExtreme),
    **dict.fromkeys(("extsi", "extui", "trunci", "index_cast", "index_castui"), IntegerCast),
    **dict.fromkeys(("extf", "truncf"), FloatCast),
}
"""The classes of ops of one or two operands that have more than `Unary` or `Binary` says."""


for _name in (*INTEGER_BINARY, *FLOAT_BINARY):
    declare(
        f"arith.{_name}",
        kind=_CLASSES.get(_name, Binary),
        results=1,
        elementwise=True,
        commutative=_name in COMMUTATIVE,
        associative=_name in ASSOCIATIVE,
        idempotent=_name in IDEMPOTENT,
        verify=integer_type if _name in INTEGER_BINARY else float_type,
        **ELEMENTWISE,
    )
declare("arith.negf", kind=Unary, results=1, elementwise=True, verify=float_type, **ELEMENTWISE)
for _name, _rule in CONVERSIONS.items():
    declare(f"arith.{_name}", kind=_CLASSES.get(_name, Unary), results=1, elementwise=True, verify=_rule, **TO)
for _name, _kind, _predicates, _rule in (
    ("cmpi", CompareIntegers, CMPI, _verify_cmpi),
    ("cmpf", CompareFloats, CMPF, _verify_cmpf),
):
    declare(f"arith.{_name}", kind=_kind, results=1, elementwise=True, verify=_rule, **comparison(_predicates))
