"""Instructions one by one, with the modifiers that they have, against their meaning in Python's numbers.

What `test_integers.py` and `test_floats.py` try with more operands is left out here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ptx_programs import compute

W32 = [0, 1, 2, 5, 31, 32, 33, 0x7FFF, 0x8000, 0xFFFF, 0x12345678, 0x7FFFFFFF, 0x80000000, 0x80007FFF, 0xFFFFFFFF]
W64 = [*W32, 2**32, 2**33 + 5, 0x0123456789ABCDEF, 2**63 - 1, 2**63, 2**63 + 2**31, 2**64 - 1]
HALVES = [0x0000, 0x8000, 0x0001, 0x3C00, 0xC000, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01]


def grid(numbers: list[int], dtype: str) -> list[Any]:
    """Each number beside each, and a third one."""
    first, second = (x.ravel() for x in np.meshgrid(np.array(numbers, dtype), np.array(numbers, dtype)))
    return [first, second, np.resize(np.array(numbers[::-1], dtype), first.size + 1)[1:]]


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def saturated(value: int) -> int:
    return max(-(2**31), min(2**31 - 1, value))


def inserted(bits: int, base: int, position: int, length: int, width: int) -> int:
    position, length = position & 255, length & 255
    field = ((1 << length) - 1) << position & ((1 << width) - 1)
    return base & ~field | bits << position & field


def looked_up(a: int, b: int, c: int, table: int) -> int:
    return sum((table >> ((a >> n & 1) << 2 | (b >> n & 1) << 1 | c >> n & 1) & 1) << n for n in range(32))


def bytes_of(low: int, high: int, places: list[int]) -> int:
    pool = (high << 32 | low).to_bytes(8, "little")
    return int.from_bytes([pool[place % 8] for place in places], "little")


def in_halves(function: Callable[..., int], sign: bool) -> Callable[..., int]:
    """The function of words that applies `function` to both of their halves."""

    def both(*words: int) -> int:
        halves = [[signed(w >> at, 16) if sign else w >> at & 0xFFFF for w in words] for at in (0, 16)]
        return sum((function(*part) & 0xFFFF) << 16 * number for number, part in enumerate(halves))

    return both


def ones_from(position: int, width: int) -> int:
    return ((1 << width) - 1) << position


WORDS: dict[str, Callable[[int, int, int], int]] = {
    "popc.b32 %r9, %r1;": lambda a, b, c: a.bit_count(),
    "clz.b32 %r9, %r1;": lambda a, b, c: 32 - a.bit_length(),
    "brev.b32 %r9, %r1;": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
    "bfind.s32 %r9, %r1;": lambda a, b, c: max(signed(a), ~signed(a)).bit_length() - 1,
    "not.b32 %r9, %r1;": lambda a, b, c: ~a,
    "cnot.b32 %r9, %r1;": lambda a, b, c: int(a == 0),
    "neg.s32 %r9, %r1;": lambda a, b, c: -a,
    "abs.s32 %r9, %r1;": lambda a, b, c: abs(signed(a)),
    "and.b32 %r9, %r1, %r2;": lambda a, b, c: a & b,
    "or.b32 %r9, %r1, %r2;": lambda a, b, c: a | b,
    "sub.sat.s32 %r9, %r1, %r2;": lambda a, b, c: saturated(signed(a) - signed(b)),
    "min.u32 %r9, %r1, %r2;": lambda a, b, c: min(a, b),
    "max.s32 %r9, %r1, %r2;": lambda a, b, c: max(signed(a), signed(b)),
    "min.relu.s32 %r9, %r1, %r2;": lambda a, b, c: max(min(signed(a), signed(b)), 0),
    "max.relu.s32 %r9, %r1, %r2;": lambda a, b, c: max(signed(a), signed(b), 0),
    "add.u16x2 %r9, %r1, %r2;": in_halves(lambda a, b, *_: a + b, sign=False),
    "add.s16x2 %r9, %r1, %r2;": in_halves(lambda a, b, *_: a + b, sign=True),
    "min.u16x2 %r9, %r1, %r2;": in_halves(lambda a, b, *_: min(a, b), sign=False),
    "max.s16x2 %r9, %r1, %r2;": in_halves(lambda a, b, *_: max(a, b), sign=True),
    "min.relu.s16x2 %r9, %r1, %r2;": in_halves(lambda a, b, *_: max(min(a, b), 0), sign=True),
    "max.relu.s16x2 %r9, %r1, %r2;": in_halves(lambda a, b, *_: max(a, b, 0), sign=True),
    "bmsk.wrap.b32 %r9, %r1, %r2;": lambda a, b, c: ones_from(a & 31, b & 31),
    "szext.wrap.u32 %r9, %r1, %r2;": lambda a, b, c: a & ones_from(0, b & 31),
    "szext.wrap.s32 %r9, %r1, %r2;": lambda a, b, c: signed(a, b & 31) if b & 31 else 0,
    "szext.clamp.u32 %r9, %r1, %r2;": lambda a, b, c: a & ones_from(0, min(b, 32)),
    "shf.l.clamp.b32 %r9, %r1, %r2, %r3;": lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32,
    "shf.r.wrap.b32 %r9, %r1, %r2, %r3;": lambda a, b, c: (b << 32 | a) >> (c & 31),
    "bfi.b32 %r9, %r1, %r2, %r3, 7;": lambda a, b, c: inserted(a, b, c, 7, 32),
    "bfi.b32 %r9, %r1, %r2, 3, %r3;": lambda a, b, c: inserted(a, b, 3, c, 32),
    "lop3.b32 %r9, %r1, %r2, %r3, 0x96;": lambda a, b, c: looked_up(a, b, c, 0x96),
    "lop3.b32 %r9, %r1, %r2, %r3, 0x1b;": lambda a, b, c: looked_up(a, b, c, 0x1B),
    "lop3.b32 %r9, %r1, %r2, %r3, 0;": lambda a, b, c: 0,
    "prmt.b32.f4e %r9, %r1, %r2, %r3;": lambda a, b, c: bytes_of(a, b, [(c & 3) + n for n in range(4)]),
    "prmt.b32.b4e %r9, %r1, %r2, %r3;": lambda a, b, c: bytes_of(a, b, [(c & 3) - n for n in range(4)]),
    "prmt.b32.rc8 %r9, %r1, %r2, %r3;": lambda a, b, c: bytes_of(a, b, [c & 3] * 4),
    "prmt.b32.ecl %r9, %r1, %r2, %r3;": lambda a, b, c: bytes_of(a, b, [max(n, c & 3) for n in range(4)]),
    "prmt.b32.ecr %r9, %r1, %r2, %r3;": lambda a, b, c: bytes_of(a, b, [min(n, c & 3) for n in range(4)]),
    "prmt.b32.rc16 %r9, %r1, %r2, %r3;": lambda a, b, c: bytes_of(a, b, [n % 2 + 2 * (c & 1) for n in range(4)]),
    "mad.lo.s32 %r9, %r1, %r2, %r3;": lambda a, b, c: a * b + c,
    "mad.hi.u32 %r9, %r1, %r2, %r3;": lambda a, b, c: (a * b >> 32) + c,
    "mad.hi.sat.s32 %r9, %r1, %r2, %r3;": lambda a, b, c: saturated((signed(a) * signed(b) >> 32) + signed(c)),
    "sad.u32 %r9, %r1, %r2, %r3;": lambda a, b, c: abs(a - b) + c,
    "dp4a.u32.s32 %r9, %r1, %r2, %r3;": lambda a, b, c: (
        sum((a >> n & 255) * signed(b >> n, 8) for n in (0, 8, 16, 24)) + c
    ),
    "dp2a.lo.s32.u32 %r9, %r1, %r2, %r3;": lambda a, b, c: (
        signed(a, 16) * (b & 255) + signed(a >> 16, 16) * (b >> 8 & 255) + c
    ),
    "set.lt.u32.s32 %r9, %r1, %r2;": lambda a, b, c: -int(signed(a) < signed(b)),
    "set.ge.f32.u32 %r9, %r1, %r2;": lambda a, b, c: 0x3F800000 * (a >= b),
    "setp.ne.b32 %p1, %r3, 0; set.eq.or.u32.b32 %r9, %r1, %r2, %p1;": lambda a, b, c: -int(a == b or c != 0),
    "setp.ne.b32 %p1, %r3, 0; set.ne.and.u32.b32 %r9, %r1, %r2, !%p1;": lambda a, b, c: -int(a != b and c == 0),
    "setp.hi.u32 %p1, %r1, %r2; selp.b32 %r9, 7, %r3, %p1;": lambda a, b, c: 7 if a > b else c,
    "setp.ls.u32 %p1, %r1, %r2; selp.b32 %r9, %r3, 9, %p1;": lambda a, b, c: c if a <= b else 9,
    "setp.lo.xor.u32 %p1, %r1, %r2, 1; selp.b32 %r9, 1, 0, %p1;": lambda a, b, c: int(a >= b),
    "slct.b32.s32 %r9, %r1, %r2, %r3;": lambda a, b, c: a if signed(c) >= 0 else b,
}

DOUBLE_WORDS: dict[str, Callable[[int, int], int]] = {
    "popc.b64 %r9, %d1; cvt.u64.u32 %d9, %r9;": lambda a, b: a.bit_count(),
    "clz.b64 %r9, %d1; cvt.u64.u32 %d9, %r9;": lambda a, b: 64 - a.bit_length(),
    "bfind.u64 %r9, %d1; cvt.s64.s32 %d9, %r9;": lambda a, b: a.bit_length() - 1,
    "bfind.shiftamt.s64 %r9, %d1; cvt.s64.s32 %d9, %r9;": lambda a, b: (
        63 - (n - 1) if (n := max(signed(a, 64), ~signed(a, 64)).bit_length()) else -1
    ),
    "brev.b64 %d9, %d1;": lambda a, b: int(f"{a:064b}"[::-1], 2),
    "mul.hi.u64 %d9, %d1, %d2;": lambda a, b: a * b >> 64,
    "mul.hi.s64 %d9, %d1, %d2;": lambda a, b: signed(a, 64) * signed(b, 64) >> 64,
    "mad.hi.u64 %d9, %d1, %d2, 5;": lambda a, b: (a * b >> 64) + 5,
    "div.s64 %d9, %d1, %d2;": lambda a, b: truncated(signed(a, 64), signed(b, 64)) if b else -1,
    "rem.u64 %d9, %d1, %d2;": lambda a, b: a % b if b else a,
    "shl.b64 %d9, %d1, 63;": lambda a, b: a << 63,
    "shr.s64 %d9, %d1, 64;": lambda a, b: -(a >> 63),
    "shr.u64 %d9, %d1, 64;": lambda a, b: 0,
    "bfe.u64 %d9, %d1, 60, 8;": lambda a, b: a >> 60,
    "bfe.s64 %d9, %d1, 4, 8;": lambda a, b: signed(a >> 4, 8),
    "bfi.b64 %d9, %d1, %d2, 40, 20;": lambda a, b: inserted(a, b, 40, 20, 64),
    "cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; mul.wide.u32 %d9, %r1, %r2;": lambda a, b: (a % 2**32) * (b % 2**32),
    "cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; mul.wide.s32 %d9, %r1, %r2;": lambda a, b: signed(a) * signed(b),
    "cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2; mad.wide.s32 %d9, %r1, %r2, %d2;": lambda a, b: (
        signed(a) * signed(b) + b
    ),
    "setp.gt.s64 %p1, %d1, %d2; selp.b64 %d9, %d1, %d2, %p1;": lambda a, b: max(signed(a, 64), signed(b, 64)),
}


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def test_words() -> None:
    operands = grid(W32, "u4")
    rows = list(zip(*(x.tolist() for x in operands), strict=True))
    for line, function in WORDS.items():
        assert compute(line, "u4", *operands).tolist() == [function(*row) & 0xFFFFFFFF for row in rows], line


def test_double_words() -> None:
    a, b, _ = grid(W64, "u8")
    for line, function in DOUBLE_WORDS.items():
        wanted = [function(int(x), int(y)) & (2**64 - 1) for x, y in zip(a, b, strict=True)]
        assert compute(line, "u8", a, b).tolist() == wanted, line


SPLIT = "mov.b64 {%r11, %r12}, %d1; mov.b64 {%r13, %r14}, %d2;"
JOIN = "mov.b64 %d9, {%r21, %r22};"
CARRYING: dict[str, Callable[[int, int], int]] = {
    "add.cc.u32 %r21, %r11, %r13; addc.u32 %r22, %r12, %r14;": lambda a, b: a + b,
    "sub.cc.u32 %r21, %r11, %r13; subc.u32 %r22, %r12, %r14;": lambda a, b: a - b,
    "mul.lo.u32 %r21, %r11, %r13; mul.hi.u32 %r22, %r11, %r13; mad.lo.cc.u32 %r22, %r11, %r14, %r22;"
    "mad.lo.u32 %r22, %r12, %r13, %r22;": lambda a, b: a * b,
    "add.cc.u32 %r21, %r11, %r13; addc.cc.u32 %r22, %r12, %r14; addc.u32 %r21, 0, 0; mov.u32 %r22, 0;": lambda a, b: (
        a + b >> 64
    ),
    "sub.cc.u32 %r21, %r11, %r13; subc.cc.u32 %r22, %r12, %r14; subc.u32 %r21, 0, 0; mov.u32 %r22, 0;": lambda a, b: (
        a - b >> 64 & 0xFFFFFFFF
    ),
    "mad.lo.cc.u32 %r21, %r11, %r13, %r12; madc.hi.u32 %r22, %r11, %r13, %r14;": lambda a, b: (
        (a % 2**32) * (b % 2**32) + (a >> 32) + (b >> 32 << 32)
    ),
    "mad.lo.cc.u32 %r21, %r11, %r13, %r12; madc.hi.cc.u32 %r22, %r11, %r13, %r14;"
    "addc.u32 %r21, 0, 0; mov.u32 %r22, 0;": (
        lambda a, b: (a % 2**32) * (b % 2**32) + (a >> 32) + (b >> 32 << 32) >> 64
    ),
}


def test_carries() -> None:
    """Numbers of two words; where a third is asked for, it is what does not fit them."""
    a, b, _ = grid(W64, "u8")
    for line, function in CARRYING.items():
        wanted = [function(int(x), int(y)) & (2**64 - 1) for x, y in zip(a, b, strict=True)]
        assert compute(f"{SPLIT} {line} {JOIN}", "u8", a, b).tolist() == wanted, line


def test_lanes_that_are_off_keep_their_carry() -> None:
    a = np.array([0xFFFFFFFF, 0xFFFFFFFF, 0, 0], np.uint32)
    b = np.array([0, 1, 0, 1], np.uint32)
    line = "setp.ne.b32 %p1, %r2, 0; add.cc.u32 %r3, %r1, 1; @%p1 add.cc.u32 %r3, 0, 0; addc.u32 %r9, 0, 0;"
    assert compute(line, "u4", a, b).tolist() == [1, 0, 0, 0]


def bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


SINGLES = [0.0, -0.0, 1.0, -2.5, 2.0**-126, -(2.0**-127), 3e38, math.inf, -math.inf, math.nan]
IS: dict[str, Callable[[float], bool]] = {
    "finite": math.isfinite,
    "infinite": math.isinf,
    "number": lambda a: not math.isnan(a),
    "notanumber": math.isnan,
    "normal": lambda a: math.isfinite(a) and abs(a) >= 2.0**-126,
    "subnormal": lambda a: 0 < abs(a) < 2.0**-126,
}


def test_kinds_of_floats() -> None:
    for name, function in IS.items():
        found = compute(f"testp.{name}.f32 %p1, %r1; selp.b32 %r9, 1, 0, %p1;", "u4", np.array(SINGLES, np.float32))
        assert found.tolist() == [int(function(value)) for value in SINGLES], name


def test_signs_are_changed() -> None:
    a, b = np.array(SINGLES, np.float32), np.array([-1.0, 1.0] * 5, np.float32)
    words = a.view(np.uint32)
    for name, changed in (("neg", words ^ 0x80000000), ("abs", words & 0x7FFFFFFF)):
        wanted = np.where(np.isnan(a), np.uint32(0x7FFFFFFF), changed)
        assert compute(f"{name}.f32 %r9, %r1;", "u4", a).tolist() == wanted.tolist()
    found = compute("copysign.f32 %r9, %r2, %r1;", "f4", a, b)
    assert np.signbit(found).tolist() == np.signbit(b).tolist()
    assert compute("abs.ftz.f32 %r9, %r1;", "u4", a[:6]).tolist() == [0, 0, bits(1), bits(2.5), bits(2.0**-126), 0]
    pairs = np.array([low | high << 16 for low in HALVES for high in HALVES], np.uint32)
    for kind in ("f16x2", "bf16x2"):
        assert compute(f"neg.{kind} %r9, %r1;", "u4", pairs).tolist() == (pairs ^ 0x80008000).tolist()
        assert compute(f"abs.{kind} %r9, %r1;", "u4", pairs).tolist() == (pairs & 0x7FFF7FFF).tolist()


def test_a_choice_by_the_sign_of_a_float() -> None:
    values = np.array(SINGLES, np.float32)
    found = compute("slct.b32.f32 %r9, 1, 2, %r1;", "u4", values)
    assert found.tolist() == [1 if value >= 0 else 2 for value in SINGLES]


@pytest.mark.parametrize(("name", "function"), [("rcp", lambda a: 1 / a), ("rsqrt", lambda a: 1 / math.sqrt(a))])
def test_the_upper_half_of_a_double(name: str, function: Callable[[float], float]) -> None:
    given = np.array([1.0, 3.0, 1 + 2.0**-40, 2.0**1000, 0.0, 5e-324, 0.1])
    found = compute(f"{name}.approx.ftz.f64 %d9, %d1;", "u8", given)

    def upper(value: float) -> int:
        return struct.unpack("<Q", struct.pack("<d", value))[0] >> 32 << 32

    chopped = [struct.unpack("<d", struct.pack("<Q", upper(value)))[0] for value in given]
    assert found.tolist() == [upper(function(v) if v >= 2.0**-1022 else math.inf) for v in chopped]


def test_threads_that_are_here() -> None:
    count = np.arange(32, dtype=np.uint32)
    line = "mov.u32 %r9, 0; setp.lt.u32 %p1, %r1, 5; @!%p1 bra $end; activemask.b32 %r9; $end:"
    assert compute(line, "u4", count).tolist() == [31] * 5 + [0] * 27
    assert compute("activemask.b32 %r9;", "u4", count).tolist() == [0xFFFFFFFF] * 32


def test_addresses_know_their_space() -> None:
    line = "cvta.shared.u64 %d2, 0; isspacep.shared %p1, %d2; isspacep.global %p2, %d2; isspacep.shared %p3, %d40;"
    line += "isspacep.global %p4, %d40; selp.b32 %r1, 1, 0, %p1; selp.b32 %r2, 2, 0, %p2; selp.b32 %r3, 4, 0, %p3;"
    line += "selp.b32 %r4, 8, 0, %p4; add.u32 %r5, %r1, %r2; add.u32 %r6, %r3, %r4; add.u32 %r9, %r5, %r6;"
    assert compute(line, "u4", np.zeros(32, np.uint32)).tolist() == [1 + 8] * 32
    back = "cvta.shared.u64 %d2, 64; cvta.to.shared.u64 %d9, %d2;"
    assert compute(back, "u8", np.zeros(32, np.uint32)).tolist() == [64] * 32
