"""Integer instructions and bits, against the same in Python's integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ptx_programs import compute, kernel_text, run

pytestmark = pytest.mark.quick

EDGES = np.array([0, 1, 2, 3, 5, 7, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFF8000, 0x12345678])
A, B = (grid.ravel().astype(np.uint32) for grid in np.meshgrid(EDGES, EDGES))
C = np.resize(EDGES[::-1], A.size).astype(np.uint32)


def signed(value: Any, bits: int = 32) -> int:
    value = int(value) & ((1 << bits) - 1)
    return value - (1 << bits) if value >> (bits - 1) else value


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def bfe(value: int, position: int, length: int, *, is_signed: bool, bits: int = 32) -> int:
    position, length = position & 255, length & 255
    sign = 0
    if is_signed and length:
        sign = value >> min(position + length - 1, bits - 1) & 1
    found = 0
    for place in range(bits):
        inside = place < length and position + place < bits
        found |= (value >> (position + place) & 1 if inside else sign) << place
    return found


BINARY = {
    "add.s32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.s32": lambda a, b: signed(a) * signed(b) >> 32,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "div.u32": lambda a, b: a // b if b else -1,
    "rem.u32": lambda a, b: a % b if b else a,
    "div.s32": lambda a, b: truncated(signed(a), signed(b)) if b else -1,
    "rem.s32": lambda a, b: signed(a) - truncated(signed(a), signed(b)) * signed(b) if b else a,
    "min.s32": lambda a, b: min(signed(a), signed(b)),
    "max.u32": lambda a, b: max(a, b),
    "add.sat.s32": lambda a, b: max(-(2**31), min(2**31 - 1, signed(a) + signed(b))),
    "shl.b32": lambda a, b: a << b if b < 32 else 0,
    "shr.u32": lambda a, b: a >> min(b, 32),
    "shr.s32": lambda a, b: signed(a) >> min(b, 31),
    "xor.b32": lambda a, b: a ^ b,
    "bmsk.clamp.b32": lambda a, b: ((1 << min(b, 32)) - 1) << min(a, 32),
    "szext.clamp.s32": lambda a, b: signed(a, min(b, 32)) if b else 0,
}
TERNARY = {
    "mad.lo.u32": lambda a, b, c: a * b + c,
    "mad.hi.s32": lambda a, b, c: (signed(a) * signed(b) >> 32) + c,
    "sad.s32": lambda a, b, c: abs(signed(a) - signed(b)) + c,
    "bfe.u32": lambda a, b, c: bfe(a, b, c, is_signed=False),
    "bfe.s32": lambda a, b, c: bfe(a, b, c, is_signed=True),
    "shf.l.wrap.b32": lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32,
    "shf.r.clamp.b32": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "prmt.b32": lambda a, b, c: permuted(a, b, c),
    "dp4a.s32.u32": lambda a, b, c: sum(signed(a >> 8 * i, 8) * (b >> 8 * i & 255) for i in range(4)) + c,
    "dp2a.hi.u32.s32": lambda a, b, c: sum((a >> 16 * i & 65535) * signed(b >> 16 + 8 * i, 8) for i in range(2)) + c,
}


def permuted(a: int, b: int, selector: int) -> int:
    pool, result = b << 32 | a, 0
    for place in range(4):
        nibble = selector >> 4 * place & 15
        byte = pool >> 8 * (nibble & 7) & 255
        result |= (255 * (byte >> 7) if nibble & 8 else byte) << 8 * place
    return result


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bfind.u32", lambda a: a.bit_length() - 1),
        ("bfind.shiftamt.u32", lambda a: 32 - a.bit_length() if a else -1),
        ("bfind.shiftamt.s32", lambda a: 32 - n if (n := max(signed(a), ~signed(a)).bit_length()) else -1),
    ],
)
def test_the_highest_bit(name: str, expected: Callable[[int], int]) -> None:
    found = compute(f"{name} %r9, %r1;", "u4", A)
    assert found.tolist() == [expected(int(a)) & 0xFFFFFFFF for a in A]


@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str) -> None:
    found = compute(f"{name} %r9, %r1, %r2;", "u4", A, B)
    assert found.tolist() == [BINARY[name](int(a), int(b)) & 0xFFFFFFFF for a, b in zip(A, B, strict=True)]


@pytest.mark.parametrize("name", TERNARY)
def test_three_operands(name: str) -> None:
    found = compute(f"{name} %r9, %r1, %r2, %r3;", "u4", A, B, C)
    assert found.tolist() == [
        TERNARY[name](int(a), int(b), int(c)) & 0xFFFFFFFF for a, b, c in zip(A, B, C, strict=True)
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [("0b101", 5), ("0B111U", 7), ("-0b1", -1), ("017", 15), ("-017", -15), ("0", 0), ("-0x10", -16), ("0x7FU", 127)],
)
def test_bases_of_constants(text: str, value: int) -> None:
    """PTX ISA, section "Integer Constants": a prefix or a zero in front says the base, U that there is no sign."""
    assert set(compute(f"mov.b32 %r9, {text};", "i4", A).tolist()) == {value}
    assert set(compute(f"lop3.b32 %r9, %r1, {text}, 0, 0b11001100;", "i4", A).tolist()) == {value}


def test_bases_of_offsets() -> None:
    """`mov` of a sum of a name and a number, and addresses, take the same constants."""
    body = "ld.global.b32 %r1, [%d0+0b100]; ld.global.b32 %r2, [%d0+010]; add.u32 %r1, %r1, %r2;"
    body += "st.global.b32 [%d1], %r1;"
    found = run(kernel_text(body, threads=1), np.array([1, 10, 100], np.int32), np.zeros(1, np.int32))
    assert found[1].tolist() == [110]
