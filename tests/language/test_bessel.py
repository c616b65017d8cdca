"""Bessel functions of libdevice against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.language.extra import libdevice

MODIFIED = {"cyl_bessel_i0": 0, "cyl_bessel_i1": 1}
ORDERS = {"j0": 0, "j1": 1, "y0": 0, "y1": 1}


@tw.jit
def of_one(x, out, FUNCTION: tl.constexpr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(out + i, FUNCTION(tl.load(x + i)))


@tw.jit
def of_order(x, out, FUNCTION: tl.constexpr, ORDER: tl.constexpr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(out + i, FUNCTION(ORDER, tl.load(x + i)))


def computed(name: str, x: np.ndarray, order: int | None = None, kernel: Any = None) -> np.ndarray:
    out = np.empty_like(x)
    function = getattr(libdevice, name)
    if order is None:
        (kernel or of_one)[(1,)](x, out, FUNCTION=function, SIZE=x.size)
    else:
        of_order[(1,)](x, out, FUNCTION=function, ORDER=order, SIZE=x.size)
    return out


def numbers(low: float = 0.0) -> np.ndarray:
    random = np.random.default_rng(7)
    parts = [
        random.uniform(low, 1, 32),
        random.uniform(0, 8, 128),
        random.uniform(8, 60, 48),
        random.uniform(60, 700, 48),
    ]
    return np.concatenate(parts)


def reference(name: str, x: np.ndarray, order: int) -> np.ndarray:
    function = {"j": mpmath.besselj, "y": mpmath.bessely, "c": mpmath.besseli}[name[0]]
    with mpmath.workdps(30):
        return np.array([float(function(order, mpmath.mpf(float(v)))) for v in x])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "order"), [*ORDERS.items(), ("jn", 2), ("jn", 20), ("jn", -3), ("yn", 7), ("yn", -3)])
def test_errors_of_j_and_y(name: str, order: int) -> None:
    x = numbers()
    found = computed(name, x, order if name[1] == "n" else None)
    expected = reference(name, x, order)
    size = np.maximum(np.abs(expected), np.minimum(1, np.sqrt(2 / (np.pi * x))))
    assert np.max(np.abs(found - expected) / size) < 1.5e-15


@pytest.mark.slow
@pytest.mark.parametrize(("name", "order"), MODIFIED.items())
def test_errors_of_i(name: str, order: int) -> None:
    x = numbers(-8.0)
    found, expected = computed(name, x), reference(name, x, order)
    assert np.max(np.abs(found - expected) / np.spacing(np.abs(expected))) <= (4, 12)[order]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ORDERS, *MODIFIED])
def test_fp32_is_rounded_from_fp64(name: str) -> None:
    x = numbers().astype(np.float32)
    x = np.where(x > 80, x / 10, x)
    assert (computed(name, x) == computed(name, x.astype(np.float64)).astype(np.float32)).all()


SPECIAL = [0.0, np.inf, -np.inf, np.nan, -1.5, 1e-300, 8.0, 1e300]


@pytest.mark.parametrize(
    ("name", "order", "expected"),
    [
        ("j0", None, [1, 0, 0, np.nan, 0.511827671735918, 1, 0.171650807137554, None]),
        ("j1", None, [0, 0, 0, np.nan, -0.557936507910100, 5e-301, 0.234636346853915, None]),
        pytest.param(
            *("jn", 3, [0, 0, 0, np.nan, -0.060963951141139, 0, -0.291132207065952, None]), marks=pytest.mark.slow
        ),
        ("y0", None, [-np.inf, 0, np.nan, np.nan, np.nan, -439.835163622763, 0.223521489387566, None]),
        ("y1", None, [-np.inf, 0, np.nan, np.nan, np.nan, -6.36619772367581e299, -0.158060461731247, None]),
        pytest.param(
            *("yn", 2, [-np.inf, 0, np.nan, np.nan, np.nan, -np.inf, -0.263036604820378, None]), marks=pytest.mark.slow
        ),
        ("cyl_bessel_i0", None, [1, np.inf, np.inf, np.nan, 1.646723189772891, 1, 427.564115721805, np.inf]),
        ("cyl_bessel_i1", None, [0, np.inf, -np.inf, np.nan, -0.981666428577908, 5e-301, 399.873136782560, np.inf]),
    ],
)
def test_special_numbers(name: str, order: int | None, expected: list[float | None]) -> None:
    found = computed(name, np.array(SPECIAL), order)
    for value, wanted in zip(found, expected, strict=True):
        if wanted is None:
            assert abs(value) < 1e-100
        else:
            assert value == pytest.approx(wanted, rel=1e-11, nan_ok=True)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "order"), [*ORDERS.items(), *MODIFIED.items(), ("jn", 2), ("jn", 20), ("jn", -3), ("yn", 7), ("yn", -3)]
)
def test_functions_in_python(name: str, order: int) -> None:
    """All of them at few places: machine code takes seconds to compile."""
    x = numbers(0.0)[::8].copy()
    out, function = np.empty_like(x), getattr(libdevice, name)
    if name[1] == "n":
        tw.jit(of_order.fn, interpret=True)[(1,)](x, out, FUNCTION=function, ORDER=order, SIZE=x.size)
    else:
        tw.jit(of_one.fn, interpret=True)[(1,)](x, out, FUNCTION=function, SIZE=x.size)
    expected = reference(name, x, order)
    size = np.abs(expected)
    if name not in MODIFIED:
        size = np.maximum(size, np.minimum(1, np.sqrt(2 / (np.pi * x))))
    assert np.max(np.abs(out - expected) / size) < 3e-15


@pytest.mark.slow
def test_interpreted_and_compiled_agree() -> None:
    x = numbers()
    interpreted = tw.jit(of_one.fn, interpret=True)
    for name in (*ORDERS, *MODIFIED):
        assert np.allclose(computed(name, x), computed(name, x, kernel=interpreted), rtol=1e-12, atol=1e-14)


@tw.jit
def of_orders(n, x, out, FUNCTION: tl.constexpr, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(out + i, FUNCTION(tl.load(n + i), tl.load(x + i)))


def orders() -> np.ndarray:
    return np.array([0, 1, 2, 3, -1, -2, -3, 60] * 32, np.int32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jn", "yn"])
def test_an_order_for_each_element(name: str) -> None:
    n, x = np.random.default_rng(2).integers(-30, 130, 256).astype(np.int32), numbers()
    n[:64] = orders()[:64]
    found, again = np.empty_like(x), np.empty_like(x)
    of_orders[(1,)](n, x, found, getattr(libdevice, name), SIZE=x.size)
    tw.jit(of_orders.fn, interpret=True)[(1,)](n, x, again, getattr(libdevice, name), SIZE=x.size)
    with np.errstate(all="ignore"):
        function = {"j": mpmath.besselj, "y": mpmath.bessely}[name[0]]
        expected = np.array([float(function(int(m), mpmath.mpf(float(v)))) for m, v in zip(n, x, strict=True)])
    is_finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~is_finite], expected[~is_finite])
    size = np.maximum(np.abs(expected), np.minimum(1, np.sqrt(2 / (np.pi * x))))[is_finite]
    for values in (found, again):
        assert (
            np.max(np.abs(values[is_finite] - expected[is_finite]) / size / (1.5 + np.abs(n[is_finite]) / 25)) < 1e-15
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jn", "yn"])
def test_orders_at_run_time_are_those_of_constants(name: str) -> None:
    n, x = orders(), np.repeat(np.array(SPECIAL), 32)
    found, constant = np.empty_like(x), np.empty_like(x)
    of_orders[(1,)](n, x, found, getattr(libdevice, name), SIZE=x.size)
    for order in set(n.tolist()):
        constant[n == order] = computed(name, x, order)[n == order]
    np.testing.assert_allclose(found, constant, rtol=1e-12, atol=1e-100)


def test_an_order_at_run_time() -> None:
    @tw.jit
    def kernel(x, n):
        tl.store(x, libdevice.jn(n, tl.load(x)))

    x = np.full(1, 8.0)
    kernel[(1,)](x, -3)
    assert x[0] == pytest.approx(0.291132207065952, rel=1e-12)


def test_orders_are_int32() -> None:
    @tw.jit
    def kernel(x, n):
        tl.store(x, libdevice.yn(tl.load(n), tl.load(x)))

    with pytest.raises(tw.CompilationError, match="the order of yn"):
        kernel[(1,)](np.zeros(1), np.zeros(1))
