"""Arithmetic by the GPU's own instructions.

    arith.addf  f16, bf16     add.f16, fma.rn.bf16        computed in the format itself, not in f32
    arith.divf  f32           div.full.f32                two units in the last place, as Triton's
    arith.divsi               div.s32                     no element traps: x / 0 is some number
    arith.shli                shl.b32                     by the width or more: 0
                i64           min.u64, shl.b64            by numbers of 2³² and more, too

In LLVM a division by zero is undefined behaviour, from which LLVM would conclude that the divisor is not zero elsewhere
in the program. Divisions by values that are not constant are therefore inline assembly, which LLVM does not look into.
It leaves shifts by the width or more undefined as well, and `shl.b64` reads only the low 32 bits of the amount.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.backends.llvm.spelling import bits_of, element_of
from tilewright.backends.nvidia.lower.lowerer import Lowerer
from tilewright.backends.nvidia.lower.rules import Rule, shared_rule
from tilewright.dialects.arith import Binary, CompareFloats
from tilewright.dialects.tt_elementwise import Clampf
from tilewright.ir.core import Op

NATIVE = ("bfloat", "double", "float", "half")
"""Formats with arithmetic."""


# --- floats -----------------------------------------------------------------------------------------------------


def _native(write: Callable[[Lowerer, Any, str, Sequence[str]], str]) -> Rule:
    """The rule of `write`, which takes the element type, for formats with arithmetic; others have the shared one."""

    def rule(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
        first, *_ = op.operands
        element = lowerer.element(first.type)
        return write(lowerer, op, element, operands) if element in NATIVE else shared_rule(lowerer, op, operands)

    return rule


def _fusible(opcode: str) -> Rule:
    """A sum or product, which may become one operation with another one."""
    return _native(
        lambda lowerer, _, element, operands: lowerer.w.emit(
            f"{opcode} {lowerer.w.fusion}{element} {', '.join(operands)}"
        )
    )


def _extreme(name: str) -> Rule:
    """An intrinsic of LLVM that is an instruction for every format."""
    return _native(lambda lowerer, _, element, operands: lowerer.w.intrinsic(name, element, *operands))


@_native
def _compare(lowerer: Lowerer, op: CompareFloats, element: str, operands: Sequence[str]) -> str:
    return lowerer.w.emit(f"fcmp {op.predicate} {element} {', '.join(operands)}")


@_native
def _divide(lowerer: Lowerer, op: Op, element: str, operands: Sequence[str]) -> str:
    if element == "float":
        return lowerer.w.call(element, "llvm.nvvm.div.full", [(element, value) for value in operands])
    return lowerer.w.emit(f"fdiv {element} {', '.join(operands)}")


@_native
def _clamp(lowerer: Lowerer, op: Clampf, element: str, operands: Sequence[str]) -> str:
    keep_nan = op.propagate_nan == "all"
    low, high = ("llvm.maximum", "llvm.minimum") if keep_nan else ("llvm.maxnum", "llvm.minnum")
    x, least, most = operands
    return lowerer.w.intrinsic(high, element, lowerer.w.intrinsic(low, element, x, least), most)


# --- integers ---------------------------------------------------------------------------------------------------


def _multiply(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
    """A coordinate times a number keeps its constant part apart, which then becomes a part of addresses."""
    value, factor = operands
    if element_of(op.result.type) == "i32" and factor.lstrip("-").isdigit():
        return lowerer.product(value, int(factor))
    return shared_rule(lowerer, op, operands)


def _quotient(*, signed: bool) -> Rule:
    def rule(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
        if _has_rule(op, operands):
            return shared_rule(lowerer, op, operands)
        return _unchecked(lowerer, op, operands, "div", signed=signed)

    return rule


def _remainder(*, signed: bool) -> Rule:
    """a mod b, by a - (a / b) * b where the quotient is asked for, too.

    LLVM does not look into that product: of addresses in loops it would make one induction variable for each sum of
    dividend and quotient, which took a convolution from 62 registers to 96.
    """

    def rule(lowerer: Lowerer, op: Binary, operands: Sequence[str]) -> str:
        if _has_rule(op, operands):
            return shared_rule(lowerer, op, operands)
        if not _is_divided_too(op):
            return _unchecked(lowerer, op, operands, "rem", signed=signed)
        w, element = lowerer.w, element_of(op.result.type)
        dividend, divisor = operands
        quotient = _unchecked(lowerer, op, operands, "div", signed=signed)
        if element != "i32":
            return w.emit(f"sub {element} {dividend}, {w.emit(f'mul {element} {quotient}, {divisor}')}")
        given = [("i32", value) for value in (quotient, w.emit(f"sub i32 0, {divisor}"), dividend)]
        return lowerer.computed("i32", "mad.lo.s32 $0, $1, $2, $3;", given)

    return rule


def _has_rule(op: Op, operands: Sequence[str]) -> bool:
    """Whether LLVM divides without a division: by constants it does so with multiplications."""
    _, divisor = operands
    return divisor.lstrip("-").isdigit() or op.result.type.scalar.bits == 1


def _is_divided_too(op: Binary) -> bool:
    name = op.name.replace("rem", "div")
    return any(user.name == name and user.operands == op.operands for user in op.lhs.uses)


def _unchecked(lowerer: Lowerer, op: Op, operands: Sequence[str], name: str, *, signed: bool) -> str:
    """`div` or `rem` as the hardware has it."""
    w, element = lowerer.w, element_of(op.result.type)
    sign = "s" if signed else "u"
    if element == "i64":  # LLVM divides 32 bits where both numbers are small
        dividend, divisor = operands
        not_zero = w.emit(f"select i1 {w.emit(f'icmp eq i64 {divisor}, 0')}, i64 1, i64 {divisor}")
        return w.emit(f"{sign}{name} i64 {dividend}, {not_zero}")
    given = [("i32", w.convert(f"{'s' if signed else 'z'}ext", value, element, "i32")) for value in operands]
    found = lowerer.computed("i32", f"{name}.{sign}32 $0, $1, $2;", given)
    return w.convert("trunc", found, "i32", element)


def _shift(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
    """A number of 64 bits is shifted by 64 at most, which has no upper half."""
    value, amount = operands
    if element_of(op.result.type) == "i64" and not amount.isdigit():
        amount = lowerer.w.intrinsic("llvm.umin", "i64", amount, "64")
    return shared_rule(lowerer, op, (value, amount))


def _multiply_high(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
    """LLVM finds the instruction in a product of twice the width."""
    w, element = lowerer.w, element_of(op.result.type)
    bits = bits_of(element)
    wide = f"i{2 * bits}"
    a, b = (w.emit(f"zext {element} {value} to {wide}") for value in operands)
    high = w.emit(f"lshr {wide} {w.emit(f'mul {wide} {a}, {b}')}, {bits}")
    return w.emit(f"trunc {wide} {high} to {element}")


def _absolute(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
    element, (x,) = element_of(op.result.type), operands
    return lowerer.w.call(element, f"llvm.abs.{element}", [(element, x), ("i1", "false")])


def _select(lowerer: Lowerer, op: Op, operands: Sequence[str]) -> str:
    element = lowerer.element(op.result.type)
    condition, yes, no = operands
    return yes if yes == no else lowerer.w.emit(f"select i1 {condition}, {element} {yes}, {element} {no}")


RULES: dict[str, Rule] = {
    "arith.addf": _fusible("fadd"),
    "arith.cmpf": _compare,
    "arith.divf": _divide,
    "arith.divsi": _quotient(signed=True),
    "arith.divui": _quotient(signed=False),
    "arith.maximumf": _extreme("llvm.maximum"),
    "arith.maxnumf": _extreme("llvm.maxnum"),
    "arith.minimumf": _extreme("llvm.minimum"),
    "arith.minnumf": _extreme("llvm.minnum"),
    "arith.mulf": _fusible("fmul"),
    "arith.muli": _multiply,
    "arith.remsi": _remainder(signed=True),
    "arith.remui": _remainder(signed=False),
    "arith.select": _select,
    "arith.shli": _shift,
    "arith.shrui": _shift,
    "arith.subf": _fusible("fsub"),
    "math.absi": _absolute,
    "math.fma": _extreme("llvm.fma"),
    "tt.clampf": _clamp,
    "tt.mulhiui": _multiply_high,
}
