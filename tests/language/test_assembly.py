"""`inline_asm_elementwise` where there is no GPU: what each instruction computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.language.ptx.conversions import conversion

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
    """The results of the text for two arrays: compiled, and run as a Python function."""
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
    "{ .reg .pred p; setp.lt.u32 p, $1, $2; selp.b32 $0, $1, $2, p; }": np.minimum,
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


def test_text_as_compilers_write_it() -> None:
    """Octal numbers, names that scopes declare again, a label that nobody jumps to, no semicolon at the end."""
    x, y = words(1), words(2)
    text = """/* of two */ .reg .b32 t; .loc 1 2 3
        xor.b32 t, $1, 010; here:
        { .reg .b32 t; { .reg .b32 t; mov.b32 t, 077; xor.b32 $0, t, $2; } mov.b32 t, 1U; add.u32 $0, $0, t; }
        xor.b32 $0, $0, t  // the outer one"""
    np.testing.assert_array_equal(computed(text, "=&r,r,r", x, y), ((63 ^ y) + np.uint32(1)) ^ (x ^ 8))


def test_addresses_below_a_register() -> None:
    data, out = words(3), np.zeros(4, np.uint32)
    text = "ld.global.b32 $0, [$1-8];"

    @tw.jit
    def load_before(data_ptr, out_ptr, TEXT: tl.constexpr):
        at = tl.arange(0, 4)
        tl.store(out_ptr + at, tl.inline_asm_elementwise(TEXT, "=r,l", [data_ptr + 2 + at], tl.uint32, False, 1))

    load_before[(1,)](data, out, text)
    np.testing.assert_array_equal(out, data[:4])


def numbers() -> Any:
    return np.resize(np.array(FLOATS, np.float32), N)


def test_floats() -> None:
    x, y = numbers(), np.roll(numbers(), 3)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(computed("add.f32 $0, $1, $2;", "=f,f,f", x, y, np.float32), x + y)
        np.testing.assert_array_equal(computed("neg.f32 $0, $1;", "=f,f,f", x, y, np.float32), -x)
        np.testing.assert_array_equal(computed("mul.f32 $0, $1, 0f3F000000;", "=f,f,f", x, y, np.float32), x / 2)
        np.testing.assert_array_equal(computed("min.f32 $0, $1, $2;", "=f,f,f", x, y, np.float32), np.fmin(x, y))
        chosen = "{ .reg .pred p; setp.lt.f32 p, $1, $2; selp.f32 $0, $1, $2, p; }"
        np.testing.assert_array_equal(computed(chosen, "=f,f,f", x, y, np.float32), np.where(x < y, x, y))


APPROXIMATIONS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "ex2.approx.f32 $0, $1;": (lambda x, y: np.exp2(x), 2**-22),
    "lg2.approx.f32 $0, $1;": (lambda x, y: np.log2(x), 2**-22),
    "tanh.approx.f32 $0, $1;": (lambda x, y: np.tanh(x), 2**-11),
    "sin.approx.f32 $0, $1;": (lambda x, y: np.sin(x), 2**-20),
    "cos.approx.f32 $0, $1;": (lambda x, y: np.cos(x), 2**-20),
    "sqrt.approx.f32 $0, $1;": (lambda x, y: np.sqrt(x), 2**-23),
    "rsqrt.approx.f32 $0, $1;": (lambda x, y: 1 / np.sqrt(x), 2**-22),
    "rcp.approx.f32 $0, $1;": (lambda x, y: 1 / x, 2**-23),
    "div.approx.f32 $0, $1, $2;": (lambda x, y: x / y, 2**-22),
    "div.full.f32 $0, $1, $2;": (lambda x, y: x / y, 2**-22),
}
"""Each with the exact function of float64, and the relative error that PTX allows on some range of numbers."""


