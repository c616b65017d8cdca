"""Accuracy of the math library in units in the last place, against double and long double references."""

import ctypes
import math

import numpy as np
import pytest
from llvm_native import load, load_all
from llvm_ops import LEVELS

from long_runs import first_of
from tilewright.backends.llvm import math_trigonometric
from tilewright.backends.llvm.lanes import LaneType
from tilewright.backends.llvm.machine import host_target
from tilewright.backends.llvm.mathlib import DIRECTED, FUNCTIONS
from tilewright.backends.llvm.writer import LlvmWriter
from tilewright.dialects.tile_semantics import LIBRARY
from tilewright.support.exact_rounding import rounded

COUNT = 3000
DTYPES = {"float": np.float32, "double": np.float64}
HALF = 0.5000001

# name: largest error allowed in float, in double
LIMITS = {
    "absf": (0, 0),
    "acos": (HALF, 2),
    "acosh": (2, 2.2),
    "asin": (HALF, 1.5),
    "asinh": (1.6, 2),
    "atan": (HALF, 2),
    "atan2": (HALF, 2),
    "atanh": (1.9, 2),
    "cbrt": (HALF, 2),
    "ceil": (0, 0),
    "copysign": (0, 0),
    "cos": (0.94, 1.6),
    "cosh": (HALF, 2),
    "erf": (1, 2),
    "exp": (1, 1.5),
    "exp10": (HALF, 2),
    "exp2": (1.15, 1.5),
    "expm1": (1.2, 1.5),
    "floor": (0, 0),
    "fmod": (0, 0),
    "log": (0.85, 1.5),
    "log10": (1.75, 2),
    "log1p": (1, 2),
    "log2": (1.15, 2),
    "pow": (HALF, 2),
    "rint": (0, 0),
    "round": (0, 0),
    "rsqrt": (1.5, 1.5),
    "sigmoid": (2.6, 2.5),
    "sin": (0.94, 1.6),
    "sinh": (2, 2),
    "sqrt": (HALF, HALF),
    "tan": (HALF, 2.1),
    "tanh": (1, 2),
    "trunc": (0, 0),
}
ARITY = {"atan2": 2, "copysign": 2, "fmod": 2, "pow": 2}


def _erf(x):
    return np.array([math.erf(v) for v in x.astype(np.float64)]).astype(x.dtype)


def _round(x):
    whole = np.trunc(x)
    return np.copysign(whole + (np.abs(x - whole) >= 0.5) * np.copysign(1, x), x)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


REFERENCES = {
    "absf": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "erf": _erf,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "pow": np.power,
    "rint": np.round,
    "round": _round,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
}


def compiled(name, element, lanes, target):
    """The function on arrays whose size is a multiple of `lanes`."""
    arity = ARITY.get(name, 1)
    w = LlvmWriter(target)
    parameters = [("ptr", "%out"), *(("ptr", f"%p{i}") for i in range(arity)), ("i64", "%n")]
    with w.function("f", parameters), w.loop(0, "%n", lanes) as loop:
        k = LaneType(w, element, lanes)
        operands = [k(w.load(k.type, w.offset(f"%p{i}", element, loop.index), align=1)) for i in range(arity)]
        w.store(k.type, FUNCTIONS[name](*operands).name, w.offset("%out", element, loop.index), align=1)
    f = load(w.render(), target, "f", *[ctypes.c_void_p] * (1 + arity), ctypes.c_int64)

    def run(*arrays):
        out = np.zeros_like(arrays[0])
        f(out.ctypes.data, *(a.ctypes.data for a in arrays), len(out))
        return out

    return run


