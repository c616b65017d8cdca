"""The instructions for each elementwise op on a vector of lanes.

    lower_elementwise(w, op, ["%a", "%b"], 16)          # arith.addf on f32: %v7 = fadd <16 x float> %a, %b

Values: i1 as i1, integers as iN, f16 as half, bf16 as bfloat, fp8 as i8, pointers as ptr. Arithmetic on f16, bf16 and
fp8 happens in f32 and is rounded after each op, as in Triton. AArch64's own f16 additions and multiplications give the
same bits, since f32 has more than twice the digits. No op becomes a library call, and no operand traps: `integers.py`
and `conversions.py` define the results that LLVM leaves undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from tilewright.backends.llvm import integers
from tilewright.backends.llvm.conversions import (
    convert_float,
    float_from_integer,
    from_single,
    half_bits,
    integer_from_float,
    odd_sum,
    to_single,
)
from tilewright.backends.llvm.lanes import Lanes, LaneType
from tilewright.backends.llvm.mathlib import FUNCTIONS, intrinsic
from tilewright.backends.llvm.spelling import bits_of, comes_apart, element_of, suffix, vector
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.arith import Compare, FloatCast, Unary
from tilewright.dialects.tt_elementwise import Clampf, ExternElementwise
from tilewright.ir.core import Op
from tilewright.ir.types import Type, f16, f32, f64

Lowering: TypeAlias = Callable[[LlvmWriter, Any, Sequence[str], int], str]
"""A function that emits an op of some kinds; its second parameter is of the class that these kinds share."""

EXTERN_PREFIX = "__tw_"


def lower_elementwise(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
    """Emit one elementwise op on `lanes` lanes (1: scalars).

    Args:
        w: where the instructions go.
        op: an op of `is_elementwise`; only its name, attributes and element types are read.
        operands: one value per operand, each of `lanes` lanes.

    Returns the value of the result.
    """
    return LOWERINGS[op.name](w, op, operands, lanes)


def is_elementwise(op: Op) -> bool:
    """Whether there is a lowering for this op (for extern_elementwise: for its symbol)."""
    if isinstance(op, ExternElementwise):
        return _function_of(op) in FUNCTIONS
    return op.name in LOWERINGS


def _function_of(op: ExternElementwise) -> str:
    return op.symbol.removeprefix(EXTERN_PREFIX)


def _source(op: Unary) -> Type:
    return op.operand.type.scalar


def _result(op: Op) -> Type:
    return op.results[0].type.scalar


# --- integers ---------------------------------------------------------------------------------------------------


def _instruction(opcode: str) -> Lowering:
    """One LLVM instruction on two operands of the result's type."""

    def lower(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
        a, b = operands
        return w.emit(f"{opcode} {vector(element_of(op.results[0].type), lanes)} {a}, {b}")

    return lower


def _integer_rule(rule: integers.BinaryRule, extension: str) -> Lowering:
    """A rule on two integers; i1 is extended to i8 meanwhile."""
    narrow_rule = integers.on_bytes(rule, extension)

    def lower(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
        k = LaneType(w, element_of(_result(op)), lanes)
        a, b = map(k, operands)
        return (narrow_rule if k.width == 1 else rule)(a, b).name

    return lower


def _extreme(intrinsic: str, extension: str) -> Lowering:
    """The lesser or the greater of two integers."""
    narrow = _integer_rule(lambda a, b: a.kind.call(intrinsic, a, b), extension)

    def lower(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
        element = element_of(op.results[0].type)
        return (
            narrow(w, op, operands, lanes)
            if element == "i1"
            else w.intrinsic(intrinsic, vector(element, lanes), *operands)
        )

    return lower


def _compare_integers(w: LlvmWriter, op: Compare, operands: Sequence[str], lanes: int) -> str:
    a, b = operands
    return w.emit(f"icmp {op.predicate} {vector(element_of(op.lhs.type), lanes)} {a}, {b}")


def _absolute(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
    k = LaneType(w, element_of(_result(op)), lanes)
    (x,) = map(k, operands)
    return k.call("llvm.smax", x, -x).name


def _set_bits(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
    k = LaneType(w, element_of(_result(op)), lanes)
    (x,) = map(k, operands)
    return x.name if k.width == 1 else k.call("llvm.ctpop", x).name


def _leading_zeros(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
    k = LaneType(w, element_of(_result(op)), lanes)
    (x,) = map(k, operands)
    if k.width == 1:
        return (~x).name
    type = vector(k.element, lanes)
    return w.call(type, f"llvm.ctlz.{suffix(type)}", [(type, x.name), ("i1", "false")])


# --- floats -----------------------------------------------------------------------------------------------------


def _in_floats(function: Callable[..., Lanes]) -> Lowering:
    """A function of Lanes of float or double, all operands and the result of one type."""

    def lower(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
        return _apply(w, function, op, operands, lanes)

    return lower


def _apply(w: LlvmWriter, function: Callable[..., Lanes], op: Op, operands: Sequence[str], lanes: int) -> str:
    form = _result(op)
    if form is f64:
        double = LaneType(w, "double", lanes)
        return function(*(double(x) for x in operands)).name
    single = LaneType(w, "float", lanes)
    widened = [single(to_single(w, x, form.text, lanes)) for x in operands]
    return from_single(w, function(*widened).name, form.text, lanes)


def _fused(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
    """a·b + c rounded once. Narrow formats in double, where the product is exact and the sum is rounded to odd."""
    form = _result(op)
    if form is f64 or form is f32:
        return _apply(w, FUNCTIONS["fma"], op, operands, lanes)
    double = LaneType(w, "double", lanes)
    single = LaneType(w, "float", lanes)
    a, b, c = (double.cast("fpext", single(to_single(w, x, form.text, lanes))) for x in operands)
    return convert_float(w, odd_sum(a * b, c).name, "f64", form.text, lanes)


def _intrinsic(name: str) -> Lowering:
    return _in_floats(intrinsic(name))


def _fusible(opcode: str) -> Lowering:
    """A sum or product of floats; the writer says whether a product and a sum may become one fused operation.

    An op with `fastmath`, which says "none", may not.
    """

    def lower(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
        flags, form = "" if "fastmath" in op.attributes else w.fusion, _result(op)
        if form is f32 or form is f64:
            a, b = operands
            return w.emit(f"{opcode} {flags}{vector(element_of(form), lanes)} {a}, {b}")
        if form is f16 and w.target.has_half_arithmetic:
            a, b = operands  # a fused operation would round once where f32 rounds twice
            return w.emit(f"{opcode} {vector('half', lanes)} {a}, {b}")

        def combine(a: Lanes, b: Lanes) -> Lanes:
            return a.kind(w.emit(f"{opcode} {flags}{a.kind.type} {a.name}, {b.name}"))

        return _apply(w, combine, op, operands, lanes)

    return lower


def _number_extreme(name: str, selector: int) -> Callable[..., Lanes]:
    """The extreme that prefers numbers to NaN, and of zeros the one that comes first or last: -0 < +0.

    LLVM's `maxnum` leaves zeros to the machine, and is one instruction where the machine orders them. AVX-512 has one,
    too, `vrange`, which LLVM does not know.
    """

    def extreme(a: Lanes, b: Lanes, *, either_zero: bool = False) -> Lanes:
        kind = a.kind
        target, bits = kind.writer.target, bits_of(kind.element) * kind.lanes
        if target.has_avx512f and bits in (128, 256, 512):
            return _in_range(a, b, selector)
        if target.has_avx512f and bits in (32, 64):
            whole = LaneType(kind.writer, kind.element, 128 // bits_of(kind.element))
            return _part(_in_range(_in_register(a, whole), _in_register(b, whole), selector), kind)
        if either_zero or target.orders_zeros:
            return kind.call(f"llvm.{name}num", a, b)
        return kind.call(f"llvm.{name}imumnum", a, b)

    return extreme


def _number(function: Callable[..., Lanes]) -> Lowering:
    """An op that is such an extreme; with `fastmath` it says "nsz"."""

    def lower(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
        return _apply(w, partial(function, either_zero="fastmath" in op.attributes), op, operands, lanes)

    return lower


def _in_range(a: Lanes, b: Lanes, selector: int) -> Lanes:
    """`vrange` with the sign of what it chooses."""
    kind = a.kind
    bits = bits_of(kind.element) * kind.lanes
    type, mask = vector(kind.element, kind.lanes), f"i{max(8, kind.lanes)}"
    arguments = [(type, a.name), (type, b.name), ("i32", str(selector)), (type, "zeroinitializer"), (mask, "-1")]
    if bits == 512:
        arguments.append(("i32", CURRENT_ROUNDING))
    suffix = "ps" if kind.element == "float" else "pd"
    return kind(kind.writer.call(type, f"llvm.x86.avx512.mask.range.{suffix}.{bits}", arguments))


def _in_register(x: Lanes, whole: LaneType) -> Lanes:
    """The lanes before others that may hold anything."""
    w, kind = x.kind.writer, x.kind
    if kind.lanes == 1:
        return whole(w.insert(whole.type, "poison", kind.type, x.name, 0))
    return whole(w.shuffle(kind.type, x.name, "poison", range(whole.lanes)))


def _part(x: Lanes, kind: LaneType) -> Lanes:
    """The first lanes of a register."""
    return kind(kind.writer.slice(x.name, kind.element, x.kind.lanes, 0, kind.lanes))


CURRENT_ROUNDING = "4"
_larger_number, _smaller_number = _number_extreme("max", 0b0101), _number_extreme("min", 0b0100)


def _in_place(opcode: str) -> Lowering:
    """A sign operation, exact in any format that LLVM knows."""

    def lower(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
        element = element_of(_result(op))
        if comes_apart(element, lanes):
            return _whole_sign(LaneType(w, element, lanes)(operands[0]), opcode)
        k = LaneType(w, element, lanes)
        (x,) = map(k, operands)
        if not k.is_float:  # fp8
            bits = x
            changed = bits ^ 0x80 if opcode == "neg" else bits & 0x7F
            if _result(op).text.endswith("FNUZ"):  # no -0: what would be its bits is NaN
                stays = k.compare("eq", bits & (0x7F if opcode == "neg" else 0xFF), k(0 if opcode == "neg" else 0x80))
                changed = k.select(stays, bits, changed)
            return changed.name
        return (-x if opcode == "neg" else abs(x)).name

    return lower


def _whole_sign(x: Lanes, opcode: str) -> str:
    """The sign operation on the bits of a vector that LLVM takes apart."""
    bits = half_bits(x)
    return x.kind.from_bits(bits ^ 0x8000 if opcode == "neg" else bits & 0x7FFF).name


def _compare_floats(w: LlvmWriter, op: Compare, operands: Sequence[str], lanes: int) -> str:
    form = op.lhs.type.scalar
    k = LaneType(w, "double" if form is f64 else "float", lanes)
    a, b = (k(x if form is f64 else to_single(w, x, form.text, lanes)) for x in operands)
    return k.compare(op.predicate, a, b).name


def _clamp(w: LlvmWriter, op: Clampf, operands: Sequence[str], lanes: int) -> str:
    def clamp(x: Lanes, low: Lanes, high: Lanes) -> Lanes:
        if op.propagate_nan == "all":
            return x.kind.call("llvm.minimum", x.kind.call("llvm.maximum", x, low), high)
        return _smaller_number(_larger_number(x, low), high)

    return _apply(w, clamp, op, operands, lanes)


def _extern(w: LlvmWriter, op: ExternElementwise, operands: Sequence[str], lanes: int) -> str:
    return _apply(w, FUNCTIONS[_function_of(op)], op, operands, lanes)


# --- casts ------------------------------------------------------------------------------------------------------


def _cast(opcode: str) -> Lowering:
    def lower(w: LlvmWriter, op: Unary, operands: Sequence[str], lanes: int) -> str:
        (operand,), source, result = operands, element_of(op.operand.type), element_of(op.results[0].type)
        return w.convert(opcode, operand, vector(source, lanes), vector(result, lanes))

    return lower


def _index_cast(w: LlvmWriter, op: Unary, operands: Sequence[str], lanes: int) -> str:
    k, result = (LaneType(w, element_of(type), lanes) for type in (_source(op), _result(op)))
    (x,) = map(k, operands)
    return result.cast("sext" if k.width < result.width else "trunc", x).name


def _float_cast(w: LlvmWriter, op: FloatCast, operands: Sequence[str], lanes: int) -> str:
    (x,) = operands
    return convert_float(w, x, _source(op).text, _result(op).text, lanes, to_zero=op.rounding == "rtz")


def _from_integer(*, signed: bool) -> Lowering:
    def lower(w: LlvmWriter, op: Unary, operands: Sequence[str], lanes: int) -> str:
        (x,) = operands
        return float_from_integer(w, x, element_of(_source(op)), _result(op).text, lanes, signed=signed)

    return lower


def _to_integer(*, signed: bool) -> Lowering:
    def lower(w: LlvmWriter, op: Unary, operands: Sequence[str], lanes: int) -> str:
        (x,) = operands
        return integer_from_float(w, x, _source(op).text, element_of(_result(op)), lanes, signed=signed)

    return lower


def _bitcast(w: LlvmWriter, op: Unary, operands: Sequence[str], lanes: int) -> str:
    source, target = (LaneType(w, element_of(type), lanes) for type in (_source(op), _result(op)))
    (value,) = map(source, operands)
    if source.element == target.element:
        return value.name
    if source.element == "ptr" or target.element == "ptr":
        return target.cast("ptrtoint" if source.element == "ptr" else "inttoptr", value).name
    if source.element in ("half", "bfloat"):
        return target.cast("bitcast", half_bits(value)).name
    return target.cast("bitcast", value).name


def _select(w: LlvmWriter, op: Op, operands: Sequence[str], lanes: int) -> str:
    condition, chosen, other = operands
    return w.select(condition, vector(element_of(op.results[0].type), lanes), chosen, other, lanes=lanes)


LOWERINGS: dict[str, Lowering] = {
    "arith.addf": _fusible("fadd"),
    "arith.addi": _instruction("add"),
    "arith.andi": _instruction("and"),
    "arith.bitcast": _bitcast,
    "arith.ceildivsi": _integer_rule(integers.divide_up_signed, "sext"),
    "arith.ceildivui": _integer_rule(integers.divide_up_unsigned, "zext"),
    "arith.cmpf": _compare_floats,
    "arith.cmpi": _compare_integers,
    "arith.divf": _in_floats(lambda a, b: a / b),
    "arith.divsi": _integer_rule(integers.divide_signed, "sext"),
    "arith.divui": _integer_rule(integers.divide_unsigned, "zext"),
    "arith.extf": _float_cast,
    "arith.extsi": _cast("sext"),
    "arith.extui": _cast("zext"),
    "arith.floordivsi": _integer_rule(integers.divide_down, "sext"),
    "arith.fptosi": _to_integer(signed=True),
    "arith.fptoui": _to_integer(signed=False),
    "arith.index_cast": _index_cast,
    "arith.maximumf": _intrinsic("llvm.maximum"),
    "arith.maxnumf": _number(_larger_number),
    "arith.maxsi": _extreme("llvm.smax", "sext"),
    "arith.maxui": _extreme("llvm.umax", "zext"),
    "arith.minimumf": _intrinsic("llvm.minimum"),
    "arith.minnumf": _number(_smaller_number),
    "arith.minsi": _extreme("llvm.smin", "sext"),
    "arith.minui": _extreme("llvm.umin", "zext"),
    "arith.mulf": _fusible("fmul"),
    "arith.muli": _instruction("mul"),
    "arith.negf": _in_place("neg"),
    "arith.ori": _instruction("or"),
    "arith.remsi": _integer_rule(integers.remainder_signed, "sext"),
    "arith.remui": _integer_rule(integers.remainder_unsigned, "zext"),
    "arith.remf": _in_floats(FUNCTIONS["fmod"]),
    "arith.select": _select,
    "arith.shli": _integer_rule(integers.shift_left, "zext"),
    "arith.shrsi": _integer_rule(integers.shift_right_signed, "sext"),
    "arith.shrui": _integer_rule(integers.shift_right_unsigned, "zext"),
    "arith.sitofp": _from_integer(signed=True),
    "arith.subf": _fusible("fsub"),
    "arith.subi": _instruction("sub"),
    "arith.truncf": _float_cast,
    "arith.trunci": _cast("trunc"),
    "arith.uitofp": _from_integer(signed=False),
    "arith.xori": _instruction("xor"),
    "math.absf": _in_place("abs"),
    "math.absi": _absolute,
    "math.ctlz": _leading_zeros,
    "math.ctpop": _set_bits,
    "tt.bitcast": _bitcast,
    "tt.clampf": _clamp,
    "tt.extern_elementwise": _extern,
    "tt.fp_to_fp": _float_cast,
    "tt.int_to_ptr": _bitcast,
    "tt.mulhiui": _integer_rule(integers.multiply_high_unsigned, "zext"),
    "tt.precise_divf": _in_floats(lambda a, b: a / b),
    "tt.precise_sqrt": _in_floats(FUNCTIONS["sqrt"]),
    "tt.ptr_to_int": _bitcast,
}
LOWERINGS.update({f"math.{name}": _in_floats(function) for name, function in FUNCTIONS.items() if name != "absf"})
"""Functions that are no op of the math dialect are reached through `tt.extern_elementwise`."""
LOWERINGS["math.fma"] = _fused