@pytest.mark.parametrize("text", APPROXIMATIONS)
def test_approximations_keep_the_bounds_of_ptx(text: str) -> None:
    function, bound = APPROXIMATIONS[text]
    x = np.linspace(0.1, 3.1, N, dtype=np.float32)
    y = np.roll(x, 5)
    out = np.zeros(N, np.float32)
    kernel[(1,)](x, y, out, text, "=f,f,f", N=N)

    wanted = function(x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_allclose(out, wanted, rtol=bound, atol=2**-20 if "cos" in text or "lg2" in text else 0)


def test_approximations_flush_subnormal_numbers_and_know_halves() -> None:
    x = np.full(N, 1e-40, np.float32)
    with np.errstate(all="ignore"):
        assert (computed("rcp.approx.f32 $0, $1;", "=f,f,f", x, x, np.float32) == np.float32(1) / x).all()
        assert (computed("rcp.approx.ftz.f32 $0, $1;", "=f,f,f", x, x, np.float32) == np.inf).all()
    halves = np.linspace(-2, 2, N).astype(np.float16)
    found = computed("tanh.approx.f16 $0, $1;", "=h,h,h", halves, halves, np.float16)
    np.testing.assert_allclose(found, np.tanh(halves.astype(np.float64)), rtol=2**-10)


def test_a_result_may_come_from_complementary_predicates() -> None:
    """The first of them writes a register that has no value yet."""
    x = np.linspace(-30, 30, N, dtype=np.float32)
    text = """{ .reg .pred p; setp.gt.f32 p, $1, 20.; @p mov.f32 $0, $1; @!p mul.f32 $0, $1, 2.0;
        @!p add.f32 $0, $0, 1.0; }"""
    np.testing.assert_array_equal(computed(text, "=f,f,f", x, x, np.float32), np.where(x > 20, x, x * 2 + 1))


def test_tf32_rounds_ties_away_from_zero() -> None:
    x = numbers()
    bits = x.view(np.uint32)
    with np.errstate(all="ignore"):
        wanted = np.where(np.isfinite(x), (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000), bits)
    np.testing.assert_array_equal(computed("cvt.rna.tf32.f32 $0, $1;", "=r,f,f", x, x), wanted)


SIZES = (*(1, 1.5, 2, -0.75, 448, 0, -0.0), *(2.0**-126, 2.0**-127, 1e-40, 1.1e-38), *(2.0**127, 3e38, np.inf, np.nan))
EXPONENTS = {
    "rp": [*(127, 128, 128, 127, 136, 0, 0), *(1, 0, 0, 1), *(254, 255, 255, 255)],
    "rz": [*(127, 127, 128, 126, 135, 0, 0), *(1, 0, 0, 0), *(254, 254, 255, 255)],
    "rp.satfinite": [*(127, 128, 128, 127, 136, 0, 0), *(1, 0, 0, 1), *(254, 254, 254, 255)],
    "rz.satfinite": [*(127, 127, 128, 126, 135, 0, 0), *(1, 0, 0, 0), *(254, 254, 254, 255)],
}
"""The exponent of each size by which block scales are stored; 0 stands for 2**-127, 255 for NaN."""


@pytest.mark.parametrize("modes", EXPONENTS)
def test_scales_are_powers_of_two(modes: str) -> None:
    x = np.ones(N, np.float32)
    x[: len(SIZES)] = SIZES
    found = computed(f"cvt.{modes}.ue8m0x2.f32 $0, 2.0, $1;", "=h,f,f", x, x, np.uint16)
    assert (found >> 8 == 128).all()
    assert (found & 255)[: len(SIZES)].tolist() == EXPONENTS[modes]


FOURS = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
BETWEEN_FOURS = {0.25: 0, 0.75: 2, 1.25: 2, 1.75: 4, 2.5: 4, 3.5: 6, 5: 6, 7: 7, np.inf: 7}
"""Ties → the even code; what is too large → the largest."""


@pytest.mark.parametrize("relu", ["", ".relu"])
def test_numbers_of_four_bits(relu: str) -> None:
    sizes = [*FOURS, *BETWEEN_FOURS, *np.nextafter(np.float32(list(BETWEEN_FOURS)[:7]), np.float32(9)), np.nan]
    codes = [*range(8), *BETWEEN_FOURS.values(), 1, 2, 3, 4, 5, 6, 7, 7]
    x = np.zeros(N, np.float32)
    x[: 2 * len(sizes)] = [*sizes, *(-np.float32(sizes))]
    found = computed(
        f"{{ .reg .b8 b, z; cvt.rn.satfinite{relu}.e2m1x2.f32 b, $1, 3.0; cvt.rn.satfinite.e2m1x2.f32 z, 0.0, 0.0; "
        "mov.b16 $0, {b, z}; }",
        *("=h,f,f", x, x, np.uint16),
    )
    assert (found & 15 == 5).all()
    negative = [
        7 if code == 7 and size != size else 0 if relu else code | 8 for code, size in zip(codes, sizes, strict=True)
    ]
    assert (found >> 4)[: 2 * len(sizes)].tolist() == [*codes, *negative]


@pytest.mark.quick
@pytest.mark.parametrize(
    "name", ["rn.e2m1x2.f32", "satfinite.e2m1x2.f32", "rz.satfinite.e2m1x2.f32", "rn.satfinite.e2m1x2.f16"]
)
def test_conversions_to_four_bits_that_there_are_not(name: str) -> None:
    assert conversion(name.split(".")) is None


@pytest.mark.quick
@pytest.mark.parametrize(
    "name",
    ["rzi.s32.f32", "rni.ftz.u8.f32", "rpi.sat.s16.f16", "rmi.s64.f64", "ftz.sat.rzi.u32.bf16", "sat.u8.s32", "s8.s16"],
)
def test_conversions_to_integers(name: str) -> None:
    assert conversion(name.split("."))


@pytest.mark.quick
@pytest.mark.parametrize(
    "name",
    [
        *("s32.f32", "ftz.s32.f32", "sat.s32.f32", "rz.s32.f32", "rxi.s32.f32", "xzi.s32.f32", "rzzi.s32.f32"),
        *("rzi.relu.s32.f32", "rzi.rni.s32.f32", "rzi.s32.s16", "ftz.s32.s16", "sat.ftz.s32.s16", "rzi.s32.f16x2"),
        *("sat.s32.f16x2", "s32.f16x2"),
    ],
)
def test_conversions_to_integers_that_there_are_not(name: str) -> None:
    assert conversion(name.split(".")) is None


@pytest.mark.parametrize("ftz", ["", ".ftz"])
def test_floats_are_rounded_up_to_integers(ftz: str) -> None:
    x = numbers()
    y = np.where(np.abs(x) < 2.0**-126, 0, x) if ftz else x
    wanted = np.clip(np.ceil(np.nan_to_num(y.astype(np.float64))), -(2**31), 2**31 - 1).astype(np.int32)
    found = computed(f"cvt.rpi{ftz}.s32.f32 $0, $1;", "=r,f,f", x, x)
    np.testing.assert_array_equal(found.view(np.int32), wanted)


@pytest.mark.parametrize("sign", "us")
@pytest.mark.parametrize("letter", "mp")
def test_integers_are_rounded_in_the_direction_that_is_asked_for(letter: str, sign: str) -> None:
    x = words(3)
    exact = (x.view(np.int32) if sign == "s" else x).astype(np.float64)
    nearest, outward = exact.astype(np.float32), np.float32(np.inf if letter == "p" else -np.inf)
    beyond = nearest < exact if letter == "p" else nearest > exact
    wanted = np.where(beyond, np.nextafter(nearest, outward), nearest)
    found = computed(f"cvt.r{letter}.f32.{sign}32 $0, $1;", "=f,r,r", x, x, np.float32)
    np.testing.assert_array_equal(found, wanted)


def test_integers_that_do_not_fit_are_cut_or_kept_in_range() -> None:
    x = words(3)
    np.testing.assert_array_equal(computed("cvt.u8.u32 $0, $1;", "=r,r,r", x, x), x & 0xFF)
    wanted = np.clip(x.view(np.int32), 0, 0xFF).astype(np.uint32)
    np.testing.assert_array_equal(computed("cvt.sat.u8.s32 $0, $1;", "=r,r,r", x, x), wanted)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "constraints", "words"),
    [
        ("bar.sync 0;", "=r,r,r", "`bar.sync` is an instruction of GPUs"),
        ("sin.approx.f16x2 $0, $1;", "=r,r,r", "`sin.approx.f16x2` is an instruction of GPUs"),
        ("mov.u32 $0, %smid;", "=r,r,r", "`%smid` is no register"),
        ("@p add.u32 $0, $1, $2;", "=r,r,r", "`p` is no register with a value"),
        ("add.u32 $0, $1;", "=r,r,r", "`add.u32` does not take these operands"),
        ("shl.b32 $0;", "=r,r,r", "`shl.b32` does not take these operands"),
        ("bra L;", "=r,r,r", "`bra` is an instruction of GPUs"),
        ("and.u32 $0, $1, $2;", "=r,r,r", "`and.u32` is an instruction of GPUs"),
        ("mov.b32 $0, {$1, $2};", "=r,r,r", "a register of 32 bits is used as uint16"),
        (".reg .b32 t; mov.b32 $0, t;", "=r,r,r", "`t` has no value yet"),
        ("{ .reg .b32 t; mov.b32 t, 1; } mov.b32 $0, t;", "=r,r,r", "`t` is no register with a value"),
        ("ld.shared.b32 $0, [$1];", "=r,r,r", "`ld.shared.b32` is an instruction of GPUs"),
        ("ld.global.b128 $0, [$1];", "=r,r,r", "`ld.global.b128` is an instruction of GPUs"),
        ("add.u32 $0, $1, $2;", "=r,r", "the constraints are 2, and results and operands take 3 registers"),
        ("add.u32 $0, $1, $2;", "=r,q,r", "\\$1 is a register 'q'"),
        ("add.u64 $0, $1, $2;", "=r,r,r", "a register of 32 bits is used as uint64"),
        ("add.u32 $0, $1, $2;", "=r,h,r", "\\$1 takes 32 bits, and its register 'h' has 16"),
        (".reg .b32 t; add.u32 t, $1, $2;", "=r,r,r", "the text gives \\$0 no value"),
        ("{ mov.b32 $0, $1;", "=r,r,r", "an opening brace has no closing one"),
        ("mov.b32 $0, $1; } mov.b32 $0, $2;", "=r,r,r", "a closing brace has no opening one"),
        (".reg .b256 t; mov.b32 $0, $1;", "=r,r,r", "registers of type `.b256` are not known here"),
        (".reg; mov.b32 $0, $1;", "=r,r,r", "cannot read `.reg`"),
        (".shared .b32 word; mov.b32 $0, $1;", "=r,r,r", "`word` is a variable in the memory of GPUs"),
        ("{ .reg .b32 t; add.u32 $0, t, $1; }", "=r,r,r", "`t` has no value yet"),
        ("mov.b32 $0, {$1, $2, $1};", "=r,r,r", "`{\\$1, \\$2, \\$1}` has 3 registers, not 2 or 4"),
        ("lop3.b32 $0, $1, $2, $1, $2;", "=r,r,r", "`\\$2` is no number"),
        ("ld.global.b32 $0, [x+4];", "=r,r,r", "`\\[x\\+4\\]` is no address in a register"),
        ("mov.b32 $0, 1e5;", "=r,r,r", "cannot read the operand `1e5`"),
    ],
)
def test_what_only_a_gpu_can_do_is_named(text: str, constraints: str, words: str) -> None:
    x = np.zeros(N, np.uint32)
    with pytest.raises(tw.CompilationError, match=words):
        kernel[(1,)](x, x, x.copy(), text, constraints, N=N)


