"""Instructions on integers and plain bits, as operations on tiles.

    INTEGERS["shf.l.wrap"].compute(low, high, distance)      the upper half of high:low << distance

PTX ISA, sections "Integer arithmetic", "Comparison and selection" and "Logic and shift".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.language import math
from tilewright.language.extra.bits import bitcast, brev, clz, less, mulhi, plus, popc, times, unsigned, width
from tilewright.language.operations import cast, maximum, minimum, where
from tilewright.language.ptx.registers import Semantics, only, raw, then
from tilewright.semantics.types import int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64

WORD, LONG = 32, 64
WIDER = {uint16: uint32, int16: int32, uint32: uint64, int32: int64}
BITS = only("b16 b32 b64")
LOGIC = only("pred b16 b32 b64")
WHOLE = only("u16 u32 u64 s16 s32 s64")
HALVES = only("u16x2 s16x2")
WIDE = only("u16 u32 s16 s32")
WORDS = only("u32 s32 u64 s64")


def shift_left(x: Any, distance: Any) -> Any:
    """x << distance; 0 where the distance is the width or more."""
    return where(distance < width(x), x << cast(distance & (width(x) - 1), x.type.scalar), x & 0)


def shift_right(x: Any, distance: Any) -> Any:
    """x >> distance; only the sign, or 0, is left where the distance is the width or more."""
    half = width(x) // 2
    near = x >> cast(distance & (width(x) - 1), x.type.scalar)
    return where(distance < width(x), near, (x >> half) >> (half - 1) >> 1)


def _funnel(*, right: bool, wraps: bool) -> Callable[[Any, Any, Any], Any]:
    """Half of the 64 bits high:low, shifted; of the distance the low five bits count, or it ends at 32."""

    def shifted(low: Any, high: Any, distance: Any) -> Any:
        both = cast(low, uint64) | (cast(high, uint64) << WORD)
        count = cast(distance & (WORD - 1) if wraps else minimum(distance, WORD), uint64)
        return cast(both >> count if right else (both << count) >> WORD, uint32)

    return shifted


def in_wider(x: Any) -> Any:
    """An integer of 16 or 32 bits in twice as many."""
    return cast(x, WIDER[x.type.scalar])


def multiply_wide(x: Any, y: Any) -> Any:
    """The product, in twice as many bits."""
    return times(in_wider(x), in_wider(y))


def high_half(x: Any, y: Any) -> Any:
    """The upper half of the product."""
    if x.type.scalar not in (int16, uint16):
        return mulhi(x, y)
    return cast(multiply_wide(x, y) >> width(x), x.type.scalar)


def saturated(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A sum or difference of signed words, kept in their range."""

    def kept(x: Any, y: Any) -> Any:
        exact = operation(cast(x, int64), cast(y, int64))
        return cast(maximum(minimum(exact, 2**31 - 1), -(2**31)), int32)

    return kept


def divided(x: Any, y: Any) -> Any:
    """The quotient, towards zero."""
    return x // y


def permuted(low: Any, high: Any, selector: Any) -> Any:
    """Four of the eight bytes high:low, each chosen by a digit; its highest bit asks for copies of the sign."""
    both = cast(low, uint64) | (cast(high, uint64) << WORD)
    result = low & 0
    for place in range(4):
        digit = (selector >> (4 * place)) & 15
        byte = cast(both >> cast((digit & 7) << 3, uint64), uint32) & 0xFF
        byte = where((digit & 8) != 0, times(byte >> 7, 0xFF), byte)
        result = result | (byte << (8 * place))
    return result


def looked_up(x: Any, y: Any, z: Any, table: int) -> Any:
    """Any function of three bits: bit 4·x + 2·y + z of the table."""
    result = x & 0
    for row in (row for row in range(8) if table >> row & 1):
        chosen = (x if row & 4 else ~x) & (y if row & 2 else ~y) & (z if row & 1 else ~z)
        result = result | chosen
    return result


def low_ones(count: Any) -> Any:
    """A uint64 with `count` ones at the bottom; 64 or more are all."""
    few = minimum(count, LONG - 1)
    ones = less(shift_left(cast(few | 1, uint64) & 1, few), 1)
    return where(count < LONG, ones, ~(ones & 0))


def extracted(x: Any, position: Any, length: Any) -> Any:
    """`length` bits from `position` on; beyond the end of x is its sign, or 0."""
    start, count, kind = position & 255, length & 255, x.type.scalar
    if kind.is_int_unsigned():
        return cast(shift_right(cast(x, uint64), start) & low_ones(count), kind)
    wide = cast(x, int64)
    field = low_ones(count)
    found = unsigned(shift_right(wide, start)) & field
    sign = unsigned(shift_right(wide, less(minimum(plus(start, count), width(x)), 1))) & 1
    return cast(where((count != 0) & (sign != 0), found | ~field, found), kind)


def inserted(x: Any, base: Any, position: Any, length: Any) -> Any:
    """`base` with the `length` lowest bits of x at `position`."""
    start = position & 255
    field = shift_left(low_ones(length & 255), start)
    placed = shift_left(cast(x, uint64), start) & field
    return cast((cast(base, uint64) & ~field) | placed, base.type.scalar)


