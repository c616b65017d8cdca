"""`a·b + c` rounded once on processors with and without an instruction for it, against exact fractions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from exact_rounding import FORMATS, decode, encode
from test_directed_rounding import exact

import tilewright as tw
import tilewright.language as tl
from machine_levels import compiled_for, run_here
from tilewright.language.extra import libdevice

SIZE = 128
MODES = ("rn", "rz", "rd", "ru")
RANGES = {
    "all": (0, 2048),
    "near 1": (963, 1083),
    "subnormal": (0, 60),
    "of subnormal products": (473, 543),
    "of overflowing products": (1503, 1543),
    "large": (2000, 2048),
}
"""The biased exponents to draw."""
KINDS = (
    ("all", "all", "all"),
    ("near 1", "near 1", "near 1"),
    ("near 1", "subnormal", "subnormal"),
    ("near 1", "large", "large"),
    ("of subnormal products", "of subnormal products", "subnormal"),
    ("of subnormal products", "of subnormal products", "all"),
    ("of overflowing products", "of overflowing products", "large"),
)
Doubles = np.ndarray[tuple[int], np.dtype[np.float64]]


@tw.jit
def in_all_modes(x, y, z, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    tl.store(out + i, libdevice.fma_rn(a, b, c))
    tl.store(out + N + i, libdevice.fma_rz(a, b, c))
    tl.store(out + 2 * N + i, libdevice.fma_rd(a, b, c))
    tl.store(out + 3 * N + i, libdevice.fma_ru(a, b, c))
    tl.store(out + 4 * N + i, tl.fma(a, b, c))
    tl.store(out + 5 * N + i, libdevice.fma(a, b, c))
    for k in range(N):
        tl.store(out + 6 * N + k, tl.fma(tl.load(x + k), tl.load(y + k), tl.load(z + k)))


def drawn(random: np.random.Generator, kind: str) -> Doubles:
    """Numbers with exponents of a range: of all digits, of few, and of many ones in a row."""
    digits = random.integers(0, 1 << 52, SIZE)
    digits &= random.choice([-1, 7 << 49, -(1 << 27)], SIZE)
    digits |= random.choice([0, 0, 0, 0xFFFFFFFFFFF00], SIZE)
    codes = random.integers(*RANGES[kind], SIZE) << 52 | digits
    numbers: Doubles = codes.view(np.float64) * random.choice([1.0, -1.0], SIZE)
    numbers[random.integers(0, 20, SIZE) == 0] = random.choice([0.0, -0.0])
    return numbers


@np.errstate(all="ignore")
def operands(random: np.random.Generator, kinds: tuple[str, str, str], meeting: str) -> tuple[Doubles, ...]:
    """Factors, and what is added: drawn, the product with the other sign, or a power of two times it."""
    a, b, c = (drawn(random, kind) for kind in kinds)
    if meeting == "cancels":
        c = -(a * b)
    elif meeting == "near":
        c = np.where(
            random.integers(0, 2, SIZE), -np.nextafter(a * b, 1e300), np.ldexp(a * b, random.integers(-110, 110))
        )
    return a, b, c


@pytest.mark.parametrize("cpu", ["", *run_here("x86-64-v2")])
def test_double_is_rounded_once(cpu: str) -> None:
    """Without the instruction it was rounded twice."""
    random, form = np.random.default_rng(3), FORMATS["fp64"]
    for kinds, meeting in product(KINDS, ("", "cancels", "near")):
        arrays = operands(random, kinds, meeting)
        out = np.zeros((7, SIZE))
        with compiled_for(cpu):
            in_all_modes[(1,)](*arrays, out, SIZE)
        codes = out.view(np.uint64)
        for lane, values in enumerate(zip(*(array.view(np.uint64).tolist() for array in arrays), strict=True)):
            numbers = [decode(value, form) for value in values]
            for mode, row in zip((*MODES, "rn", "rn", "rn"), range(7), strict=True):
                wanted = encode(exact("fma", mode, *numbers), form, mode)
                got = int(codes[row, lane])
                is_nan = out[row, lane] != out[row, lane] and wanted == form.nan
                assert got == wanted or is_nan, (mode, row, *map(hex, values), hex(got), hex(wanted))


def test_the_instruction_is_taken_where_there_is_one() -> None:
    for cpu, is_computed in (("x86-64-v2", True), ("x86-64-v3", False)):
        if run_here(cpu):
            with compiled_for(cpu):
                kernel = in_all_modes[(1,)](*(np.ones(SIZE) for _ in range(3)), np.zeros(7 * SIZE), SIZE)
            assert ("tw_fused_rn" in kernel.asm["llir"]) is is_computed
