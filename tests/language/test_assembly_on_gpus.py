"""Inline assembly that is computed without a GPU, against the simulator of PTX, which reads the text itself.

`make check` runs the text alone, in Python and on the simulator; the others compile kernels with it, too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("nvidia", "ptxsim")]
import ptx_programs
from simulated import run

N = 128
HARD = [0, 1, 2, 31, 32, 33, 63, 64, 2**31 - 1, 2**31, 2**32 - 1, 0xDEADBEEF, 0x00FF00FF, 255, 2**63, 2**64 - 1]
ODD = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3.4e38, 1.0009765625, 2.5, -2.5, 3.5, 0.5, -0.5]
ODD += [2.0**31, 2.0**32, -(2.0**31), 2.0**63, 300, -200, 65504, 65520, 448, 460, 6e-8, 1e-10, 2.0**-126]
FLOAT_MODES, MODES = ("rn", "rz", "rm", "rp"), "nzmp"
REGISTERS = {2: "h", 4: "r", 8: "l"}

Agree = Callable[..., None]


@tw.jit
def kernel(
    x_ptr, y_ptr, z_ptr, out_ptr, TEXT: tl.constexpr, KINDS: tl.constexpr, COUNT: tl.constexpr, PACK: tl.constexpr,
    N: tl.constexpr,
):
    at = tl.arange(0, N)
    operands = [tl.load(x_ptr + at), tl.load(y_ptr + at), tl.load(z_ptr + at)]
    found = tl.inline_asm_elementwise(TEXT, KINDS, operands, (out_ptr.dtype.element_ty,) * COUNT, True, PACK)
    for number in tl.static_range(COUNT):
        tl.store(out_ptr + number * N + at, found[number])


def letter(kind: Any, pack: int) -> str:
    """The kind of register for `pack` elements."""
    kind = np.dtype(kind)
    return {np.dtype(np.float32): "f", np.dtype(np.float64): "d"}.get(kind, REGISTERS[kind.itemsize * pack])


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["text", "kernel"])
def agree(request: pytest.FixtureRequest) -> Agree:
    """Each line, with its result as `D` and operands as `X`, `Y` and `Z`, in Python and on the simulator."""

    def check(lines: Sequence[str], operands: Sequence[Any], kind: Any, pack: int = 1) -> None:
        text = text_of(lines)
        kinds = [*[letter(kind, pack)] * len(lines), *(letter(x.dtype, pack) for x in operands)]
        constraints = ",".join([("=&" if place < len(lines) else "") + one for place, one in enumerate(kinds)])
        constants = {"TEXT": text, "KINDS": constraints, "COUNT": len(lines), "PACK": pack, "N": N}
        results = np.zeros((len(lines), N), kind)
        eager = results.copy()
        tw.jit(kernel.fn, interpret=True)[(1,)](*operands, eager, **constants)
        found = [eager, alone(text, kinds, operands, results, pack)]
        if request.param:
            native = results.copy()
            kernel[(1,)](*operands, native, **constants)
            found += [native, run(kernel, (1,), *operands, results, capability=90, **constants)[-1]]
        for line, *those in zip(lines, *found, strict=True):
            compare(line, those)

    return check


def compare(line: str, found: Sequence[Any]) -> None:
    numbers = [x.astype(np.float64) if x.dtype.kind not in "iu" else x for x in found]
    for other in numbers[1:]:
        np.testing.assert_array_equal(numbers[0], other, err_msg=line)
        if other.dtype.kind == "f":
            zeros = other == 0
            np.testing.assert_array_equal(np.signbit(numbers[0][zeros]), np.signbit(other[zeros]), err_msg=line)


def text_of(lines: Sequence[str]) -> str:
    """The lines together, with numbers of registers."""
    text, count = "", len(lines)
    for number, line in enumerate(lines):
        for name, place in {"D": number, "X": count, "Y": count + 1, "Z": count + 2}.items():
            line = line.replace(name, f"${place}")
        text += "{ " + line + " }\n"
    return text


def alone(text: str, kinds: Sequence[str], operands: Sequence[Any], results: Any, pack: int) -> Any:
    """The results of the text in a kernel of PTX that only loads and stores."""
    types = [{"f": "f32", "d": "f64", "h": "b16", "r": "b32", "l": "b64"}[kind] for kind in kinds]
    body = [f".reg .{type} v{place};" for place, type in enumerate(types)]
    count, size = len(results), operands[0].itemsize * pack
    for place, type in enumerate(types[count:]):
        body += [f"mad.wide.u32 %d40, %r0, {size}, %d{place};", f"ld.global.{type} v{count + place}, [%d40];"]
    body.append(re.sub(r"\$(\d+)", r"v\1", text))
    for place, type in enumerate(types[:count]):
        address = f"mad.wide.u32 %d40, %r0, {results.itemsize * pack}, %d{len(operands)};"
        body += [address, f"st.global.{type} [%d40+{place * results[0].nbytes}], v{place};"]
    program = ptx_programs.kernel_text("\n".join(body), len(operands) + 1, threads=N // pack)
    return ptx_programs.run(program, *operands, results)[-1]


def whole(seed: int, bits: int) -> Any:
    random = np.random.default_rng(seed)
    numbers = [*(number % 2**bits for number in HARD), *random.integers(0, 2**bits, N - len(HARD), np.uint64)]
    return random.permutation(np.array(numbers, f"u{bits // 8}"))


def three(bits: int) -> list[Any]:
    return [whole(seed, bits) for seed in (1, 2, 3)]


def floats(kind: Any, *, nan: bool = True) -> list[Any]:
    found = []
    for seed in (1, 2, 3):
        random = np.random.default_rng(seed)
        numbers = random.standard_normal(N - len(ODD)) * np.exp2(random.integers(-30, 30, N - len(ODD)))
        with np.errstate(all="ignore"):
            made = random.permutation(np.array([*ODD, *numbers])).astype(kind)
        found.append(made if nan else np.where(np.isnan(made), kind(7), made))
    return found


def test_words(agree: Agree) -> None:
    alike = ("and.b32", "or.b32", "xor.b32", "add.u32", "sub.s32", "add.sat.s32", "sub.sat.s32", "mul.lo.s32")
    alike += ("mul.hi.s32", "mul.hi.u32", "min.s32", "max.u32", "add.u16x2", "min.u16x2", "max.s16x2")
    agree([f"{name} D, X, Y;" for name in alike], three(32), np.uint32)
    triples = ("shf.l.clamp.b32", "shf.r.clamp.b32", "shf.l.wrap.b32", "shf.r.wrap.b32", "prmt.b32", "bfe.u32")
    triples += ("dp4a.s32.s32", "dp4a.u32.u32", "dp4a.u32.s32")
    triples += ("bfe.s32", "mad.lo.u32", "mad.hi.s32", "mad.hi.u32", "sad.u32", "sad.s32")
    agree([f"{name} D, X, Y, Z;" for name in triples], three(32), np.uint32)
    tables = ("lop3.b32 D, X, Y, Z, 0x96;", "lop3.b32 D, X, Y, Z, 0xCA;", "prmt.b32 D, X, Y, 0x7bf3;")
    ones = ("not.b32", "cnot.b32", "bfind.u32", "bfind.s32", "popc.b32", "clz.b32", "brev.b32", "neg.s32", "abs.s32")
    agree([*tables, *(f"{name} D, X;" for name in ones)], three(32), np.uint32)


def test_distances_and_quotients(agree: Agree) -> None:
    x, y, z = three(32)
    lines = ["shl.b32 D, X, Z;", "shr.u32 D, X, Z;", "shr.s32 D, X, Z;", "bfe.u32 D, X, Z, 7;", "bfe.s32 D, X, 3, Z;"]
    lines += ["bfe.s32 D, X, Z, Z;", "bfi.b32 D, X, Y, Z, 9;", "bfi.b32 D, X, Y, 5, Z;", "bfi.b32 D, X, Y, Z, X;"]
    agree(lines, [x, y, z % 70], np.uint32)
    quotients = ["div.u32 D, X, Y;", "rem.u32 D, X, Y;", "div.s32 D, X, Y;", "rem.s32 D, X, Y;"]
    agree(quotients, [x, np.where((y == 0) | (y == 2**32 - 1), 3, y).astype(np.uint32), z], np.uint32)


def test_predicates(agree: Agree) -> None:
    relations = ("eq", "ne", "lt", "le", "gt", "ge")
    lines = [f".reg .pred p; setp.{r}.{t}32 p, X, Y; selp.b32 D, X, Z, p;" for r in relations for t in "us"]
    lines += [".reg .pred p; setp.hi.u32 p, X, Y; mov.b32 D, Z; @p add.u32 D, X, Y;"]
    both = (
        ".reg .pred p, q; setp.lt.s32 p, X, Y; setp.ls.u32 q, X, Z; and.pred p, p, q; xor.pred q, q, p; not.pred q, q;"
    )
    agree([*lines, both + "mov.b32 D, 0; @!q mov.b32 D, X;"], three(32), np.uint32)
    x, y, z = floats(np.float32)
    relations += ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
    lines = [f".reg .pred p; setp.{r}.f32 p, X, Y; selp.f32 D, X, Z, p;" for r in relations]
    agree(lines, [x, np.where(np.arange(N) % 3, y, x), z], np.float32)


def test_other_widths(agree: Agree) -> None:
    lines = ["shl.b64 D, X, 7;", "shr.s64 D, X, 40;", "bfe.s64 D, X, 33, 20;", "bfe.u64 D, X, 60, 20;"]
    lines += ["bfi.b64 D, X, Y, 20, 30;", "mul.hi.s64 D, X, Y;", "mul.hi.u64 D, X, Y;", "min.s64 D, X, Y;"]
    lines += [".reg .b32 a, b; mov.b64 {a, b}, X; mov.b64 D, {b, a};", ".reg .b32 t; clz.b64 t, X; cvt.u64.u32 D, t;"]
    lines += [".reg .b16 a, b, c, d; mov.b64 {a, b, c, d}, X; mov.b64 D, {d, a, c, b};"]
    lines += [".reg .b32 t; cvt.u32.u64 t, X; mad.wide.s32 D, t, t, Y;", "brev.b64 D, X;"]
    agree(lines, three(64), np.uint64)
    lines = [f"{name} D, X, Y;" for name in ("add.u16", "mul.lo.s16", "mul.hi.s16", "mul.hi.u16", "min.s16")]
    lines += ["shl.b16 D, X, 3;", "shr.s16 D, X, 3;", "shr.u16 D, X, 20;", "abs.s16 D, X;", "mad.lo.u16 D, X, Y, Z;"]
    lines += [".reg .b8 a, b; mov.b16 {a, b}, X; mov.b16 D, {b, a};", "cvt.sat.s8.u16 D, X;", "cvt.s8.u16 D, X;"]
    agree(lines, three(16), np.uint16)


def test_floats(agree: Agree) -> None:
    lines = [f"{name}.{mode}.f32 D, X, Y;" for name in ("add", "sub", "mul", "div") for mode in FLOAT_MODES]
    lines += [f"fma.{mode}.f32 D, X, Y, Z;" for mode in FLOAT_MODES]
    agree(lines, floats(np.float32), np.float32)
    lines = [f"{name}.{mode}.f32 D, X;" for name in ("sqrt", "rcp") for mode in FLOAT_MODES]
    pairs = ("add.ftz", "mul.ftz", "add.sat", "div.rn.ftz", "min", "max", "min.NaN", "max.NaN", "copysign")
    lines += [f"{name}.f32 D, X, Y;" for name in pairs] + ["fma.rn.ftz.sat.f32 D, X, Y, Z;", "abs.ftz.f32 D, X;"]
    agree(lines, floats(np.float32), np.float32)
    wide = ["fma.rz.f64 D, X, Y, Z;", "div.rp.f64 D, X, Y;", "max.f64 D, X, Y;", "neg.f64 D, X;", "sqrt.rm.f64 D, X;"]
    agree([*wide, ".reg .f32 t; cvt.rp.f32.f64 t, X; cvt.f64.f32 D, t;"], floats(np.float64), np.float64)


def test_halves(agree: Agree) -> None:
    lines = ["add.KIND D, X, Y;", "mul.rn.KIND D, X, Y;", "sub.KIND D, X, Y;", "fma.rn.KIND D, X, Y, Z;"]
    lines += ["fma.rn.relu.KIND D, X, Y, Z;", "min.KIND D, X, Y;", "max.NaN.KIND D, X, Y;", "neg.KIND D, X;"]
    for name, kind in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        agree([line.replace("KIND", f"{name}x2") for line in lines], floats(kind), kind, pack=2)
    lines += ["add.sat.KIND D, X, Y;", "add.ftz.KIND D, X, Y;", "cvt.rzi.KIND.KIND D, X;"]
    agree([line.replace("KIND", "f16") for line in lines], floats(np.float16), np.float16)


def test_conversions_of_integers(agree: Agree) -> None:
    lines = [f"cvt.{name} D, X;" for name in ("u8.u32", "s8.s32", "sat.u8.s32", "sat.s8.u32", "s16.s32", "sat.s16.s32")]
    lines += [f"cvt.{name} D, X;" for name in ("sat.u32.s32", "sat.s32.u32", "u32.u8", "s32.s8", "s32.s16", "u16.u32")]
    agree(lines, three(32), np.uint32)
    lines = [f"cvt.r{mode}.f32.{sign}32 D, X;" for mode in MODES for sign in "us"]
    agree([*lines, "cvt.rn.f32.s8 D, X;", "cvt.rn.sat.f32.s32 D, X;"], three(32), np.float32)
    agree([f"cvt.r{mode}.f32.{sign}64 D, X;" for mode in MODES for sign in "us"], three(64), np.float32)


def test_conversions_of_floats(agree: Agree) -> None:
    lines = [f"cvt.r{mode}i.{kind}.f32 D, X;" for mode in MODES for kind in ("s32", "u32", "s16", "u8", "s8")]
    agree(lines, floats(np.float32), np.uint32)
    agree([f"cvt.r{mode}i.{sign}64.f32 D, X;" for mode in MODES for sign in "us"], floats(np.float32), np.uint64)
    agree([f"cvt.r{mode}i.{sign}64.f64 D, X;" for mode in MODES for sign in "us"], floats(np.float64), np.uint64)
    lines = [f"cvt.r{mode}i.f32.f32 D, X;" for mode in MODES] + ["cvt.sat.f32.f32 D, X;", "cvt.ftz.f32.f32 D, X;"]
    through = (("rn", "f16"), ("rz", "f16"), ("rn", "bf16"), ("rz", "bf16"), ("rn.relu", "f16"))
    lines += [f".reg .b16 t; cvt.{mode}.{kind}.f32 t, X; cvt.f32.{kind} D, t;" for mode, kind in through]
    agree(lines, floats(np.float32), np.float32)
    eighths = "cvt.rn.satfinite.{0}x2.f32 t, X, Y; cvt.rn.f16x2.{0}x2 D, t;"
    lines = [f"cvt.{name} D, X, Y;" for name in ("rn.f16x2.f32", "rz.f16x2.f32", "rn.relu.f16x2.f32", "rz.bf16x2.f32")]
    lines += [".reg .b16 t; " + eighths.format(kind) for kind in ("e4m3", "e5m2")] + ["cvt.rna.tf32.f32 D, X;"]
    agree(lines, floats(np.float32, nan=False), np.uint32)
