"""Casts between all types: every code of 8 and 16 bits, hard numbers of 32 and 64, both roundings, all ways to run.

Floats become integers by cutting off the fraction, saturated, and 0 for NaN. Between integers and 8-bit floats there
is no cast, as in Triton. 8-bit floats saturate when rounded to nearest; towards zero fp8e5 keeps infinity. fp8e4b15 is
rounded as its own file says.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from exact_rounding import FORMATS, Format, Number, converted, decode, encode, from_integers, negative
from ways import WAYS, answer

import tilewright as tw
import tilewright.language as tl
from long_runs import LONG

INTEGERS = {"int1": 1} | {f"{sign}int{bits}": bits for bits in (8, 16, 32, 64) for sign in ("", "u")}
FLOATS = {
    "fp8e4nv": tl.float8e4nv,
    "fp8e5": tl.float8e5,
    "fp8e4b8": tl.float8e4b8,
    "fp8e5b16": tl.float8e5b16,
    "fp8e4b15": tl.float8e4b15,
    "fp16": tl.float16,
    "bf16": tl.bfloat16,
    "fp32": tl.float32,
    "fp64": tl.float64,
}
TYPES = {name: getattr(tl, name) for name in INTEGERS} | FLOATS
NAMES = {type: name for name, type in TYPES.items()}
BLOCK = 1024
LEGACY = Format(4, 3, 15)
"""fp8e4b15: the fields of an fp16 number below 2."""


def width(name: str) -> int:
    return INTEGERS.get(name) or (8 if name == "fp8e4b15" else FORMATS[name].bits)


@tw.jit
def codes_of(value, TYPE: tl.constexpr):
    if tl.int1 == TYPE:
        return value.to(tl.uint64)
    if TYPE.primitive_bitwidth == 8:
        return value.to(tl.uint8, bitcast=True).to(tl.uint64)
    if TYPE.primitive_bitwidth == 16:
        return value.to(tl.uint16, bitcast=True).to(tl.uint64)
    if TYPE.primitive_bitwidth == 32:
        return value.to(tl.uint32, bitcast=True).to(tl.uint64)
    return value.to(tl.uint64, bitcast=True)


@tw.jit
def cast_to_all(
    x, out, SOURCE: tl.constexpr, TARGETS: tl.constexpr, ROUNDING: tl.constexpr, SIZE: tl.constexpr, N: tl.constexpr
):
    i = tl.program_id(0) * N + tl.arange(0, N)
    loaded = tl.load(x + i)
    value = loaded != 0 if tl.int1 == SOURCE else loaded.to(SOURCE, bitcast=True)
    for k in tl.static_range(len(TARGETS)):
        result = value.to(TARGETS[k], fp_downcast_rounding=ROUNDING)
        tl.store(out + k * SIZE + i, codes_of(result, TARGETS[k]))


@tw.jit
def bitcast_to_all(x, out, SOURCE: tl.constexpr, TARGETS: tl.constexpr, SIZE: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + i).to(SOURCE, bitcast=True)
    for k in tl.static_range(len(TARGETS)):
        tl.store(out + k * SIZE + i, codes_of(value.to(TARGETS[k], bitcast=True), TARGETS[k]))


def hard_codes(name: str) -> list[int]:
    """Codes of 32 and 64 bits: every exponent with fractions around the ties of all narrower formats."""
    bits = width(name)
    if name in INTEGERS:
        steps = [(1 << place) + off for place in range(bits) for off in (-2, -1, 0, 1, 2)]
        ties = [(3 << place) + off for place in range(bits - 1) for off in (-1, 0, 1)]
        ties += [(257 << place) + off for place in range(bits - 8) for off in (-1, 0, 1)]  # of bf16
        random = np.random.default_rng(bits).integers(0, 1 << bits, 300, dtype=np.uint64)
        both = [*steps, *ties, *map(int, random)]
        return sorted({code & ((1 << bits) - 1) for code in [*both, *(-code for code in both)]})
    form = FORMATS[name]
    fractions = {0, 1, (1 << form.fraction) - 1}
    for kept in (2, 3, 7, 10, 23):
        unit = 1 << max(form.fraction - kept, 0)
        fractions |= {start + off for start in (unit // 2, unit + unit // 2, unit) for off in (-1, 0, 1)}
    fractions = {fraction & ((1 << form.fraction) - 1) for fraction in fractions}
    near = range(form.bias - 160, form.bias + 140)
    exponents = [e for e in range(1 << form.exponent) if form.exponent < 11 or e in near or e % 64 < 2 or e > 2044]
    return [sign | e << form.fraction | f for sign in (0, form.sign) for e in exponents for f in sorted(fractions)]


@cache
def sources(name: str, *, thin: bool) -> np.ndarray:
    """Codes of a type in whole blocks; `thin`: one block of them."""
    bits = width(name)
    codes = list(range(1 << bits)) if bits <= 16 else hard_codes(name)
    if thin and len(codes) > BLOCK:
        random = np.random.default_rng(5)
        edges = codes[:: max(1, len(codes) // 64)]
        codes = [*edges, *(codes[k] for k in random.integers(0, len(codes), BLOCK - len(edges) % BLOCK))][:BLOCK]
    padding = -len(codes) % BLOCK
    return np.array([*codes, *codes[:1] * padding], np.uint64)


@cache
def value_of(name: str, code: int) -> Number:
    if name == "fp8e4b15":
        return (
            decode(code & 0x80, LEGACY)
            if code & 0x7F == 0
            else decode((code & 0x80) << 8 | (code & 0x7F) << 7, FORMATS["fp16"])
        )
    if name in FORMATS:
        return decode(code, FORMATS[name])
    signed = name[0] == "i" and name != "int1" and code >> (width(name) - 1)
    return Fraction(code - (1 << width(name)) if signed else code)


def whole_part(value: Number) -> int:
    """0 for NaN; of infinity, more than any integer type has."""
    if value != value:
        return 0
    if isinstance(value, float) and math.isinf(value):
        return 1 << 70 if value > 0 else -(1 << 70)
    return math.trunc(value)


@cache
def whole_parts(source: str, *, thin: bool) -> list[int]:
    return [whole_part(value_of(source, int(code))) for code in sources(source, thin=thin)]


def to_integers(source: str, name: str, *, thin: bool) -> np.ndarray:
    """Saturated, and wrapped between integers; 0 for NaN."""
    if name == "int1":
        codes = [int(value_of(source, int(code)) != 0) for code in sources(source, thin=thin)]
        return np.array(codes, np.uint64)
    bits = width(name)
    mask = (1 << bits) - 1
    parts = whole_parts(source, thin=thin)
    if source not in INTEGERS:
        low, high = (0, mask) if name[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
        parts = [min(max(part, low), high) for part in parts]
    return np.array([part & mask for part in parts], np.uint64)


def to_legacy(value: Number) -> int:
    """fp16 towards zero, kept within 1.75, to nearest with halves away from zero; NaN is too large."""
    half = encode(value, FORMATS["fp16"], "rz")
    size = 0x3F00 if value != value else min(half & 0x7FFF, 0x3F00)
    return (size + 0x40) >> 7 | (0x80 if value == value and negative(value) else 0)


def to_float(source: str, target: str, code: int, mode: str) -> int:
    value = value_of(source, code)
    return to_legacy(value) if target == "fp8e4b15" else encode(value, FORMATS[target], mode)


MANY = (*FORMATS, *(name for name in INTEGERS if width(name) <= 16))
"""Types whose codes become floats at once."""


@cache
def table(source: str, target: str, mode: str, *, thin: bool) -> np.ndarray:
    """The value that each code becomes: many at once where that can be, which a test compares with one by one."""
    codes = sources(source, thin=thin)
    if source == target:
        return codes
    if target in INTEGERS:
        return to_integers(source, target, thin=thin)
    if target == "fp8e4b15" and source in FORMATS:
        return to_legacy_at_once(source, codes)
    if target not in FORMATS or source not in MANY:
        return one_by_one(source, target, mode, codes)
    return at_once(source, target, mode, codes)


def one_by_one(source: str, target: str, mode: str, codes: np.ndarray) -> np.ndarray:
    return np.array([to_float(source, target, int(code), mode) for code in codes], np.uint64)


def at_once(source: str, target: str, mode: str, codes: np.ndarray) -> np.ndarray:
    if source in FORMATS:
        return converted(codes, FORMATS[source], FORMATS[target], mode)
    return from_integers(np.array([int(value_of(source, int(code))) for code in codes]), FORMATS[target], mode)


def to_legacy_at_once(source: str, codes: np.ndarray) -> np.ndarray:
    """The answer of `to_legacy` for each number."""
    halves = codes if source == "fp16" else at_once(source, "fp16", "rz", codes)
    sizes = np.where(is_nan(source, codes), 0x3F00, np.minimum(halves & np.uint64(0x7FFF), 0x3F00))
    signs = np.where(is_nan(source, codes), 0, halves >> np.uint64(8) & np.uint64(0x80))
    return (sizes.astype(np.uint64) + np.uint64(0x40)) >> np.uint64(7) | signs.astype(np.uint64)


@pytest.mark.parametrize("source", FORMATS)
def test_legacy_codes_at_once_are_those_one_by_one(source: str) -> None:
    codes = sources(source, thin=True)
    np.testing.assert_array_equal(to_legacy_at_once(source, codes), one_by_one(source, "fp8e4b15", "rn", codes))


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("source", MANY)
def test_codes_at_once_are_those_one_by_one(source: str, mode: str) -> None:
    codes = sources(source, thin=True)
    for target in FORMATS.keys() - {source}:
        together = at_once(source, target, mode, codes)
        np.testing.assert_array_equal(together, one_by_one(source, target, mode, codes), err_msg=target)


def is_nan(name: str, codes: np.ndarray) -> np.ndarray:
    if name not in FORMATS:
        return np.zeros(codes.shape, bool)
    form = FORMATS[name]
    size = codes & np.uint64(form.sign - 1)
    if form.fnuz:
        return codes == form.nan
    return size > form.largest + 1 if form.infinite else size == form.nan


def as_stored(name: str, codes: np.ndarray) -> np.ndarray:
    return codes.astype(f"u{max(8, width(name)) // 8}")


def compare(source: str, targets: list[str], mode: str, out: np.ndarray, *, thin: bool) -> None:
    for target, got in zip(targets, out, strict=True):
        right = table(source, target, mode, thin=thin)
        wrong = (got != right) & ~(is_nan(target, got) & is_nan(target, right))
        if target == "fp8e4b15":
            wrong &= ~(is_nan(source, sources(source, thin=thin)) & (got & np.uint64(0x7F) == 0x7E))
        places = np.flatnonzero(wrong)[:4]
        shown = [(hex(int(sources(source, thin=thin)[k])), hex(int(got[k])), hex(int(right[k]))) for k in places]
        assert not wrong.any(), (source, target, mode, int(wrong.sum()), shown)


def targets_of(source: str) -> list[str]:
    """The types to which a type can be cast."""
    return [name for name in TYPES if {source, name}.isdisjoint(INTEGERS) or not (source + name).count("fp8")]


def narrower(source: str) -> list[str]:
    return [name for name in FLOATS if width(name) < width(source)]


def all_cases() -> list[object]:
    """Machine code casts every number of a type, the others a part of them; TTIR does all in `make test-long`."""
    found = []
    for source in TYPES:
        for way in WAYS:
            quick = way == "eager" or (way == "native" and source in ("fp32", "fp8e5"))
            found.append(pytest.param(source, way, quick or way != "native", marks=[] if quick else pytest.mark.slow))
        found.append(pytest.param(source, "ttir", False, marks=LONG))
    return found


@pytest.mark.quick
@pytest.mark.parametrize(("source", "way", "thin"), all_cases())
def test_casts(source: str, way: str, thin: bool) -> None:
    run_and_compare(source, targets_of(source), "rn", way, thin=thin)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", ["fp16", "bf16", "fp32", "fp64"])
def test_casts_towards_zero(source: str, way: str) -> None:
    run_and_compare(source, narrower(source), "rz", way, thin=way != "native")


def run_and_compare(source: str, targets: list[str], mode: str, way: str, *, thin: bool) -> None:
    codes = as_stored(source, sources(source, thin=thin))
    arrays = {"x": codes, "out": np.zeros((len(targets), codes.size), np.uint64)}
    rounding = "rtz" if mode == "rz" else None
    constants = {"SOURCE": TYPES[source], "TARGETS": tuple(TYPES[t] for t in targets), "ROUNDING": rounding}
    out = answer(way, cast_to_all, arrays, grid=codes.size // BLOCK, SIZE=codes.size, N=BLOCK, **constants)["out"]
    compare(source, targets, mode, out, thin=thin)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", [name for name in TYPES if name != "int1"])
def test_bitcasts(source: str, way: str) -> None:
    targets = [name for name in TYPES if width(name) == width(source)]
    codes = as_stored(source, sources(source, thin=True))
    arrays = {"x": codes, "out": np.zeros((len(targets), codes.size), np.uint64)}
    constants = {"SOURCE": TYPES[source], "TARGETS": tuple(TYPES[t] for t in targets)}
    out = answer(way, bitcast_to_all, arrays, grid=codes.size // BLOCK, SIZE=codes.size, N=BLOCK, **constants)["out"]
    assert (out == codes.astype(np.uint64)).all()