@tw.jit
def packed(
    x_ptr, y_ptr, out_ptr, more_ptr, TEXT: tl.constexpr, CONSTRAINTS: tl.constexpr, PACK: tl.constexpr, N: tl.constexpr
):
    at = tl.arange(0, N // 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    kinds = (out_ptr.dtype.element_ty, more_ptr.dtype.element_ty)
    found = tl.inline_asm_elementwise(TEXT, CONSTRAINTS, [tl.load(x_ptr + at), tl.load(y_ptr + at)], kinds, True, PACK)
    tl.store(out_ptr + at, found[0])
    tl.store(more_ptr + at, found[1])


def pair(text: str, constraints: str, x: Any, y: Any, kinds: Any, pack: int) -> Any:
    """Two results of packs, compiled, and run as a Python function."""
    out, again = ([np.zeros(N, kind) for kind in kinds] for _ in range(2))
    packed[(1,)](x, y, *out, text, constraints, pack, N=N)
    tw.jit(packed.fn, interpret=True)[(1,)](x, y, *again, text, constraints, pack, N=N)
    for one, other in zip(out, again, strict=True):
        np.testing.assert_array_equal(one, other)
    return out


@tw.jit
def masked_by_constants(x_ptr, out_ptr, CONSTRAINTS: tl.constexpr, N: tl.constexpr):
    mask: tl.constexpr = 0xF0F0
    table: tl.constexpr = (0xF0 & 0xCC) | 0xAA
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    both = tl.inline_asm_elementwise(
        "lop3.b32 $0, $2, $3, $4, $5; add.u32 $1, $2, $3;", CONSTRAINTS, [x, mask, -1, table], (tl.uint32,) * 2, True, 1
    )
    tl.store(out_ptr + at, both[0])
    tl.store(out_ptr + N + at, both[1])


@pytest.mark.parametrize("letter", ["n", "i"])
def test_operands_that_are_numbers_in_the_text(letter: str) -> None:
    x, out = words(4), np.zeros(2 * N, np.uint32)
    masked_by_constants[(1,)](x, out, f"=r,=r,r,{letter},{letter},{letter}", N=N)

    assert (out[:N] == (x & np.uint32(0xF0F0) | np.uint32(0xFFFFFFFF))).all()
    assert (out[N:] == x + np.uint32(0xF0F0)).all()


def test_only_constants_are_numbers_in_the_text() -> None:
    x = np.zeros(N, np.uint32)
    with pytest.raises(tw.CompilationError, match=r"\$2 is to be a number \('n'\), and its operand is no constant"):
        kernel[(1,)](x, x, x.copy(), "add.u32 $0, $1, $2;", "=r,r,n", N=N)


def test_four_bytes_share_a_register() -> None:
    x, y = words(1).astype(np.uint8), words(2).astype(np.uint8)
    shifted, turned = pair(
        "and.b32 $0, $2, 0x1F1F1F1F; shl.b32 $0, $0, 3; prmt.b32 $1, $2, $3, 0x4123;",
        "=&r,=&r,r,r",
        x,
        y,
        (np.uint8, np.uint8),
        4,
    )
    np.testing.assert_array_equal(shifted, x << 3)
    x, y = x.reshape(-1, 4), y.reshape(-1, 4)
    np.testing.assert_array_equal(turned.reshape(-1, 4), np.stack([x[:, 3], x[:, 2], x[:, 1], y[:, 0]], axis=1))


def test_registers_of_one_operand_stand_together() -> None:
    """Two halves in $4; then one float each in $5 and $6. Results of 32 bits have a register for each element."""
    x, y = words(1).astype(np.int16), np.resize(np.array(FLOATS, np.float32), N)
    text = """{
        .reg .b16 low, high;    // the halves of $4
        mov.b32 {low, high}, $4;
        cvt.s32.s16 $0, low; cvt.s32.s16 $1, high;
    }
    cvt.rn.f32.s32 $2, $0; cvt.rn.f32.s32 $3, $1;
    max.f32 $2, $2, $5; max.f32 $3, $3, $6;"""
    whole, larger = pair(text, "=&r,=&r,=&f,=&f,r,f,f", x, y, (np.int32, np.float32), 2)
    np.testing.assert_array_equal(whole, x)
    np.testing.assert_array_equal(larger, np.fmax(x.astype(np.float32), y))


def test_two_floats_in_a_wide_register() -> None:
    x, y = (np.random.default_rng(seed).standard_normal(N).astype(np.float32) for seed in (1, 2))
    text = """{ .reg .b64 x, y; mov.b64 x, {$4, $5}; mov.b64 y, {$6, $7};
        fma.rn.f32x2 x, x, y, x; mov.b64 {$0, $1}, x; mov.b64 {$3, $2}, y; }"""
    fused, turned = pair(text, "=&f,=&f,=&f,=&f,f,f,f,f", x, y, (np.float32, np.float32), 2)
    np.testing.assert_array_equal(fused, (x.astype(np.float64) * y + x).astype(np.float32))
    np.testing.assert_array_equal(turned, y.reshape(-1, 2)[:, ::-1].ravel())


def test_halves_are_rounded_once() -> None:
    x, y = (np.random.default_rng(seed).standard_normal(N).astype(np.float16) for seed in (1, 2))
    fused, total = pair(
        "fma.rn.f16x2 $0, $2, $3, $2; add.f16x2 $1, $2, $3;", "=&r,=&r,r,r", x, y, (np.float16, np.float16), 2
    )
    np.testing.assert_array_equal(fused, (x.astype(np.float64) * y + x).astype(np.float16))
    np.testing.assert_array_equal(total, x + y)


@tw.jit
def through_memory(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    text = """{ .reg .pred p; .reg .b32 v; ld.global.b8 v, [$1+1]; setp.gt.u32 p, v, 9;
        @p shl.b32 v, v, 1; @!p mov.b32 v, 7; mov.b32 $0, 1; @p st.global.b8 [$2], v; @!p mov.b32 $0, v; }"""
    kept = tl.inline_asm_elementwise(text, "=&r,l,l", [x_ptr + at, out_ptr + at], tl.int8, False, 1)
    tl.store(out_ptr + N + at, kept)


def test_memory_and_predicates() -> None:
    x = np.random.default_rng(3).integers(0, 20, N + 1).astype(np.uint8)
    out = np.zeros(2 * N, np.uint8)
    through_memory[(1,)](x, out, N=N)
    large = x[1:] > 9
    np.testing.assert_array_equal(out[:N], np.where(large, x[1:] << 1, 0))
    np.testing.assert_array_equal(out[N:], np.where(large, 1, 7))


@tw.jit
def of_scalars(x_ptr, out_ptr, PACK: tl.constexpr):
    x = tl.load(x_ptr)
    tl.store(out_ptr, tl.inline_asm_elementwise("not.b32 $0, $1;", "=r,r", [x], tl.uint8, True, PACK))


@pytest.mark.parametrize("pack", [1, 4])
def test_a_scalar_is_the_first_of_its_pack(pack: int) -> None:
    out = np.zeros(1, np.uint8)
    of_scalars[(1,)](np.array([3], np.uint8), out, pack)
    assert out[0] == 0xFC


@pytest.mark.quick
@pytest.mark.parametrize("pack", [0, 3, 2 * N])
def test_packs_divide_tiles(pack: int) -> None:
    x = np.zeros(N, np.uint8)
    with pytest.raises(tw.CompilationError, match="a power of two that divides the number of elements"):
        packed[(1,)](x, x, x.copy(), x.copy(), "mov.b32 $0, $2; mov.b32 $1, $2;", "=r,=r,r,r", pack, N=N)
