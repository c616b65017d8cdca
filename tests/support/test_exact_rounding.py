"""Rounding against exact fractions and sorted tables: every code of small formats, hard numbers of large ones."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.ir.literals import float_bits, round_float
from tilewright.ir.types import FLOATS
from tilewright.support import exact_rounding
from tilewright.support.exact_rounding import (
    FORMATS,
    MODES,
    NEAREST,
    NUMPY,
    convert_float,
    fused,
    narrow,
    narrow_nearest,
    nearest_float,
    odd,
    odd_double,
    rounded,
    towards_zero,
    widen,
)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SMALL = ("f16", "bf16", "tf32", "e5m2", "e4m3", "e3m2", "e2m3", "e2m1")
TINY, LARGE = 2.0**-149, 3.4e38
HARD = np.array(
    [
        0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        3,
        1 / 3,
        TINY,
        -TINY,
        2.0**-126,
        LARGE,
        -LARGE,
        1 + 2.0**-23,
        1 - 2.0**-24,
        2.0**-75,
        1e-30,
        6e19,
        16777217.0,
    ],
    np.float32,
)


def magnitudes(name: str) -> Any:
    """The finite numbers of a format that are not negative, in order of their codes."""
    form = FORMATS[name]
    codes = np.arange(form.largest + 1, dtype=np.uint64) << np.uint64(form.zeros)
    return widen(codes.astype(form.storage), name).astype(np.float64)


def between(numbers: Any) -> Any:
    """The numbers, and places between neighbours: the middle, a little off it, close to the ends; both signs."""
    low, high = numbers[:-1], numbers[1:]
    middle, step = (low + high) / 2, (high - low) * 2.0**-20
    found = np.concatenate([numbers, middle, middle + step, middle - step, low + step, high - step])
    last = numbers[-1] + (numbers[-1] - numbers[-2]) * np.array([0.25, 0.5, 0.75, 1.0, 100.0])
    found = np.concatenate([found, last, [np.inf]])
    return np.concatenate([found, -found])


def expected(values: Any, name: str, mode: str, *, saturate: bool) -> Any:
    """The same by a search in the table of all numbers; differences are exact in float64."""
    form, table = FORMATS[name], magnitudes(name)
    size, negative = np.abs(values), np.signbit(values)
    below = np.clip(np.searchsorted(table, size, side="right") - 1, 0, len(table) - 2)
    beyond = size >= table[-1]
    step = table[-1] - table[-2]
    low = np.where(beyond, table[-1], table[below])
    high = np.where(beyond, table[-1] + step, table[below + 1])
    code = np.where(beyond, form.largest, below).astype(np.int64)
    under, over = np.where(np.isinf(size), 1.0, size - low), np.where(np.isinf(size), 0.0, high - size)
    up = {
        "rn": (under > over) | ((under == over) & (code % 2 == 1)),
        "rna": under >= over,
        "rz": np.zeros(len(size), bool),
        "rm": (under > 0) & negative,
        "rp": (under > 0) & ~negative,
    }[mode]
    top = form.infinite if form.infinite is not None else form.nan
    if saturate or top is None:
        top = form.largest
    code = np.where(up, np.where(code == form.largest, top, code + 1), code)
    code = np.where(np.isinf(size), top, code)
    return (code | (negative.astype(np.int64) << (form.bits - 1))) << form.zeros


@pytest.mark.quick
@pytest.mark.parametrize("saturate", [False, True], ids=["", "saturate"])
@pytest.mark.parametrize("mode", ["rn", "rna", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", SMALL)
def test_every_number_and_what_lies_between(name: str, mode: str, saturate: bool) -> None:
    table = magnitudes(name) if name not in ("bf16", "tf32") else magnitudes(name)[:: 97 if name == "bf16" else 5003]
    values = between(table) if len(table) == len(magnitudes(name)) else np.concatenate([table, -table])
    if len(table) != len(magnitudes(name)):
        values = np.concatenate(
            [values, values * (1 + 2.0**-9), values * (1 - 2.0**-12), np.float64([np.inf, -np.inf])]
        )
    found = narrow(values, FORMATS[name], mode, saturate=saturate)
    np.testing.assert_array_equal(found.astype(np.int64), expected(values, name, mode, saturate=saturate))


@pytest.mark.quick
@pytest.mark.parametrize("name", SMALL)
def test_nan_has_one_code_and_codes_come_back(name: str) -> None:
    form = FORMATS[name]
    nan = form.largest if form.nan is None else form.nan << form.zeros
    assert narrow(np.float64([np.nan, -np.nan]), form).tolist() == [nan, nan]
    codes = np.arange(1 << form.bits, dtype=np.uint64) << np.uint64(form.zeros)
    codes = codes.astype(form.storage)
    numbers = widen(codes, name)
    is_number = numbers == numbers
    np.testing.assert_array_equal(narrow(numbers.astype(np.float64), form)[is_number], codes[is_number])
    np.testing.assert_array_equal(narrow_nearest(numbers, name)[is_number], codes[is_number])


@pytest.mark.quick
@pytest.mark.parametrize("name", ["f16", "bf16", "e5m2", "e4m3"])
def test_dtypes_of_numpy_agree(name: str) -> None:
    table = magnitudes(name)
    values = between(table if name != "bf16" else table[::3])
    bits = nearest_float(values, NUMPY[name]).view(FORMATS[name].storage)
    wanted = narrow(values, FORMATS[name])
    numbers = (wanted & FORMATS[name].storage.type((1 << FORMATS[name].bits - 1) - 1)) <= FORMATS[name].largest
    np.testing.assert_array_equal(bits[numbers], wanted[numbers])
    np.testing.assert_array_equal(
        towards_zero(values, NUMPY[name]).view(FORMATS[name].storage)[np.isfinite(values)],
        narrow(values, FORMATS[name], "rz")[np.isfinite(values)],
    )
    if name.startswith("e"):
        saturated = narrow(values, FORMATS[name], saturate=True)
        np.testing.assert_array_equal(convert_float(values, NUMPY[name]).view(np.uint8), saturated)


@pytest.mark.quick
@pytest.mark.parametrize("name", [*SMALL, "f32"])
@pytest.mark.parametrize("tiny", [5e-324, 2.0**-1022])
def test_the_smallest_doubles_are_more_than_nothing(name: str, tiny: float) -> None:
    """A directed rounding takes each to the least number of the format."""
    form = FORMATS[name]
    least, sign = 1 << form.zeros, 1 << form.zeros + form.bits - 1
    values = np.float64([tiny, -tiny, 0.0])
    assert narrow(values, form, "rp").tolist() == [least, sign, 0]
    assert narrow(values, form, "rm").tolist() == [0, sign | least, 0]
    assert narrow(values, form).tolist() == [0, sign, 0]


def test_towards_zero_keeps_infinity_where_there_is_one() -> None:
    ends = np.float32([np.inf, -np.inf, 1e30, -1e30, -1e-30])
    assert towards_zero(ends, np.dtype(np.float16)).tolist() == [np.inf, -np.inf, 65504.0, -65504.0, 0.0]
    fnuz = np.dtype(ml_dtypes.float8_e4m3fnuz)  # without infinity and without -0
    assert towards_zero(ends, fnuz).view(np.uint8).tolist() == [0x7F, 0xFF, 0x7F, 0xFF, 0]
    below_the_least = np.array([-0.8, 0.8]) * 2.0**-10
    assert towards_zero(below_the_least, fnuz).view(np.uint8).tolist() == [0, 0]


@pytest.mark.quick
@pytest.mark.parametrize("format", ["bf16", "f8E5M2", "f8E4M3FN", "f16"])
def test_constants_are_rounded_once(format: str) -> None:
    """A little above the middle of two numbers: what is rounded to f32 first ends at the even one, below."""
    mantissa = {"bf16": 7, "f8E5M2": 2, "f8E4M3FN": 3, "f16": 10}[format]
    type, middle = FLOATS[format], 1 + 2.0 ** -(mantissa + 1)
    assert round_float(middle, type) == 1.0
    assert round_float(middle + 2.0**-40, type) == 1 + 2.0**-mantissa
    assert float_bits(round_float(-middle - 2.0**-40, type), type) == float_bits(-1 - 2.0**-mantissa, type)


def operands(count: int, kind: Any, seed: int) -> list[Any]:
    draw = np.random.default_rng(seed)
    bits = draw.integers(0, 1 << 32, (count, 400), np.uint64).astype(np.uint32)
    drawn = bits.view(np.float32).astype(kind)
    near = (draw.integers(-9, 9, (count, 200)) * 2.0 ** draw.integers(-30, 30, (count, 200))).astype(np.float32)
    hard = np.array(np.meshgrid(*[HARD] * min(count, 2))).reshape(min(count, 2), -1)
    hard = np.vstack([hard, *[np.roll(hard[:1], 7, axis=1)] * (count - len(hard))])
    return list(np.concatenate([drawn, near.astype(kind), hard.astype(kind)], axis=1))


EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


def holds(operation: str, mode: str, numbers: list[float], found: Any) -> bool:
    """Whether `found` is the result: no other number of its type lies nearer, or between it and the exact one."""
    values = list(map(Fraction, numbers))
    below, above = np.nextafter(found, found.dtype.type(-np.inf)), np.nextafter(found, found.dtype.type(np.inf))

    def side(number: Any) -> int:
        """1 where the number is above the exact result, -1 below."""
        if np.isinf(number):
            return 1 if number > 0 else -1
        exact = values[0] if operation == "sqrt" else EXACT[operation](*values)
        place = Fraction(float(number))
        if operation == "sqrt":
            place = place * abs(place)
        return int(place > exact) - int(place < exact)

    here = side(found)
    if mode == "rp" or (mode == "rz" and np.signbit(found)):
        return here >= 0 and (here == 0 or side(below) < 0)
    if mode in ("rm", "rz"):
        return here <= 0 and (here == 0 or side(above) > 0)
    other = above if here < 0 else below
    if here == 0:
        return True
    if np.isinf(found) or np.isinf(other):  # the middle between the largest number and the next power of two
        top = np.finfo(found.dtype).max
        limit = (3 * Fraction(float(top)) - Fraction(float(np.nextafter(top, top.dtype.type(0))))) / 2
        exact = EXACT[operation](*values)
        return bool((abs(exact) >= limit) == np.isinf(found))
    middle = (Fraction(float(found)) + Fraction(float(other))) / 2
    exact = values[0] if operation == "sqrt" else EXACT[operation](*values)
    reach = middle * middle if operation == "sqrt" else middle
    if exact == reach:
        return int(found.view(f"u{found.dtype.itemsize}")) % 2 == 0
    return (exact < reach) == (found < other)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", NEAREST)
def test_operations_round_once(operation: str, mode: str, kind: Any) -> None:
    count = {"sqrt": 1, "fma": 3}.get(operation, 2)
    arrays = operands(count, kind, seed=len(operation))
    found = rounded(operation, mode, arrays)
    assert found.dtype == kind
    for *numbers, value in zip(*arrays, found, strict=True):
        plain = [float(number) for number in numbers]
        if not np.isfinite(plain).all() or np.isnan(value) or (operation == "div" and plain[1] == 0):
            with np.errstate(all="ignore"):
                a = np.float64(plain)
                want = {"fma": lambda a=a: a[0] * a[1] + a[2]}.get(operation, lambda a=a: NEAREST[operation](*a))()
            assert value == want or (np.isnan(value) and np.isnan(want)), (plain, value)
        else:
            assert holds(operation, mode, plain, value), (plain, value)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_zeros_have_the_sign_of_the_mode(kind: Any) -> None:
    one, zero = np.array([1, 1, 0, -0.0], kind), np.array([-1, -1, 0, -0.0], kind)
    assert np.signbit(rounded("add", "rn", [one, zero])).tolist() == [False, False, False, True]
    assert np.signbit(rounded("add", "rm", [one, zero])).tolist() == [True, True, False, True]
    assert np.signbit(rounded("sub", "rm", [one, -zero])).tolist() == [True, True, False, True]
    assert np.signbit(rounded("fma", "rm", [one, -zero, -one])).tolist() == [True] * 4


def test_products_and_sums_are_fused() -> None:
    """Results are right where parts of products overflow or are subnormal, terms cancel, and for any shape."""
    a = np.array([1e300, 1e-200, 1 + 2.0**-52, 5e-324, 1e308, -1e308, 1e-320, 3.0])
    b = np.array([1e-300, 1e-200, 1 - 2.0**-52, 0.5, 10.0, 10.0, 1e-5, -1 / 3])
    c = np.array([-1.0, 5e-324, -1.0, 5e-324, -1e308, 1e308, -5e-324, 1.0])
    wanted = [
        float(Fraction(x) * Fraction(y) + Fraction(z)) if abs(x) < 1e308 else x * y
        for x, y, z in zip(a, b, c, strict=True)
    ]
    assert fused(a, b, c).tolist() == wanted
    assert fused(a.reshape(2, 4), b.reshape(2, 4), c.reshape(2, 4)).tolist() == np.reshape(wanted, (2, 4)).tolist()
    assert [float(fused(x, y, z)) for x, y, z in zip(a, b, c, strict=True)] == wanted


def test_a_result_that_is_rounded_to_odd_is_rounded_once() -> None:
    a, b, c = (x[np.isfinite(x)][:300] for x in operands(3, np.float32, seed=5))
    size = min(map(len, (a, b, c)))
    a, b, c = a[:size], b[:size], c[:size]
    found = nearest_float(odd("fma", (a, b, c)), np.dtype(ml_dtypes.bfloat16)).astype(np.float64)
    for x, y, z, value in zip(a, b, c, found, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        if np.isfinite(value):
            near = [narrow(np.float64([value * (1 + e)]), FORMATS["bf16"])[0] for e in (-(2.0**-7), 2.0**-7)]
            others = [Fraction(float(widen(np.array([n], np.uint16), "bf16")[0])) for n in near]
            assert all(abs(exact - Fraction(float(value))) <= abs(exact - other) for other in others)


def test_integers_beyond_53_bits() -> None:
    whole = np.array([2**53 + 1, 2**62 + 1, -(2**62) - 1, 2**63 - 1, 2**24 + 1, -3, 0], np.int64)
    large = np.array([2**64 - 1, 2**63 + 2**39, 2**63 + 2**39 + 1, 2**53 - 1], np.uint64)
    for numbers in (whole, large):
        found = narrow(odd_double(numbers), FORMATS["f32"]).view(np.float32)
        np.testing.assert_array_equal(found, numbers.astype(np.float32))
    tie = np.array([2**63 + 2**55 + 1], np.uint64)  # above the middle of two numbers of bf16 by one
    assert convert_float(odd_double(tie), np.dtype(ml_dtypes.bfloat16)).astype(float)[0] == 2.0**63 + 2.0**56


@pytest.mark.quick
@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.bits < 8])
def test_bits_outside_of_a_short_format_count_for_nothing(name: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    inside = codes & np.uint8((1 << FORMATS[name].bits) - 1)
    np.testing.assert_array_equal(widen(codes, name), widen(inside, name))
    assert len(set(widen(codes, name).tolist())) >= (1 << FORMATS[name].bits) - 1  # the zeros are equal


def test_fractions_are_for_operands_that_may_over_or_underflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take a thousand times as long."""
    asked: list[tuple[float, float, float]] = []
    exactly = exact_rounding._fused_exactly
    monkeypatch.setattr(exact_rounding, "_fused_exactly", lambda *abc: (asked.append(abc), exactly(*abc))[1])
    ordinary = np.array([1.0, -3.5, 1e-100, 1e100, 0.0, np.inf, np.nan, 2.0**-800])
    fused(ordinary[:, None], ordinary[None], np.float64(1e-200))
    fused(ordinary, ordinary, ordinary[::-1])
    assert all(abs(a * b) < 1e-250 or abs(a * b) > 1e290 or 2.0**-800 in (a, b, c) for a, b, c in asked)
    asked.clear()
    for risky in (1e-251, 1e291):
        for place in range(3):
            operands = [np.float64(1.5)] * 3
            operands[place] = np.float64(risky)
            fused(*operands)
    fused(np.float64(1e-130), np.float64(1e-130), np.float64(1))
    fused(np.float64(1e150), np.float64(1e150), np.float64(1))
    assert len(asked) == 8


def test_fused_gives_a_zero_that_only_fractions_tell() -> None:
    """Operands so large and small that splitting them overflows."""
    assert fused(np.float64(2.0**1000), np.float64(2.0**-1000), np.float64(-1)) == 0
