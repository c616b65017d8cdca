"""Bit-exact float arithmetic.

    add.rz.ftz.f32 %f3, %f1, %f2;      fma.rn.relu.bf16x2 %r4, %r1, %r2, %r3;      min.NaN.f16 %h3, %h1, %h2;

Every operation rounds once. Results that are NaN are the canonical NaN of their type (0x7FFFFFFF, 0x7FFF), except those
of f64 (`nan_bits.py`). `Lens` converts between a type's bits and numbers; packed types have two columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tilewright.backends.ptxsim import nan_bits
from tilewright.backends.ptxsim.code import Run
from tilewright.backends.ptxsim.decoder import Decode, Decoder, Handlers, applied
from tilewright.backends.ptxsim.value_types import TYPES, Array
from tilewright.support.exact_rounding import (
    FORMATS,
    MODES,
    NEAREST,
    narrow,
    narrow_nearest,
    odd,
    rounded,
    widen,
)
from tilewright.support.ptx_syntax import Instruction

FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64")
MIN_NORMAL = {
    "f32": np.float32(2.0**-126),
    "f16": np.float32(2.0**-14),
    "f64": 2.0**-1022,
    "bf16": np.float32(2.0**-126),
}
"""The least normal number, per format."""


@dataclass(frozen=True)
class Lens:
    """The view that an instruction has of its operands.

    Attributes:
        format: `f16` for both f16 and f16x2.
        packed: two numbers in one register.
        mode: of rounding.
        flush: subnormal numbers count as zeros.
        saturate: results are brought into 0 … 1.
        relu: negative results and NaN-free clamping at zero.
    """

    format: str
    packed: bool
    mode: str
    flush: bool
    saturate: bool
    relu: bool

    def numbers(self, bits: Array) -> Array:
        """Operands as float32 (float64 for f64)."""
        if self.packed:
            bits = np.ascontiguousarray(bits).view(FORMATS[self.format].storage).reshape(-1, 2)
        values = widen(bits, self.format)
        return self.flushed(values) if self.flush else values

    def flushed(self, values: Array) -> Array:
        tiny = np.abs(values) < MIN_NORMAL[self.format]
        return np.where(tiny, np.copysign(values.dtype.type(0), values), values) if tiny.any() else values

    def bits(self, values: Array) -> Array:
        """Results that were rounded to nearest in float32, or are still exact there, as the type's bits."""
        return self.stored(narrow_nearest(values, self.format))

    def rounded(self, values: Array) -> Array:
        """Results that are exact or rounded to odd in float64, as the type's bits."""
        if self.mode == "rn":
            return self.stored(narrow_nearest(values, self.format))
        return self.stored(narrow(values, FORMATS[self.format], self.mode))

    def stored(self, bits: Array) -> Array:
        """Bits of results, after `.ftz`, `.sat` and `.relu`, packed."""
        if self.flush or self.saturate or self.relu:
            values = widen(bits, self.format)
            values = self.flushed(values) if self.flush else values
            if self.saturate:
                values = np.where(values > 0, np.minimum(values, values.dtype.type(1)), values.dtype.type(0))
            if self.relu:
                values = np.where(values > 0, values, np.where(values != values, values, values.dtype.type(0)))
            bits = narrow_nearest(values, self.format)
        if not self.packed:
            return bits
        whole = np.dtype(f"u{2 * bits.dtype.itemsize}")
        return np.ascontiguousarray(bits).view(whole)[:, 0]


def lens_of(instruction: Instruction) -> Lens:
    """The view that this instruction has of operands of the type it ends with."""
    name = instruction.type
    mode = next((part for part in instruction.parts if part in MODES), "rn")
    flags = (instruction.has(flag) for flag in ("ftz", "sat", "relu"))
    flush, saturate, relu = flags
    return Lens(name.removesuffix("x2"), name.endswith("x2"), mode, flush, saturate, relu)


Arithmetic: TypeAlias = Callable[[Lens], Callable[..., Array]]
"""For a lens: numbers → bits."""


def floating(make: Arithmetic) -> Decode:
    """An instruction on floats: reads numbers, and writes the bits that `make(lens)` gives."""

    def decode(instruction: Instruction, code: Decoder) -> Run:
        if instruction.parts[-2] == "f32":
            return _decode_mixed(instruction, code, make)
        lens = lens_of(instruction)
        semantics = make(lens)
        kind = f"b{TYPES[instruction.type].bits}"
        reads = code.sources(instruction, kind)

        def on_bits(*operands: Array) -> Array:
            return semantics(*[lens.numbers(bits) for bits in operands])

        return applied(instruction, code, on_bits, reads, kind)

    return decode


def _decode_mixed(instruction: Instruction, code: Decoder, make: Arithmetic) -> Run:
    """`add.rn.f32.f16`: all operands but the last, which is f32 like the result, are of the narrow type."""
    narrow = lens_of(instruction)
    wide = replace(narrow, format="f32")
    semantics = make(wide)
    *narrow_operands, last = instruction.sources
    reads = [*(code.source(operand, "b16") for operand in narrow_operands), code.source(last, "b32")]

    def on_bits(*operands: Array) -> Array:
        *first, sum = operands
        return semantics(*(narrow.numbers(bits) for bits in first), wide.numbers(sum))

    return applied(instruction, code, on_bits, reads, "b32")


def arithmetic(operation: str) -> Arithmetic:
    """One of the operations of `exact_rounding.py`."""

    def make(lens: Lens) -> Callable[..., Array]:
        if lens.format == "f64":
            return lambda *v: lens.stored(
                nan_bits.passed_on(operation, v, rounded(operation, lens.mode, v)).view(np.uint64)
            )
        if lens.mode == "rn" and operation != "fma":
            nearest = NEAREST[operation]
            return lambda *v: lens.bits(nearest(*v))
        return lambda *v: lens.rounded(odd(operation, v, lens.mode))

    return make