def byte_products(*, signed: bool) -> Callable[[Any, Any, Any], Any]:
    """z plus the products of four pairs of bytes; those of x have signs or not, those of y as its type."""

    def byte(word: Any, place: int, has_sign: bool) -> Any:
        found = cast(raw(word) >> (8 * place), uint8)
        return cast(bitcast(found, int8) if has_sign else found, int32)

    def summed(x: Any, y: Any, z: Any) -> Any:
        for place in range(4):
            product = times(byte(x, place, signed), byte(y, place, y.type.scalar.is_int_signed()))
            z = plus(z, bitcast(product, z.type.scalar))
        return z

    return summed


def highest(x: Any) -> Any:
    """The place of the highest bit that differs from the sign, or that is set in an unsigned number; else all ones."""
    if not x.type.scalar.is_int_unsigned():
        x = where(x < 0, ~x, x)
    return cast(less(width(x) - 1, clz(bitcast(x, int32 if width(x) == WORD else int64))), uint32)


def with_sign(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of libdevice, which takes bits as signed integers only."""
    return lambda x: bitcast(function(bitcast(x, int32 if width(x) == WORD else int64)), uint32)


def reversed_bits(x: Any) -> Any:
    """The bits in the opposite order."""
    return unsigned(brev(bitcast(x, int32 if width(x) == WORD else int64)))


def distance(x: Any, y: Any, z: Any) -> Any:
    """|x - y| + z."""
    return plus(where(x < y, less(y, x), less(x, y)), z)


RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}
"""Comparisons; of floats they are false for NaN, but `ne`."""
UNSIGNED_RELATIONS = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
PLAIN = BITS | WHOLE
COMPARED = {"eq": PLAIN, "ne": PLAIN}

INTEGERS: dict[str, Semantics] = {
    "mov": Semantics(lambda x: x, PLAIN | only("pred f16 bf16 f32 f64")),
    "selp": Semantics(
        lambda x, y, chosen: where(chosen, x, y),
        PLAIN | only("f32 f64"),
        then(int1),
    ),
    "and": Semantics(lambda x, y: x & y, LOGIC),
    "or": Semantics(lambda x, y: x | y, LOGIC),
    "xor": Semantics(lambda x, y: x ^ y, LOGIC),
    "not": Semantics(lambda x: ~x, LOGIC),
    "cnot": Semantics(lambda x: cast(x == 0, x.type.scalar), BITS),
    "shl": Semantics(shift_left, BITS, then(uint32)),
    "shr": Semantics(shift_right, PLAIN, then(uint32)),
    "shf.l.wrap": Semantics(_funnel(right=False, wraps=True), only("b32")),
    "shf.r.wrap": Semantics(_funnel(right=True, wraps=True), only("b32")),
    "shf.l.clamp": Semantics(_funnel(right=False, wraps=False), only("b32")),
    "shf.r.clamp": Semantics(_funnel(right=True, wraps=False), only("b32")),
    "prmt": Semantics(permuted, only("b32")),
    "lop3": Semantics(looked_up, only("b32"), constant=True),
    "bfe": Semantics(extracted, WORDS, then(uint32, uint32)),
    "bfi": Semantics(inserted, only("b32 b64"), then(uint32, uint32)),
    "bfind": Semantics(highest, WORDS),
    "popc": Semantics(with_sign(popc), only("b32 b64")),
    "clz": Semantics(with_sign(clz), only("b32 b64")),
    "brev": Semantics(reversed_bits, only("b32 b64")),
    "add": Semantics(plus, WHOLE | HALVES),
    "sub": Semantics(less, WHOLE),
    "add.sat": Semantics(saturated(plus), only("s32")),
    "sub.sat": Semantics(saturated(less), only("s32")),
    "mul.lo": Semantics(times, WHOLE),
    "mul.hi": Semantics(high_half, WHOLE),
    "mul.wide": Semantics(multiply_wide, WIDE),
    "mad.lo": Semantics(lambda x, y, z: plus(times(x, y), z), WHOLE),
    "mad.hi": Semantics(lambda x, y, z: plus(high_half(x, y), z), WHOLE),
    "mad.wide": Semantics(
        lambda x, y, z: plus(multiply_wide(x, y), z), WIDE, lambda kind, count: (kind, kind, WIDER[kind])
    ),
    "dp4a.u32": Semantics(byte_products(signed=False), only("u32 s32")),
    "dp4a.s32": Semantics(byte_products(signed=True), only("u32 s32")),
    "sad": Semantics(distance, WHOLE),
    "div": Semantics(divided, WHOLE),
    "rem": Semantics(lambda x, y: x % y, WHOLE),
    "neg": Semantics(lambda x: less(x & 0, x), only("s16 s32 s64")),
    "abs": Semantics(math.abs, only("s16 s32 s64")),
    "min": Semantics(minimum, WHOLE | HALVES),
    "max": Semantics(maximum, WHOLE | HALVES),
    **{f"setp.{name}": Semantics(function, COMPARED.get(name, WHOLE)) for name, function in RELATIONS.items()},
    **{f"setp.{name}": Semantics(RELATIONS[same], only("u16 u32 u64")) for name, same in UNSIGNED_RELATIONS.items()},
}
"""Instructions by name without the type at the end; `floats.py` has those of the same names on floats."""
