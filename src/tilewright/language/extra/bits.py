"""Functions of libdevice on bits. All are exact; none can overflow, so overflow checks do not affect them."""

from __future__ import annotations

from typing import Any

from tilewright.language import math, operations
from tilewright.language.extra.forms import named, takes
from tilewright.language.operations import cast
from tilewright.semantics.math import leading_zeros, set_bits
from tilewright.semantics.types import dtype, float32, float64, int32, int64, uint32, uint64

ALTERNATE = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF)
"""Masks of every other bit, every other pair of bits, …, every other 16 bits."""


def plus(x: Any, y: Any) -> Any:
    """x + y of integers, which may wrap."""
    return operations.add(x, y, sanitize_overflow=False)


def less(x: Any, y: Any) -> Any:
    """x - y of integers, which may wrap."""
    return operations.sub(x, y, sanitize_overflow=False)


def times(x: Any, y: Any) -> Any:
    """x * y of integers, which may wrap."""
    return operations.mul(x, y, sanitize_overflow=False)


def bitcast(x: Any, kind: dtype) -> Any:
    """The same bits under another type."""
    return cast(x, kind, bitcast=True)


def unsigned(x: Any) -> Any:
    """The same bits without a sign."""
    return bitcast(x, uint32 if width(x) == 32 else uint64)


def width(x: Any) -> int:
    """The bits of each element."""
    return int(x.type.scalar.primitive_bitwidth)


def _mask(step: int, bits: int) -> int:
    return ALTERNATE[step] & ((1 << bits) - 1)


@takes("int32 -> int32", "int64 -> int32")
def popc(arg0: Any) -> Any:
    """The number of bits that are set."""
    return cast(set_bits(arg0), int32)


@takes("int32 -> int32", "int64 -> int32")
def clz(arg0: Any) -> Any:
    """The number of bits above the highest one that is set; all of them for 0."""
    return cast(leading_zeros(arg0), int32)


@takes("int32 -> int32", "int64 -> int32")
def ffs(arg0: Any) -> Any:
    """The place of the lowest bit that is set, counted from 1; 0 for 0."""
    return less(width(arg0), clz(arg0 & less(0, arg0)))


@takes("int32 -> int32", "int64 -> int64")
def brev(arg0: Any) -> Any:
    """The bits in the opposite order."""
    x, bits = unsigned(arg0), width(arg0)
    for step in range(5):
        mask, distance = _mask(step, bits), 1 << step
        x = ((x >> distance) & mask) | ((x & mask) << distance)
    if bits == 64:
        x = (x >> 32) | (x << 32)
    return bitcast(x, arg0.type.scalar)


@takes("int32, int32, int32 -> int32")
def byte_perm(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """Four bytes out of the eight of the second and the first, each chosen by three bits of one digit of the third."""
    low, high, selector = (cast(unsigned(x), uint64) for x in (arg0, arg1, arg2))
    both = low | (high << 32)
    result = low & 0
    for place in range(4):
        chosen = (selector >> (4 * place)) & 7
        result = result | (((both >> (chosen << 3)) & 0xFF) << (8 * place))
    return bitcast(cast(result, uint32), int32)


@takes(*(f"{kind}, {kind} -> {kind}" for kind in ("int32", "uint32", "int64", "uint64")))
def mulhi(arg0: Any, arg1: Any) -> Any:
    """The high half of the product."""
    high = math.umulhi(unsigned(arg0), unsigned(arg1))
    if arg0.type.scalar.is_int_unsigned():
        return high
    sign = width(arg0) - 1
    high = less(high, unsigned(arg0 >> sign) & unsigned(arg1))
    high = less(high, unsigned(arg1 >> sign) & unsigned(arg0))
    return bitcast(high, arg0.type.scalar)


@takes("int32, int32 -> int32", "uint32, uint32 -> uint32")
def mul24(arg0: Any, arg1: Any) -> Any:
    """The low half of the product of the low 24 bits."""
    return times((arg0 << 8) >> 8, (arg1 << 8) >> 8)


@takes("int32, int32, uint32 -> int32", "uint32, uint32, uint32 -> uint32")
def sad(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """|x - y| + z."""
    difference = operations.where(arg0 < arg1, less(arg1, arg0), less(arg0, arg1))
    return bitcast(plus(unsigned(difference), arg2), arg0.type.scalar)


@takes("int32, int32 -> int32", "uint32, uint32 -> uint32")
def hadd(arg0: Any, arg1: Any) -> Any:
    """(x + y) >> 1 of the exact sum."""
    return plus(arg0 & arg1, (arg0 ^ arg1) >> 1)


@takes("int32, int32 -> int32", "uint32, uint32 -> uint32")
def rhadd(arg0: Any, arg1: Any) -> Any:
    """(x + y + 1) >> 1 of the exact sum."""
    return less(arg0 | arg1, (arg0 ^ arg1) >> 1)


def _bits_as(name: str, form: str, target: dtype) -> Any:
    def convert(arg0: Any) -> Any:
        return bitcast(arg0, target)

    return named(name, convert, [form], f"The bits as {target}.")


float_as_int, float_as_uint = (_bits_as(f"float_as_{name}", "fp32 -> int32", int32) for name in ("int", "uint"))
int_as_float, uint_as_float = (_bits_as(f"{name}_as_float", f"{name}32 -> fp32", float32) for name in ("int", "uint"))
double_as_longlong = _bits_as("double_as_longlong", "fp64 -> int64", int64)
longlong_as_double = _bits_as("longlong_as_double", "int64 -> fp64", float64)


@takes("fp64 -> int32")
def double2hiint(arg0: Any) -> Any:
    """The upper half of the bits."""
    return cast(bitcast(arg0, int64) >> 32, int32)


@takes("fp64 -> int32")
def double2loint(arg0: Any) -> Any:
    """The lower half of the bits."""
    return cast(bitcast(arg0, int64), int32)


@takes("int32, int32 -> fp64")
def hiloint2double(arg0: Any, arg1: Any) -> Any:
    """The number whose bits are the two halves."""
    high = cast(unsigned(arg0), uint64) << 32
    return bitcast(high | cast(unsigned(arg1), uint64), float64)
