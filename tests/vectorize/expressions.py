"""Functions from expressions, values of every dtype, and how results are compared with NumPy's."""

from __future__ import annotations

import linecache
import math
from types import FunctionType
from typing import Any

import numpy as np

DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
)
FAMILIES = (
    ("a + b", "a - b"),
    ("a * b",),
    ("a / b",),
    ("a // b", "a % b"),
    ("a & b", "a | b", "a ^ b"),
    ("a << b", "a >> b"),
    ("a ** b",),
    ("a == b", "a != b"),
    ("a < b", "a <= b", "a > b", "a >= b"),
    ("np.maximum(a, b)", "np.minimum(a, b)", "np.fmax(a, b)", "np.fmin(a, b)"),
    ("np.where(a > b, a, b)",),
    ("np.arctan2(a, b)", "np.hypot(a, b)", "np.copysign(a, b)", "np.logaddexp(a, b)"),
    ("np.fmod(a, b)",),
    ("np.heaviside(a, b)",),
    ("np.logical_and(a, b)", "np.logical_or(a, b)", "np.logical_xor(a, b)"),
)
"""Expressions that take the same pairs of dtypes and bring both to a common one in the same way."""
BINARY = tuple(expression for family in FAMILIES for expression in family)
UNARY = (
    *("-a", "+a", "~a", "abs(a)", "a + 1", "1 - a", "a * 2.0", "a / 2", "1 / a", "a // 3", "a % 3", "a ** 2", "a ** 3"),
    *("a ** 0.5", "a < 3", "a == 300", "a > -1", "-1 < a", "a.astype(np.float32)", "np.float64(a)", "np.clip(a, 1, 5)"),
    *(f"np.{name}(a)" for name in ("sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt")),
    *(f"np.{name}(a)" for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh")),
    *(f"np.{name}(a)" for name in ("arcsinh", "arccosh", "arctanh", "deg2rad", "degrees", "square", "sign")),
    "np.fabs(a)",
    *(f"np.{name}(a)" for name in ("floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "signbit")),
    "np.logical_not(a)",
)
EXACT_LOW, LOOSE = 1.01, 4.0
"""Units in the last place: of float16, which is computed in float32; of the others."""


def function(expression: str, parameters: str = "a, b", **names: Any) -> FunctionType:
    """`def f(parameters): return expression`, with source."""
    text = f"def f({parameters}):\n    return {expression}\n"
    name = f"<vectorize {parameters}: {expression}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace = {"np": np, "math": math, **names}
    exec(compile(text, name, "exec"), namespace)
    return namespace["f"]


def values(dtype: str, seed: int = 0, count: int = 67) -> np.ndarray:
    """Ordinary and extreme values of a dtype."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, count).astype(bool)
    if dtype.startswith("float"):
        made = (random.standard_normal(count) * 5).astype(dtype)
        made[:9] = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, 3]
        return made
    bounds = np.iinfo(dtype)
    made = random.integers(-9 if bounds.min < 0 else 0, 20, count).astype(dtype)
    made[:6] = [0, bounds.max, bounds.min, 1, 7, 2]
    return made


def assert_same(found: Any, expected: Any) -> None:
    """Equal dtypes, shapes and values, up to the stated errors of floats."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(expected)).astype(np.float64)
        distance = np.abs(found.astype(np.float64) - expected.astype(np.float64)) / unit
        both_nan = np.isnan(found) & np.isnan(expected)
        close = distance <= (EXACT_LOW if expected.dtype.itemsize == 2 else LOOSE)
        same = both_nan | (((found == expected) | close) & (np.signbit(found) == np.signbit(expected)))
    assert same.all(), (found[~same][:5], expected[~same][:5])
