"""libdevice's arithmetic that rounds as its names say, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from exact_rounding import FORMATS, Format, Number, decode, encode, negative
from ways import WAYS, answer

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice

SIZE = 256
ARITY = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "sqrt": 1, "rcp": 1}
MODES = ("rn", "rz", "rd", "ru")
TYPES = {"fp32": np.float32, "fp64": np.float64}
CODES = {"fp32": np.uint32, "fp64": np.uint64}


@tw.jit
def applied(F: tl.constexpr, a, b, c, COUNT: tl.constexpr):
    if COUNT == 1:
        return F(a)
    if COUNT == 2:
        return F(a, b)
    return F(a, b, c)


@tw.jit
def in_all_modes(x, y, z, out, F: tl.constexpr, COUNT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
    for mode in tl.static_range(4):
        tl.store(out + mode * N + i, applied(F[mode], a, b, c, COUNT))


def operands(form: Format, name: str) -> list[np.ndarray]:
    """Codes of every exponent, of edges, and of neighbours whose sums cancel."""
    random = np.random.default_rng(len(name))
    edges = [0, 1, 2, form.largest, form.largest + 1, form.nan, 1 << form.fraction, form.bias << form.fraction]
    edges += [code | form.sign for code in edges]
    lists = []
    for _ in range(3):
        codes = [int(code) for code in random.integers(0, 1 << form.bits, SIZE - 160, dtype=np.uint64)]
        near = [(form.bias << form.fraction) + int(step) for step in random.integers(-(1 << 12), 1 << 12, 144)]
        lists.append([*codes, *(code | form.sign * int(random.integers(2)) for code in near)])
    for position in range(3):
        lists[position] += [edges[(index * (1, 3, 5)[position] + position) % 16] for index in range(16)]
    lists[2][100:140] = [code ^ form.sign for code in lists[0][100:140]]  # so that sums cancel
    lists[1][140:170] = [code ^ form.sign * (index % 2) for index, code in enumerate(lists[0][140:170])]
    return [np.array(codes, np.uint64).astype(CODES[name]).view(TYPES[name]) for codes in lists]


def root(x: Fraction) -> Fraction:
    """√x, or where that is no fraction one so near that it rounds alike."""
    scale = 1 << 2400
    inside = x.numerator * x.denominator * scale * scale
    whole = math.isqrt(inside)
    return Fraction(2 * whole + (whole * whole != inside), 2 * x.denominator * scale)


def zero(minus: bool) -> Number:
    return -0.0 if minus else Fraction(0)


def exact(operation: str, mode: str, a: Number, b: Number, c: Number) -> Number:
    """The exact result, or what IEEE 754 says where there is none."""
    if operation == "rcp":
        return exact("div", mode, Fraction(1), a, c)
    if operation == "sqrt":
        if a != a or (negative(a) and a != 0):
            return math.nan
        return a if a == 0 or math.isinf(a) else root(Fraction(a))
    if operation in ("add", "sub"):
        return sums(a, (-b if b != 0 else zero(not negative(b))) if operation == "sub" else b, mode)
    product = products(a, b) if operation != "div" else quotients(a, b)
    return sums(product, c, mode) if operation == "fma" else product


def sums(a: Number, b: Number, mode: str) -> Number:
    if a != a or b != b:
        return math.nan
    if is_infinite(a) or is_infinite(b):
        if is_infinite(a) and is_infinite(b) and negative(a) != negative(b):
            return math.nan
        return a if is_infinite(a) else b
    total = Fraction(a) + Fraction(b)
    if total == 0:
        return zero(negative(a) if negative(a) == negative(b) else mode == "rd")
    return total


def products(a: Number, b: Number) -> Number:
    minus = negative(a) != negative(b)
    if a != a or b != b or (is_infinite(a) and b == 0) or (is_infinite(b) and a == 0):
        return math.nan
    if is_infinite(a) or is_infinite(b):
        return -math.inf if minus else math.inf
    return Fraction(a) * Fraction(b) or zero(minus)


def quotients(a: Number, b: Number) -> Number:
    minus = negative(a) != negative(b)
    if a != a or b != b or (is_infinite(a) and is_infinite(b)) or (a == 0 and b == 0):
        return math.nan
    if is_infinite(a) or b == 0:
        return -math.inf if minus else math.inf
    return zero(minus) if is_infinite(b) else Fraction(a) / Fraction(b) or zero(minus)


def is_infinite(a: Number) -> bool:
    return isinstance(a, float) and math.isinf(a)


CASES = [(operation, type, way) for operation in ARITY for type in TYPES for way in WAYS]
QUICK = {("add", "fp64", "native"), ("fma", "fp32", "native")}


@pytest.mark.quick
@pytest.mark.parametrize(
    ("operation", "type", "way"),
    [case if case in QUICK or case[2] == "eager" else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_arithmetic_rounds_as_asked(operation: str, type: str, way: str) -> None:
    form = FORMATS[type]
    x, y, z = operands(form, type)
    functions = tuple(getattr(libdevice, f"{operation}_{mode}") for mode in MODES)
    arrays = {"x": x, "y": y, "z": z, "out": np.zeros((4, SIZE), TYPES[type])}
    out = answer(way, in_all_modes, arrays, F=functions, COUNT=ARITY[operation], N=SIZE)["out"]
    numbers = [[decode(int(code), form) for code in array.view(CODES[type])] for array in (x, y, z)]
    for mode, found in zip(MODES, out, strict=True):
        for values, got in zip(zip(*numbers, strict=True), found, strict=True):
            wanted = encode(exact(operation, mode, *values), form, mode)
            code = int(got.view(CODES[type]))
            assert code == wanted or (got != got and wanted == form.nan), (mode, *map(float, values), got, hex(wanted))
