"""Every function of libdevice in each of its forms, native, interpreted and on GPUs, against exact references."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
from exact_rounding import FORMATS, encode
from libdevice_references import KEEP_ZERO, PARTS, POLES, REAL, WHOLE, Real, masked
from mpmath import mp, mpf
from ways import GPUS, WAYS, answer

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice

TYPES = {"fp32": np.float32, "fp64": np.float64, "int1": np.bool_} | {
    f"{sign}int{bits}": np.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (32, 64)
}
CONVERSION = re.compile(r"(int|uint|ll|ull|float|double)2(int|uint|ll|ull|float|double)_(r[nzdu])")
INTEGERS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
TO_WHOLE = {"llrint": "rn", "llround": "away"}
MODES = ("rn", "rz", "rd", "ru")
BESSEL = {"cyl_bessel_i0", "cyl_bessel_i1", "j0", "j1", "jn", "y0", "y1", "yn"}
"""Functions tested in language/test_bessel.py."""
DIRECTED = {f"{name}_{mode}" for name in ("add", "sub", "mul", "div", "fma", "rcp", "sqrt") for mode in MODES}
"""Functions tested in test_directed_rounding.py."""
SIZES = {"native": 512, "eager": 128, "ttir": 128, "80": 128, "90": 128}
COMPARED = {"eager": 40}
"""How many of them are compared with numbers of 40 digits, if not all: in Python each function is tried at once."""
BLOCK = 128
"""Numbers of a program: the same for all ways, so that TTIR is that of the machine code, which is compiled once."""
APPROXIMATE = {"exp2": 2, "erf": 4, "sqrt": 1, "rsqrt": 2, "log10": 2, "log1p": 1, "tanh": 2}
"""The bounds for functions of fp32 for which GPUs have instructions of limited accuracy, as Triton uses them."""
QUICK = {"byte_perm", "double2ull_rd", "nextafter", "rcp64h", "tgamma", "ull2float_ru"}
FLUSHED = ("sqrt", "rsqrt", "exp2")
"""Functions whose instructions take subnormal numbers for 0."""


@tw.jit
def applied(F: tl.constexpr, a, b, c, d, COUNT: tl.constexpr):
    if COUNT == 1:
        return F(a)
    if COUNT == 2:
        return F(a, b)
    if COUNT == 3:
        return F(a, b, c)
    return F(a, b, c, d)


@tw.jit
def of_arguments(x, y, z, w, out, F: tl.constexpr, COUNT: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    result = applied(F, tl.load(x + i), tl.load(y + i), tl.load(z + i), tl.load(w + i), COUNT)
    tl.static_assert(result.dtype == out.dtype.element_ty)
    tl.store(out + i, result)


def computed(way: str, name: str, arguments: list[np.ndarray], result: str) -> np.ndarray:
    """The function of arrays, whose result has to have the type `result`."""
    size = arguments[0].size
    given = [*arguments, *[arguments[0]] * (4 - len(arguments))]
    arrays = dict(zip("xyzw", given, strict=True)) | {"out": np.zeros(size, TYPES[result])}
    constants: dict[str, Any] = {"F": getattr(libdevice, name), "COUNT": len(arguments), "N": BLOCK}
    return answer(way, of_arguments, arrays, grid=size // BLOCK, **constants)["out"]


def forms_of(names: Any) -> list[Any]:
    """(name, types of arguments, type of the result) of all forms."""
    found = []
    for name in sorted(names):
        for form in getattr(libdevice, name).forms:
            arguments, _, result = form.partition(" -> ")
            found.append((name, tuple(arguments.split(", ")), result))
    return found


def numbers(kind: str, size: int, seed: int, low: float = -1e300, high: float = 1e300) -> np.ndarray:
    """Edges, then numbers of all sizes, half of them spread evenly."""
    random, type = np.random.default_rng(seed), TYPES[kind]
    if not kind.startswith("fp"):
        limits = np.iinfo(type)
        edges = [0, 1, 2, 3, limits.max, limits.max - 1, limits.min, limits.min + 1, 2**24 + 1, 2**31 - 65, 255, 0x7654]
        draws = random.integers(limits.min, limits.max, size, dtype=type, endpoint=True)
        draws[size // 2 :] >>= random.integers(0, limits.bits, size - size // 2).astype(type)
        draws[: len(edges)] = random.permutation(np.array(edges, type))
        return draws
    limits = np.finfo(type)
    low, high = max(low, float(limits.min)), min(high, float(limits.max))
    tiny, small = float(limits.smallest_subnormal), float(limits.tiny)
    edges = [0.0, -0.0, math.inf, -math.inf, math.nan, 1, -1, 0.5, -0.5, 1.5, 2.5, 2, -2, tiny, -tiny, small, -small]
    edges += [low, high, 0.49999999999999994, 2.0**23 + 1, 2.0**52 + 1, 2.0**31, 2.0**63, -(2.0**63), 1e-5]
    top = min(high, 40.0) if high > 1e6 else high
    spread = random.uniform(max(low, -top), top, size)
    powers = 2.0 ** random.uniform(math.log2(small) + 1, math.log2(max(high, 1.0)), size)
    sized = np.where(random.random(size) < 0.5, powers, -powers if low < 0 else powers)
    with np.errstate(over="ignore"):
        mixed = np.where(np.arange(size) % 2, spread, np.clip(sized, low, high)).astype(type)
        mixed[: len(edges)] = random.permutation(np.array(edges)).astype(type)
    return mixed


def ulp_of(exact: Any, kind: str) -> Any:
    """One unit in the last place of numbers of the size of `exact`."""
    form = FORMATS[kind]
    power = max(mp.frexp(exact)[1] - 1, 1 - form.bias) if exact else 1 - form.bias
    return mpf(2) ** (power - form.fraction)


NEAREST = 0.51
"""More ulp than the nearest number is away from any, also when that was rounded to 53 bits before."""


def is_nearest(got: float, exact: Any, kind: str) -> bool:
    """Is it the number nearest to `exact`? False where another is as near, or either is no finite number."""
    with np.errstate(all="ignore"):
        return bool(mp.isfinite(exact)) and math.isfinite(got) and got == TYPES[kind](float(exact))


def error_of(got: float, exact: Any, kind: str) -> float:
    """Distance in ulp; infinite where one is NaN or infinite and the other is not."""
    if mp.isnan(exact) or math.isnan(got):
        return 0.0 if mp.isnan(exact) and math.isnan(got) else math.inf
    form = FORMATS[kind]
    largest = mpf(2) ** (form.bias + 1)
    if mp.isinf(exact) or abs(exact) >= largest or math.isinf(got):
        beyond = mp.inf if abs(exact) >= largest * (1 - mpf(2) ** (-form.fraction - 1)) else abs(exact)
        near = abs(exact) >= largest * (1 - mpf(2) ** (4 - form.fraction))
        agrees = abs(mpf(got)) == beyond or near
        return 0.0 if agrees and (got > 0) == (exact > 0) else math.inf
    return float(abs(mpf(got) - exact) / ulp_of(exact, kind))


def cases(names: Any) -> list[Any]:
    """Every form of the functions and every way to run it, older GPUs once per function.

    `make check` runs all in the eager interpreter, and few as machine code.
    """
    found, seen = [], set()
    for name, arguments, result in forms_of(names):
        for way in WAYS:
            if way in ("native", "eager", "ttir", "90") or ((name, way) not in seen and name in APPROXIMATE):
                first = name not in seen and name in QUICK if way == "native" else way == "eager"
                marks = [] if first else [pytest.mark.slow]
                seen |= {name, (name, way)}
                identity = f"{name}-{arguments[0]}-{way}"
                found.append(pytest.param(name, arguments, result, way, id=identity, marks=marks))
    return found


def limit_of(function: Real, name: str, kind: str, way: str, inputs: list[float]) -> float:
    """The bound for these arguments; infinite where nothing is promised."""
    bound = function.bounds[kind == "fp64"]
    assert bound is not None
    if way not in GPUS or kind == "fp64":
        return bound
    if name in FLUSHED and 0 < abs(inputs[0]) < 2.0**-126:
        return math.inf
    if name in ("exp", "fast_expf"):  # a product with log2(e) is rounded first
        return 2 + 1.173 * abs(inputs[0]) if abs(inputs[0]) < 87 else math.inf
    return max(bound, APPROXIMATE.get(name.removeprefix("fast_").removesuffix("f"), 0.0))


@cache
def exact_value(name: str, *inputs: float) -> Any:
    """In 40 digits; the ways to run a function take the same numbers."""
    with mp.workdps(40):
        return REAL[name].value(*map(mpf, inputs))


@pytest.mark.quick
@pytest.mark.parametrize(("name", "arguments", "result", "way"), cases(REAL))
def test_functions_of_floats(name: str, arguments: tuple[str, ...], result: str, way: str) -> None:
    check_floats(name, arguments, result, way, SIZES[way])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("name", "arguments", "result"), forms_of(REAL))
def test_functions_of_many_floats(name: str, arguments: tuple[str, ...], result: str) -> None:
    check_floats(name, arguments, result, "native", 4096)


def check_floats(name: str, arguments: tuple[str, ...], result: str, way: str, size: int) -> None:
    function, kind = REAL[name], arguments[0]
    if name == "abs" and not kind.startswith("fp"):
        return
    given = [numbers(type, size, 7 + place, function.low, function.high) for place, type in enumerate(arguments)]
    if name == "pow" and arguments[1] == "int32":
        given[1] = np.random.default_rng(1).integers(-30, 30, size).astype(np.int32)
    got = computed(way, name, given, result).astype(np.float64)
    with mp.workdps(40):
        rows = [array.astype(np.float64).tolist() for array in given]
        for values in islice(zip(*rows, got.tolist(), strict=True), COMPARED.get(way)):
            *inputs, found = values
            if name in ("pow", "fast_powf") and (inputs[0] <= 0 or not all(map(math.isfinite, inputs))):
                continue  # C's rules are in llvm/test_llvm_math.py
            exact = exact_value(name, *inputs)
            if 0.0 in inputs and (mp.isinf(exact) or name == "atan2"):  # mpmath has no -0
                exact, found = abs(exact), abs(found)
            limit = limit_of(function, name, kind, way, inputs)
            if limit > NEAREST and is_nearest(found, exact, kind):
                continue
            error = error_of(found, exact, kind)
            assert error <= limit or math.isinf(limit), (name, error, inputs, found, float(exact))
    if name in KEEP_ZERO | POLES:
        for x, found in zip(given[0], got, strict=True):
            wanted = math.copysign(math.inf if name in POLES else 0.0, x)
            assert x != 0 or (found == wanted and np.signbit(found) == np.signbit(x)), (x, found)


@pytest.mark.quick
@pytest.mark.parametrize(("name", "arguments", "result", "way"), cases(WHOLE))
def test_functions_of_integers(name: str, arguments: tuple[str, ...], result: str, way: str) -> None:
    kind = arguments[0]
    if kind.startswith("fp"):
        return
    given = [numbers(type, SIZES[way], 11 + place) for place, type in enumerate(arguments)]
    got = computed(way, name, given, result)
    for *inputs, found in zip(*(array.tolist() for array in (*given, got)), strict=True):
        wanted = WHOLE[name](kind, *inputs)
        assert masked(result, found) == masked(result, wanted), (name, inputs, found, wanted)


def whole(value: float, mode: str) -> int:
    if mode == "away":
        return int(math.copysign(math.floor(Fraction(abs(value)) + Fraction(1, 2)), value))
    return {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}[mode](value)


def to_integer(value: float, type: Any, mode: str) -> int:
    """Rounded and saturated; 0 for NaN."""
    limits = np.iinfo(type)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(limits.max if value > 0 else limits.min)
    return int(min(max(whole(value, mode), limits.min), limits.max))


CONVERSIONS = {name for name in libdevice.__all__ if CONVERSION.fullmatch(name)} | set(TO_WHOLE)


@pytest.mark.quick
@pytest.mark.parametrize(("name", "arguments", "result", "way"), cases(CONVERSIONS))
def test_conversions(name: str, arguments: tuple[str, ...], result: str, way: str) -> None:
    source, target, mode = ("", "ll", TO_WHOLE[name]) if name in TO_WHOLE else CONVERSION.fullmatch(name).groups()
    given = numbers(arguments[0], SIZES[way], 13)
    if source == "double" and target == "float":
        given[SIZES[way] // 2 :] = numbers("fp32", SIZES[way] - SIZES[way] // 2, 5).astype(np.float64) * (1 + 2.0**-25)
    got = computed(way, name, [given], result)
    for value, found in zip(given.tolist(), got, strict=True):
        if target in INTEGERS:
            wanted = to_integer(value, INTEGERS[target], mode)
            assert masked(result, int(found)) == masked(result, wanted), (name, value, found, wanted)
        else:
            is_number = math.isfinite(value) and value != 0
            code = encode(Fraction(value) if is_number else float(value), FORMATS[result], mode)
            assert int(found.view(f"u{found.itemsize}")) == code or found != found, (name, value, found)


@pytest.mark.quick
@pytest.mark.parametrize(("name", "arguments", "result", "way"), cases(PARTS))
def test_functions_of_bits(name: str, arguments: tuple[str, ...], result: str, way: str) -> None:
    given = [numbers(type, SIZES[way], 17 + place) for place, type in enumerate(arguments)]
    if name in ("ldexp", "scalbn"):
        given[1] = np.random.default_rng(1).integers(-2200, 2200, SIZES[way]).astype(np.int32) // np.int32(
            1 + 9 * (arguments[0] == "fp32")
        )
    if name in ("copysign", "nextafter"):
        given[1][:64] = given[0][:64]
        given[0][64:66] = 0.0, -0.0
    got = computed(way, name, given, result)
    with np.errstate(all="ignore"):
        wanted = PARTS[name](*given).astype(got.dtype)
    unlike = got.view(f"u{got.itemsize}") != wanted.view(f"u{got.itemsize}")
    unlike &= (got == got) | (wanted == wanted)
    assert not unlike.any(), [(*(a[k] for a in given), got[k], wanted[k]) for k in np.flatnonzero(unlike)[:3]]


def test_every_function_is_in_a_table() -> None:
    tables = {*REAL, *WHOLE, *PARTS, *CONVERSIONS}
    assert tables | BESSEL | DIRECTED == set(libdevice.__all__)


def test_lgamma_of_fp32_is_exact_next_to_its_zeros() -> None:
    """Between whole numbers below -2 it has two zeros, where logarithms cancel: as few bits as fp32 has are left."""
    places: list[np.ndarray] = []
    for left in range(-11, -2):
        grid = np.linspace(left, left + 1, 4098)[1:-1]
        signs = np.sign([float(mp.log(abs(mp.gamma(mpf(each))))) for each in grid])
        for at in np.flatnonzero(signs[1:] != signs[:-1]):
            ends = (mpf(grid[at]), mpf(grid[at + 1]))
            root = np.float32(float(mp.findroot(lambda x: mp.log(abs(mp.gamma(x))), ends, solver="anderson")))
            places.append(root.view(np.int32) + np.arange(-4, 4, dtype=np.int32))
    x = np.resize(np.concatenate(places), BLOCK * 2).view(np.float32)
    assert len(places) >= 9
    got = computed("native", "lgamma", [x], "fp32")
    exact = np.array([float(mp.log(abs(mp.gamma(mpf(float(each)))))) for each in x])
    assert (np.abs(got - exact) <= 0.51 * np.spacing(np.abs(exact).astype(np.float32))).all()
