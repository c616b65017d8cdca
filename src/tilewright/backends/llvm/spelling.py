"""LLVM's spelling of types and constants.

element_of(bf16) == "bfloat"     vector("float", 16) == "<16 x float>"     vector("float", 1) == "float"
constant(0.1, "float", 4) == "splat (float 0x3FB99999A0000000)"     symbol("größe") == '@"gr\\C3\\B6\\C3\\9Fe"'
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import cache
from math import copysign

import ml_dtypes
import numpy as np

from tilewright.dialects.amx import is_tile
from tilewright.dialects.vector import lanes_of
from tilewright.ir.literals import float_bits, quoted
from tilewright.ir.types import FloatType, IndexType, IntType, PointerType, Type

FLOAT_SPELLING = {"bf16": "bfloat", "f16": "half", "f32": "float", "f64": "double", "tf32": "float"}
BITS = {"bfloat": 16, "double": 64, "float": 32, "half": 16, "ptr": 64, "void": 0}
_PLAIN_SYMBOL = re.compile(r"[A-Za-z$._-][A-Za-z$._0-9-]*")
INTRINSIC_SUFFIX = {"bfloat": "bf16", "double": "f64", "float": "f32", "half": "f16", "ptr": "p0"}


@cache
def element_of(type: Type) -> str:
    """The LLVM type of one element of `type`: fp8 formats travel as i8, pointers as ptr, index as i64."""
    scalar = type.scalar
    if isinstance(scalar, IntType):
        return scalar.text
    if isinstance(scalar, FloatType):
        return FLOAT_SPELLING.get(scalar.text, "i8")
    if isinstance(scalar, PointerType):
        return "ptr"
    assert isinstance(scalar, IndexType), f"{type.text} has no LLVM type"
    return "i64"


@cache
def vector(element: str, lanes: int) -> str:
    """The type of `lanes` elements; one lane is the scalar itself."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def bits_of(element: str) -> int:
    """Width in bits of a scalar LLVM type."""
    return BITS[element] if element in BITS else int(element[1:])


def moved_as(element: str) -> str:
    """16-bit floats travel through masked memory instructions, and from block to block, as integers."""
    return "i16" if element in ("half", "bfloat") else element


@cache
def llvm_type(type: Type) -> str:
    """The LLVM type of a number, a vector or a tile in a register of its own kind."""
    return "x86_amx" if is_tile(type) else vector(element_of(type), lanes_of(type))


@cache
def moved_type(type: Type) -> str:
    """The LLVM type of a value between blocks."""
    return llvm_type(type) if is_tile(type) else vector(moved_as(element_of(type)), lanes_of(type))


def in_memory(type: Type) -> str:
    """The LLVM type of an element in memory: truth values take a byte."""
    element = element_of(type)
    return "i8" if element == "i1" else element


def comes_apart(element: str, lanes: int) -> bool:
    """Whether LLVM takes such a vector apart where its lanes only move, change sign, or cross from block to block."""
    return element == "bfloat" and lanes > 1


@cache
def is_kept(type: Type) -> bool:
    """Whether values of a type go to other blocks as integers.

    LLVM makes a float of a bfloat that another block uses. Where the machine has an instruction for the way back, that
    takes subnormals for 0.
    """
    return element_of(type) == "bfloat" and not is_tile(type)


@cache
def whole_type(type: Type) -> str:
    """The LLVM type of a value that stays whole where it only moves."""
    return moved_type(type) if comes_apart(element_of(type), lanes_of(type)) else llvm_type(type)


def is_float(element: str) -> bool:
    """Whether the scalar type is one of half, bfloat, float and double."""
    return element in FLOAT_SPELLING.values()


@cache
def suffix(type_text: str) -> str:
    """The name of a type in overloaded intrinsics: `<16 x float>` gives `v16f32`."""
    if type_text.startswith("<"):
        count, element = type_text[1:-1].split(" x ")
        return f"v{count}{suffix(element)}"
    return INTRINSIC_SUFFIX.get(type_text, type_text)


def literal(value: float | int, element: str) -> str:
    """One constant of a scalar type. Floats are rounded to nearest even and written as bits, so they are exact."""
    return _literal(value, element, copysign(1.0, value))


def in_registers(value: float | int, type: Type) -> float | int:
    """A number of a constant of `type` as its LLVM type has it: those of fp8 formats as their code."""
    scalar = type.scalar
    return float_bits(value, scalar) if isinstance(scalar, FloatType) and scalar.bits == 8 else value


@cache
def _literal(value: float | int, element: str, sign: float) -> str:
    """`sign` keeps 0.0 and -0.0, which are equal, apart in the cache."""
    spell = SPELL_LITERAL.get(element)
    return str(_signed(int(value), bits_of(element))) if spell is None else spell(value)


def _float32_bits(value: float) -> str:
    with np.errstate(over="ignore"):
        return f"0x{_double_bits(float(np.float32(value))):016X}"


def _half_bits(value: float) -> str:
    with np.errstate(over="ignore"):
        return f"0xH{int(np.float16(value).view(np.uint16)):04X}"


SPELL_LITERAL: dict[str, Callable[[float], str]] = {
    "bfloat": lambda value: f"0xR{int(np.array(value, ml_dtypes.bfloat16).view(np.uint16)):04X}",
    "double": lambda value: f"0x{_double_bits(float(value)):016X}",
    "float": _float32_bits,
    "half": _half_bits,
    "i1": lambda value: "true" if value else "false",
    "ptr": lambda value: f"inttoptr (i64 {int(value)} to ptr)" if value else "null",
}


def constant(value: float | int, element: str, lanes: int) -> str:
    """`value` in every lane, as an operand without its type."""
    one = literal(value, element)
    return one if lanes == 1 else f"splat ({element} {one})"


def constant_vector(values: Sequence[float | int], element: str) -> str:
    """A vector constant with its own value per lane; a single value is the scalar constant."""
    if len(values) == 1:
        return literal(values[0], element)
    return "<" + ", ".join(f"{element} {literal(value, element)}" for value in values) + ">"


def symbol(name: str) -> str:
    """`@name`, in quotes where it has letters beyond ASCII, or others that symbols are not written with."""
    return f"@{name}" if _PLAIN_SYMBOL.fullmatch(name) else f"@{quoted(name)}"


@cache
def iota(lanes: int, element: str = "i32") -> str:
    """`0, 1, …` per lane."""
    return constant_vector(range(lanes), element)


def _double_bits(value: float) -> int:
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