def _reciprocal(a: Array) -> Array:
    return a.dtype.type(1) / a


def _invert(lens: Lens) -> Callable[..., Array]:
    divide = arithmetic("div")(lens)
    return lambda a: divide(np.ones_like(a), a)


def _on_signs(change: Callable[[Array, Array], Array]) -> Decode:
    """abs and neg touch only the sign; of NaNs in packed types, too, of others see `nan_bits.py`."""

    def decode(instruction: Instruction, code: Decoder) -> Run:
        lens, bits = lens_of(instruction), TYPES[instruction.type].bits
        sign = 1 << (FORMATS[lens.format].bits - 1)
        mask = np.dtype(f"u{bits // 8}").type(sign << (bits // 2) | sign if lens.packed else sign)

        def semantics(value: Array) -> Array:
            changed = change(value, mask)
            if not lens.packed:
                changed = nan_bits.sign_changed(lens.format, value, changed)
            return lens.stored(lens_bits(lens, changed)) if lens.flush else changed

        return applied(instruction, code, semantics, code.sources(instruction, f"b{bits}"), f"b{bits}")

    return decode


def lens_bits(lens: Lens, bits: Array) -> Array:
    """The bits of single numbers, in two columns for packed types."""
    if not lens.packed:
        return bits
    return np.ascontiguousarray(bits).view(FORMATS[lens.format].storage).reshape(-1, 2)


def decode_extremum(instruction: Instruction, code: Decoder) -> Run:
    """min and max of two or three: a NaN loses, or with `.NaN` wins; -0 is less than +0."""
    lens, kind = lens_of(instruction), f"b{TYPES[instruction.type].bits}"
    least, keeps_nan, by_size = instruction.opcode == "min", instruction.has("NaN"), instruction.has("abs")

    def pick(a: Array, b: Array) -> Array:
        sign = np.signbit(a) ^ np.signbit(b)
        if by_size:
            a, b = np.abs(a), np.abs(b)
        found = np.fmin(a, b) if least else np.fmax(a, b)
        # Equal numbers differ at most as zeros do, in the sign: one negative is enough for min, for max both.
        negative = np.signbit(a) | np.signbit(b) if least else np.signbit(a) & np.signbit(b)
        found = np.where((a == b) & (a == 0), np.where(negative, -np.abs(found), np.abs(found)), found)
        if keeps_nan:
            found = np.where((a != a) | (b != b), found.dtype.type(np.nan), found)
        return np.copysign(found, np.where(sign, found.dtype.type(-1), found.dtype.type(1))) if by_size else found

    def semantics(*operands: Array) -> Array:
        first, *others = numbers = [lens.numbers(bits) for bits in operands]
        for other in others:
            first = pick(first, other)
        if lens.format != "f64":
            return lens.bits(first)
        return lens.stored(nan_bits.passed_on("extremum", numbers, first).view(np.uint64))

    return applied(instruction, code, semantics, code.sources(instruction, kind), kind)


APPROXIMATIONS: dict[str, Callable[[Array], Array]] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "rcp": _reciprocal,
    "rsqrt": lambda a: 1.0 / np.sqrt(a),
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}


def decode_approximation(instruction: Instruction, code: Decoder) -> Run:
    """An `.approx` instruction gives here what rounding the exact result once gives."""
    function = APPROXIMATIONS[instruction.opcode]
    if instruction.type == "f64":
        return _decode_upper_half(instruction, code, function)

    def make(lens: Lens) -> Callable[..., Array]:
        def approximate(value: Array) -> Array:
            return lens.rounded(function(value.astype(np.float64)))

        return approximate

    return floating(make)(instruction, code)


def _decode_upper_half(instruction: Instruction, code: Decoder, function: Callable[[Array], Array]) -> Run:
    """rcp and rsqrt.approx.ftz.f64 read and write only the upper halves of numbers."""
    upper = np.uint64(0xFFFFFFFF00000000)

    def semantics(bits: Array) -> Array:
        values = (bits & upper).view(np.float64)
        tiny = np.abs(values) < MIN_NORMAL["f64"]
        found = function(np.where(tiny, np.copysign(0.0, values), values))
        return np.where(found != found, nan_bits.UPPER_HALF, found.view(np.uint64) & upper)

    return applied(instruction, code, semantics, code.sources(instruction, "b64"), "b64")


def _exact_or_approximate(make: Arithmetic) -> Decode:
    precise = floating(make)

    def decode(instruction: Instruction, code: Decoder) -> Run:
        chosen = decode_approximation if instruction.has("approx") else precise
        return chosen(instruction, code)

    return decode


HANDLERS: Handlers = {
    "abs": _on_signs(lambda value, sign: value & ~sign),
    "add": floating(arithmetic("add")),
    "cos": decode_approximation,
    "div": floating(arithmetic("div")),
    "ex2": decode_approximation,
    "fma": floating(arithmetic("fma")),
    "lg2": decode_approximation,
    "mad": floating(arithmetic("fma")),
    "max": decode_extremum,
    "min": decode_extremum,
    "mul": floating(arithmetic("mul")),
    "neg": _on_signs(lambda value, sign: value ^ sign),
    "rcp": _exact_or_approximate(_invert),
    "rsqrt": decode_approximation,
    "sin": decode_approximation,
    "sqrt": _exact_or_approximate(arithmetic("sqrt")),
    "sub": floating(arithmetic("sub")),
    "tanh": decode_approximation,
}
