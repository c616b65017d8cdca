"""cvt: conversions between all types.

    cvt.rzi.s32.f32 %r2, %r1;      cvt.rn.bf16x2.f32 %r3, %r1, %r2;      cvt.rn.satfinite.e4m3x2.f32 %h1, %r1, %r2;

To integers: the number is rounded as the instruction says and saturated to the type's range; a NaN becomes zero, but
for 64-bit types and from f64 the number with only the top bit. To floats: rounded once; `nan_bits.py` defines the
result for a NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tilewright.backends.ptxsim import nan_bits
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decoder, Handlers, applied, elementwise
from tilewright.backends.ptxsim.errors import SimulationError
from tilewright.backends.ptxsim.value_types import TYPES, Array, Type
from tilewright.support.exact_rounding import FORMATS, canonical, narrow, narrow_nearest, odd_double, widen
from tilewright.support.ptx_syntax import Instruction

INTEGRAL: dict[str, Callable[[Array], Array]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
SMALLEST = 2.0**-126
"""The least normal number of f32."""
SCALARS = ("f16", "bf16", "f32", "f64", "tf32")
PAIRS = {"f16x2": "f16", "bf16x2": "bf16", "e4m3x2": "e4m3", "e5m2x2": "e5m2", "e2m1x2": "e2m1"}
PAIRS |= {"e2m3x2": "e2m3", "e3m2x2": "e3m2", "ue8m0x2": "ue8m0"}
MODES = ("rn", "rna", "rz", "rm", "rp")


def decode_convert(instruction: Instruction, code: Decoder) -> Run:
    if instruction.parts[1] == "pack":
        return _decode_pack(instruction, code)
    if instruction.has("rs"):
        raise SimulationError("unsupported", "conversions with stochastic rounding are not simulated")
    result, source = (part for part in instruction.parts if part in TYPES)
    if result in PAIRS or source in PAIRS:
        return _decode_pair(instruction, code, result, source)
    to, of = TYPES[result], TYPES[source]
    if source in SCALARS:
        semantics = _from_float(instruction, to, source)
        return elementwise(instruction, code, semantics, source=f"b{of.bits}", result=_result_type(to))
    semantics = _from_integer(instruction, to, of)
    return elementwise(instruction, code, semantics, source=source, result=_result_type(to))


def _result_type(to: Type) -> str:
    return f"b{to.bits}" if to.name in SCALARS else to.name


def _mode(instruction: Instruction) -> str:
    return next((part for part in instruction.parts if part in MODES), "rn")


def _from_float(instruction: Instruction, to: Type, source: str) -> Callable[[Array], Array]:
    integral = next((INTEGRAL[part] for part in instruction.parts if part in INTEGRAL), None)
    flush = instruction.has("ftz")

    def numbers(bits: Array) -> Array:
        values = widen(bits, source)
        if flush and source == "f32":
            tiny = np.abs(values) < SMALLEST
            values = canonical(np.where(tiny, np.copysign(np.float32(0), values), values), "f32")
        return values

    if to.name not in SCALARS:
        rounding = integral or np.trunc
        return lambda bits: _to_integer(rounding(numbers(bits).astype(np.float64)), to, source)
    finish, rule = _to_float(instruction, to.name), nan_bits.conversion(instruction, source, to.name)

    def convert(bits: Array) -> Array:
        found = finish(integral(numbers(bits)) if integral else numbers(bits))
        return nan_bits.replaced(bits, source, found, rule) if rule else found

    return convert


def _to_integer(values: Array, to: Type, source: str) -> Array:
    """Whole numbers in float64, brought into the range of a type."""
    limits = np.iinfo(to.dtype)
    # The largest number of a 64-bit type is no float64: the next one above saturates.
    result = np.where(values >= float(limits.max), limits.max, 0).astype(to.dtype)
    result = np.where(values <= float(limits.min), to.dtype.type(limits.min), result)
    inside = (values > float(limits.min)) & (values < float(limits.max))
    result = np.where(inside, np.where(inside, values, 0).astype(to.dtype), result)
    nan = 1 << (to.bits - 1) if to.bits == 64 or source == "f64" else 0
    return np.where(values != values, np.array(nan, f"u{to.bytes}").view(to.dtype), result)


def _to_float(instruction: Instruction, name: str) -> Callable[[Array], Array]:
    """Numbers → bits of a float type, rounded and clamped as the instruction says."""
    mode, saturate = _mode(instruction), instruction.has("satfinite")
    unit, relu, flush = instruction.has("sat"), instruction.has("relu"), instruction.has("ftz") and name == "f32"

    def finish(values: Array) -> Array:
        if unit:
            values = np.where(values > 0, np.minimum(values, 1), values.dtype.type(0))
        if relu:
            values = np.where(values > 0, values, np.where(values != values, values, values.dtype.type(0)))
        if flush:
            values = np.where(np.abs(values) < SMALLEST, np.copysign(values.dtype.type(0), values), values)
        return to_format(values, name, mode, saturate=saturate)

    return finish


def to_format(values: Array, name: str, mode: str = "rn", *, saturate: bool = False) -> Array:
    """Numbers of float32 or float64 as bits of a format."""
    exact = (values.dtype == np.float32 and name in ("f32", "f64")) or name == "f64"
    if exact:
        found = canonical(values, "f32") if name == "f32" else values.astype(np.float64)
        return np.ascontiguousarray(found).view(f"u{found.dtype.itemsize}")
    if mode == "rn" and not saturate:
        return narrow_nearest(values, name)
    return narrow(values.astype(np.float64), FORMATS[name], mode, saturate=saturate)


def _from_integer(instruction: Instruction, to: Type, of: Type) -> Callable[[Array], Array]:
    if to.name in SCALARS:
        mode = _mode(instruction)
        if instruction.has("sat"):  # whole numbers in [0, 1]
            return lambda values: to_format((values > 0).astype(np.float32), to.name)
        return lambda values: _integer_to_float(values, to.name, mode)
    if not instruction.has("sat"):
        return lambda values: values.astype(to.dtype)
    limits, given = np.iinfo(to.dtype), np.iinfo(of.dtype)
    low, high = max(limits.min, given.min), min(limits.max, given.max)
    return lambda values: np.clip(values, of.dtype.type(low), of.dtype.type(high)).astype(to.dtype)


def _integer_to_float(values: Array, name: str, mode: str) -> Array:
    if name in ("f32", "f64") and mode == "rn":
        found = values.astype(FORMATS[name].storage.str.replace("u", "f"))
        return found.view(FORMATS[name].storage)
    if name == "f64" and values.dtype.itemsize < 8:
        return values.astype(np.float64).view(np.uint64)
    assert name != "f64", "64-bit integers become f64 by rounding to nearest only"
    return narrow(odd_double(values), FORMATS[name], mode)


def _decode_pair(instruction: Instruction, code: Decoder, result: str, source: str) -> Run:
    """Pairs: from two f32 (the first operand is the upper half), or from a pair, or to one."""
    if source in PAIRS:
        unpack = _reader(source)
        operand, *_ = instruction.sources
        reads = [code.source(operand, f"b{TYPES[source].bits}")]
        numbers: Callable[..., Array] = unpack
    else:
        reads = [code.source(operand, source) for operand in instruction.sources[:2]]

        def numbers(high: Array, low: Array) -> Array:
            return np.stack(np.broadcast_arrays(low, high), axis=1)

    pack = _writer(instruction, result)
    return applied(instruction, code, lambda *bits: pack(numbers(*bits)), reads, f"b{TYPES[result].bits}")


def _reader(name: str) -> Callable[[Array], Array]:
    """Bits of pairs → numbers in two columns, the lower half first."""
    inner = PAIRS[name]
    if inner == "e2m1":
        return lambda bits: widen(np.stack([bits & 15, bits >> 4], axis=1), inner)
    half = np.dtype(f"u{TYPES[name].bytes // 2}")
    return lambda bits: widen(np.ascontiguousarray(bits).view(half).reshape(-1, 2), inner)


def _writer(instruction: Instruction, name: str) -> Callable[[Array], Array]:
    inner = PAIRS[name]
    whole = np.dtype(f"u{TYPES[name].bytes}")
    if inner == "ue8m0":
        to_powers = partial(_to_powers, upwards=instruction.has("rp"), saturates=instruction.has("satfinite"))
        return lambda values: np.ascontiguousarray(to_powers(values)).view(whole)[:, 0]
    finish = _to_float(instruction, inner)
    if inner == "e2m1":

        def nibbles(values: Array) -> Array:
            bits = finish(values)
            return bits[:, 0] | (bits[:, 1] << 4)

        return nibbles
    return lambda values: np.ascontiguousarray(finish(values)).view(whole)[:, 0]


def _to_powers(values: Array, *, upwards: bool, saturates: bool) -> Array:
    """Exponents of sizes as ue8m0, rounded towards zero or up; what is too large saturates, or becomes NaN."""
    fraction, exponent = np.frexp(np.abs(values).astype(np.float64))
    power = exponent - 1 + (upwards & (fraction > 0.5))
    largest = 254 if saturates else 255
    found = np.clip(power + 127, 0, largest)
    found = np.where(values == 0, 0, np.where(np.isinf(values), largest, found))
    return np.where(values != values, 0xFF, found).astype(np.uint8)


def _decode_pack(instruction: Instruction, code: Decoder) -> Run:
    """cvt.pack.sat.type.s32{.b32} d, a, b{, c}: a and b saturated into the low end of d, c's low part above them."""
    to = TYPES[instruction.parts[3]]
    a, b, *above = instruction.sources
    reads = [code.source(a, "s32"), code.source(b, "s32"), *(code.source(operand, "u32") for operand in above)]
    limits = np.iinfo(to.dtype)
    width, mask = np.uint32(to.bits), np.uint32((1 << to.bits) - 1)

    def semantics(high: Array, low: Array, *above: Array) -> Array:
        parts = [
            np.clip(value, limits.min, limits.max).astype(np.int64).astype(np.uint32) & mask for value in (low, high)
        ]
        found = parts[0] | (parts[1] << width)
        return found | (above[0] << (width * np.uint32(2))) if above else found

    return applied(instruction, code, semantics, reads, "b32")


HANDLERS: Handlers = {"cvt": decode_convert}
