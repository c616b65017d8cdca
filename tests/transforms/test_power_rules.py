"""Powers with constant exponents: which become products and roots, which are as near to the power as `pow` is."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from rewriting_cases import check

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice
from tilewright.transforms.combine import combine


@tw.jit
def power(x, out, E: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out + i, libdevice.pow(tl.load(x + i), E))


PRODUCTS = {1.0: 0, -1.0: 0, 2.0: 1, 3.0: 2, 0.5: 0, -0.5: 0, 1.5: 1}
"""The products that a power becomes, by its exponent."""


@pytest.mark.parametrize("exponent", [*PRODUCTS, 0.0, -1.5, -2.0, 2.5, 4.0, float("inf")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_which_powers_become_products(exponent: float, dtype: type) -> None:
    x = np.ones(16, dtype)
    text = power.warmup(x, x, exponent, B=16, grid=(1,)).asm["ttir"]
    assert ("__tw_pow" in text) == (exponent not in PRODUCTS)
    assert text.count("arith.mulf") == PRODUCTS.get(exponent, 0)
    assert text.count("sqrt") == (exponent in PRODUCTS and exponent % 1 == 0.5)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("symbol", "exponent", "type"),
    [("atan2", "%two", "f32"), ("pow", "%y", "f32"), ("pow", "%four", "f32"), ("pow", "%two", "f64")],
)
def test_others_stay(symbol: str, exponent: str, type: str) -> None:
    """Another function, a number that is not known, one that is no small power, and a result of another type."""
    call = f'tt.extern_elementwise %x, {exponent} {{libname = "", libpath = "", pure = true, symbol = "__tw_{symbol}"}}'
    numbers = {"%two": "%two = arith.constant 2.0 : f32\n", "%four": "%four = arith.constant 4.0 : f32\n"}
    body = f"{numbers.get(exponent, '')}%r = {call} : (f32, f32) -> {type}\ntt.return %r : {type}"
    check(combine, "%x: f32, %y: f32", body, None)


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 3e-39, 1e-20, 1e20, -1e20, 3.4e38, 7.0, -3.5]


@pytest.mark.parametrize("exponent", PRODUCTS)
def test_products_and_roots_are_as_near_as_powers(exponent: float) -> None:
    x = np.array([*SPECIAL, *np.random.default_rng(0).uniform(-9, 9, 256 - len(SPECIAL))], np.float32)
    out = np.zeros_like(x)
    power[(1,)](x, out, exponent, B=256)
    for number, found in zip(x.tolist(), out.tolist(), strict=True):
        with np.errstate(all="ignore"):
            exact = np.power([number, 1.0], [exponent, 2.0])[0]  # NumPy takes roots where all exponents are ½
            wanted = np.float32(exact)
        if not np.isfinite(wanted) or wanted == 0:
            assert np.float32(found).tobytes() == wanted.tobytes() or (np.isnan(found) and np.isnan(wanted)), number
        else:
            error = mpmath.mpf(found) - mpmath.mpf(number) ** mpmath.mpf(exponent)
            assert abs(error) <= 1.5 * float(np.spacing(np.abs(wanted))), number