def points(dtype, rng):
    """Edge cases, random bit patterns, and numbers around the interesting places."""
    limits = np.finfo(dtype)
    edges = [0, 1, 0.5, 2, 3, np.inf, np.nan, limits.tiny, limits.smallest_subnormal, limits.max, 1e30]
    edges += [88.5, 88.73, 89, 87.3, 103.9, 104.1, 709.7, 709.8, 745.1, 745.2, 9.1, 4, 1e5, 1e6]
    edges = np.array(edges, np.float64).astype(dtype)
    bits = rng.integers(0, 256, COUNT * limits.bits // 8, dtype=np.uint8).view(dtype)
    parts = [edges, -edges, bits, 1 + rng.standard_normal(COUNT) * 0.1, np.arange(COUNT) * (np.pi / 4)]
    parts += [rng.standard_normal(COUNT) * scale for scale in (1e-3, 1, 3, 60, 1e5)]
    both = np.concatenate([part.astype(dtype) for part in parts])
    return both[: len(both) // 16 * 16]


def error_in_ulps(got, wanted):
    """Distance from the exact value per element; infinite where one is NaN or infinite and the other is not."""
    rounded = wanted.astype(got.dtype)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    with np.errstate(all="ignore"):
        step = np.spacing(np.abs(rounded)).astype(wanted.dtype)
        error = np.abs(got.astype(wanted.dtype) - wanted) / step
    comparable = np.isfinite(got) & np.isfinite(rounded)
    return np.where(comparable, error, np.where(same, 0, np.inf))


@pytest.mark.parametrize("cpu", LEVELS)
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("name", LIMITS)
def test_accuracy(name, element, cpu):
    target, dtype = host_target(cpu), DTYPES[element]
    rng = np.random.default_rng(11)
    arrays = [points(dtype, rng) for _ in range(ARITY.get(name, 1))]
    arrays[1:] = [rng.permutation(a) for a in arrays[1:]]
    wide = np.float64 if dtype is np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        reference = REFERENCES.get(name) or getattr(np, name)
        wanted = reference(*(a.astype(wide) for a in arrays))
        got = compiled(name, element, target.lanes(np.dtype(dtype).itemsize * 8), target)(*arrays)
        error = error_in_ulps(got, wanted)
    worst = int(np.argmax(error))
    limit = LIMITS[name][element == "double"]
    assert error[worst] <= limit, (error[worst], [a[worst] for a in arrays], got[worst], wanted[worst])
    zero = (got == 0) & (wanted == 0)
    assert (np.signbit(got) == np.signbit(wanted))[zero].all()


def test_every_function_has_a_limit():
    assert set(LIMITS) == set(FUNCTIONS) - set(DIRECTED) - {"fma"}


def test_every_library_symbol_is_implemented():
    assert set(LIBRARY) <= set(FUNCTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("lanes", [16, 8, 32])
def test_scalar_and_wide_vectors_agree(element, lanes):
    """Lanes do not matter: one lane, and more than a register holds."""
    target, dtype = host_target(), DTYPES[element]
    rng = np.random.default_rng(3)
    for name in LIMITS:
        arrays = [points(dtype, rng)[:256] for _ in range(ARITY.get(name, 1))]
        one, many = (compiled(name, element, count, target)(*arrays) for count in (1, lanes))
        assert (error_in_ulps(one, many) <= 1).all(), name


@pytest.mark.parametrize("x", [1e22, 2.0**1023, 3.4e38, 1e5, 22.0])
def test_trigonometry_of_huge_arguments(x):
    target = host_target()
    for name, expected in (("sin", math.sin(x)), ("cos", math.cos(x)), ("tan", math.tan(x))):
        got = compiled(name, "double", target.lanes(64), target)(np.full(16, x))
        assert abs(got[0] - expected) <= 4 * math.ulp(expected)
        assert (got == got[0]).all()


@pytest.mark.parametrize(("of_gpus", "lanes"), [(False, 8), (True, 8), (True, 1)])
def test_trigonometry_of_huge_floats(of_gpus, lanes, monkeypatch):
    """Exponents of both parities, beside small numbers. GPUs have functions without doubles, for one lane alone."""
    if of_gpus:
        monkeypatch.setitem(FUNCTIONS, "sin", math_trigonometric.sin)
        monkeypatch.setitem(FUNCTIONS, "cos", math_trigonometric.cos)
    target, x = host_target(), np.array([1e5, 3e5, 1e10, 3e10, 1e22, 2e22, 2.0**126, 2.0**127, 3.4e38, 22], np.float32)
    given = np.concatenate([x, -x, np.ones(12, np.float32)])
    for name, function in (("sin", math.sin), ("cos", math.cos)):
        run = compiled(name, "float", lanes, target)
        wanted = np.array([function(float(angle)) for angle in given])
        assert (error_in_ulps(run(given), wanted.astype(np.float32)) <= 2).all(), name


def test_cosine_next_to_a_zero():
    """6381956970095103 · 2⁷⁹⁷ is closer to an odd multiple of π/2 than any other double."""
    target = host_target()
    got = compiled("cos", "double", target.lanes(64), target)(np.full(16, 6381956970095103.0 * 2.0**797))
    assert abs(got[0] / -4.68716592425462761112e-19 - 1) < 4e-16


def test_pow_follows_c():
    values = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, np.inf, -np.inf, np.nan, 1e300, 2.0**53 + 2])
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    pad = np.ones(-len(x) % 8)
    x, y = np.concatenate([x, pad]), np.concatenate([y, pad])
    target = host_target()
    got = compiled("pow", "double", 8, target)(x, y)
    with np.errstate(all="ignore"):
        wanted = np.power(x, y)
        distance = np.abs(got - wanted)
    exact = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    close = np.isfinite(wanted) & (distance <= 4e-16 * np.abs(wanted))
    assert (exact | close).all(), list(zip(x, y, got, wanted, strict=True))
    assert (np.signbit(got) == np.signbit(wanted))[~np.isnan(wanted)].all()


@pytest.mark.slow
def test_coefficients_are_the_fits():
    from polynomial_fits import all_tables

    from tilewright.backends.llvm import coefficients

    for name, table in all_tables().items():
        np.testing.assert_allclose(getattr(coefficients, name), table, rtol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("part", first_of(8, 1))
def test_segments_are_the_fits(part):
    """One segment in eight; each is fitted by itself, and takes a tenth of a second."""
    from polynomial_fits import SEGMENTS, segment

    from tilewright.backends.llvm import segment_tables

    for name, segments in SEGMENTS.items():
        table = np.array(getattr(segment_tables, name))
        assert table.shape == (segments.degree + 1, len(segments.ends))
        for k in range(part, len(segments.ends), 8):
            np.testing.assert_allclose(table[:, k], segment(name, k), rtol=1e-6, atol=1e-12)


PTX_MODES = {"rn": "rn", "rz": "rz", "rd": "rm", "ru": "rp"}


@pytest.mark.parametrize("cpu", LEVELS)
@pytest.mark.parametrize("element", ["float", "double"])
def test_every_processor_rounds_as_the_name_says(element, cpu):
    """Also those without fused multiply-add, where sums in double take its place for float."""
    dtype = np.dtype(np.float32 if element == "float" else np.float64)
    rng = np.random.default_rng(3)
    numbers = [(rng.standard_normal(128) * np.exp2(rng.integers(-9, 9, 128))).astype(dtype) for _ in range(3)]
    numbers[2][:64] = -(numbers[0] * numbers[1])[:64]
    w = LlvmWriter(host_target(cpu))
    names = [name for name in DIRECTED if not (element == "double" and name.startswith("fma") and cpu == "x86-64-v2")]
    types = {}
    for name in names:
        arity = {"fma": 3, "sqrt": 1}.get(name.partition("_")[0], 2)
        parameters = [("ptr", "%out"), *(("ptr", f"%p{i}") for i in range(arity)), ("i64", "%n")]
        with w.function(name, parameters), w.loop(0, "%n", 4) as loop:
            k = LaneType(w, element, 4)
            operands = [k(w.load(k.type, w.offset(f"%p{i}", element, loop.index), align=1)) for i in range(arity)]
            w.store(k.type, FUNCTIONS[name](*operands).name, w.offset("%out", element, loop.index), align=1)
        types[name] = [*[ctypes.c_void_p] * (1 + arity), ctypes.c_int64]
    for name, f in load_all(w.render(), host_target(cpu), types).items():
        operation, mode = name.split("_")
        given = [np.abs(x) if operation == "sqrt" else x for x in numbers[: len(types[name]) - 2]]
        out = np.zeros(128, dtype)
        f(out.ctypes.data, *(x.ctypes.data for x in given), 128)
        np.testing.assert_array_equal(out, rounded(operation, PTX_MODES[mode], given), err_msg=name)
