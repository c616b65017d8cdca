"""Conversions between number formats, by the hardware's instructions where it has them.

    f32 -> f16, bf16                   cvt.rn.f16.f32, cvt.rn.bf16.f32; rounding to zero: cvt.rz
    f8E4M3FN, f8E5M2 (since 8.9)       cvt.rn.satfinite.e4m3x2.f32 and its like: two elements at a time
    floats -> integers                 cvt.rzi: saturates, and NaN is 0
    ttg.fp4_to_fp                      f16 or bf16 of 4-bit floats, two in each byte

8-bit floats of other kinds, and all of them before compute capability 8.9, are converted by the code that back ends
share. Its results are the same: values out of range saturate.

A 4-bit code has a sign, two exponent bits and one mantissa bit. Moved to the corresponding bits of the wider format,
they are the number times a power of two, also for the one denormal number. So a byte becomes two numbers by shifts and
one multiplication.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

from tilewright.backends.llvm.spelling import bits_of, element_of
from tilewright.backends.nvidia.lower.arithmetic import NATIVE
from tilewright.backends.nvidia.lower.lowerer import Lowerer, Lowering, shared_results
from tilewright.backends.nvidia.lower.rules import Rule, per_register, shared_rule
from tilewright.dialects.arith import FloatCast, Unary
from tilewright.dialects.tt_elementwise import FpToFp
from tilewright.dialects.tt_memory import PointerCast
from tilewright.dialects.ttg_program import Fp4ToFp
from tilewright.layouts.linear_layout import LinearLayout

MAGNITUDES, SIGNS = (0x07, 0x70), (0x08, 0x80)
"""The bits of the lower and the upper code of a byte."""
SIGN_SHIFTS = (12, 24)
"""Shifts of the signs, in bits: to the highest bit of each half of a word."""
FORMS = {"half": (9, "0xH7400"), "bfloat": (6, "0xR7E80")}
"""The shift of magnitudes, in bits, and the power of two that is missing then: 2^14, 2^126."""
HALF_WORD = 16


def _fp4_to_fp(lowerer: Lowerer, op: Fp4ToFp) -> None:
    element, registers = lowerer.element(op.result.type), lowerer.registers(op.source)
    wanted = sources(lowerer.layout(op.source), lowerer.layout(op.result), op.axis)
    pairs = shared_results(
        (registers[register] for register, _ in wanted), lambda byte: _numbers(lowerer, byte, element)
    )
    lowerer.bind(op.result, [pair[half] for pair, (_, half) in zip(pairs, wanted, strict=True)])


def _numbers(lowerer: Lowerer, byte: str, element: str) -> tuple[str, str]:
    w = lowerer.w
    shift, scale = FORMS[element]
    wide = w.emit(f"zext i8 {byte} to i32")
    moves = [(MAGNITUDES[0], shift), (MAGNITUDES[1], shift + HALF_WORD - 4)]
    moves += list(zip(SIGNS, SIGN_SHIFTS, strict=True))
    word = ""
    for mask, up in moves:
        part = w.emit(f"shl i32 {w.emit(f'and i32 {wide}, {mask}')}, {up}")
        word = w.emit(f"or disjoint i32 {word}, {part}") if word else part
    type = f"<2 x {element}>"
    codes = w.emit(f"bitcast i32 {word} to {type}")
    pair = w.emit(f"fmul {type} {codes}, splat ({element} {scale})")
    return w.extract(type, pair, 0), w.extract(type, pair, 1)


@cache
def sources(source: LinearLayout, result: LinearLayout, axis: int) -> list[tuple[int, int]]:
    """Per register of the result the register with its byte, and which half of it."""
    first = {source.apply(register=number): number for number in reversed(range(source.in_size("register")))}
    found = []
    for number in range(result.in_size("register")):
        place = list(result.apply(register=number))
        half = place[axis] & 1
        place[axis] >>= 1
        found.append((first[tuple(place)], half))
    return found


FP8_SINCE = 89
"""The first capability that converts 8-bit floats."""
BF16_SINCE = 80
"""The first capability that rounds to bf16."""
BF16_FROM_INTEGERS = 90
"""The first capability that rounds integers to bf16; before it LLVM goes through f32."""
PairRule: TypeAlias = Callable[[Lowerer, Unary, tuple[str, str]], tuple[str, str]]
PTX_FP8 = {"f8E4M3FN": "e4m3x2", "f8E5M2": "e5m2x2"}
PTX_FLOATS = {"bfloat": "bf16", "double": "f64", "float": "f32", "half": "f16"}
_AS_PASSED = {"bfloat": "i16", "half": "i16"}


# --- floats to floats -------------------------------------------------------------------------------------------


def _float_cast(lowerer: Lowerer, op: FloatCast, operands: Sequence[str]) -> str:
    """Convert between formats that LLVM knows."""
    source, target = _elements(lowerer, op)
    (x,) = operands
    if source == target:
        return x if source in NATIVE else shared_rule(lowerer, op, operands)
    if source not in NATIVE or target not in NATIVE:
        return shared_rule(lowerer, op, operands)
    if bits_of(target) > bits_of(source):
        return lowerer.w.emit(f"fpext {source} {x} to {target}")
    if op.rounding == "rtz":
        return _toward_zero(lowerer, op, operands)
    if bits_of(target) == bits_of(source):
        wide = lowerer.w.emit(f"fpext {source} {x} to float")
        return lowerer.w.emit(f"fptrunc float {wide} to {target}")
    return lowerer.w.emit(f"fptrunc {source} {x} to {target}")


def _elements(lowerer: Lowerer, op: Unary) -> tuple[str, str]:
    """The LLVM types of an element before and after."""
    return lowerer.element(op.operand.type), lowerer.element(op.result.type)


def _toward_zero(lowerer: Lowerer, op: FloatCast, operands: Sequence[str]) -> str:
    source, target = _elements(lowerer, op)
    if source != "float" or lowerer.target.capability < BF16_SINCE:
        return shared_rule(lowerer, op, operands)
    (x,) = operands
    bits = lowerer.computed("i16", f"cvt.rz.{PTX_FLOATS[target]}.f32 $0, $1;", [("float", x)])
    return lowerer.w.emit(f"bitcast i16 {bits} to {target}")


def _fp_to_fp(lowerer: Lowerer, op: FpToFp) -> None:
    source, target = op.operand.type.scalar.text, op.result.type.scalar.text
    nearest = op.rounding != "rtz"
    if lowerer.target.capability >= FP8_SINCE:
        if target in PTX_FP8 and source in ("bf16", "f16", "f32") and nearest:
            _in_pairs(lowerer, op, _to_fp8)
            return
        if source in PTX_FP8 and target in ("bf16", "f16", "f32"):
            _in_pairs(lowerer, op, _from_fp8)
            return
    _truncate(lowerer, op)


def _in_pairs(lowerer: Lowerer, op: Unary, convert: PairRule) -> None:
    """Convert two registers at a time."""
    values = lowerer.registers(op.operand)
    unique = list(dict.fromkeys(values))
    known: dict[str, str] = {}
    for first in range(0, len(unique), 2):
        pair = unique[first : first + 2]
        known.update(zip(pair, convert(lowerer, op, (pair[0], (*pair, "poison")[1])), strict=False))
    lowerer.bind(op.result, [known[value] for value in values])


def _to_fp8(lowerer: Lowerer, op: Unary, pair: tuple[str, str]) -> tuple[str, str]:
    w, source = lowerer.w, lowerer.element(op.operand.type)
    name = PTX_FP8[op.result.type.scalar.text]
    if source == "half":
        packed = _vector(lowerer, "half", pair)
        codes = w.call("i16", f"llvm.nvvm.f16x2.to.{name}.rn", [("<2 x half>", packed)])
    else:
        low, high = (w.convert("fpext", value, source, "float") for value in pair)
        codes = w.call("i16", f"llvm.nvvm.ff.to.{name}.rn", [("float", high), ("float", low)])
    both = w.emit(f"bitcast i16 {codes} to <2 x i8>")
    return w.extract("<2 x i8>", both, 0), w.extract("<2 x i8>", both, 1)


def _from_fp8(lowerer: Lowerer, op: Unary, pair: tuple[str, str]) -> tuple[str, str]:
    """Convert from fp8 by way of f16: every 8-bit float is an f16."""
    w, target = lowerer.w, lowerer.element(op.result.type)
    name = PTX_FP8[op.operand.type.scalar.text]
    codes = w.emit(f"bitcast <2 x i8> {_vector(lowerer, 'i8', pair)} to i16")
    halves = w.call("<2 x half>", f"llvm.nvvm.{name}.to.f16x2.rn", [("i16", codes)])
    low, high = (w.extract("<2 x half>", halves, index) for index in range(2))
    if target == "half":
        return low, high
    low, high = (w.emit(f"fpext half {value} to float") for value in (low, high))
    return w.convert("fptrunc", low, "float", target), w.convert("fptrunc", high, "float", target)


def _truncate(lowerer: Lowerer, op: FloatCast) -> None:
    """Truncate, two elements at a time where there is an instruction for that."""
    source, target = _elements(lowerer, op)
    halves = target == "half" or (target == "bfloat" and lowerer.target.capability >= BF16_SINCE)
    if source == "float" and halves and len(lowerer.registers(op.operand)) > 1 and op.rounding != "rtz":
        _in_pairs(lowerer, op, _to_halves)
    else:
        per_register(_float_cast)(lowerer, op)


def _to_halves(lowerer: Lowerer, op: Unary, pair: tuple[str, str]) -> tuple[str, str]:
    w, target = lowerer.w, f"<2 x {lowerer.element(op.result.type)}>"
    both = w.emit(f"fptrunc <2 x float> {_vector(lowerer, 'float', pair)} to {target}")
    return w.extract(target, both, 0), w.extract(target, both, 1)


def _vector(lowerer: Lowerer, element: str, pair: tuple[str, str]) -> str:
    type = f"<2 x {element}>"
    first = lowerer.w.insert(type, "poison", element, pair[0], 0)
    return lowerer.w.insert(type, first, element, pair[1], 1)


# --- integers ---------------------------------------------------------------------------------------------------


def _to_integer(*, signed: bool) -> Rule:
    def rule(lowerer: Lowerer, op: Unary, operands: Sequence[str]) -> str:
        source, target = lowerer.element(op.operand.type), element_of(op.result.type)
        if source not in NATIVE:
            return shared_rule(lowerer, op, operands)
        (value,) = operands
        if source == "bfloat":
            source, value = "float", lowerer.w.emit(f"fpext bfloat {value} to float")
        return _rounded(lowerer, value, source, target, signed=signed)

    return rule


def _rounded(lowerer: Lowerer, value: str, source: str, target: str, *, signed: bool) -> str:
    w, bits = lowerer.w, max(8, bits_of(target))
    form = PTX_FLOATS[source]
    passed = _AS_PASSED.get(source, source)
    given = w.convert("bitcast", value, source, passed)
    wide = f"i{max(bits, 16)}"
    text = f"cvt.rzi.{'s' if signed else 'u'}{bits}.{form} $0, $1;"
    found = lowerer.computed(wide, text, [(passed, given)])
    if bits == 64 or source == "double":  # there the hardware makes another number of NaN
        found = w.emit(f"select i1 {w.emit(f'fcmp uno {source} {value}, {value}')}, {wide} 0, {wide} {found}")
    return w.convert("trunc", found, wide, target)


def _from_integer(opcode: str) -> Rule:
    def rule(lowerer: Lowerer, op: Unary, operands: Sequence[str]) -> str:
        source, target = element_of(op.operand.type), lowerer.element(op.result.type)
        rounds_twice = target == "bfloat" and bits_of(source) > 16 and lowerer.target.capability < BF16_FROM_INTEGERS
        if target not in NATIVE or rounds_twice:
            return shared_rule(lowerer, op, operands)
        (value,) = operands
        return lowerer.w.emit(f"{opcode} {source} {value} to {target}")

    return rule


# --- bits -------------------------------------------------------------------------------------------------------


def _bitcast(lowerer: Lowerer, op: Unary, operands: Sequence[str]) -> str:
    source, target = _elements(lowerer, op)
    (value,) = operands
    if {source, target} != {"half", "bfloat"}:
        return lowerer.w.convert("bitcast", value, source, target)
    # out of LLVM's sight: a whole number as one of these formats, read as the other and compared with 0, ends it
    bits = lowerer.w.convert("bitcast", value, source, "i16")
    moved = lowerer.computed("i16", "mov.b16 $0, $1;", [("i16", bits)])
    return lowerer.w.convert("bitcast", moved, "i16", target)


def _pointer_cast(opcode: str) -> Rule:
    def rule(lowerer: Lowerer, op: PointerCast, operands: Sequence[str]) -> str:
        (value,) = operands
        return lowerer.w.convert(opcode, value, *_elements(lowerer, op))

    return rule


def _unsigned_index(lowerer: Lowerer, op: Unary, operands: Sequence[str]) -> str:
    source, target = _elements(lowerer, op)
    opcode, (value,) = "zext" if bits_of(source) < bits_of(target) else "trunc", operands
    return lowerer.w.convert(opcode, value, source, target)


RULES: dict[str, Rule] = {
    "arith.bitcast": _bitcast,
    "arith.extf": _float_cast,
    "arith.fptosi": _to_integer(signed=True),
    "arith.fptoui": _to_integer(signed=False),
    "arith.index_castui": _unsigned_index,
    "arith.sitofp": _from_integer("sitofp"),
    "arith.uitofp": _from_integer("uitofp"),
    "tt.bitcast": _bitcast,
    "tt.int_to_ptr": _pointer_cast("inttoptr"),
    "tt.ptr_to_int": _pointer_cast("ptrtoint"),
}


LOWERINGS: dict[str, Lowering] = {
    "ttg.fp4_to_fp": _fp4_to_fp,
    "arith.truncf": _truncate,
    "tt.fp_to_fp": _fp_to_fp,
}
