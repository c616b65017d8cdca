"""`inline_asm_elementwise` where there is no GPU: what each instruction computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

N = 64
HARD = [0, 1, 2, 31, 32, 33, 63, 64, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xDEADBEEF, 0x00FF00FF]
FLOATS = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, 3.4e38, 1.0009765625, 0.333333343]


@tw.jit
def kernel(x_ptr, y_ptr, out_ptr, TEXT: tl.constexpr, CONSTRAINTS: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    kind = out_ptr.dtype.element_ty
    operands = [tl.load(x_ptr + at), tl.load(y_ptr + at)]
    tl.store(out_ptr + at, tl.inline_asm_elementwise(TEXT, CONSTRAINTS, operands, kind, True, 1))


def computed(text: str, constraints: str, x: Any, y: Any, kind: Any = np.uint32) -> Any:
    """What the text makes of two arrays: compiled, and run as a Python function."""
    out, again = np.zeros(N, kind), np.zeros(N, kind)
    kernel[(1,)](x, y, out, text, constraints, N=N)
    tw.jit(kernel.fn, interpret=True)[(1,)](x, y, again, text, constraints, N=N)
    np.testing.assert_array_equal(out, again)
    return out


def words(seed: int) -> Any:
    return np.array([*HARD, *np.random.default_rng(seed).integers(0, 2**32, N - len(HARD))], np.uint32)


WIDE = np.uint64
INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "and.b32 $0, $1, $2;": lambda x, y: x & y,
    "not.b32 $0, $1;": lambda x, y: ~x,
    "shl.b32 $0, $1, $2;": lambda x, y: np.where(y < 32, x.astype(WIDE) << np.minimum(y, 32), 0).astype(np.uint32),
    "shr.u32 $0, $1, $2;": lambda x, y: np.where(y < 32, x.astype(WIDE) >> np.minimum(y, 32), 0).astype(np.uint32),
    "shr.s32 $0, $1, $2;": lambda x, y: (x.view(np.int32) >> np.minimum(y, 31).view(np.int32)).view(np.uint32),
    "shf.l.wrap.b32 $0, $1, $2, 5;": lambda x, y: (y << 5) | (x >> 27),
    "shf.r.wrap.b32 $0, $1, $2, 37;": lambda x, y: (x >> 5) | (y << 27),
    "mul.lo.s32 $0, $1, $2;": lambda x, y: x * y,
    "mul.hi.u32 $0, $1, $2;": lambda x, y: (x.astype(WIDE) * y >> 32).astype(np.uint32),
    "mad.lo.u32 $0, $1, $2, -3;": lambda x, y: x * y - np.uint32(3),
    "min.s32 $0, $1, $2;": lambda x, y: np.minimum(x.view(np.int32), y.view(np.int32)).view(np.uint32),
    "sub.u32 $0, $1, $2;": lambda x, y: x - y,
    "neg.s32 $0, $1;": lambda x, y: np.uint32(0) - x,
    "popc.b32 $0, $1;": lambda x, y: np.array([int(n).bit_count() for n in x], np.uint32),
    "clz.b32 $0, $1;": lambda x, y: np.array([32 - int(n).bit_length() for n in x], np.uint32),
    "brev.b32 $0, $1;": lambda x, y: np.array([int(f"{n:032b}"[::-1], 2) for n in x], np.uint32),
    "{ .reg .b32 t; // a word\n xor.b32 t, $1, 0xFF; add.u32 $0, t, $2; }": lambda x, y: (x ^ np.uint32(0xFF)) + y,
}


@pytest.mark.parametrize("text", INTEGERS)
def test_words(text: str) -> None:
    x, y = words(1), np.roll(words(2), 7)
    np.testing.assert_array_equal(computed(text, "=r,r,r", x, y), INTEGERS[text](x, y))


def test_wide_registers() -> None:
    x, y = words(1), np.roll(words(2), 7)
    np.testing.assert_array_equal(computed("mul.wide.u32 $0, $1, $2;", "=l,r,r", x, y, np.uint64), x.astype(WIDE) * y)
    signed = x.view(np.int32).astype(np.int64) * y.view(np.int32)
    np.testing.assert_array_equal(computed("mul.wide.s32 $0, $1, $2;", "=l,r,r", x, y, np.int64), signed)


def numbers() -> Any:
    return np.resize(np.array(FLOATS, np.float32), N)


def test_floats() -> None:
    x, y = numbers(), np.roll(numbers(), 3)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(computed("add.f32 $0, $1, $2;", "=f,f,f", x, y, np.float32), x + y)
        np.testing.assert_array_equal(computed("neg.f32 $0, $1;", "=f,f,f", x, y, np.float32), -x)
        np.testing.assert_array_equal(computed("mul.f32 $0, $1, 0f3F000000;", "=f,f,f", x, y, np.float32), x / 2)
        np.testing.assert_array_equal(computed("min.f32 $0, $1, $2;", "=f,f,f", x, y, np.float32), np.fmin(x, y))


def test_tf32_rounds_ties_away_from_zero() -> None:
    x = numbers()
    bits = x.view(np.uint32)
    with np.errstate(all="ignore"):
        wanted = np.where(np.isfinite(x), (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits)
    np.testing.assert_array_equal(computed("cvt.rna.tf32.f32 $0, $1;", "=r,f,f", x, x), wanted)


@pytest.mark.parametrize(
    ("text", "constraints", "words"),
    [
        ("ex2.approx.f32 $0, $1;", "=r,r,r", "`ex2.approx.f32` is an instruction of GPUs"),
        ("mov.u32 $0, %smid;", "=r,r,r", "`%smid` is no register"),
        ("@p add.u32 $0, $1, $2;", "=r,r,r", "`@p` is an instruction of GPUs"),
        ("add.u64 $0, $1, $2;", "=r,r,r", "a register of 32 bits is used as uint64"),
        ("add.u32 $0, $1, $2;", "=r,h,r", "operand 1 has 32 bits, and its register 'h' is another one"),
        ("add.u32 t, $1, $2;", "=r,r,r", "the text gives \\$0 no value"),
    ],
)
def test_what_only_a_gpu_can_do_is_named(text: str, constraints: str, words: str) -> None:
    x = np.zeros(N, np.uint32)
    with pytest.raises(tw.CompilationError, match=words):
        kernel[(1,)](x, x, x.copy(), text, constraints, N=N)
