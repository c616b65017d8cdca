"""cvt: conversions between types, with the rounding that the opcode names.

cvt.rzi.s32.f32 $0, $1;             towards zero, saturated to s32; NaN gives 0
cvt.rn.f16x2.f32 $0, $1, $2;        two numbers to two halves, the first one in the upper half
cvt.sat.u8.s32 $0, $1;              saturated to u8, and zero-extended to a wider register
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.language.extra import libdevice
from tilewright.language.extra.bits import bitcast, plus
from tilewright.language.operations import cast, maximum, minimum, where
from tilewright.language.ptx.floats import flushed, from_zero_to_one, without_negatives
from tilewright.language.ptx.registers import TYPES, Semantics, constant, joined, only, parts, read_as, then
from tilewright.semantics.types import (
    bfloat16,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    float64,
    uint8,
    uint16,
    uint32,
)

NUMBERS = {name: kind for name, kind in TYPES.items() if name[0] in "us" and not name.endswith("x2")}
FLOATS = {name: TYPES[name] for name in ("f16", "bf16", "f32", "f64")}
DIRECTIONS = {"n": "rn", "z": "rz", "m": "rd", "p": "ru"}
"""The letter of a rounding mode, and libdevice's name for it."""
PAIRS = {"f16x2": float16, "bf16x2": bfloat16, "e4m3x2": float8e4nv, "e5m2x2": float8e5}
LARGEST = {float8e4nv: 448.0, float8e5: 57344.0, float16: 65504.0, bfloat16: float.fromhex("0x1.fep127")}
MIDDLES_OF_FOUR_BITS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
"""The middles between neighbours of 0, 0.5, 1, 1.5, 2, 3, 4 and 6, the sizes of numbers of four bits (e2m1)."""
TF32_DROPS = 13
"""Number of bits of the fraction that fp32 has and tf32 has not."""
NAMES = {float32: "float", float64: "double"}
INTEGERS = {(32, True): "int", (32, False): "uint", (64, True): "ll", (64, False): "ull"}
"""libdevice's words for types of integers, by width and sign."""


def conversion(parts_of_name: Sequence[str]) -> Semantics | None:
    """The instruction `cvt.….target.source`, if it is exact and known here."""
    *modifiers, target, source = parts_of_name
    asked = set(modifiers)
    if source in FLOATS and target in PAIRS:
        return _to_pair(asked, target, source)
    if (target, source) == ("ue8m0x2", "f32"):
        return _to_powers(asked)
    if (target, source) == ("e2m1x2", "f32"):
        return _to_four_bits(asked)
    if source in ("e4m3x2", "e5m2x2") and target == "f16x2" and asked <= {"rn", "relu"}:
        return _from_pair(asked, source)
    if (target, source) == ("tf32", "f32"):
        return Semantics(to_tf32, only(source)) if asked == {"rna"} else None
    found = None
    if target in NUMBERS:
        found = _to_integer(asked, target, source)
    elif target in FLOATS and source in NUMBERS:
        found = _from_integer(asked, target, source)
    elif target in FLOATS and source in FLOATS:
        found = _between_floats(asked, target, source)
    return found and Semantics(found, only(source), extends=True)


def _to_integer(asked: set[str], target: str, source: str) -> Callable[[Any], Any] | None:
    kind = NUMBERS[target]
    if source in NUMBERS and asked <= {"sat"}:
        return lambda x: cast(in_range(x, kind) if asked else x, kind)
    mode = next((name for name in asked if name[:1] == "r" and name[-1] == "i"), "")
    if source not in FLOATS or len(mode) != 3 or mode[1] not in DIRECTIONS or asked - {mode, "ftz", "sat"}:
        return None
    return lambda x: rounded_to_integer(flushed(x, source) if "ftz" in asked else x, kind, DIRECTIONS[mode[1]])


def in_range(x: Any, kind: dtype) -> Any:
    """An integer kept between the least and the largest of another type."""
    held = x.type.scalar
    least = maximum(x, max(kind.get_int_min_value(), held.get_int_min_value()))
    return minimum(least, min(kind.get_int_max_value(), held.get_int_max_value()))


def rounded_to_integer(x: Any, kind: dtype, mode: str) -> Any:
    """The nearest integer in a direction, kept in range; of NaN 0, or the highest bit if 64 bits are involved."""
    wide = x if x.type.scalar == float64 else cast(x, float32)
    source, bits = NAMES[wide.type.scalar], 64 if kind.primitive_bitwidth == 64 else 32
    holder = TYPES[f"{'s' if kind.is_int_signed() else 'u'}{bits}"]
    found = getattr(libdevice, f"{source}2{INTEGERS[bits, kind.is_int_signed()]}_{mode}")(wide)
    found = bitcast(found, holder)
    if source == "double" or bits == 64:
        found = where(wide != wide, read_as(constant(1 << bits - 1, bits), holder), found)
    return cast(in_range(found, kind), kind)


def _from_integer(asked: set[str], target: str, source: str) -> Callable[[Any], Any] | None:
    mode = next((name for name in asked if name[:1] == "r" and name[1:] in DIRECTIONS), "")
    if not mode or asked - {mode, "sat"} or (target in ("f16", "bf16") and mode != "rn"):
        return None

    def convert(x: Any) -> Any:
        found = _number_of(x, FLOATS[target], DIRECTIONS[mode[1]])
        return from_zero_to_one(found) if "sat" in asked else found

    return convert


def _number_of(x: Any, kind: dtype, mode: str) -> Any:
    held = x.type.scalar
    if kind not in NAMES or held.primitive_bitwidth < 32 or (kind == float64 and held.primitive_bitwidth == 32):
        return cast(x, kind)
    return getattr(libdevice, f"{INTEGERS[held.primitive_bitwidth, held.is_int_signed()]}2{NAMES[kind]}_{mode}")(x)


