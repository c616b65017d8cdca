"""Python's operators on elements: kinds as in NumPy, or as in Python if all operands are Python numbers.

    int8 + uint8        → int16 addi                    bool + bool     → logical or
    int / int           → float64 divf                  7 // -2         → -4
    x // 0, integers    → 0, and the caller is told     x ** 2          → x * x

Between Python's numbers (`is_exact`) every operation has a check for the cases in which Python's result differs,
because an integer does not fit into 64 bits or Python raises an error; the caller then runs the Python function itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tilewright.ir.attributes import Keyword
from tilewright.support.diagnostics import SemanticError
from tilewright.vectorizing.casting import Number, cast, kind_of, to_element, truth
from tilewright.vectorizing.element import Element, check, constant, emit, is_exact
from tilewright.vectorizing.errors import ASK_PYTHON, ZERO_DIVISION, NoSuchOperation
from tilewright.vectorizing.kinds import BOOL, FLOAT64, INT64, WEAK_BOOL, WEAK_FLOAT, WEAK_INT, Kind, promote


def compare(predicate: str, left: Element, right: Element, kind: Kind = BOOL) -> Element:
    """A comparison of two elements of one kind; `predicate` without the letter that says how to take the operands."""
    of = left.kind
    if of.is_float:
        name, prefix = "arith.cmpf", "u" if predicate == "ne" else "o"
    else:
        name, prefix = "arith.cmpi", "" if predicate in ("eq", "ne") else "s" if of.signed else "u"
    return emit(name, [left, right], kind, {"predicate": Keyword(prefix + predicate)})


def select(condition: Element, yes: Element, no: Element) -> Element:
    """`yes` where the condition holds; both are of one kind."""
    return emit("arith.select", [condition, yes, no], yes.kind)


def operands(left: Number, right: Number, *, least: Kind | None = None) -> tuple[Element, Element, Kind]:
    """The two as elements of the kind that they are computed in; a bool (Python's: an int) counts as `least`."""
    kind = promote(kind_of(left), kind_of(right))
    if kind == WEAK_BOOL:
        kind = WEAK_INT
    elif kind == BOOL and least is not None:
        kind = least
    return cast(left, kind), cast(right, kind), kind


def refuse(operation: str, *kinds: Kind, reason: str = "NumPy refuses it, too") -> SemanticError:
    """The error that an operation does not exist."""
    return SemanticError(NoSuchOperation(operation, " and ".join(map(str, kinds)), reason))


# --- sums and products --------------------------------------------------------------------------------------------


def add(left: Number, right: Number) -> Element:
    """`left + right`."""
    a, b, kind = operands(left, right)
    if kind.is_bool:
        return emit("arith.ori", [a, b], kind)
    result = emit("arith.addf" if kind.is_float else "arith.addi", [a, b], kind)
    if kind == WEAK_INT and is_exact():
        _check_sign(emit("arith.andi", [_xor(a, result), _xor(b, result)], kind))
    return result


def sub(left: Number, right: Number) -> Element:
    """`left - right`."""
    a, b, kind = operands(left, right)
    if kind.is_bool:
        raise refuse("-", kind, kind)
    result = emit("arith.subf" if kind.is_float else "arith.subi", [a, b], kind)
    if kind == WEAK_INT and is_exact():
        _check_sign(emit("arith.andi", [_xor(a, b), _xor(a, result)], kind))
    return result


def mul(left: Number, right: Number) -> Element:
    """`left * right`."""
    a, b, kind = operands(left, right)
    if kind.is_bool:
        return emit("arith.andi", [a, b], kind)
    if kind.is_float:
        return emit("arith.mulf", [a, b], kind)
    result = emit("arith.muli", [a, b], kind)
    if kind == WEAK_INT and is_exact():
        _check_product(a, b, result)
    return result


def _xor(left: Element, right: Element) -> Element:
    return emit("arith.xori", [left, right], left.kind)


def _check_sign(overflow: Element) -> None:
    """An overflow shows as a sign that neither operand explains."""
    check(compare("ge", overflow, constant(0, overflow.kind)), ASK_PYTHON)


def _check_product(a: Element, b: Element, low: Element) -> None:
    """The upper half of the product has to repeat the sign of the lower one."""
    high = emit("tt.mulhiui", [a, b], WEAK_INT)
    for one, other in ((a, b), (b, a)):
        borrow = emit("arith.andi", [_sign(one), other], WEAK_INT)
        high = emit("arith.subi", [high, borrow], WEAK_INT)
    check(compare("eq", high, _sign(low)), ASK_PYTHON)


def _sign(value: Element) -> Element:
    """-1 for negative numbers, else 0."""
    return emit("arith.shrsi", [value, constant(63, WEAK_INT)], WEAK_INT)


# --- division -----------------------------------------------------------------------------------------------------


def truediv(left: Number, right: Number) -> Element:
    """`left / right`; integers become float64."""
    kind = promote(kind_of(left), kind_of(right))
    if not kind.is_float:
        kind = WEAK_FLOAT if kind.weak else FLOAT64
    a, b = cast(left, kind), cast(right, kind)
    check_divisor(b)
    return emit("arith.divf", [a, b], kind)


def floordiv(left: Number, right: Number) -> Element:
    """`left // right`, rounded down."""
    a, b, kind = operands(left, right, least=Kind("int8"))
    check_divisor(b)
    if kind.is_float:
        return _float_divmod(a, b)[0]
    _check_smallest(a, b)
    return emit("arith.floordivsi" if kind.signed else "arith.divui", [a, b], kind)


def mod(left: Number, right: Number) -> Element:
    """`left % right`, with the sign of `right`."""
    a, b, kind = operands(left, right, least=Kind("int8"))
    check_divisor(b)
    if kind.is_float:
        return _float_divmod(a, b)[1]
    if not kind.signed:
        return emit("arith.remui", [a, b], kind)
    quotient = emit("arith.floordivsi", [a, b], kind)
    rest = emit("arith.subi", [a, emit("arith.muli", [quotient, b], kind)], kind)
    zero = constant(0, kind)
    return select(compare("eq", b, zero), zero, rest)


def divide_both(left: Number, right: Number) -> tuple[Element, Element]:
    """`divmod(left, right)`."""
    return floordiv(left, right), mod(left, right)


def check_divisor(divisor: Element) -> None:
    """Report a division by zero; for Python's numbers also one of floats."""
    kind = divisor.kind
    if kind.weak and is_exact():
        check(compare("ne", divisor, constant(0, kind)), ASK_PYTHON)
    elif kind.is_integer:
        check(compare("ne", divisor, constant(0, kind)), ZERO_DIVISION)


def _check_smallest(a: Element, b: Element) -> None:
    """-2**63 // -1 is one more than fits."""
    if a.kind == WEAK_INT and is_exact():
        is_smallest = compare("eq", a, constant(-(1 << 63), WEAK_INT))
        both = emit("arith.andi", [is_smallest, compare("eq", b, constant(-1, WEAK_INT))], BOOL)
        check(emit("arith.xori", [both, constant(1, BOOL)], BOOL), ASK_PYTHON)


def _float_divmod(a: Element, b: Element) -> tuple[Element, Element]:
    """Quotient rounded down and remainder with the divisor's sign, as Python and NumPy define them."""
    kind = a.kind
    zero, one = constant(0.0, kind), constant(1.0, kind)
    rest = emit("arith.remf", [a, b], kind)
    quotient = emit("arith.divf", [emit("arith.subf", [a, rest], kind), b], kind)
    is_rest = compare("ne", rest, zero)
    differ = emit("arith.xori", [compare("lt", b, zero), compare("lt", rest, zero)], BOOL)
    turned = emit("arith.andi", [is_rest, differ], BOOL)
    rest = select(turned, emit("arith.addf", [rest, b], kind), rest)
    quotient = select(turned, emit("arith.subf", [quotient, one], kind), quotient)
    rest = select(is_rest, rest, copysign(zero, b))
    down = emit("math.floor", [quotient], kind)
    too_far = compare("gt", emit("arith.subf", [quotient, down], kind), constant(0.5, kind))
    down = select(too_far, emit("arith.addf", [down, one], kind), down)
    plain = emit("arith.divf", [a, b], kind)
    down = select(compare("ne", quotient, zero), down, copysign(zero, plain))
    is_zero = compare("eq", b, zero)
    return select(is_zero, plain, down), select(is_zero, emit("arith.remf", [a, b], kind), rest)


def copysign(magnitude: Element, sign: Element) -> Element:
    """The magnitude of one float with the sign of another."""
    return emit("tt.extern_elementwise", [magnitude, sign], sign.kind, extern("copysign"))


def extern(name: str) -> dict[str, Any]:
    """The attributes of a call of a function that is no op."""
    return {"libname": "", "libpath": "", "symbol": f"__tw_{name}", "pure": True}


# --- bits ---------------------------------------------------------------------------------------------------------


def _bitwise(sign: str, name: str) -> Callable[[Number, Number], Element]:
    def apply(left: Number, right: Number) -> Element:
        kinds = kind_of(left), kind_of(right)
        kind = promote(*kinds)
        if kind.is_float:
            raise refuse(sign, *kinds)
        return emit(name, [cast(left, kind), cast(right, kind)], kind)

    return apply


def lshift(left: Number, right: Number) -> Element:
    """`left << right`; by the width or more: 0."""
    a, b, kind = _shift_operands("<<", left, right)
    result = emit("arith.shli", [a, b], kind)
    if kind == WEAK_INT and is_exact():
        _check_shift(b)
        check(compare("eq", emit("arith.shrsi", [result, b], kind), a), ASK_PYTHON)
    return result


def rshift(left: Number, right: Number) -> Element:
    """`left >> right`; the sign comes in."""
    a, b, kind = _shift_operands(">>", left, right)
    if kind == WEAK_INT and is_exact():
        _check_shift(b)
    return emit("arith.shrsi" if kind.signed else "arith.shrui", [a, b], kind)


def _shift_operands(sign: str, left: Number, right: Number) -> tuple[Element, Element, Kind]:
    a, b, kind = operands(left, right, least=Kind("int8"))
    if kind.is_float:
        raise refuse(sign, kind_of(left), kind_of(right))
    return a, b, kind


def _check_shift(amount: Element) -> None:
    in_width = emit("arith.cmpi", [amount, constant(64, WEAK_INT)], BOOL, {"predicate": Keyword("ult")})
    check(in_width, ASK_PYTHON)


# --- one operand --------------------------------------------------------------------------------------------------


def neg(value: Number) -> Element:
    """`-value`."""
    kind = kind_of(value)
    if kind.is_float:
        return emit("arith.negf", [to_element(value)], kind)
    if kind == BOOL:
        raise refuse("-", kind)
    return sub(0, cast(value, WEAK_INT if kind == WEAK_BOOL else kind))


def pos(value: Number) -> Element:
    """`+value`."""
    kind = kind_of(value)
    if kind == BOOL:
        raise refuse("+", kind)
    return cast(value, WEAK_INT if kind == WEAK_BOOL else kind)


def absolute(value: Number) -> Element:
    """`abs(value)`; the smallest integer of a dtype stays what it is."""
    kind = kind_of(value)
    if kind == WEAK_BOOL:
        return cast(value, WEAK_INT)
    element = to_element(value)
    if kind.is_float:
        return emit("math.absf", [element], kind)
    if not kind.signed:
        return element
    if kind == WEAK_INT and is_exact():
        check(compare("ne", element, constant(-(1 << 63), kind)), ASK_PYTHON)
    return emit("math.absi", [element], kind)


def invert(value: Number) -> Element:
    """`~value`."""
    kind = kind_of(value)
    if kind.is_float:
        raise refuse("~", kind)
    if kind == WEAK_BOOL:
        kind = WEAK_INT
    return _xor(cast(value, kind), constant(1 if kind.is_bool else -1, kind))


def logical_not(value: Number) -> Element:
    """`not value`."""
    kind = WEAK_BOOL if kind_of(value).weak else BOOL
    return emit("arith.xori", [truth(value), constant(1, BOOL)], kind)


# --- comparisons --------------------------------------------------------------------------------------------------


def _comparison(predicate: str) -> Callable[[Number, Number], Any]:
    def apply(left: Number, right: Number) -> Any:
        kinds = kind_of(left), kind_of(right)
        answer = WEAK_BOOL if kinds[0].weak and kinds[1].weak else BOOL
        number = _beyond(left, right)
        if number is not None:  # a Python integer that no value of the other dtype reaches
            return constant(int(PYTHON_COMPARISONS[predicate](*number)), answer)
        if {kind.signed for kind in kinds if kind.is_integer} == {True, False}:
            return _mixed_signs(predicate, left, right, answer)
        kind = promote(*kinds)
        return compare(predicate, cast(left, kind), cast(right, kind), answer)

    return apply


PYTHON_COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ge", "gt", "le", "lt", "ne")}


def _beyond(left: Number, right: Number) -> tuple[float, float] | None:
    """Two numbers that compare like these, where one is a Python integer out of the other's bounds."""
    for number, other, swapped in ((left, right, False), (right, left, True)):
        is_integer = isinstance(other, Element) and other.kind.is_integer
        if number.__class__ is int and is_integer and not other.kind.holds(number):
            return (0, number) if swapped else (number, 0)
    return None


def _mixed_signs(predicate: str, left: Number, right: Number, answer: Kind) -> Element:
    """Signed with unsigned integers, exactly: where the signed one is negative, it is the smaller one."""
    a, b = to_element(left), to_element(right)
    if max(a.kind.bits if not a.kind.signed else 0, b.kind.bits if not b.kind.signed else 0) < 64:
        return compare(predicate, cast(a, INT64), cast(b, INT64), answer)
    wide = Kind("uint64")
    if a.kind.signed:
        a = cast(a, INT64)
        negative, if_negative = compare("lt", a, constant(0, INT64)), predicate in ("lt", "le", "ne")
    else:
        b = cast(b, INT64)
        negative, if_negative = compare("lt", b, constant(0, INT64)), predicate in ("gt", "ge", "ne")
    plain = compare(predicate, Element(a.handle, wide) if a.kind.signed else cast(a, wide),
                    Element(b.handle, wide) if b.kind.signed else cast(b, wide), answer)
    return select(negative, constant(int(if_negative), answer), plain)


OPERATORS: dict[str, Callable[..., Any]] = {
    "abs": absolute,
    "add": add,
    "and_": _bitwise("&", "arith.andi"),
    "floordiv": floordiv,
    "invert": invert,
    "logical_not": logical_not,
    "lshift": lshift,
    "mod": mod,
    "mul": mul,
    "neg": neg,
    "or_": _bitwise("|", "arith.ori"),
    "pos": pos,
    "rshift": rshift,
    "sub": sub,
    "truediv": truediv,
    "xor": _bitwise("^", "arith.xori"),
    **{predicate: _comparison(predicate) for predicate in PYTHON_COMPARISONS},
}