def _between_floats(asked: set[str], target: str, source: str) -> Callable[[Any], Any] | None:
    kind, held = FLOATS[target], FLOATS[source]
    mode = next((name for name in asked if name[:1] == "r" and name != "relu"), "")
    if asked - {mode, "ftz", "sat", "relu"}:
        return None
    narrows = kind.primitive_bitwidth < held.primitive_bitwidth
    if target == source:
        change = _whole(mode)
    elif narrows:
        change = _narrowed(held, kind, mode)
    else:
        change = None if mode else lambda x: cast(x, kind)
    if change is None or {target, source} == {"f16", "bf16"}:
        return None

    def convert(x: Any) -> Any:
        found = change(flushed(x, source) if "ftz" in asked and source == "f32" else x)
        found = flushed(found, target) if "ftz" in asked and target == "f32" else found
        found = from_zero_to_one(found) if "sat" in asked else found
        return without_negatives(found) if "relu" in asked else found

    return convert


def _whole(mode: str) -> Callable[[Any], Any] | None:
    """The same type: the number, or the whole one next to it."""
    functions = {"": lambda x: x, "rni": libdevice.rint, "rzi": libdevice.trunc}
    functions |= {"rmi": libdevice.floor, "rpi": libdevice.ceil}
    found = functions.get(mode)
    return found and (lambda x: found(x) if x.type.scalar in NAMES else cast(found(cast(x, float32)), x.type.scalar))


def _narrowed(held: dtype, kind: dtype, mode: str) -> Callable[[Any], Any] | None:
    if held == float64 and kind == float32 and mode[1:] in DIRECTIONS and mode:
        return lambda x: getattr(libdevice, f"double2float_{DIRECTIONS[mode[1]]}")(x)
    rounding = {"rn": "rtne", "rz": "rtz"}.get(mode)
    if rounding is None or held == float64:
        return None if rounding != "rtne" else lambda x: cast(x, kind)
    return lambda x: cast(x, kind, rounding)


def to_tf32(x: Any) -> Any:
    """fp32 with the fraction of tf32, rounded to nearest and ties away from zero; infinities and NaNs stay."""
    bits = bitcast(x, uint32)
    rounded = (plus(bits, 1 << (TF32_DROPS - 1)) >> TF32_DROPS) << TF32_DROPS
    return where((bits & 0x7F800000) == 0x7F800000, bits, rounded)


def _to_pair(asked: set[str], target: str, source: str) -> Semantics | None:
    """Two numbers, each rounded, in one register: the first operand in its upper half."""
    kind, mode = PAIRS[target], asked & {"rn", "rz"}
    is_eighth = kind.is_fp8()
    if source != "f32" or len(mode) != 1 or asked - {"rn", "rz", "relu", "satfinite"}:
        return None
    if is_eighth and not {"rn", "satfinite"} <= asked:
        return None

    def convert(upper: Any, lower: Any) -> Any:
        halves = [_as_part(x, kind, asked) for x in (lower, upper)]
        return joined(halves, 2 * kind.primitive_bitwidth)

    return Semantics(convert, only(source))


def _to_powers(asked: set[str]) -> Semantics | None:
    """The powers of two next to the sizes of two numbers, each as its biased exponent; NaN is 255."""
    if len(asked & {"rp", "rz"}) != 1 or asked - {"rp", "rz", "satfinite"}:
        return None

    def exponent(x: Any) -> Any:
        bits = bitcast(x, uint32) & 0x7FFFFFFF
        found = bits >> 23
        if "rp" in asked:  # subnormal numbers: 0 stands for 2**-127
            exact = where(found == 0, 1 << 22, 0)
            found = where((found < 255) & ((bits & 0x7FFFFF) > exact), found + 1, found)
        if "satfinite" in asked:
            found = where(bits > 0x7F800000, found, minimum(found, 254))
        return cast(found, uint8)

    return Semantics(lambda upper, lower: joined([exponent(lower), exponent(upper)], 16), only("f32"))


def _to_four_bits(asked: set[str]) -> Semantics | None:
    """Two numbers of four bits in a byte, the first operand in its upper half; NaN is the largest one, 6."""
    if asked - {"relu"} != {"rn", "satfinite"}:
        return None

    def code(x: Any) -> Any:
        x = without_negatives(x) if "relu" in asked else x
        bits = bitcast(x, uint32)
        size, code = bitcast(bits & 0x7FFFFFFF, float32), (bits >> 31) << 3
        for smaller, middle in enumerate(MIDDLES_OF_FOUR_BITS):  # ties go to the even one
            code += cast(size >= middle if smaller % 2 else size > middle, uint32)
        return where(x != x, 7, code)

    return Semantics(lambda upper, lower: cast((code(upper) << 4) | code(lower), uint8), only("f32"))


def _as_part(x: Any, kind: dtype, asked: set[str]) -> Any:
    if "relu" in asked:
        x = without_negatives(x)
    if "satfinite" in asked:
        x = where(x != x, x, minimum(maximum(x, -LARGEST[kind]), LARGEST[kind]))
    return cast(x, kind, "rtz" if "rz" in asked else "rtne")


def _from_pair(asked: set[str], source: str) -> Semantics:
    """Two numbers of eight bits as two of sixteen."""

    def convert(both: Any) -> Any:
        halves = [cast(bitcast(half, PAIRS[source]), float16) for half in parts(both, 2)]
        return joined([without_negatives(half) if "relu" in asked else half for half in halves], 32)

    return Semantics(convert, only(source), then(uint16))
